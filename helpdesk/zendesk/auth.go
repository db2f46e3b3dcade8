package zendesk

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"

	"golang.org/x/sync/semaphore"

	"github.com/liveactivity/liveactivity/helpdesk"
)

// credentials authorizes requests. It is safe for concurrent use. There are three kinds, and the
// first one configured is used:
//
//	an OAuth token, or an OAuth client     token, which a client can replace
//	an API token with an email address    basic
//	nothing                                every request fails before it is made
type credentials struct {
	basic string // the header's value; empty with OAuth

	clientID, clientSecret string // empty if tokens cannot be made
	api                    *helpdesk.API

	turn *semaphore.Weighted // of one goroutine at a time
	// token belongs to the goroutine that has the turn. It is empty before the first token
	// is made, and after Zendesk has refused one.
	token string
}

// newCredentials returns the credentials of a configuration. The given API requests tokens,
// which needs no authorization; it must not be the API that the credentials authorize.
func newCredentials(c Config, api *helpdesk.API) *credentials {
	own := &credentials{api: api, turn: semaphore.NewWeighted(1), token: c.OAuthToken, clientID: c.OAuthClientID,
		clientSecret: c.OAuthClientSecret}
	if c.OAuthToken == "" && c.OAuthClientID == "" && c.APIToken != "" {
		own.basic = "Basic " + base64.StdEncoding.EncodeToString([]byte(c.Email+"/token:"+c.APIToken))
	}
	return own
}

// header returns the value of an Authorization header. Concurrent callers without a token share
// the one that the first of them gets; each waits for it only until its own ctx ends. The error
// is a *helpdesk.APIError and not ambiguous.
func (c *credentials) header(ctx context.Context) (string, error) {
	if c.basic != "" {
		return c.basic, nil
	}
	if err := c.turn.Acquire(ctx, 1); err != nil {
		return "", &helpdesk.APIError{Desk: Name, Op: opToken, Err: err}
	}
	defer c.turn.Release(1)
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

// refused is called with the header of a refused request, and returns whether another attempt
// may be accepted. It drops a client's token, unless another request has already replaced it:
// then that one is worth trying.
func (c *credentials) refused(ctx context.Context, header http.Header) bool {
	used := header.Get("Authorization")
	if c.clientID == "" || used == "" || c.turn.Acquire(ctx, 1) != nil {
		return false
	}
	defer c.turn.Release(1)
	if "Bearer "+c.token == used {
		c.token = ""
	}
	return true
}

// errNoCredentials is the cause of a failure without any credentials.
var errNoCredentials = errors.New("there are no credentials: set email and api_token, or oauth_token, or " +
	"oauth_client_id and oauth_client_secret")

// opToken is the operation in mint's errors, which unusable recognizes.
const opToken = "get OAuth token"

// mint gets a token for the client. Its error is never ambiguous, since the request that needs
// the token was not made. A permanent refusal is a mistake in the configuration, and a 404 here
// does not mean that a conversation is gone.
func (c *credentials) mint(ctx context.Context) (string, error) {
	var answer struct {
		AccessToken string `json:"access_token"`
	}
	err := c.api.Do(ctx, helpdesk.Request{Op: opToken, Method: http.MethodPost, Path: "/oauth/tokens",
		Body: map[string]string{
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
