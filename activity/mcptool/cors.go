package mcptool

import "net/http"

// Headers of the Fetch standard's CORS protocol, for MCP clients that run in a
// browser, such as the Inspector. A key is a header, never a cookie, so any origin
// may call.
const (
	corsMethods = "POST"
	corsHeaders = "Authorization, Content-Type, Accept, Last-Event-ID, Mcp-Protocol-Version, Mcp-Session-Id"
	corsExposed = "WWW-Authenticate, Retry-After, Mcp-Session-Id"
)

// allowCORS lets a page of any origin read the answer. It reports whether the
// request is a preflight, which is then answered.
func allowCORS(w http.ResponseWriter, r *http.Request) (preflight bool) {
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Expose-Headers", corsExposed)
	if r.Method != http.MethodOptions {
		return false
	}
	h.Set("Access-Control-Allow-Methods", corsMethods)
	h.Set("Access-Control-Allow-Headers", corsHeaders)
	h.Set("Access-Control-Max-Age", "86400")
	w.WriteHeader(http.StatusNoContent)
	return true
}
