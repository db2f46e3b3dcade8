package zendesk

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"

	"github.com/liveactivity/liveactivity/helpdesk"
)

// credentials authorizes requests. It is safe for concurrent use. There are three kinds, the first
// that is configured:
//
//	an OAuth token, or an OAuth client     token, which a client can make anew
//	an API token with an email address    basic
//	nothing                                each request fails before it is made
type credentials struct {
	basic string // the header's value; empty with OAuth

	clientID, clientSecret string // empty where tokens cannot be made
	api                    *helpdesk.API

	turn chan struct{} // holds a value while the token is used or made
	// token belongs to the goroutine that has the turn. It is empty while there is none, and
	// after Zendesk has refused it.
	token string
}

// newCredentials returns the credentials of a configuration. The API makes the requests for
// tokens, which need no authorization; it must not be the one that the credentials authorize.
func newCredentials(c Config, api *helpdesk.API) *credentials {
	own := &credentials{api: api, turn: make(chan struct{}, 1), token: c.OAuthToken, clientID: c.OAuthClientID,
		clientSecret: c.OAuthClientSecret}
	if c.OAuthToken == "" && c.OAuthClientID == "" && c.APIToken != "" {
		own.basic = "Basic " + base64.StdEncoding.EncodeToString([]byte(c.Email+"/token:"+c.APIToken))
	}
	return own
}

// header returns the value of an Authorization header. Concurrent callers without a token share
// the one that the first of them gets, and wait for it no longer than their own ctx. An error is
// a *helpdesk.APIError that is not ambiguous.
func (c *credentials) header(ctx context.Context) (string, error) {
	if c.basic != "" {
		return c.basic, nil
	}
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return "", &helpdesk.APIError{Desk: Name, Op: opToken, Err: ctx.Err()}
	}
	if c.token == "" && c.clientID == "" {
		return "", &helpdesk.APIError{Desk: Name, Op: "authorize", Misconfigured: true, Err: errNoCredentials}
	}
	if c.token == "" {
		token, err := c.mint(ctx)
		if err != nil {
			return "", err
		}
		c.token = token
	}
	return "Bearer " + c.token, nil
}

// refused is called with the header of a request that was refused, and returns whether
// another may be accepted. A client's token is dropped, unless another request has replaced it
// already: then that one is to be tried.
func (c *credentials) refused(ctx context.Context, header http.Header) bool {
	used := header.Get("Authorization")
	if c.clientID == "" || used == "" {
		return false
	}
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	if "Bearer "+c.token == used {
		c.token = ""
	}
	<-c.turn
	return true
}

// errNoCredentials is the cause of a failure without any credentials.
var errNoCredentials = errors.New("there are no credentials: set email and api_token, or oauth_token, or " +
	"oauth_client_id and oauth_client_secret")

// opToken is the operation in the errors of mint, by which unusable knows them.
const opToken = "get OAuth token"

// mint gets a token for the client. Its error is never ambiguous, for the request that needs the
// token was not made. A refusal that will not pass is a mistake in the configuration, and no
// conversation is gone by a 404 here.
func (c *credentials) mint(ctx context.Context) (string, error) {
	var answer struct {
		AccessToken string `json:"access_token"`
	}
	err := c.api.Do(ctx, helpdesk.Request{Op: opToken, Method: http.MethodPost, Path: "/oauth/tokens",
		Repeatable: true, Body: map[string]string{
			"grant_type": "client_credentials", "client_id": c.clientID, "client_secret": c.clientSecret, "scope": "read write",
		}}, &answer)
	if err == nil && answer.AccessToken == "" {
		err = &helpdesk.APIError{Desk: Name, Op: opToken, Err: errors.New("the answer has no access_token")}
	}
	if failed, ok := errors.AsType[*helpdesk.APIError](err); ok {
		failed.Ambiguous = false
		failed.Gone, failed.Misconfigured = false, failed.Gone || !failed.Temporary()
	}
	return answer.AccessToken, err
}
