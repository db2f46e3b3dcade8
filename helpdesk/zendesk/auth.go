package zendesk

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"

	"github.com/liveactivity/liveactivity/helpdesk"
)

// authorize sets the Authorization header of a request. There are three kinds of credentials,
// and the first one configured is used:
//
//	an OAuth token, or an OAuth client     token, which a client can replace
//	an API token with an email address     basic authentication
//	nothing                                every request fails before it is made
//
// Concurrent callers without a token share the one that the first of them gets; each waits for it
// only until its own ctx ends. The error is a *helpdesk.APIError and not ambiguous.
func (c *Client) authorize(ctx context.Context, header http.Header) error {
	if c.config.isMute() {
		return &helpdesk.APIError{Desk: Name, Op: "authorize", Misconfigured: true, Err: errNoCredentials}
	}
	if c.config.OAuthToken == "" && c.config.OAuthClientID == "" {
		basic := base64.StdEncoding.EncodeToString([]byte(c.config.Email + "/token:" + c.config.APIToken))
		header.Set("Authorization", "Basic "+basic)
		return nil
	}
	if err := c.turn.Acquire(ctx, 1); err != nil {
		return &helpdesk.APIError{Desk: Name, Op: opToken, Err: err}
	}
	defer c.turn.Release(1)
	if c.token == "" {
		token, err := c.mint(ctx)
		if err != nil {
			return err
		}
		c.token = token
	}
	header.Set("Authorization", "Bearer "+c.token)
	return nil
}

// refused is called with the header of a refused request, and returns whether another attempt
// may be accepted. It drops a client's token, unless another request has already replaced it:
// then that one is worth trying.
func (c *Client) refused(ctx context.Context, header http.Header) bool {
	used := header.Get("Authorization")
	if c.config.OAuthClientID == "" || used == "" || c.turn.Acquire(ctx, 1) != nil {
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
func (c *Client) mint(ctx context.Context) (string, error) {
	var answer struct {
		AccessToken string `json:"access_token"`
	}
	err := c.tokens.Do(ctx, helpdesk.Request{Op: opToken, Method: http.MethodPost, Path: "/oauth/tokens",
		Body: object{"grant_type": "client_credentials", "client_id": c.config.OAuthClientID,
			"client_secret": c.config.OAuthClientSecret, "scope": "read write"}}, &answer)
	if err == nil && answer.AccessToken == "" {
		err = &helpdesk.APIError{Desk: Name, Op: opToken, Err: errors.New("the answer has no access_token")}
	}
	if failed, ok := errors.AsType[*helpdesk.APIError](err); ok {
		failed.Ambiguous = false
		failed.Gone, failed.Misconfigured = false, failed.Gone || !failed.Temporary()
	}
	return answer.AccessToken, err
}
