package demo

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"net"
	"net/http"
	"path"
	"strconv"

	"github.com/liveactivity/liveactivity/internal/console"
	"github.com/liveactivity/liveactivity/internal/httpx"
)

//go:embed page
var page embed.FS

var elsewhere = template.Must(template.ParseFS(page, "page/elsewhere.html"))

// servePage serves the page, and elsewhere one that says how to open it.
func servePage(w http.ResponseWriter, r *http.Request) error {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	if isLocal(r) {
		body, err := page.ReadFile("page/index.html")
		if err != nil {
			return err
		}
		return write(w, http.StatusOK, "text/html; charset=utf-8", body)
	}
	var b bytes.Buffer
	if err := elsewhere.Execute(&b, port(r)); err != nil {
		return err
	}
	return write(w, http.StatusForbidden, "text/html; charset=utf-8", b.Bytes())
}

// port returns the port that a request came to.
func port(r *http.Request) string {
	if addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		if _, port, err := net.SplitHostPort(addr.String()); err == nil {
			return port
		}
	}
	return "8080"
}

// contentTypes of the page's files, by the end of their names.
var contentTypes = map[string]string{
	".css": "text/css; charset=utf-8",
	".js":  "text/javascript; charset=utf-8",
	".svg": "image/svg+xml",
}

// serveFile serves what the page is made of. It holds no secret.
func serveFile(w http.ResponseWriter, r *http.Request) error {
	name := "page/static/" + r.PathValue("file")
	body, err := page.ReadFile(name)
	if err != nil {
		return httpx.NotFound("Unknown file.")
	}
	sum := sha256.Sum256(body)
	h := w.Header()
	h.Set("Cache-Control", "no-cache") // a new version shows at once
	h.Set("ETag", `"`+hex.EncodeToString(sum[:16])+`"`)
	if r.Header.Get("If-None-Match") == h.Get("ETag") {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	return write(w, http.StatusOK, contentTypes[path.Ext(name)], body)
}

// write writes a file of the page.
func write(w http.ResponseWriter, status int, contentType string, body []byte) error {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Content-Security-Policy", console.Policy) // the page shows it
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body) // an error means that the client is gone
	return nil
}
