package bridge

import (
	"embed"
	"net/http"

	"github.com/liveactivity/liveactivity/internal/pages"
)

//go:embed page
var files embed.FS

// servePage serves the demo page and its files.
func servePage(w http.ResponseWriter, r *http.Request) error {
	name := "page/index.html"
	if file := r.PathValue("file"); file != "" {
		name = "page/static/" + file
	}
	return pages.ServeFile(w, r, files, name)
}
