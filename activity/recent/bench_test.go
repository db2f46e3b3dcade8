package recent_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/activitytest"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/internal/httpxtest"
	"github.com/liveactivity/liveactivity/internal/musttest"
)

// perUser is how many actions each user of the benchmarks has.
const perUser = recent.DefaultMaxEvents

// session returns a user's actions of the last minute: page views and clicks whose JSON is about
// 300 bytes each.
func session(user int, actions int) activity.Batch {
	at := time.Now().Add(-time.Minute)
	did := make([]activity.Action, actions)
	for i := range did {
		at = at.Add(time.Second + 123456*time.Microsecond)
		url := fmt.Sprintf("https://app.acme.example/projects/%d/tasks/%d", 1000+user%9000, 100+i)
		if i%3 == 0 {
			did[i] = activitytest.Pageview(at, url)
		} else {
			did[i] = activitytest.Click(at, "Mark as done", url)
		}
	}
	return activitytest.NewBatch("acme", fmt.Sprint("session_", user), fmt.Sprint("user_", user), did...)
}

func fill(tb testing.TB, m *recent.Memory, users, actions int) {
	tb.Helper()
	for user := range users {
		require.NoError(tb, m.Add(context.Background(), session(user, actions)))
	}
}

// BenchmarkLookup is a lookup of 50 actions over a loopback connection, beside
// the least that net/http can do to send as many bytes. The median ratio is to be
// at least 0.7.
func BenchmarkLookup(b *testing.B) {
	m := musttest.New(recent.NewMemory(nil))
	fill(b, m, 1000, perUser)
	mux := http.NewServeMux()
	mux.Handle("GET /users/{product_id}/{user_id}/live-activity", musttest.New(recent.NewLookup(m, 0)))
	httpxtest.Compare(b, mux, "/users/acme/user_7/live-activity", nil)
}

// BenchmarkAdd files a request's worth of actions among many users.
func BenchmarkAdd(b *testing.B) {
	for _, actions := range []int{1, 10} {
		b.Run(fmt.Sprint("actions=", actions), func(b *testing.B) {
			m := musttest.New(recent.NewMemory(nil))
			batches := make([]activity.Batch, 10_000)
			for i := range batches {
				batches[i] = session(i, actions)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				batch := batches[i%len(batches)]
				for j := range batch.Actions {
					batch.Actions[j].ID = strconv.Itoa(i*actions + j)
				}
				if err := m.Add(b.Context(), batch); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
