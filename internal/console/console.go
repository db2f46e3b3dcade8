// Package console serves the console: a page that shows the actions of a product's
// users as they happen. The page and its modules are embedded as written; there is
// no build step, and they load nothing from elsewhere.
//
// The module console.js exports
//
//	mount(element, {key, product})
//
// for other pages of the same origin; see that file.
package console

import (
	"embed"
	"net/http"

	"github.com/liveactivity/liveactivity/internal/pages"
)

//go:embed page
var files embed.FS

// Handler returns the handler for the page and its files. It must be mounted
// under
//
//	GET /{$}
//	GET /console/{file}
//
// next to the service's endpoints, which the page finds relative to its own
// address.
func Handler() http.Handler { return pages.Handler(files, "console") }
