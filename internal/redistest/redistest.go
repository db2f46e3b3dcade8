// Package redistest runs real Redis servers for tests: single ones, small
// clusters, and servers that speak TLS. They keep an append-only file in the
// test's folder and are killed when the test ends.
//
// A server starts in a few hundredths of a second, a cluster in a few seconds.
// Tests that share one use different key prefixes.
package redistest

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/depstest"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

// tick is the interval between checks of a server that a test waits for.
const tick = 10 * time.Millisecond

// Server is a Redis server that belongs to a test.
type Server struct {
	Addr string // HOST:PORT on the loopback interface

	tb     testing.TB
	binary string
	dir    string
	args   []string
	tls    *tls.Config // nil for none
	cmd    *exec.Cmd
	exited chan struct{} // closed when the process is gone
}

// Start runs redis-server with additional arguments, and returns once it
// answers.
func Start(tb testing.TB, args ...string) *Server {
	tb.Helper()
	return StartBinary(tb, depstest.Command(tb, "redis-server"), args...)
}

// StartBinary is like Start for another program that takes the same arguments,
// such as valkey-server.
func StartBinary(tb testing.TB, binary string, args ...string) *Server {
	tb.Helper()
	return start(&Server{tb: tb, binary: binary, args: args})
}

// StartTLS runs redis-server with TLS only, with a certificate that only the pool trusts
// accepts, and returns once it answers.
func StartTLS(tb testing.TB, args ...string) (s *Server, trusts *x509.CertPool) {
	tb.Helper()
	web := httptest.NewTLSServer(nil) // has a certificate for the loopback interface
	web.Close()
	key, err := x509.MarshalPKCS8PrivateKey(web.TLS.Certificates[0].PrivateKey)
	require.NoError(tb, err)
	trusts = x509.NewCertPool()
	trusts.AddCert(web.Certificate())
	args = append([]string{"--tls-auth-clients", "no"}, args...)
	for flag, block := range map[string]pem.Block{
		"--tls-cert-file": {Type: "CERTIFICATE", Bytes: web.Certificate().Raw},
		"--tls-key-file":  {Type: "PRIVATE KEY", Bytes: key},
	} {
		file := filepath.Join(tb.TempDir(), "file.pem")
		require.NoError(tb, os.WriteFile(file, pem.EncodeToMemory(&block), 0o600))
		args = append(args, flag, file)
	}
	return start(&Server{tb: tb, binary: depstest.Command(tb, "redis-server"), args: args,
		tls: &tls.Config{RootCAs: trusts, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}}), trusts
}

// attempts is the number of ports to try: another process may take one first.
const attempts = 10

func start(s *Server) *Server {
	s.tb.Helper()
	s.dir = s.tb.TempDir()
	s.tb.Cleanup(s.Kill)
	var err error
	for range attempts {
		s.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(freePort(s.tb)))
		if err = s.run(); err == nil {
			return s
		}
	}
	require.NoError(s.tb, err)
	return s
}

// busOffset is the difference between a cluster node's port and the port of its
// cluster bus.
const busOffset = 10000

// freePort returns a free port for which the one busOffset above is also free.
func freePort(tb testing.TB) int {
	tb.Helper()
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(tb, err)
		port := l.Addr().(*net.TCPAddr).Port
		require.NoError(tb, l.Close())
		if port+busOffset > 65535 {
			continue
		}
		bus, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port+busOffset)))
		if err != nil {
			continue
		}
		require.NoError(tb, bus.Close())
		return port
	}
}

// run starts the process and waits until it answers.
func (s *Server) run() error {
	_, port, _ := net.SplitHostPort(s.Addr)
	ports := []string{"--port", port}
	if s.tls != nil {
		ports = []string{"--port", "0", "--tls-port", port}
	}
	// It must start no child processes, since they would outlive it when it is
	// killed. Each write is in its file before the answer, which the end of the process
	// does not lose; with an fsync a second, a busy disk would delay both.
	args := append(ports, "--bind", "127.0.0.1", "--dir", s.dir, "--appendonly", "yes",
		"--appendfsync", "no", "--auto-aof-rewrite-percentage", "0",
		"--save", "", "--logfile", "server.log")
	s.cmd = exec.Command(s.binary, append(args, s.args...)...)
	if err := s.cmd.Start(); err != nil {
		return fmt.Errorf("redistest: %w", err)
	}
	exited := make(chan struct{})
	s.exited = exited
	go func() {
		_ = s.cmd.Wait() // fails, since it was killed
		close(exited)
	}()
	for deadline := time.Now().Add(waittest.Patience); time.Now().Before(deadline); {
		if s.answers() {
			return nil
		}
		select {
		case <-exited:
			return fmt.Errorf("redistest: server ended: %s", s.tail())
		case <-time.After(tick):
		}
	}
	s.Kill()
	return fmt.Errorf("redistest: server does not answer: %s", s.tail())
}

// answers reports whether the server is ready, even if it only asks for a
// password.
func (s *Server) answers() bool {
	conn, err := s.dial()
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second)) // after that it counts as silent
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	return err == nil && (strings.HasPrefix(line, "+PONG") || strings.HasPrefix(line, "-NOAUTH"))
}

func (s *Server) dial() (net.Conn, error) {
	if s.tls != nil {
		return tls.Dial("tcp", s.Addr, s.tls)
	}
	return net.DialTimeout("tcp", s.Addr, time.Second)
}

// tail returns the end of the server's log.
func (s *Server) tail() string {
	data, _ := os.ReadFile(filepath.Join(s.dir, "server.log"))
	return string(data[max(0, len(data)-2000):])
}

// URL returns the server's URL without user, password and database.
func (s *Server) URL() string {
	if s.tls != nil {
		return "rediss://" + s.Addr
	}
	return "redis://" + s.Addr
}

// Client returns a client of the server, closed when the test ends. The server
// must require no password.
func (s *Server) Client() *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: s.Addr, TLSConfig: s.tls})
	s.tb.Cleanup(func() { _ = c.Close() })
	return c
}

// Kill ends the server like a power failure, and returns once it is gone.
func (s *Server) Kill() {
	if s.cmd == nil || s.cmd.Process == nil {
		return
	}
	_ = s.cmd.Process.Kill() // it may already be gone
	<-s.exited
}

// Snapshot returns a function that makes the server lose everything written since, like the
// promotion of a replica that has not received it.
func (s *Server) Snapshot() (lose func()) {
	s.tb.Helper()
	client, ctx := s.Client(), s.tb.Context()
	back := client.TxPipeline()
	back.FlushDB(ctx)
	for _, key := range client.Keys(ctx, "*").Val() {
		value, err := client.Dump(ctx, key).Result()
		require.NoError(s.tb, err)
		back.Restore(ctx, key, max(0, client.PTTL(ctx, key).Val()), value)
	}
	return func() {
		s.tb.Helper()
		_, err := back.Exec(ctx)
		require.NoError(s.tb, err)
	}
}

// Restart runs a killed server again, with its port and its saved data, and returns once it
// answers.
func (s *Server) Restart() {
	s.tb.Helper()
	waittest.Until(s.tb, "Redis starts", func() bool {
		err := s.run() // the port may still be busy
		if err != nil {
			s.tb.Log(err)
		}
		return err == nil
	})
}

// clusterNodes is the minimum number of nodes in a cluster.
const clusterNodes = 3

// clusterSlots is the number of slots in a cluster.
const clusterSlots = 16384

// Cluster runs a cluster of three redis-servers, each with a third of the
// slots, and returns once all of them answer.
func Cluster(tb testing.TB, args ...string) []*Server {
	tb.Helper()
	args = append([]string{"--cluster-enabled", "yes", "--cluster-node-timeout", "2000"}, args...)
	nodes, clients := make([]*Server, clusterNodes), make([]*redis.Client, clusterNodes)
	for i := range nodes {
		nodes[i] = Start(tb, args...)
		clients[i] = nodes[i].Client()
		first, end := clusterSlots*i/clusterNodes, clusterSlots*(i+1)/clusterNodes
		require.NoError(tb, clients[i].ClusterAddSlotsRange(tb.Context(), first, end-1).Err())
		require.NoError(tb, clients[i].Do(tb.Context(), "cluster", "set-config-epoch", i+1).Err())
	}
	waittest.Until(tb, "the cluster works", func() bool { return isCluster(tb.Context(), clients) })
	return nodes
}

// isCluster reports whether every node states that the cluster works. A node that does not know
// all others meets them repeatedly, because a node forgets one that has not answered within the
// timeout.
func isCluster(ctx context.Context, nodes []*redis.Client) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	works := true
	for _, node := range nodes {
		info, err := node.ClusterInfo(ctx).Result()
		works = works && err == nil && strings.Contains(info, "cluster_state:ok")
		_, known, _ := strings.Cut(info, "cluster_known_nodes:")
		if known != "" && int(known[0]-'0') < len(nodes) { // including itself
			meet(ctx, node, nodes)
		}
	}
	return works
}

// meet makes a node meet the others.
func meet(ctx context.Context, node *redis.Client, all []*redis.Client) {
	for _, other := range all {
		if other != node {
			host, port, _ := net.SplitHostPort(other.Options().Addr)
			_ = node.ClusterMeet(ctx, host, port).Err() // otherwise next time
		}
	}
}
