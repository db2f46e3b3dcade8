package mcptool

import (
	"net/http"

	"github.com/liveactivity/liveactivity/internal/httpx"
)

// allowCORS lets a page of any origin read the answer, for MCP clients that run in a browser,
// such as the Inspector. That is safe because a key is a header, never a cookie. It reports
// whether the request is a preflight, which it then answers without a key: browsers send none
// with a preflight.
func allowCORS(w http.ResponseWriter, r *http.Request) (preflight bool) {
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Expose-Headers", "WWW-Authenticate, Retry-After, Mcp-Session-Id")
	if r.Method != http.MethodOptions {
		return false
	}
	httpx.Preflight(w, http.MethodPost,
		"Authorization, Content-Type, Accept, Last-Event-ID, Mcp-Protocol-Version, Mcp-Session-Id")
	return true
}
