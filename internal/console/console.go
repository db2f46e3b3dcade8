// Package console serves the console: a page that shows the actions of the users of
// a product as they happen. The page and its modules are embedded as they are
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
func Handler() http.Handler { return pages.Handler(files, "console") }
