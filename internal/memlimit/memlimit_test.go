package memlimit

import (
	"math"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
)

func TestBytes_isTheLeastOfTheKnownLimits(t *testing.T) {
	const v2, v1 = "0::/a/b\n", "12:cpu:/x\n5:memory:/docker/c\n1:name=systemd:/y\n"
	const none = math.MaxInt64
	for _, c := range []struct {
		name  string
		files map[string]string
		limit int64
		want  int64
	}{
		{"nothing", nil, none, unknown},
		{"the machine", map[string]string{"proc/meminfo": "MemFree: 1 kB\nMemTotal:    2048 kB\n"}, none, 2 << 20},
		{"its own group", map[string]string{"proc/self/cgroup": v2, "sys/fs/cgroup/a/b/memory.max": "1000\n",
			"proc/meminfo": "MemTotal: 2048 kB"}, none, 1000},
		{"a group that holds its own", map[string]string{"proc/self/cgroup": v2, "sys/fs/cgroup/a/b/memory.max": "max\n",
			"sys/fs/cgroup/a/memory.max": "900"}, none, 900},
		{"a container's root", map[string]string{"proc/self/cgroup": v2, "sys/fs/cgroup/memory.max": "800"}, none, 800},
		{"no limit", map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max"}, none, unknown},
		{"version 1", map[string]string{"proc/self/cgroup": v1, "sys/fs/cgroup/memory/docker/c/memory.limit_in_bytes": "700"},
			none, 700},
		{"version 1 without a limit", map[string]string{"proc/self/cgroup": v1,
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712", "proc/meminfo": "MemTotal: 1 kB"}, none, 1024},
		{"GOMEMLIMIT", map[string]string{"proc/meminfo": "MemTotal: 2048 kB"}, 1 << 20, 1 << 20},
		{"noise", map[string]string{"proc/self/cgroup": "x\n::\n", "proc/meminfo": "MemTotal: lots"}, none, unknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := fstest.MapFS{}
			for name, content := range c.files {
				root[name] = &fstest.MapFile{Data: []byte(content)}
			}
			assert.Equal(t, c.want, read(root, c.limit))
		})
	}
}

func TestBytes_isPositive(t *testing.T) { assert.Positive(t, Bytes()) }

func TestStores_takeLessThanHalfOfTheMemory(t *testing.T) {
	assert.Less(t, Logs()+Documents()+Actions()+Sessions()+Watched(), Bytes()/2)
}
