//go:build linux

package eventlog_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fanoutServer is a server process.
type fanoutServer struct {
	tb   testing.TB
	addr netip.AddrPort
	pid  int
	stop func() // may be called more than once
}

// startFanoutServer starts a server process that ends with the test at the latest.
func startFanoutServer(tb testing.TB, config fanoutServerConfig) *fanoutServer {
	tb.Helper()
	value, err := json.Marshal(config)
	require.NoError(tb, err)
	self, err := os.Executable()
	require.NoError(tb, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), fanoutServerEnv+"="+string(value))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(tb, err)
	out, err := cmd.StdoutPipe()
	require.NoError(tb, err)
	require.NoError(tb, cmd.Start())
	s := &fanoutServer{tb: tb, pid: cmd.Process.Pid, stop: sync.OnceFunc(func() {
		require.NoError(tb, in.Close())
		require.NoError(tb, cmd.Wait())
	})}
	tb.Cleanup(s.stop)
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(tb, err)
	s.addr, err = netip.ParseAddrPort(strings.TrimSpace(line))
	require.NoError(tb, err)
	return s
}

// subscribe opens a stream and returns its socket, of which nothing was read.
func (s *fanoutServer) subscribe() int {
	s.tb.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	require.NoError(s.tb, err)
	require.NoError(s.tb, syscall.Connect(fd, &syscall.SockaddrInet4{Port: int(s.addr.Port()), Addr: s.addr.Addr().As4()}))
	_, err = syscall.Write(fd, []byte("GET /stream/demo HTTP/1.1\r\nHost: fanout\r\nAccept: text/event-stream\r\n\r\n"))
	require.NoError(s.tb, err)
	return fd
}

// stall opens a stream, waits until it is being served and reads nothing.
func (s *fanoutServer) stall() int {
	s.tb.Helper()
	fd := s.subscribe()
	_, _, err := syscall.Recvfrom(fd, make([]byte, 1), syscall.MSG_PEEK)
	require.NoError(s.tb, err)
	return fd
}

// cpu returns the processor time the server has used, in user and kernel mode.
func (s *fanoutServer) cpu() time.Duration { return processCPU(s.tb, s.pid) }

// fanoutTick is the unit of times in /proc.
const fanoutTick = 10 * time.Millisecond

func processCPU(tb testing.TB, pid int) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(tb, err)
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const utime, stime = 14 - 3, 15 - 3 // in proc(5) the first of fields is the third
	return ticks(tb, fields[utime]) + ticks(tb, fields[stime])
}

// machineCPU returns the processor time that all processes have used, and the
// kernel, and other machines on the same host.
func machineCPU(tb testing.TB) (used time.Duration) {
	stat, err := os.ReadFile("/proc/stat")
	require.NoError(tb, err)
	line, _, _ := strings.Cut(string(stat), "\n")
	const idle, iowait, steal = 4, 5, 8
	for i, field := range strings.Fields(line) {
		if i > 0 && i != idle && i != iowait && i <= steal {
			used += ticks(tb, field)
		}
	}
	return used
}

func ticks(tb testing.TB, field string) time.Duration {
	n, err := strconv.Atoi(field)
	require.NoError(tb, err)
	return time.Duration(n) * fanoutTick
}

// rss returns the resident memory of the server in bytes.
func (s *fanoutServer) rss() int64 {
	rollup, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", s.pid))
	require.NoError(s.tb, err)
	_, rest, ok := strings.Cut(string(rollup), "\nRss:")
	require.True(s.tb, ok)
	kb, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	require.NoError(s.tb, err)
	return kb << 10
}

// settledRSS is rss once the server has given back what it does not use.
func (s *fanoutServer) settledRSS() int64 {
	resp, err := http.Post("http://"+s.addr.String()+"/settle", "", nil)
	require.NoError(s.tb, err)
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(s.tb, err)
	require.NoError(s.tb, resp.Body.Close())
	require.Equal(s.tb, http.StatusNoContent, resp.StatusCode)
	return s.rss()
}
