// Package console serves the console: a page on which one sees what the users of
// a product do, as it happens. The page and its modules are embedded as they are
// written; nothing builds them, and they load nothing from elsewhere.
//
// The module console.js exports
//
//	mount(element, {key, product})
//
// for other pages of the same origin: see there.
package console

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

// Policy is the Content-Security-Policy of a page that shows the console: it uses
// files and endpoints of its own origin, and nothing else. Trusted types, of
// which there are none, keep text from becoming HTML.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// Handler returns the handler of the page and of its files. It must be mounted
// under
//
//	GET /{$}
//	GET /console/{file}
//
// beside the endpoints of the service, which the page finds relative to its own
// address.
func Handler() http.Handler { return httpx.Handler(serve) }

func serve(w http.ResponseWriter, r *http.Request) error {
	name, cache := "page/index.html", "no-store"
	if file := r.PathValue("file"); file != "" {
		name, cache = "page/console/"+file, "no-cache" // a new version shows at once
	}
	body, err := page.ReadFile(name)
	if err != nil {
		return httpx.NotFound("Unknown file.")
	}
	sum := sha256.Sum256(body)
	h := w.Header()
	h.Set("Content-Type", contentTypes[path.Ext(name)])
	h.Set("Cache-Control", cache)
	h.Set("ETag", `"`+hex.EncodeToString(sum[:16])+`"`)
	h.Set("Content-Security-Policy", Policy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(body))
	return nil
}
