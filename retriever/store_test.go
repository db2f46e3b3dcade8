package retriever_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/activitytest"
	"github.com/liveactivity/liveactivity/internal/heaptest"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/retriever"
)

func TestStore_makesOneChunkOfABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := musttest.New(retriever.NewStore(nil))
		at := time.Now().Add(-time.Minute)
		b := activitytest.NewBatch("acme", "s", "ada",
			activitytest.Pageview(at, "https://app.example.com/projects/42?token=secret"),
			activitytest.Click(at.Add(1500*time.Millisecond), `Save <now> & "go"`, "https://app.example.com/projects/42"))
		b.ForwardedAt = activity.Seconds(time.Now().Add(-time.Second - 765432*time.Microsecond))
		add(t, s, b)
		w := get(newMux(s, nil), "/events?session_id=s")
		assert.Equal(t, `{"records":[{"content":`+
			`"1999-12-31 23:59:00 UTC: User landed on the projects detail page (https://app.example.com/projects/:id)\n`+
			`1999-12-31 23:59:01 UTC: User clicked Save <now> & \"go\" on the projects detail page `+
			`(https://app.example.com/projects/:id)",`+
			`"score":1.0,"title":"events @ 1999-12-31T23:59:58.234Z"}]}`, w.Body.String())
	})
}

func TestStore_dropsTheOldestChunkOnOverflow(t *testing.T) {
	for _, limit := range []int{0, 1, 3} {
		t.Run(fmt.Sprint("MaxChunks=", limit), func(t *testing.T) {
			s := musttest.New(retriever.NewStore(&retriever.StoreOptions{MaxChunks: limit}))
			if limit == 0 {
				limit = 50
			}
			var want []string
			for i := range 2*limit + 1 {
				add(t, s, batch("s", "", fmt.Sprint(i)), batch("other", "", "x"))
				want = append([]string{fmt.Sprint(i)}, want...)
				require.Equal(t, want[:min(limit, len(want))], events(t, s, "s"))
			}
		})
	}
}

func TestStore_keepsNothingWithoutASessionNorOfAnEmptyBatch(t *testing.T) {
	s := musttest.New(retriever.NewStore(nil))
	add(t, s, batch("", "ada@example.com", "x"), batch("s", "ada@example.com"))
	sum := summary("", "x", 1)
	sum.Email = "ada@example.com"
	overwrite(t, s, sum)
	assert.Zero(t, s.Sessions())
	_, ok := s.SessionOf("ada@example.com")
	assert.False(t, ok)
}

func TestStore_recordsWhenAChunkWasForwarded(t *testing.T) {
	local := time.Local
	t.Cleanup(func() { time.Local = local })
	time.Local = time.FixedZone("elsewhere", 3600)
	const ttl = time.Hour
	now := "2000-01-01T00:00:00.000Z"
	tests := map[string]struct {
		forwarded float64 // after now, in seconds
		want      string
	}{
		"now":                 {0, now},
		"a moment ago":        {-0.25, "1999-12-31T23:59:59.750Z"},
		"just within the TTL": {-3600, "1999-12-31T23:00:00.000Z"},
		"long ago":            {-946684800, now},
		"in the future":       {0.001, now},
		"far in the future":   {1e300, now},
		"not a number":        {math.NaN(), now},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := musttest.New(retriever.NewStore(&retriever.StoreOptions{TTL: ttl}))
				b, sum := batch("raw", "", "x"), summary("summed", "x", 1)
				b.ForwardedAt += tt.forwarded
				sum.ForwardedAt += tt.forwarded
				add(t, s, b)
				overwrite(t, s, sum)
				for _, id := range []string{"raw", "summed"} {
					records := requireRecords(t, get(newMux(s, nil), "/events?session_id="+id))
					require.Len(t, records, 1)
					assert.Equal(t, "events @ "+tt.want, records[0].Title)
				}
			})
		})
	}
}

func TestStore_returnsNothingOlderThanTheTTL(t *testing.T) {
	for _, ttl := range []time.Duration{0, time.Minute} {
		t.Run(ttl.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := musttest.New(retriever.NewStore(&retriever.StoreOptions{TTL: ttl}))
				if ttl == 0 {
					ttl = 4 * time.Hour
				}
				add(t, s, batch("s", "ada@example.com", "one"))
				time.Sleep(ttl / 2)
				add(t, s, batch("s", "", "two"))
				time.Sleep(ttl / 2)
				require.Equal(t, []string{"two", "one"}, events(t, s, "s"), "as old as may be")
				time.Sleep(time.Millisecond)
				require.Equal(t, []string{"two"}, events(t, s, "s"))
				require.Equal(t, []string{"two"}, eventsOf(t, s, "ada@example.com"))
				time.Sleep(ttl / 2)
				require.Empty(t, events(t, s, "s"))
				require.Zero(t, s.Sessions(), "a read frees it")
				_, ok := s.SessionOf("ada@example.com")
				require.False(t, ok)
			})
		})
	}
}

func TestStore_freesExpiredSessionsAsOthersAreWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := musttest.New(retriever.NewStore(&retriever.StoreOptions{TTL: time.Hour}))
		for i := range 1000 {
			add(t, s, batch(fmt.Sprint(i), "", "x"))
		}
		time.Sleep(2 * time.Hour)
		require.Equal(t, 1000, s.Sessions())
		for i := range 500 {
			add(t, s, batch(fmt.Sprint("new", i%10), "", "x"))
		}
		require.Equal(t, 10, s.Sessions())
	})
}

// A summary covers earlier actions, so its email may be out of date.
func TestStore_everyEmailOfAMergedBatchCountsAndNoneOfASummary(t *testing.T) {
	s := musttest.New(retriever.NewStore(nil))
	b := batch("s", "ada@example.com", "one", "two", "three")
	b.Actions[1].Email = "bob@example.com"
	b.Actions[2].Email = ""
	add(t, s, b)
	sum := summary("t", "all of t", 0)
	sum.Email = "ada@example.com"
	overwrite(t, s, sum)
	assert.Equal(t, []string{"one+two+three"}, eventsOf(t, s, "ada@example.com"))
	assert.Equal(t, []string{"one+two+three"}, eventsOf(t, s, "bob@example.com"))
}

// A read is a use, like a write.
func TestStore_forgetsTheLeastRecentlyUsedSession(t *testing.T) {
	s := musttest.New(retriever.NewStore(&retriever.StoreOptions{MaxSessions: 3}))
	add(t, s, batch("a", "", "x"), batch("A", "", "x"), batch("a ", "", "x"), batch("a", "", "y"))
	events(t, s, "A")
	add(t, s, batch("b", "", "x"))
	assert.Equal(t, 3, s.Sessions())
	assert.Equal(t, []string{"y", "x"}, events(t, s, "a"))
	assert.Equal(t, []string{"x"}, events(t, s, "A"))
	assert.Empty(t, events(t, s, "a "))
}

// A summary is no newer than what it replaces, nor than the records that stay after it.
func TestStore_aSummaryExpiresWithItsActions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := musttest.New(retriever.NewStore(&retriever.StoreOptions{TTL: time.Hour}))
		late := batch("later", "", "two")
		late.ForwardedAt -= 600 // by another server's clock
		early := batch("s", "", "zero")
		early.ForwardedAt -= 600
		add(t, s, early, batch("s", "", "one"), batch("later", "", "one"), late)
		time.Sleep(30 * time.Minute)
		overwrite(t, s, summary("s", "sum", 2))
		overwrite(t, s, summary("later", "sum", 1))
		time.Sleep(20 * time.Minute)
		assert.Equal(t, []string{"two", "sum"}, events(t, s, "later"))
		time.Sleep(10 * time.Minute)
		assert.Empty(t, events(t, s, "later"))
		assert.Equal(t, []string{"sum"}, events(t, s, "s"))
		time.Sleep(time.Millisecond)
		assert.Empty(t, events(t, s, "s"))
		add(t, s, late)
		assert.Empty(t, events(t, s, "later"), "it has expired on arrival")
	})
}

// A summary replaces the one before it, and no more actions than there are.
func TestStore_aSummaryReplacesTheLastOne(t *testing.T) {
	s := musttest.New(retriever.NewStore(nil))
	add(t, s, batch("s", "", "a"))
	overwrite(t, s, summary("s", "of a", 5))
	add(t, s, batch("s", "", "b"), batch("s", "", "c"))
	for _, tt := range []struct {
		replaces int
		want     string
	}{{-3, "c b sum"}, {1, "c sum"}, {0, "c sum"}} {
		overwrite(t, s, summary("s", "sum", tt.replaces))
		assert.Equal(t, tt.want, strings.Join(events(t, s, "s"), " "))
	}
}

func TestStore_emailsAreBoundedLikeSessions(t *testing.T) {
	s := musttest.New(retriever.NewStore(&retriever.StoreOptions{MaxSessions: 3}))
	for i := range 3 {
		add(t, s, batch("s", fmt.Sprint(i, "@example.com"), "x"))
	}
	_, ok := s.SessionOf("0@example.com") // is a use of it
	require.True(t, ok)
	add(t, s, batch("s", "3@example.com", "x"))
	known := slices.DeleteFunc([]string{"0", "1", "2", "3"}, func(name string) bool {
		_, ok := s.SessionOf(name + "@example.com")
		return !ok
	})
	assert.Equal(t, []string{"0", "2", "3"}, known)
}

// numbered returns n batches of so many actions each, named 1, 2, 3 and so on.
func numbered(sessionID string, n, actions int) []activity.Batch {
	batches := make([]activity.Batch, n)
	for i := range batches {
		var did []string
		for j := range actions {
			did = append(did, fmt.Sprint(i*actions+j+1))
		}
		batches[i] = batch(sessionID, "", did...)
	}
	return batches
}

func TestStore_overwriteReplacesTheOldestChunks(t *testing.T) {
	tests := map[string]struct {
		batches, actions, maxChunks int
		replaces                    int
		want                        []string
	}{
		"all":                        {3, 1, 9, 3, []string{"sum"}},
		"all of chunks of several":   {2, 3, 9, 6, []string{"sum"}},
		"what came later stays":      {4, 1, 9, 2, []string{"4", "3", "sum"}},
		"a chunk partly covered":     {3, 2, 9, 3, []string{"5+6", "3+4", "sum"}},
		"not even one chunk":         {2, 3, 9, 2, []string{"4+5+6", "1+2+3", "sum"}},
		"nothing":                    {2, 1, 9, 0, []string{"2", "1", "sum"}},
		"less than nothing":          {2, 1, 9, -5, []string{"2", "1", "sum"}},
		"more than there was":        {2, 1, 9, 100, []string{"sum"}},
		"more than can be":           {2, 1, 9, math.MaxInt, []string{"sum"}},
		"some were dropped":          {5, 1, 3, 4, []string{"5", "sum"}}, // 1 and 2 are gone
		"all of it was dropped":      {5, 1, 3, 2, []string{"5", "4", "sum"}},
		"part of what was dropped":   {5, 1, 3, 1, []string{"5", "4", "sum"}},
		"dropped and partly covered": {4, 2, 3, 3, []string{"7+8", "5+6", "sum"}},
		"everything, dropped or not": {5, 1, 3, 5, []string{"sum"}},
		"full, and nothing replaced": {3, 1, 3, 0, []string{"3", "2", "sum"}},
		"room for one":               {3, 1, 1, 2, []string{"sum"}},
		"session not known":          {0, 1, 9, 20, []string{"sum"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := musttest.New(retriever.NewStore(&retriever.StoreOptions{MaxChunks: tt.maxChunks}))
			add(t, s, batch("other", "", "x"))
			add(t, s, numbered("s", tt.batches, tt.actions)...)
			overwrite(t, s, summary("s", "sum", tt.replaces))
			assert.Equal(t, tt.want, events(t, s, "s"))
			assert.Equal(t, []string{"x"}, events(t, s, "other"))
			assert.Equal(t, 2, s.Sessions())
		})
	}
}

func TestStore_refusesAnEmptySummary(t *testing.T) {
	s := musttest.New(retriever.NewStore(nil))
	add(t, s, batch("s", "", "x"))
	for _, text := range []string{"", " \n\t"} {
		assert.Error(t, s.Overwrite(t.Context(), summary("s", text, 1)))
		assert.Error(t, s.Overwrite(t.Context(), summary("new", text, 1)))
	}
	assert.Equal(t, []string{"x"}, events(t, s, "s"), "the history is worth more")
	assert.Equal(t, 1, s.Sessions())
}

func TestStore_keepsTextsUnchanged(t *testing.T) {
	for _, text := range []string{
		`"quoted" \ </script> & 'x'`, "line\nline\ttab\r\x00\x1f", "\u2028 \u2029 é 漢 🙂", `{"content":"x"}`,
		`"},{"content":"`, "\ufffd",
	} {
		s := musttest.New(retriever.NewStore(nil))
		overwrite(t, s, summary("s", text, 1))
		for _, w := range []*httptest.ResponseRecorder{
			get(newMux(s, nil), "/events?session_id=s"), post(newMux(s, nil), `{"knowledge_id":"s"}`),
		} {
			records := requireRecords(t, w)
			require.Len(t, records, 1)
			assert.Equal(t, text, records[0].Content)
		}
	}
	s := musttest.New(retriever.NewStore(nil))
	overwrite(t, s, summary("s", "a\xffb", 1))
	assert.True(t, json.Valid(get(newMux(s, nil), "/events?session_id=s").Body.Bytes()))

	far, past := batch("far", "", "x\n2026-01-01 00:00:00 UTC: y"), batch("past", "", "x")
	far.Actions[0].TimestampStart, past.Actions[0].TimestampStart = 1e300, -1e300
	add(t, s, far, past)
	assert.Equal(t, []string{"x 2026-01-01 00:00:00 UTC: y"}, events(t, s, "far"), "no text makes a line of its own")
	assert.Equal(t, []string{"x"}, events(t, s, "past"))
}

// A store stays within its bytes on any stream, and drops the least recently used sessions first.
func TestStore_isBoundedInBytes(t *testing.T) {
	const bound = 2 << 20
	s := musttest.New(retriever.NewStore(&retriever.StoreOptions{MaxBytes: bound}))
	grown := heaptest.After(func() {
		for i := range 3000 {
			email := fmt.Sprint(i, strings.Repeat("x", 200), "@example.com")
			add(t, s, batch(fmt.Sprint("session ", i), email, strings.Repeat("x", 400)))
		}
		for i := range 3000 {
			b := batch(fmt.Sprint("long ", i), "", strings.Repeat("x", 500))
			b.Actions[0].UserID = strings.Repeat("u", 1000)
			add(t, s, b)
		}
	})
	assert.Less(t, grown, int64(bound*5/4))
	assert.Greater(t, grown, int64(bound/3))
	assert.Empty(t, events(t, s, "long 0"))
	assert.NotEmpty(t, events(t, s, "long 2999"))
	runtime.KeepAlive(s)
}

// A session's dropped records no longer count towards its bytes.
func TestStore_whatWasDroppedDoesNotCount(t *testing.T) {
	s := musttest.New(retriever.NewStore(&retriever.StoreOptions{MaxBytes: 1 << 20, MaxChunks: 2}))
	add(t, s, batch("quiet", "", "x"))
	for range 2000 {
		add(t, s, batch("busy", "", strings.Repeat("x", 1000)))
	}
	assert.NotEmpty(t, events(t, s, "quiet"))
}

// The IDs of a batch are slices of the message's buffer.
func TestStore_keepsNothingOfAMessage(t *testing.T) {
	const sessions, message = 100, 100_000
	s := musttest.New(retriever.NewStore(nil))
	grown := heaptest.After(func() {
		for i := range sessions {
			whole := fmt.Sprintf("%03d", i) + strings.Repeat("@", message)
			b := batch(whole[:3], whole[:5], "x")
			s.Learn(b)
			add(t, s, b)
		}
	})
	assert.Less(t, grown, int64(sessions*message/10))
	runtime.KeepAlive(s)
}

func TestConstructors_reportEveryMistake(t *testing.T) {
	_, err := retriever.NewStore(&retriever.StoreOptions{MaxSessions: -1, MaxBytes: -1, MaxChunks: -1, TTL: -1})
	assert.Equal(t, []string{"retriever.MaxSessions", "retriever.TTL", "retriever.MaxChunks", "retriever.MaxBytes"},
		musttest.Mistakes(t, err))
	_, err = retriever.NewHandler(nil, &retriever.HandlerOptions{APIKey: " key", KeyBy: "user_id"})
	assert.Equal(t, []string{"retriever.store", "retriever.APIKey", "retriever.KeyBy"}, musttest.Mistakes(t, err))
}
