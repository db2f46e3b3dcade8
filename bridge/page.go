package bridge

import (
	"embed"
	"net/http"

	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/pages"
)

//go:embed page
var files embed.FS

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
	return pages.ServeFile(w, r, files, name)
}
