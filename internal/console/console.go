// Package console serves the console: a page that shows the recent actions of the users of
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
	"embed"
	"net/http"

	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/pages"
)

//go:embed page
var files embed.FS

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
	name := "page/index.html"
	if file := r.PathValue("file"); file != "" {
		name = "page/console/" + file
	}
	return pages.ServeFile(w, r, files, name)
}
