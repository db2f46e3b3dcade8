package servercmd

import (
	"context"
	"net"
	"net/http"

	"github.com/liveactivity/liveactivity/internal/command"
	"github.com/liveactivity/liveactivity/internal/serve"
)

// healthFlags are the flags of healthcheck.
type healthFlags struct {
	Addr string `env:"LIVEACTIVITY_ADDR" default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"The server's address."`
	command.Common
}

const healthDescription = "Asks the server of this machine whether it takes requests; the exit status is 1 where it " +
	"does not. Example: liveactivity-server healthcheck --addr :8080"

// healthcheck is the command that checks whether a server on this machine accepts
// requests, for containers without a shell.
func healthcheck(ctx context.Context, f healthFlags, c call) error {
	c.wrong.Check("--addr", serve.CheckAddr(f.Addr))
	if err := c.wrong.Err(); err != nil {
		return err
	}
	// An address that means all interfaces is reached through localhost.
	host, port, _ := net.SplitHostPort(f.Addr) // CheckAddr has done it
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	server := client{base: "http://" + net.JoinHostPort(host, port)}
	return server.do(ctx, http.MethodGet, server.base+"/readyz", nil, nil, nil)
}
