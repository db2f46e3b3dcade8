package oauth

import (
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/internal/httpx"
)

// Well-known paths of RFC 9728 and RFC 8414.
const (
	resourceMetadata = "/.well-known/oauth-protected-resource"
	serverMetadata   = "/.well-known/oauth-authorization-server"
)

// wellKnown returns the URL of a well-known path. The path of the issuer goes behind it, not
// before it (RFC 8414, section 3).
func (s *Server) wellKnown(path, behind string) string {
	return strings.TrimSuffix(s.issuer, s.prefix) + path + s.prefix + behind
}

// scopes has the only scope. Whether a key opens it is checked at every use.
var scopes = []string{string(access.MCP)}

// serveResource serves the metadata of the MCP server (RFC 9728), by which a client that got a
// 401 finds the authorization server.
func (s *Server) serveResource(w http.ResponseWriter, _ *http.Request) error {
	httpx.WriteJSON(w, http.StatusOK, oauthex.ProtectedResourceMetadata{
		Resource: s.resource, AuthorizationServers: []string{s.issuer}, ScopesSupported: scopes,
		BearerMethodsSupported: []string{"header"}, ResourceName: "liveactivity",
	})
	return nil
}

// serveMetadata serves the metadata of the authorization server (RFC 8414), which all endpoints
// here follow.
func (s *Server) serveMetadata(w http.ResponseWriter, _ *http.Request) error {
	httpx.WriteJSON(w, http.StatusOK, struct {
		oauthex.AuthServerMeta
		JWKSURI string `json:"jwks_uri,omitempty"` // there is none: tokens are opaque
	}{AuthServerMeta: oauthex.AuthServerMeta{
		Issuer:                                     s.issuer,
		AuthorizationEndpoint:                      s.issuer + "/oauth/authorize",
		TokenEndpoint:                              s.issuer + "/oauth/token",
		RegistrationEndpoint:                       s.issuer + "/oauth/register",
		RevocationEndpoint:                         s.issuer + "/oauth/revoke",
		RevocationEndpointAuthMethodsSupported:     noSecret,
		ScopesSupported:                            scopes,
		ResponseTypesSupported:                     responseTypes,
		ResponseModesSupported:                     []string{"query"},
		GrantTypesSupported:                        grantTypes,
		CodeChallengeMethodsSupported:              []string{"S256"},
		TokenEndpointAuthMethodsSupported:          noSecret,
		ClientIDMetadataDocumentSupported:          true,
		AuthorizationResponseIssParameterSupported: true,
	}})
	return nil
}

// The only supported values.
var (
	noSecret      = []string{"none"} // every client is public: a secret in an app is not secret
	responseTypes = []string{"code"}
	grantTypes    = []string{"authorization_code", "refresh_token"}
)
