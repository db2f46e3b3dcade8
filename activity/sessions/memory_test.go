package sessions_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/activitytest"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/activity/sessions"
	"github.com/liveactivity/liveactivity/internal/heaptest"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

func TestMemory_listsTheMostRecentlySeenFirst(t *testing.T) {
	m := newMemory(nil)
	m.Add("acme", seen("a", noon))
	m.Add("acme", seen("b", noon.Add(time.Second)))
	m.Add("acme", seen("c", noon.Add(2*time.Second)))
	m.Add("acme", seen("a", noon.Add(3*time.Second)))
	m.Add("globex", seen("d", noon))
	assert.Equal(t, []string{"a", "c", "b"}, walk(t, m, sessions.Query{}, noon))
	found, next := list(t, m, sessions.Query{Limit: 1}, noon)
	assert.NotEmpty(t, next)
	assert.Equal(t, []sessions.Session{{
		SessionID: "a", UserID: "user of a", Email: "a@example.com", Page: "projects detail",
		CanonicalURL: "https://app.example.com/projects/:id",
		LastAction:   "User clicked Save on the projects detail page", FirstSeen: float64(noon.Unix()),
		LastSeen: float64(noon.Unix()) + 3, Actions: 1,
	}}, found)
	nobody := musttest.New(m.List("initech", sessions.Query{}, noon))
	assert.Equal(t, sessions.Listing{Sessions: []sessions.Session{}}, nobody)
}

// A late batch does not replace the user's last action, but it names the user. The last of a batch's
// actions is the newest. An action without a page leaves the user on the page.
func TestMemory_keepsTheNewestActionAndTheLogsLastIdentity(t *testing.T) {
	m := newMemory(nil)
	both := seen("a", noon)
	both.Actions = slices.Concat(seen("a", noon.Add(-time.Second)).Actions, both.Actions, both.Actions)
	both.Actions[0].CanonicalURL, both.Actions[2].CanonicalURL = "https://app.example.com/first", ""
	m.Add("acme", both)
	late := seen("a", noon.Add(-time.Minute))
	late.UserID, late.Email = "ada", ""
	a := &late.Actions[0]
	a.CanonicalURL, a.Description, a.Index = "https://app.example.com/late", "late", 6
	m.Add("acme", late)
	away := seen("a", noon)
	away.UserID, away.Email, away.Actions[0].CanonicalURL, away.Actions[0].Index = "ada", "", "", 5
	m.Add("acme", away)
	s, ok := m.Session("acme", "a", noon)
	require.True(t, ok)
	assert.Equal(t, sessions.Session{
		SessionID: "a", UserID: "ada", Page: "projects detail", CanonicalURL: "https://app.example.com/projects/:id",
		LastAction: "User clicked Save on the projects detail page", FirstSeen: float64(noon.Unix()) - 60,
		LastSeen: float64(noon.Unix()), Actions: 7,
	}, s)
	away.SessionID = "b" // and comes before the page does
	m.Add("acme", away)
	m.Add("acme", seen("b", noon.Add(-time.Second)))
	s, _ = m.Session("acme", "b", noon)
	assert.Equal(t, "projects detail", s.Page)
}

func TestMemory_beginsAnExpiredSessionAnew(t *testing.T) {
	m := newMemory(&sessions.MemoryOptions{TTL: time.Hour})
	m.Add("acme", seen("a", noon))
	m.Add("acme", seen("kept", noon))
	m.Add("acme", seen("a", noon.Add(time.Hour+time.Microsecond)))
	m.Add("acme", seen("kept", noon.Add(time.Hour)))
	now := noon.Add(time.Hour + time.Second)
	assert.Equal(t, []string{"a", "kept"}, walk(t, m, sessions.Query{}, now))
	for id, firstSeen := range map[string]time.Time{"a": noon.Add(time.Hour + time.Microsecond), "kept": noon} {
		s, ok := m.Session("acme", id, now)
		require.True(t, ok)
		assert.InDelta(t, float64(firstSeen.UnixMicro())/1e6, s.FirstSeen, 1e-6, id)
	}
}

func TestMemory_limitsAListing(t *testing.T) {
	m := newMemory(nil)
	now := fill(m, "acme", 300)
	for limit, want := range map[int]int{0: 50, -1: 50, 1: 1, 50: 50, 200: 200, 201: 200, 1 << 40: 200} {
		found, next := list(t, m, sessions.Query{Limit: limit}, now)
		assert.Len(t, found, want)
		assert.NotEmpty(t, next)
	}
	_, last := list(t, m, sessions.Query{Limit: 200}, now)
	found, next := list(t, m, sessions.Query{Limit: 100, After: last}, now)
	assert.Len(t, found, 100)
	assert.Empty(t, next, "a full listing that is the last says so")
}

// A session that does nothing while the list is read is found exactly once. A new or moved one is
// found at most once, however many are seen at the same moment.
func TestMemory_listsWhileSessionsMove(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := musttest.New(sessions.NewMemory(nil))
		const names = 30
		now := noon
		see := func(n int) {
			now = now.Add(time.Duration(rapid.IntRange(0, 1).Draw(t, "seconds")) * time.Second)
			m.Add("acme", seen(id(n), now))
		}
		there := map[string]bool{}
		for _, n := range rapid.SliceOfN(rapid.IntRange(0, names-1), 0, 40).Draw(t, "at first") {
			see(n)
			there[id(n)] = true
		}
		times, moved := map[string]int{}, map[string]bool{}
		q := sessions.Query{Limit: rapid.IntRange(1, 7).Draw(t, "limit")}
		for {
			found, next := list(t, m, q, now)
			require.LessOrEqual(t, len(found), q.Limit)
			require.True(t, slices.IsSortedFunc(found, func(a, b sessions.Session) int { return int(b.LastSeen - a.LastSeen) }))
			for _, s := range found {
				times[s.SessionID]++
			}
			if q.After = next; next == "" {
				break
			}
			for _, n := range rapid.SliceOfN(rapid.IntRange(0, names-1), 0, 5).Draw(t, "meanwhile") {
				see(n)
				moved[id(n)] = true
			}
		}
		for session := range there {
			if !moved[session] {
				require.Equal(t, 1, times[session], session)
			}
		}
		for session, n := range times {
			require.LessOrEqual(t, n, 1, session)
		}
	})
}

// A cursor is good on every server on the log, and after a restart.
func TestMemory_goesOnAtTheCursorOfAnother(t *testing.T) {
	one, other := newMemory(nil), newMemory(nil)
	now := fill(one, "acme", 30)
	fill(other, "acme", 30)
	first, next := list(t, one, sessions.Query{Limit: 10}, now)
	rest := walk(t, other, sessions.Query{After: next}, now)
	assert.Len(t, rest, 20)
	assert.NotContains(t, rest, first[9].SessionID)
	assert.Equal(t, id(19), rest[0])
}

func TestMemory_looksForAPrefix(t *testing.T) {
	m := newMemory(nil)
	for i, s := range []struct{ id, user, mail string }{
		{"s-1", "u-1", "Ada@Example.com"}, {"S-2", "u-2", "adam@example.com"}, {"s-3", "ADA", ""}, {"ada-4", "", ""},
		{"s-5", "not ada", "x.ada@example.com"},
		{"s-6", "ÖZGE", ""}, {"s-7", "K7", ""}, {"s-8", "\u212a8", ""}, {"s-9", "日本", ""}, {"s-10", "", "ſam@example.com"},
	} {
		e := seen(s.id, noon.Add(time.Duration(-i)*time.Second))
		e.UserID, e.Email = s.user, s.mail
		m.Add("acme", e)
	}
	for prefix, want := range map[string]string{
		"ada": "s-1 S-2 s-3 ada-4", "ADA": "s-1 S-2 s-3 ada-4", "ada@": "s-1", "ada@example.com": "s-1",
		"ada@example.com.": "", "s-2": "S-2",
		"özg": "s-6", "k": "s-7 s-8", "\u212a": "s-7 s-8", "\u212a7": "s-7", "日": "s-9", "日本人": "", "sam@": "s-10",
		"not ": "s-5", " ": "", "%": "",
		strings.Repeat("x", sessions.MaxPrefix): "",
	} {
		assert.Equal(t, want, strings.Join(walk(t, m, sessions.Query{Prefix: prefix}, noon), " "), "%q", prefix)
	}
}

// A search goes on, however far apart its results are. One of exactly the limit of examined sessions has no cursor.
func TestMemory_examinesABoundedPart(t *testing.T) {
	m := newMemory(nil)
	m.Add("acme", seen("needle", noon.Add(-time.Second)))
	now := fill(m, "acme", 9999)
	q := sessions.Query{Prefix: "NEEDLE"}
	requireLast := func() {
		t.Helper()
		found, next := list(t, m, q, now)
		require.Len(t, found, 1)
		assert.Equal(t, "needle", found[0].SessionID)
		assert.Empty(t, next)
	}
	requireLast()
	m.Add("acme", seen("one more", now))
	found, next := list(t, m, q, now)
	assert.Empty(t, found)
	require.NotEmpty(t, next)
	q.After = next
	requireLast()
}

func TestMemory_refusesABadQuery(t *testing.T) {
	m := newMemory(nil)
	now := fill(m, "acme", 3)
	_, cursor := list(t, m, sessions.Query{Limit: 1}, now)
	flipped := []byte(cursor)
	flipped[3] ^= 1
	for name, q := range map[string]struct {
		sessions.Query
		param string
	}{
		"too long":            {sessions.Query{Prefix: strings.Repeat("x", sessions.MaxPrefix+1)}, "q"},
		"not UTF-8":           {sessions.Query{Prefix: "a\xff"}, "q"},
		"NUL":                 {sessions.Query{Prefix: "a\x00"}, "q"},
		"not base64":          {sessions.Query{After: "!"}, "after"},
		"zeros":               {sessions.Query{After: strings.Repeat("A", 64)}, "after"},
		"cut":                 {sessions.Query{After: cursor[:len(cursor)-1]}, "after"},
		"changed":             {sessions.Query{After: string(flipped)}, "after"},
		"too long a cursor":   {sessions.Query{After: strings.Repeat("A", 1<<20)}, "after"},
		"of another encoding": {sessions.Query{After: cursor + "\n"}, "after"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := m.List("acme", q.Query, now)
			var wrong *activity.QueryError
			require.ErrorAs(t, err, &wrong)
			assert.Equal(t, q.param, wrong.Param)
			assert.True(t, strings.HasPrefix(err.Error(), q.param+" must "), err)
		})
	}
}

func FuzzMemory_List(f *testing.F) {
	m := newMemory(nil)
	now := fill(m, "acme", 30)
	listing := musttest.New(m.List("acme", sessions.Query{Limit: 1}, now))
	f.Add(*listing.Next, "a")
	f.Fuzz(func(t *testing.T, after, prefix string) {
		listing, err := m.List("acme", sessions.Query{After: after, Prefix: prefix}, now)
		if err == nil {
			require.LessOrEqual(t, len(listing.Sessions), 30)
		}
	})
}

func TestMemory_forgetsSessionsAfterTheTTL(t *testing.T) {
	m := newMemory(&sessions.MemoryOptions{TTL: time.Minute})
	m.Add("acme", seen("a", noon))
	m.Add("acme", seen("b", noon.Add(time.Second)))
	m.Add("globex", seen("c", noon))
	at := func(after time.Duration) string {
		return strings.Join(walk(t, m, sessions.Query{}, noon.Add(after)), " ")
	}
	assert.Equal(t, "b a", at(time.Minute))
	assert.Equal(t, "b", at(time.Minute+time.Microsecond), "before anything is freed, too")
	_, ok := m.Session("acme", "a", noon.Add(time.Minute+time.Microsecond))
	assert.False(t, ok)
	m.Expire(noon.Add(time.Minute))
	assert.Equal(t, "b a", at(time.Minute))
	m.Expire(noon.Add(time.Minute + time.Microsecond))
	assert.Equal(t, "b", at(0))
	assert.Zero(t, m.Bytes("globex"))
	m.Add("acme", seen("b", noon.Add(time.Minute)))
	m.Expire(noon.Add(time.Minute + 2*time.Second))
	assert.Equal(t, "b", at(0), "its newest action counts")
	m.Expire(noon.Add(3 * time.Minute))
	assert.Zero(t, m.Bytes("acme"))
}

func TestMemory_dropsAProduct(t *testing.T) {
	m := newMemory(nil)
	m.Add("acme", seen("a", noon))
	m.Add("globex", seen("b", noon))
	m.Drop("acme")
	m.Drop("acme")
	assert.Empty(t, walk(t, m, sessions.Query{}, noon))
	assert.Zero(t, m.Bytes("acme"))
	assert.NotZero(t, m.Bytes("globex"))
	m.Add("acme", seen("c", noon))
	assert.Equal(t, []string{"c"}, walk(t, m, sessions.Query{}, noon))
	m.Expire(noon.Add(24 * time.Hour))
}

// A product loses its own oldest sessions, and no other product's.
func TestMemory_isBoundedByBytes(t *testing.T) {
	const most = 256 << 10
	m := newMemory(&sessions.MemoryOptions{MaxBytes: most, TotalBytes: 2 * most})
	fill(m, "small", 50)
	small := m.Bytes("small")
	for _, product := range []string{"acme", "globex", "initech"} {
		fill(m, product, 2000)
		assert.LessOrEqual(t, m.Bytes(product), int64(most))
	}
	assert.Equal(t, small, m.Bytes("small"), "what is within its share stays")
	assert.LessOrEqual(t, m.Bytes("small")+m.Bytes("acme")+m.Bytes("globex")+m.Bytes("initech"), int64(2*most))
	left := walk(t, m, sessions.Query{}, noon)
	require.NotEmpty(t, left)
	for i, session := range left {
		assert.Equal(t, id(1999-i), session, "the ones written first go first")
	}
	m.Expire(noon.Add(24 * time.Hour))
	assert.Zero(t, m.Bytes("acme"))
}

func TestMemory_takesTheMemoryThatItSays(t *testing.T) {
	const total = 2 << 20
	for name, add := range map[string]func(m *sessions.Memory){
		"one product": func(m *sessions.Memory) { fill(m, "acme", 6000) },
		"many products": func(m *sessions.Memory) {
			for i := range 3000 {
				fill(m, fmt.Sprint("product ", i), 1)
			}
		},
		"entries that come late": func(m *sessions.Memory) {
			for i := range 6000 {
				known := seen(id(i), noon)
				known.UserID, known.Email, known.Actions[0].CanonicalURL = "", strings.Repeat("e", 1000), ""
				late := seen(id(i), noon.Add(-time.Minute))
				late.UserID, late.Email, late.Actions[0].CanonicalURL = "", "", ""
				m.Add("acme", known)
				m.Add("acme", late)
			}
		},
		"many entries of a session": func(m *sessions.Memory) {
			for i := range 12 * total / 1024 { // actions of sessions that take a kilobyte each
				m.Add("acme", seen(id(i%(total/1024)), noon.Add(time.Duration(i)*time.Second)))
			}
			_, ok := m.Session("acme", id(0), noon)
			assert.True(t, ok, "all of them fit")
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemory(&sessions.MemoryOptions{TotalBytes: total})
			grown := heaptest.After(func() { add(m) })
			t.Logf("%.2f of the bound", float64(grown)/total)
			assert.LessOrEqual(t, grown, int64(total*11/10))
			runtime.KeepAlive(m)
		})
	}
}

func TestMemory_isSafeForConcurrentUse(t *testing.T) {
	m := newMemory(&sessions.MemoryOptions{MaxBytes: 32 << 10})
	waittest.Together(4, func(worker int) {
		for i := range 300 {
			m.Add("acme", seen(id((i*7+worker)%90), noon.Add(time.Duration(i)*time.Second)))
			switch i % 50 {
			case 10:
				walk(t, m, sessions.Query{Limit: 10, Prefix: "0198"}, noon)
			case 20:
				m.Expire(noon.Add(4*time.Hour + time.Duration(i-10)*time.Second))
			case 30:
				m.Session("acme", id(i%90), noon)
			case 40:
				m.Drop("acme")
			}
		}
	})
	m.Drop("acme")
	assert.Zero(t, m.Bytes("acme"))
}

func TestNewMemory_reportsAllMistakes(t *testing.T) {
	_, err := sessions.NewMemory(&sessions.MemoryOptions{TTL: -1, MaxBytes: -1, TotalBytes: -1})
	assert.Equal(t, []string{"sessions.TTL", "sessions.MaxBytes", "sessions.TotalBytes"}, musttest.Mistakes(t, err))
}

// A visitor who signs in is listed as the user before any further action.
func TestMemory_namesTheUserOnceTheVisitorSignsIn(t *testing.T) {
	m := newMemory(nil)
	signsIn := func(session, anonymous string) {
		m.Identify("acme", &feed.Identity{SessionID: session, AnonymousID: anonymous, UserID: "ada",
			Email: "Ada@example.com", At: noon.UnixMicro()})
	}
	signsIn("s", "user of s") // there is no such session yet
	m.Add("acme", seen("s", noon))
	signsIn("s", "somebody else")
	signsIn("s", "")
	signsIn("t", "user of s")
	found, _ := list(t, m, sessions.Query{}, noon)
	require.Len(t, found, 1)
	assert.Equal(t, "user of s", found[0].UserID)
	before := found[0]

	signsIn("s", "user of s")
	found, _ = list(t, m, sessions.Query{Prefix: "ada@ex"}, noon)
	require.Len(t, found, 1)
	before.UserID, before.Email = "ada", "Ada@example.com"
	assert.Equal(t, before, found[0])
	m.Identify("acme", &feed.Identity{SessionID: "s", AnonymousID: "ada", UserID: "bob", At: noon.UnixMicro()})
	found, _ = list(t, m, sessions.Query{}, noon)
	before.UserID, before.Email = "bob", ""
	assert.Equal(t, before, found[0], "the visitor's address is not the user's")
	m.Identify("acme", &feed.Identity{SessionID: "s", AnonymousID: "b", UserID: "bob", Email: "Bob@example.com"})
	found, _ = list(t, m, sessions.Query{}, noon)
	before.Email = "Bob@example.com"
	assert.Equal(t, before, found[0], "an action overtook the identity")
	m.Identify("acme", &feed.Identity{SessionID: "s", AnonymousID: "bob", UserID: "eve", At: noon.UnixMicro() - 1})
	found, _ = list(t, m, sessions.Query{}, noon)
	assert.Equal(t, before, found[0], "the visitor is there again")
	one := m.Bytes("acme")
	m.Remove("acme", "s")
	assert.Less(t, m.Bytes("acme"), one)
}

// noon is the time at which the tests begin.
var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func newMemory(opts *sessions.MemoryOptions) *sessions.Memory {
	return musttest.New(sessions.NewMemory(opts))
}

// seen is a batch of one action.
func seen(id string, at time.Time) *activity.Batch {
	b := activitytest.NewBatch("acme", id, "user of "+id,
		activitytest.Click(at, "Save", "https://app.example.com/projects/42"))
	b.Email = id + "@example.com"
	return &b
}

// id returns the ID of the session with that number.
func id(n int) string { return fmt.Sprintf("0198c2f4-7a6b-7000-8000-%012d", n) }

// fill adds so many sessions, a millisecond apart, and returns the time of the last one.
func fill(m *sessions.Memory, product string, n int) time.Time {
	at := noon
	for i := range n {
		at = noon.Add(time.Duration(i) * time.Millisecond)
		m.Add(product, seen(id(i), at))
	}
	return at
}

// list returns a listing and its cursor, "" at the end.
func list(t require.TestingT, m *sessions.Memory, q sessions.Query,
	now time.Time) (found []sessions.Session, next string) {
	listing := musttest.New(m.List("acme", q, now))
	require.NotNil(t, listing.Sessions)
	if listing.Next != nil {
		require.NotEmpty(t, *listing.Next)
		next = *listing.Next
	}
	return listing.Sessions, next
}

// walk returns the IDs of all listings.
func walk(t require.TestingT, m *sessions.Memory, q sessions.Query, now time.Time) (ids []string) {
	for {
		found, next := list(t, m, q, now)
		for _, s := range found {
			ids = append(ids, s.SessionID)
		}
		if q.After = next; next == "" {
			return ids
		}
	}
}
