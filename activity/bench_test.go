package activity_test

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/activitytest"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/internal/heaptest"
	"github.com/liveactivity/liveactivity/internal/httpxtest"
	"github.com/liveactivity/liveactivity/internal/musttest"
)

// perUser is how many actions each user of the benchmarks has.
const perUser = activity.DefaultMaxEvents

// session is what a user did in the last minute: page views and clicks whose
// JSON is about 300 bytes each.
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

func fill(tb testing.TB, m *activity.Memory, users, actions int) {
	tb.Helper()
	for user := range users {
		require.NoError(tb, m.Add(context.Background(), session(user, actions)))
	}
}

// BenchmarkLookup is a lookup of 50 actions over a loopback connection, beside
// the least that net/http can do to send as many bytes. The median ratio is to be
// at least 0.7.
func BenchmarkLookup(b *testing.B) {
	m := musttest.New(activity.NewMemory(nil))
	fill(b, m, 1000, perUser)
	mux := http.NewServeMux()
	mux.Handle("GET /users/{product_id}/{user_id}/live-activity", musttest.New(activity.NewLookup(m, 0)))
	httpxtest.Compare(b, mux, "/users/acme/user_7/live-activity", nil)
}

// BenchmarkLookupJSON is a lookup without HTTP.
func BenchmarkLookupJSON(b *testing.B) {
	m := musttest.New(activity.NewMemory(nil))
	fill(b, m, 1000, perUser)
	lookup := musttest.New(activity.NewLookup(m, 0))
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if buf, err = lookup.AppendJSON(b.Context(), buf[:0], "acme", "user_7", 0); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(len(buf)))
}

// BenchmarkRecent shows that a lookup costs the same however many users there are.
func BenchmarkRecent(b *testing.B) {
	for _, users := range []int{1, 100_000} {
		b.Run(fmt.Sprint("users=", users), func(b *testing.B) {
			m := musttest.New(activity.NewMemory(&activity.MemoryOptions{MaxEvents: 5, MaxBytes: 1 << 40, TotalBytes: 1 << 40}))
			fill(b, m, users, 5)
			b.ReportAllocs()
			for b.Loop() {
				recent, err := m.Recent(b.Context(), "acme", "user_0", perUser)
				if err != nil || len(recent) != 5 {
					b.Fatal("not found", err)
				}
			}
		})
	}
}

// BenchmarkAdd files a request's worth of actions among many users.
func BenchmarkAdd(b *testing.B) {
	for _, actions := range []int{1, 10} {
		b.Run(fmt.Sprint("actions=", actions), func(b *testing.B) {
			m := musttest.New(activity.NewMemory(nil))
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

// footprint is what a memory takes, and what it would serve.
type footprint struct{ heap, json, actions int64 }

func (f footprint) ofJSON() float64 { return float64(f.heap) / float64(f.json) }

func measureFootprint(tb testing.TB, users, actions int) footprint {
	tb.Helper()
	ctx := context.Background()
	var m *activity.Memory
	f := footprint{actions: int64(users) * perUser}
	f.heap = heaptest.After(func() {
		m = musttest.New(activity.NewMemory(&activity.MemoryOptions{MaxEvents: perUser, MaxBytes: 1 << 40, TotalBytes: 1 << 40}))
		fill(tb, m, users, actions)
	})
	for user := range users {
		recent, err := m.Recent(ctx, "acme", fmt.Sprint("user_", user), perUser)
		require.NoError(tb, err)
		require.Len(tb, recent, perUser)
		f.json += int64(len(recent.AppendJSON(nil)))
	}
	runtime.KeepAlive(m)
	return f
}

// BenchmarkMemoryFootprint fills a memory of 100,000 users with 50 actions
// each and reports the heap it takes, also as a multiple of the JSON that it
// would serve, which is to be at most 1.3. It needs about 2 GB.
func BenchmarkMemoryFootprint(b *testing.B) {
	for _, actions := range []int{perUser, 3 * perUser} { // just full, and full for long
		b.Run(fmt.Sprint("arrived=", actions), func(b *testing.B) {
			var f footprint
			for b.Loop() {
				f = measureFootprint(b, 100_000, actions)
			}
			b.ReportMetric(float64(f.heap)/float64(f.actions), "bytes/action")
			b.ReportMetric(f.ofJSON(), "x-of-json")
		})
	}
}

func BenchmarkCanonicalURL(b *testing.B) {
	for name, url := range map[string]string{
		"words":       "https://app.acme.example/settings/billing-and-plans?tab=x",
		"identifiers": "https://App.Acme.example:443/projects/42/tasks/3f2504e0-4f89-11d3-9a0c-0305e82c3301?tab=open#top",
		"prefixed":    "https://app.acme.example/api/v1/customers/cus_9s6XKzkNRiz8i3",
		"slug":        "https://app.acme.example/blog/top-10-tips-for-2026",
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				activity.CanonicalURL(url)
			}
		})
	}
}

// BenchmarkDirectory learns from a request of one session and remembers it.
func BenchmarkDirectory(b *testing.B) {
	const sessions = 10_000
	at := time.Now()
	cases := map[string]func(i int) activity.Event{
		"identity=none": func(i int) activity.Event { return activity.Event{} },
		"identity=user": func(i int) activity.Event { return activity.Event{UserID: fmt.Sprint("user_", i)} },
		"identity=user and e-mail": func(i int) activity.Event {
			return activity.Event{UserID: fmt.Sprint("user_", i), Email: fmt.Sprint("user_", i, "@acme.example"), Identified: true}
		},
	}
	for name, identity := range cases {
		b.Run(name, func(b *testing.B) {
			docs := musttest.New(document.NewMemory(nil))
			d := musttest.New(activity.NewDirectory(docs, 0))
			events := make([]activity.Event, 5)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				e := identity(i % sessions)
				e.Time, e.SessionID = at.Add(time.Duration(i)*time.Millisecond), fmt.Sprint("session_", i%sessions)
				for j := range events {
					events[j] = e
				}
				if err := record(b.Context(), d, docs, e.SessionID, events); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// record does with the directory what a request of one session needs.
func record(ctx context.Context, d *activity.Directory, docs document.Store, sessionID string, events []activity.Event) error {
	book, err := d.Open(ctx, "acme", events)
	if err != nil {
		return err
	}
	if _, err := book.Learn(ctx, sessionID, events); err != nil {
		return err
	}
	book.Count(sessionID, len(events))
	_, err = docs.Write(ctx, "acme", book.Changes()...)
	return err
}
