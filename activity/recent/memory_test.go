package recent_test

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/activitytest"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/internal/heaptest"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

const page = "https://app.acme.example/projects/42/tasks/7?tab=open"

func TestMemory_isBoundedFairly(t *testing.T) {
	activitytest.TestBounds(t, func(_ *testing.T, o activitytest.Options) activitytest.Engine {
		return musttest.New(recent.NewMemory(&recent.MemoryOptions{TTL: o.TTL, MaxEvents: o.MaxEvents, MaxBytes: o.MaxBytes}))
	})
}

func TestMemory_hasDefaults(t *testing.T) {
	m := musttest.New(recent.NewMemory(nil))
	start := time.Now().Add(-activity.DefaultTTL)
	addClick(t, m, "ada", "s", start.Add(-time.Minute))
	addClicks(t, m, "ada", "s", start.Add(time.Minute), recent.DefaultMaxEvents+5)
	require.Equal(t, recent.DefaultMaxEvents, count(t, m, "ada"))
}

// id returns the name with a number.
func id(name string, n int) string { return fmt.Sprint(name, n) }

// clicks returns n clicks of the last minute, a second apart.
func clicks(session, user, url string, n int) activity.Batch {
	return clicksFrom(time.Now().Add(-time.Minute), session, user, url, n)
}

func clicksFrom(at time.Time, session, user, url string, n int) activity.Batch {
	actions := make([]activity.Action, n)
	for i := range actions {
		actions[i] = activitytest.Click(at.Add(time.Duration(i)*time.Second), "Save", url)
	}
	return activitytest.NewBatch("acme", session, user, actions...)
}

func addClick(t testing.TB, s activitytest.Engine, user, session string, at time.Time) {
	t.Helper()
	addClicks(t, s, user, session, at, 1)
}

// addClicks adds n clicks a second apart.
func addClicks(t testing.TB, s activitytest.Engine, user, session string, from time.Time, n int) {
	t.Helper()
	require.NoError(t, s.Add(context.Background(), clicksFrom(from, session, user, page, n)))
}

// fill gives each of that many users as many actions.
func fill(t testing.TB, m *recent.Memory, users, actions int) {
	t.Helper()
	for i := range users {
		addClicks(t, m, id("user", i), id("session", i), time.Now().Add(-time.Hour), actions)
	}
}

func count(t testing.TB, s recent.Store, user string) int {
	return len(musttest.New(s.Recent(t.Context(), "acme", recent.Subject{UserID: user}, 1000)).Records)
}

// room returns the bytes of that many users with one action each, and of half a user more.
func room(t testing.TB, users int) int64 {
	t.Helper()
	var before, bytes int64
	m := musttest.New(recent.NewMemory(nil))
	for i := range users {
		before = bytes
		addClick(t, m, id("u", i), id("s", i), time.Now())
		bytes = m.Bytes("acme")
	}
	return bytes + (bytes-before)/2
}

// An action of nobody is a write to its session's users.
func TestMemory_forgetsTheOldestWriteFirst(t *testing.T) {
	m := musttest.New(recent.NewMemory(&recent.MemoryOptions{MaxBytes: room(t, 3)}))
	for _, user := range []string{"1", "2", "3", "", "4"} {
		addClick(t, m, user, "s"+cmp.Or(user, "1"), time.Now())
	}
	for _, user := range []string{"1", "2", "3", "4"} {
		assert.Equal(t, user == "2", count(t, m, user) == 0, user)
	}
}

// An erasure may not name a session that has none of its user's actions any more. The session's statement about the
// user goes all the same, so a late action is the visitor's own, as in an engine that reads its log after the erasure.
func TestMemory_erasesTheIdentityOfASessionWithoutActions(t *testing.T) {
	m := musttest.New(recent.NewMemory(&recent.MemoryOptions{MaxEvents: 2}))
	now := time.Now()
	addClick(t, m, "ada", "s", now)
	require.NoError(t, m.Identify(t.Context(), feed.Identity{ProductID: "acme", SessionID: "s",
		AnonymousID: "anon", UserID: "ada", At: now.Add(time.Minute).UnixMicro()}))
	most := recent.MaxHeld(2)
	for n := range 2 * most {
		addClick(t, m, id("user", n), "s", now.Add(time.Duration(n+1)*time.Microsecond))
	}
	assert.Equal(t, most+1, m.Users("acme"), "those with actions, and ada")
	m.File("acme", recent.NewErasureFiling(&feed.Erasure{ProductID: "acme", UserID: "ada"}))
	assert.Equal(t, most, m.Users("acme"))
	addClick(t, m, "anon", "s", now.Add(time.Second))
	assert.Equal(t, 1, count(t, m, "anon"))
	assert.Zero(t, count(t, m, "ada"))
}

// No text passes for marks, so the second action is not the first one with marks.
func TestMemory_takesNoTextForMarks(t *testing.T) {
	m, at := musttest.New(recent.NewMemory(nil)), time.Now().Add(-time.Minute)
	for range 2 {
		a := activitytest.Click(at, "Save", page)
		a.Description = `,"marks":["rage"]`
		require.NoError(t, m.Add(t.Context(), activitytest.NewBatch("acme", "s", "ada", a)))
	}
	assert.Equal(t, 2, count(t, m, "ada"))
}

func TestMemory_expires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := musttest.New(recent.NewMemory(&recent.MemoryOptions{TTL: time.Hour}))
		addClick(t, m, "ada", "s1", time.Now())
		time.Sleep(30 * time.Minute)
		start := time.Now()
		addClicks(t, m, "ada", "s1", start, 2)
		addClicks(t, m, "bob", "s2", start, 2)

		time.Sleep(30 * time.Minute)
		assert.Equal(t, 3, count(t, m, "ada"), "an hour old is not older than the retention")
		assert.Zero(t, m.Expire())

		time.Sleep(time.Second)
		assert.Equal(t, 2, count(t, m, "ada"))
		assert.Zero(t, m.Expire())
		assert.Equal(t, 2, m.Users("acme"))
		found := musttest.New(m.Recent(t.Context(), "acme", recent.Subject{UserID: "ada"}, 50))
		assert.Equal(t, start.Add(time.Second).UnixMicro(), found.Records[0].End, "the rest end as before")

		time.Sleep(31 * time.Minute)
		assert.Zero(t, count(t, m, "ada"))
		assert.Equal(t, 2, m.Expire())
		assert.Zero(t, m.Users("acme"))
		assert.Zero(t, m.Expire())
	})
}

func TestMemory_expiresWhileInUse(t *testing.T) {
	limit := room(t, 10)
	m := musttest.New(recent.NewMemory(&recent.MemoryOptions{TTL: time.Millisecond, MaxBytes: limit}))
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 200 {
				addClick(t, m, id("u", (w+i)%20), id("s", i%5), time.Now())
				count(t, m, id("u", i%20))
			}
		})
		wg.Go(func() {
			for range 50 {
				m.Expire()
				assert.LessOrEqual(t, m.Bytes("acme"), limit)
			}
		})
	}
	wg.Wait()
}

func TestMemory_isBounded(t *testing.T) {
	long, now := strings.Repeat("x", 1<<10), time.Now()
	nobodys := activitytest.NewBatch("acme", "s", "", activitytest.Click(now, "Save", page))
	for name, tt := range map[string]struct {
		batches int
		most    int64
		batch   func(i int) activity.Batch
	}{
		"many products": {3000, 1 << 20, func(i int) activity.Batch {
			return activitytest.NewBatch(fmt.Sprint(long, i), "s", "ada", activitytest.Click(now, "Save", page))
		}},
		"many moments of one session of nobody": {20_000, 64 << 10, func(i int) activity.Batch {
			nobodys.Actions[0].TimestampStart = activity.Seconds(now.Add(time.Duration(i) * time.Microsecond))
			return nobodys
		}},
	} {
		t.Run(name, func(t *testing.T) {
			m := musttest.New(recent.NewMemory(&recent.MemoryOptions{TotalBytes: 512 << 10, MaxEvents: 5}))
			grown := heaptest.After(func() {
				for i := range tt.batches {
					require.NoError(t, m.Add(t.Context(), tt.batch(i)))
				}
			})
			assert.Less(t, grown, tt.most)
			runtime.KeepAlive(m)
		})
	}
}

// The heap matches the reported bytes, for actions of any kind. All products together stay within their bound.
func TestMemory_takesTheMemoryThatItSays(t *testing.T) {
	const products, batches, total = 10, 1_000, 1 << 19
	long := strings.Repeat("x", 1000)
	for name, of := range map[string]func(i int) activity.Batch{
		"some each":     func(i int) activity.Batch { return clicks(id("s", i), id("u", i), page, 5) },
		"of no session": func(i int) activity.Batch { return clicks("", id("", i), page, 2) },
		"of no user":    func(i int) activity.Batch { return clicks(id("", i), "", page, 2) },
		"all different": func(i int) activity.Batch { return clicks(id("s", i), id("u", i), id(page, i), 1) },
		"long IDs":      func(i int) activity.Batch { return clicks(id(long, i), id(long, i), page, 1) },
		"long URLs":     func(i int) activity.Batch { return clicks("s", id("u", i), id(page+long+long, i), 1) },
		"few users":     func(i int) activity.Batch { return clicks(id(long, i), id("u", i%100), page, 1) },
		"few sessions":  func(i int) activity.Batch { return clicks(id("s", i%100), id("u", i), page, 1) },
		"sizes change":  func(i int) activity.Batch { return clicks("s", id("u", i%500), page+long[:i%1000], 1) },
		"a long one that is forgotten": func(i int) activity.Batch {
			if i%2 == 0 {
				return clicks(id("s", i/2), id("u", i/2), page+long, 1)
			}
			return clicks(id("s", i/2), id("u", i/2), page, 5)
		},
		"packed ones that are forgotten": func(i int) activity.Batch {
			if i%2 == 0 {
				return clicks(id("s", i/2), id("u", i/2), page+long, 8)
			}
			return clicks(id("s", i/2), id("u", i/2), page, 5)
		},
	} {
		grow := func(opts recent.MemoryOptions) (grown, said int64) {
			m := musttest.New(recent.NewMemory(&opts))
			grown = heaptest.After(func() {
				for i := range batches {
					b := of(i)
					if opts.TotalBytes > 0 {
						b.ProductID = id("product", i*products/batches)
					}
					require.NoError(t, m.Add(t.Context(), b))
				}
			})
			said = m.Bytes("acme")
			runtime.KeepAlive(m)
			return grown, said
		}
		t.Run(name, func(t *testing.T) {
			grown, said := grow(recent.MemoryOptions{MaxEvents: 5})
			t.Logf("%.2f of what is said", float64(grown)/float64(said))
			assert.LessOrEqual(t, grown, said*105/100)
			assert.Greater(t, grown, said*75/100)
		})
		t.Run(name+", within a bound", func(t *testing.T) {
			grown, _ := grow(recent.MemoryOptions{TotalBytes: total})
			t.Logf("%.2f of the bound", float64(grown)/total)
			assert.LessOrEqual(t, grown, int64(total*12/10))
		})
	}
}

func TestMemory_allocatesLittleForANewUser(t *testing.T) {
	m := musttest.New(recent.NewMemory(nil))
	const runs = 1000
	batches := make([]activity.Batch, runs+1)
	for i := range batches {
		batches[i] = clicks(id("s", i), id("u", i), page, 1)
	}
	next := 0
	assert.LessOrEqual(t, testing.AllocsPerRun(runs, func() {
		require.NoError(t, m.Add(t.Context(), batches[next]))
		next++
	}), 7.0, "the user, the session, its owners, the JSON, and room in maps")
}

func TestMemory_expireFreesMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := strings.Repeat("x", 1<<10)
		m := musttest.New(recent.NewMemory(nil))
		grown := heaptest.After(func() {
			for i := range 1000 {
				addClick(t, m, id(long+"u", i), id(long+"s", i), time.Now())
			}
			time.Sleep(activity.DefaultTTL + time.Second)
			addClick(t, m, "new", "s", time.Now())
			assert.Equal(t, 1000, m.Expire())
		})
		assert.Equal(t, 1, count(t, m, "new"))
		assert.Less(t, grown, int64(2<<18), "1000 users and sessions with a kilobyte each")
		runtime.KeepAlive(m)
	})
}

func TestMemory_takesLittleMoreThanItsJSON(t *testing.T) {
	const most = recent.DefaultMaxEvents
	for name, actions := range map[string]int{"just full": most, "full for long": 3 * most} {
		t.Run(name, func(t *testing.T) {
			m := musttest.New(recent.NewMemory(&recent.MemoryOptions{MaxBytes: 1 << 40, TotalBytes: 1 << 40}))
			heap := heaptest.After(func() { fill(t, m, 100, actions) })
			json := 0
			for user := range 100 {
				found := musttest.New(m.Recent(t.Context(), "acme", recent.Subject{UserID: id("user", user)}, most))
				require.Len(t, found.Records, most)
				json += len(found.AppendJSON(nil))
			}
			runtime.KeepAlive(m)
			assert.LessOrEqual(t, float64(heap)/float64(json), 1.3)
		})
	}
}

// places returns the number of places in memory that hold a user's JSON, without anything between.
func places(t *testing.T, m *recent.Memory, user string, actions int) (n int) {
	t.Helper()
	found := musttest.New(m.Recent(t.Context(), "acme", recent.Subject{UserID: user}, actions))
	require.Len(t, found.Records, actions)
	end := uintptr(0)
	for _, r := range found.Records {
		start := uintptr(unsafe.Pointer(unsafe.StringData(r.JSON)))
		if start != end {
			n++
		}
		end = start + uintptr(len(r.JSON))
	}
	return n
}

// Fetching fifty strings from all over the memory would take a lookup half as long again.
func TestMemory_keepsTheJSONOfASessionTogether(t *testing.T) {
	const most = recent.DefaultMaxEvents
	for name, actions := range map[string]int{"just full": most, "full for long": 3*most + 1} {
		t.Run(name, func(t *testing.T) {
			m := musttest.New(recent.NewMemory(nil))
			for range actions { // in turn with those of others
				fill(t, m, 20, 1)
			}
			assert.LessOrEqual(t, places(t, m, "user7", most), most/5)
		})
	}
}

// The JSON of an erased action is not in memory until the session's next action.
func TestMemory_erasureFreesMemory(t *testing.T) {
	m := musttest.New(recent.NewMemory(nil))
	addClicks(t, m, "bob", "s", time.Now(), 10)
	addClick(t, m, "ada", "s", time.Now())
	addClicks(t, m, "bob", "s", time.Now(), 10)
	assert.Greater(t, places(t, m, "bob", 20), 1)
	m.File("acme", recent.NewErasureFiling(&feed.Erasure{UserID: "ada"}))
	assert.Equal(t, 1, places(t, m, "bob", 20))
}

func TestMemory_lookupCostsTheSameWithAnyNumberOfUsers(t *testing.T) {
	few, many := allocsOfRecent(t, 10), allocsOfRecent(t, 1000)
	assert.Equal(t, few, many)
	assert.LessOrEqual(t, many, 1.0, "a lookup allocates its result and nothing else")
}

// allocsOfRecent counts allocations of a lookup among that many users.
func allocsOfRecent(t *testing.T, users int) float64 {
	t.Helper()
	m := musttest.New(recent.NewMemory(nil))
	fill(t, m, users, 1)
	ctx := t.Context()
	return testing.AllocsPerRun(100, func() {
		found, err := m.Recent(ctx, "acme", recent.Subject{UserID: "user7"}, 50)
		if err != nil || len(found.Records) != 1 {
			t.Fatal("not found")
		}
	})
}

// Anybody can send a user's actions in ever more sessions, each with many actions of others.
func TestMemory_looksAtNoOtherSessionForAnAction(t *testing.T) {
	m := musttest.New(recent.NewMemory(nil))
	now := time.Now()
	for i := range recent.DefaultMaxEvents {
		session := id("s", i)
		addClick(t, m, "ada", session, now.Add(-2*time.Hour))
		for j := range 7 {
			addClicks(t, m, id("other", j), session, now.Add(-time.Hour), recent.DefaultMaxEvents)
		}
	}
	times := func(user string) time.Duration {
		least := time.Hour
		for i := range 50 {
			began := time.Now()
			addClick(t, m, user, id(user, i), now.Add(-3*time.Hour))
			least = min(least, time.Since(began))
		}
		return least
	}
	waittest.Until(t, "one costs as much as the other", func() bool { return times("ada") < 8*times("bob") })
}

func TestMemory_dropsAProductAndNoOther(t *testing.T) {
	m := musttest.New(recent.NewMemory(nil))
	addClick(t, m, "ada", "s", time.Now())
	require.NoError(t, m.Add(t.Context(), activitytest.NewBatch("other", "s", "ada",
		activitytest.Click(time.Now(), "Save", page))))
	m.Drop("acme")
	assert.Zero(t, count(t, m, "ada"))
	assert.Equal(t, 1, m.Users("other"))
	m.Drop("other")
	assert.Zero(t, m.Users("other"))
	m.Drop("unheard of")
	addClick(t, m, "ada", "s", time.Now())
	assert.Equal(t, 1, count(t, m, "ada"))
}
