package liveactivity

import (
	"github.com/liveactivity/liveactivity/internal/contracts"
	"github.com/liveactivity/liveactivity/internal/httpx"
)

// mountContracts puts the machine-readable contracts of all endpoints in their
// places.
func (s *Service) mountContracts(mux *httpx.Mux) {
	mux.Handle("GET /openapi.json", contracts.Handler(contracts.OpenAPI(s.urls.Base())))
	mux.Handle("GET /asyncapi.json", contracts.Handler(contracts.AsyncAPI(s.urls.Base())))
}
