package proctest

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
)

var peak = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// PeakMemory returns the process's peak memory, in bytes.
func (p *Process) PeakMemory() int64 {
	p.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	require.NoError(p.t, err)
	match := peak.FindSubmatch(status)
	require.NotNil(p.t, match)
	kilobytes, err := strconv.ParseInt(string(match[1]), 10, 64)
	require.NoError(p.t, err)
	return kilobytes << 10
}

// clockTick is the unit of processor time in /proc.
const clockTick = 10 * time.Millisecond

// CPUTime returns the processor time that the process has used.
func (p *Process) CPUTime() time.Duration {
	p.t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	require.NoError(p.t, err)
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	user, err := strconv.ParseInt(fields[11], 10, 64)
	require.NoError(p.t, err)
	system, err := strconv.ParseInt(fields[12], 10, 64)
	require.NoError(p.t, err)
	return time.Duration(user+system) * clockTick
}
