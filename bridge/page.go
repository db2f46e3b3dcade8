package bridge

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"path"
	"time"

	"github.com/liveactivity/liveactivity/internal/httpx"
)

//go:embed page
var page embed.FS

// contentTypes of the page's files, by the end of their names.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// policy lets the page use its own files and the bridge, and nothing else.
// Trusted types, of which there are none, keep text from becoming HTML.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// ServePage serves the demo page, a small vendor portal with a chat widget. It
// must be mounted under
//
//	GET /{$}
//	GET /static/{file}
//
// The page finds the rest of the bridge relative to its own address.
func (b *Bridge) ServePage(w http.ResponseWriter, r *http.Request) {
	httpx.Handler(servePage).ServeHTTP(w, r)
}

func servePage(w http.ResponseWriter, r *http.Request) error {
	name := "page/index.html"
	if file := r.PathValue("file"); file != "" {
		name = "page/static/" + file
	}
	body, err := page.ReadFile(name)
	if err != nil {
		return httpx.NotFound("Unknown file.")
	}
	sum := sha256.Sum256(body)
	h := w.Header()
	h.Set("Content-Type", contentTypes[path.Ext(name)])
	h.Set("Cache-Control", "no-cache") // a new version shows at once
	h.Set("ETag", `"`+hex.EncodeToString(sum[:16])+`"`)
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(body))
	return nil
}
