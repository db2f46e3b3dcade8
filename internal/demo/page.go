package demo

import (
	"bytes"
	"embed"
	"html/template"
	"net"
	"net/http"

	"github.com/liveactivity/liveactivity/internal/pages"
)

//go:embed page
var files embed.FS

var elsewhere = template.Must(template.ParseFS(files, "page/elsewhere.html"))

// servePage serves the page. A browser that is not on this machine or lacks the secret gets
// a 403 with a page that explains how to open the demo.
func (d *Demo) servePage(w http.ResponseWriter, r *http.Request) error {
	if d.open(w, r) {
		page, err := files.ReadFile("page/index.html")
		if err != nil {
			return err
		}
		pages.Write(w, http.StatusOK, page)
		return nil
	}
	var page bytes.Buffer
	if err := elsewhere.Execute(&page, map[string]any{"Port": port(r), "Local": isLocal(r)}); err != nil {
		return err
	}
	pages.Write(w, http.StatusForbidden, page.Bytes())
	return nil
}

// port returns the port at which a request arrived.
func port(r *http.Request) string {
	if addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		if _, port, err := net.SplitHostPort(addr.String()); err == nil {
			return port
		}
	}
	return "8080"
}

// serveFile serves the page's files, which contain no secret.
func serveFile(w http.ResponseWriter, r *http.Request) error {
	return pages.ServeFile(w, r, files, "page/static/"+r.PathValue("file"))
}
