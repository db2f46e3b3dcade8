// Package pages serves embedded pages with their scripts and styles, under one strict
// policy: files and endpoints of their own origin, and nothing else.
package pages

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"time"

	"github.com/liveactivity/liveactivity/internal/httpx"
)

// policy is the Content-Security-Policy. Trusted types, of which there are none, keep
// text from becoming HTML.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

const html = "text/html; charset=utf-8"

// contentTypes of files, by the end of their names.
var contentTypes = map[string]string{
	".html": html,
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

func setHeaders(h http.Header, contentType, cache string) {
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", cache)
	h.Set("Content-Security-Policy", policy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
}

// Write writes a page, which is not to be stored: it may hold secrets.
func Write(w http.ResponseWriter, status int, page []byte) {
	setHeaders(w.Header(), html, "no-store")
	write(w, status, page)
}

func write(w http.ResponseWriter, status int, page []byte) {
	w.Header().Set("Content-Length", strconv.Itoa(len(page)))
	w.WriteHeader(status)
	_, _ = w.Write(page) // an error means that the client is gone
}

// WriteForm writes a page whose form leads to these targets, sources of a policy: the
// redirects behind the form count, too. The page has no scripts, and no frame shows it,
// in old browsers either.
func WriteForm(w http.ResponseWriter, status int, page []byte, targets string) {
	h := w.Header()
	setHeaders(h, html, "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; "+
		"frame-ancestors 'none'; form-action "+targets)
	h.Set("X-Frame-Options", "DENY")
	h.Del("Cross-Origin-Opener-Policy") // the form may be in a popup, to whose opener it leads back
	write(w, status, page)
}

// Handler serves page/index.html of the files and, where the path has a {file}, the file of that
// name in a folder beside it.
func Handler(files fs.FS, folder string) http.Handler {
	return httpx.Handler(func(w http.ResponseWriter, r *http.Request) error {
		name := "page/index.html"
		if file := r.PathValue("file"); file != "" {
			name = "page/" + folder + "/" + file
		}
		return ServeFile(w, r, files, name)
	})
}

//go:embed shared
var shared embed.FS

// ServeFile serves a file of a page or, where it is not among those, the file that all pages
// share under this name, which is dom.js. It is revalidated at every use, by its digest. One
// that is not there is 404. The name is a path in files; fs.FS lets none lead outside.
func ServeFile(w http.ResponseWriter, r *http.Request, files fs.FS, name string) error {
	body, err := fs.ReadFile(files, name)
	if err != nil {
		body, err = shared.ReadFile("shared/" + path.Base(name))
	}
	if err != nil {
		return httpx.NotFound("Unknown file.")
	}
	sum := sha256.Sum256(body)
	setHeaders(w.Header(), contentTypes[path.Ext(name)], "no-cache")
	w.Header().Set("ETag", `"`+hex.EncodeToString(sum[:16])+`"`)
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(body))
	return nil
}
