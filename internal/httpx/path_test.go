package httpx_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/internal/httpx"
)

func TestPathValue_failsWhereThePatternHasNone(t *testing.T) {
	handler := httpx.Handler(func(w http.ResponseWriter, r *http.Request) error {
		id, err := httpx.PathValue(r, "product_id")
		if err != nil {
			return err
		}
		httpx.WriteJSON(w, http.StatusOK, id)
		return nil
	})
	mux := http.NewServeMux()
	mux.Handle("GET /with/{product_id}", handler)
	mux.Handle("GET /rest/{product_id...}", handler)
	mux.Handle("GET /without/{id}", handler)
	for path, want := range map[string]int{"/with/acme": 200, "/rest/": 200, "/without/acme": 500} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		assert.Equal(t, want, w.Code, path)
		if want == http.StatusInternalServerError {
			assert.Contains(t, w.Body.String(), "without {product_id}")
		}
	}
	set := httptest.NewRequest(http.MethodGet, "/", nil) // as another router does
	set.SetPathValue("product_id", "acme")
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, set)
	assert.Equal(t, http.StatusOK, w.Code)
}
