package recent_test

import (
	"testing"

	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/internal/httpxtest"
	"github.com/liveactivity/liveactivity/internal/musttest"
)

// BenchmarkLookup is a lookup of 50 actions over a loopback connection, beside
// the least that net/http can do to send as many bytes. The median ratio is to be
// at least 0.7.
func BenchmarkLookup(b *testing.B) {
	m := musttest.New(recent.NewMemory(nil))
	fill(b, m, 1000, recent.DefaultMaxEvents)
	httpxtest.Compare(b, newLookup(m, 0), "/users/acme/user7/live-activity", nil)
}
