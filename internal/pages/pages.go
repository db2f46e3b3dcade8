// Package pages serves embedded pages with their scripts and styles, under one strict
// policy: they may use only files and endpoints of their own origin.
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

// policy is the Content-Security-Policy. It requires trusted types and allows none,
// so that text cannot become HTML.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

const html = "text/html; charset=utf-8"

// contentTypes maps file name extensions to content types.
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

// Write writes a page and forbids storing it, because it may contain secrets.
func Write(w http.ResponseWriter, status int, page []byte) {
	setHeaders(w.Header(), html, "no-store")
	write(w, status, page)
}

func write(w http.ResponseWriter, status int, page []byte) {
	w.Header().Set("Content-Length", strconv.Itoa(len(page)))
	w.WriteHeader(status)
	_, _ = w.Write(page) // on an error the client is gone
}

// WriteForm writes a page whose form leads to these targets, which are sources in the
// policy; redirects after the form must also be included. The page has no scripts, and
// cannot be framed, even in old browsers.
func WriteForm(w http.ResponseWriter, status int, page []byte, targets string) {
	h := w.Header()
	setHeaders(h, html, "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; "+
		"frame-ancestors 'none'; form-action "+targets)
	h.Set("X-Frame-Options", "DENY")
	h.Del("Cross-Origin-Opener-Policy") // the form may be in a popup, to whose opener it leads back
	write(w, status, page)
}

// Handler serves page/index.html in files and, if the path has a {file}, the file with that name
// in a folder next to it.
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

// ServeFile serves a page's file or, if it is missing, the file with this name that all
// pages share. Clients revalidate it by its digest at every use. A missing
// file is a 404. The name is a path in files; fs.FS allows no path that leads outside.
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
