package servercmd

import (
	"log/slog"
	"net"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/serve"
)

// metricsServer serves /metrics at a separate address.
type metricsServer struct {
	http     *serve.Server
	listener net.Listener
}

func listenForMetrics(addr string, reg *prometheus.Registry, log *slog.Logger) (*metricsServer, error) {
	listener, err := serve.Listen("--metrics-addr", addr)
	if err != nil {
		return nil, err
	}
	mux := httpx.NewMux(nil)
	serve.MountMetrics(mux, reg)
	return &metricsServer{http: serve.New(mux, log), listener: listener}, nil
}

func (m *metricsServer) serve() error { return m.http.Serve(m.listener) }

func (m *metricsServer) close() error { return m.http.Close() }
