// Package memlimit determines how much memory the process may use, so that all
// data kept in memory can be limited to a share of it.
package memlimit

import (
	"io/fs"
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
)

// Bytes returns how many bytes of memory the process may use: the lowest of its control
// groups' limits, the machine's memory, and the Go runtime's limit (GOMEMLIMIT). If none is
// known it is 4 GiB. The limits are read once.
func Bytes() int64 { return limit() }

var limit = sync.OnceValue(func() int64 { return read(os.DirFS("/"), debug.SetMemoryLimit(-1)) })

// Kept returns how many bytes of data a process with one store may keep: two fifths of
// [Bytes].
func Kept() int64 { return Bytes() / 5 * 2 }

// The bytes that a server's stores may keep of all products. Together they stay below half of
// [Bytes].
func Logs() int64      { return Bytes() / 5 }
func Documents() int64 { return Bytes() / 10 }
func Actions() int64   { return Bytes() / 40 * 3 } // the newest of every user
func Sessions() int64  { return Bytes() / 40 }     // that are listed
func Watched() int64   { return Bytes() / 40 }     // sessions, for triggers

// Apply makes the garbage collector work harder before the process uses more
// than three quarters of [Bytes]. It does not change a GOMEMLIMIT set by the
// user.
func Apply() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(Bytes() / 4 * 3)
	}
}

// unknown is the limit if the system does not state one.
const unknown = 4 << 30

// read finds the lowest of the runtime's limit, math.MaxInt64 for none, and the limits below a
// root folder. A missing file, or one in an unknown format, counts as no limit.
func read(root fs.FS, limit int64) int64 {
	for _, n := range append(groupLimits(root), machine(root)) {
		if n > 0 {
			limit = min(limit, n)
		}
	}
	if limit == math.MaxInt64 {
		return unknown
	}
	return limit
}

// groupLimits returns the limits of the process's control groups and their
// parents, of versions 1 and 2, with zero for no limit.
func groupLimits(root fs.FS) []int64 {
	groups, _ := fs.ReadFile(root, "proc/self/cgroup")
	var limits []int64
	for line := range strings.Lines(string(groups)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		base, file := "sys/fs/cgroup", "memory.max"
		switch {
		case parts[0] == "0":
		case parts[1] == "memory":
			base, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		default:
			continue
		}
		// In a container the path may be the host's, and the group may be the
		// root.
		for group := path.Clean("/" + parts[2]); ; group = path.Dir(group) {
			limits = append(limits, number(root, path.Join(base, group, file)))
			if group == "/" {
				break
			}
		}
	}
	return limits
}

// number returns the number in a file, or zero if there is none ("max").
func number(root fs.FS, name string) int64 {
	b, _ := fs.ReadFile(root, name)
	n, _ := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return n
}

// machine returns the machine's memory on Linux, or zero elsewhere.
func machine(root fs.FS) int64 {
	info, _ := fs.ReadFile(root, "proc/meminfo")
	for line := range strings.Lines(string(info)) {
		if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return n << 10
		}
	}
	return 0
}
