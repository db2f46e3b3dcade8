package browsertest_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/internal/browsertest"
)

// Eval and Await get their answers while the page keeps moving between two sites.
func TestTab_asksTheNextPageWhereOneIsLeft(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(`<body><p id=here>here</p><script>setTimeout(() => { location.hostname = location.hostname ` +
			`=== "localhost" ? "127.0.0.1" : "localhost" }, 10)</script>`))
	}))
	t.Cleanup(server.Close)
	tab := browsertest.Open(t, browsertest.Start(t))
	tab.Do("open the page", chromedp.Navigate(server.URL))
	for range 25 {
		assert.Equal(t, "3", tab.Eval(`(function () { for (const end = Date.now() + 5; Date.now() < end;); return String(1 `+
			`+ 2) })()`))
		tab.Await("the text is there", `document.getElementById("here").innerText === "here"`)
	}
}
