package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/internal/logtest"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/internal/watchtest"
	"github.com/liveactivity/liveactivity/stream"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/eventlogtest"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
)

// followed holds the events that a source delivered, a line for each.
type followed struct {
	mu    sync.Mutex
	lines []string
	stop  func() error // returns the error of Follow
}

// delivered returns the lines once the bubble is idle.
func (f *followed) delivered() []string {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.lines)
}

// followSource follows a source until the test ends. Deliver is asked first; nil takes everything.
func followSource(t *testing.T, log eventlog.Log, after string, since time.Time,
	refuse func(feed.Kind) error) *followed {
	f := &followed{}
	source := musttest.New(eventlog.NewSource(log, "acme"))
	f.stop = waittest.Run(t, func(ctx context.Context) error {
		return source.Follow(ctx, after, since, func(e feed.Event) error {
			if refuse != nil {
				if err := refuse(e.Kind); err != nil {
					return err
				}
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			f.lines = append(f.lines, lineOf(t, e))
			return nil
		})
	})
	return f
}

// text returns the data of an entry that says something.
func text(say string) []byte { return fmt.Appendf(nil, `{"type":"summary","summary":%q}`, say) }

func lineOf(t *testing.T, e feed.Event) string {
	switch e.Kind {
	case feed.Gap:
		return fmt.Sprintf("gap from %s to %s", e.Requested, e.Oldest)
	case feed.CaughtUp:
		return "heartbeat"
	case feed.Open:
		assert.True(t, e.Opened.Equal(time.Now().Truncate(time.Second)))
		return "open"
	}
	require.NoError(t, errorOf(eventlog.ParseID(e.ID)))
	var said struct{ Summary string }
	require.NoError(t, e.Decode(&said))
	return said.Summary
}

func appendN(t *testing.T, log eventlog.Log, entries ...eventlog.Entry) {
	t.Helper()
	require.NoError(t, log.Append(t.Context(), "acme", entries))
	synctest.Wait()
}

func TestSource_deliversRetainedEntriesAndThenNewOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newMemoryLog()
		appendN(t, log, eventlog.Entry{SessionID: "a", Data: text("1")}, eventlog.Entry{SessionID: "b", Data: text("2")})
		all := followSource(t, log, "", time.Unix(0, 0), nil)
		live := followSource(t, log, "", time.Time{}, nil)
		require.Equal(t, []string{"open", "1", "2", "heartbeat"}, all.delivered())
		require.Equal(t, []string{"open", "heartbeat"}, live.delivered())
		time.Sleep(time.Hour) // in which nothing wakes them
		appendN(t, log, eventlog.Entry{SessionID: "a", Data: text("3")})
		require.Equal(t, []string{"open", "1", "2", "heartbeat", "3", "heartbeat"}, all.delivered())
		require.Equal(t, []string{"open", "heartbeat", "3", "heartbeat"}, live.delivered())
		require.NoError(t, log.Close())
		synctest.Wait()
		require.ErrorIs(t, all.stop(), eventlog.ErrClosed)
	})
}

func TestSource_passesOverTheTypesThatClientsDoNotKnow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newMemoryLog()
		link := eventlog.Entry{SessionID: "a", Data: []byte(`{"type":"link","session_id":"a"}`)}
		appendN(t, log, link, eventlog.Entry{SessionID: "a", Data: text("1")}, link)
		f := followSource(t, log, "", time.Unix(0, 0), nil)
		require.Equal(t, []string{"open", "1", "heartbeat"}, f.delivered())
		appendN(t, log, link, eventlog.Entry{SessionID: "a", Data: text("2")})
		require.Equal(t, []string{"open", "1", "heartbeat", "2", "heartbeat"}, f.delivered())
		var types []string
		enough := errors.New("enough")
		require.ErrorIs(t, musttest.New(eventlog.NewSource(log, "acme")).Entries(t.Context(), eventlog.ID{},
			func(_ eventlog.ID, entries []eventlog.Entry) error {
				for _, e := range entries {
					types = append(types, feed.TypeOf(e.Data))
					b, err := e.Decode()
					require.NoError(t, err)
					require.Nil(t, b)
				}
				return enough
			}), enough)
		require.Equal(t, []string{"link", "summary", "link", "link", "summary"}, types, "views see them all")
	})
}

func TestSource_resumesAfterAnIDAndReportsGaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := musttest.New(memorylog.New(&memorylog.Options{Retention: eventlog.Retention{TTL: time.Hour}}))
		entries := []eventlog.Entry{{Data: text("1")}, {Data: text("2")}}
		appendN(t, log, entries...)
		first := entries[0].ID.String()
		require.Equal(t, []string{"open", "2", "heartbeat"}, followSource(t, log, first, time.Time{}, nil).delivered())
		time.Sleep(2 * time.Hour)
		late := []eventlog.Entry{{Data: text("3")}}
		appendN(t, log, late...)
		gap := fmt.Sprintf("gap from %s to %s", first, late[0].ID)
		require.Equal(t, []string{"open", gap, "3", "heartbeat"}, followSource(t, log, first, time.Time{}, nil).delivered())
		require.Equal(t, []string{"open", "3", "heartbeat"}, followSource(t, log, "", time.Unix(0, 0), nil).delivered(),
			"nothing was asked for that is missing")
	})
}

func TestSource_endsWithTheErrorOfDeliver(t *testing.T) {
	errFull := errors.New("full")
	for _, kind := range []feed.Kind{feed.Open, feed.Entry, feed.CaughtUp} {
		synctest.Test(t, func(t *testing.T) {
			log := newMemoryLog()
			appendN(t, log, eventlog.Entry{Data: text("1")})
			f := followSource(t, log, "", time.Unix(0, 0), func(k feed.Kind) error {
				if k == kind {
					return errFull
				}
				return nil
			})
			synctest.Wait()
			require.ErrorIs(t, f.stop(), errFull)
		})
	}
}

// The program's log has one line for an outage and source, not one for each attempt. The next outage
// has a line of its own.
func TestSource_waitsForStorageAndLogsAnOutageOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines logtest.Buffer
		log := &watchtest.Log{Log: newMemoryLog()}
		source := musttest.New(eventlog.NewSource(log, "acme"))
		source.Logger = slog.New(slog.NewTextHandler(&lines, nil))
		log.Down.Store(true)
		var delivered []string
		stop := waittest.Run(t, func(ctx context.Context) error {
			return source.Follow(ctx, "", time.Unix(0, 0), func(e feed.Event) error {
				delivered = append(delivered, lineOf(t, e))
				return nil
			})
		})
		for outage, want := range [][]string{{"open", "1", "heartbeat"}, {"2", "heartbeat"}} {
			log.Down.Store(true)
			delivered = nil
			appendN(t, log.Log, eventlog.Entry{Data: text(fmt.Sprint(outage + 1))})
			time.Sleep(time.Minute - 300*time.Millisecond) // to between two attempts, in both rounds
			require.Empty(t, delivered)
			require.Equal(t, outage+1, strings.Count(lines.String(), "log cannot be read"))
			log.Down.Store(false)
			time.Sleep(2 * time.Second)
			synctest.Wait()
			require.Equal(t, want, delivered)
		}
		require.ErrorIs(t, stop(), context.Canceled)
	})
}

func TestSource_Entries_givesPagesOfRetainedEntriesAndThenNewOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := musttest.New(memorylog.New(&memorylog.Options{Retention: eventlog.Retention{TTL: time.Hour}}))
		first := []eventlog.Entry{{SessionID: "trimmed", Data: text("1")}}
		appendN(t, log, first...)
		time.Sleep(2 * time.Hour)
		var many []eventlog.Entry
		for range 500 {
			many = append(many, eventlog.Entry{SessionID: "a", Data: text("2")})
		}
		appendN(t, log, many...)
		var seen []eventlog.Entry
		var trimmedTo, at eventlog.ID
		read := func(after eventlog.ID, enough error) error {
			seen = nil
			return musttest.New(eventlog.NewSource(log, "acme")).Entries(t.Context(), after,
				func(id eventlog.ID, entries []eventlog.Entry) error {
					if at = id; len(entries) == 0 {
						trimmedTo = at
					}
					seen = append(seen, entries...)
					if len(seen) >= 501 {
						return enough
					}
					return nil
				})
		}
		enough := errors.New("enough")
		done := make(chan error, 1)
		go func() { done <- read(eventlog.ID{}, enough) }()
		synctest.Wait()
		require.Len(t, seen, 500)
		require.Equal(t, seen[499].ID, at)
		require.Equal(t, first[0].ID, trimmedTo)
		appendN(t, log, eventlog.Entry{SessionID: "b", Data: text("3")})
		require.ErrorIs(t, <-done, enough)
		require.Equal(t, "b", seen[500].SessionID)

		require.NoError(t, log.Close())
		require.ErrorIs(t, read(seen[498].ID, enough), eventlog.ErrClosed)
		require.Len(t, seen, 2)
	})
}

func TestSource_Follow_saysWhenItBeganByTheClockOfTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &watchtest.Log{Log: newMemoryLog(), Skew: -time.Hour}
		defer log.Close()
		began := errors.New("began")
		err := musttest.New(eventlog.NewSource(log, "acme")).Follow(t.Context(), "", time.Time{}, func(e feed.Event) error {
			assert.Equal(t, log.Now().Truncate(time.Second), e.Opened)
			return began
		})
		require.ErrorIs(t, err, began)
	})
}

var _ stream.CursorStore = (*eventlog.Cursor)(nil)

func TestCursor_isKeptByProductAndName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newMemoryLog()
		cursor := func(productID, name string) *eventlog.Cursor {
			return musttest.New(eventlog.NewSource(log, productID)).Cursor(name)
		}
		mine := cursor("acme", "printer")
		saved, err := mine.Load(t.Context())
		require.NoError(t, err)
		require.Empty(t, saved)
		for _, place := range []string{"1-0", "2-0"} {
			require.NoError(t, mine.Save(t.Context(), place))
			saved, err = cursor("acme", "printer").Load(t.Context())
			require.NoError(t, err)
			assert.Equal(t, place, saved)
		}
		for _, other := range []*eventlog.Cursor{cursor("acme", "crm"), cursor("globex", "printer")} {
			saved, err = other.Load(t.Context())
			require.NoError(t, err)
			assert.Empty(t, saved)
		}
		time.Sleep(30*24*time.Hour - time.Nanosecond)
		assert.NotEmpty(t, musttest.New(mine.Load(t.Context())))
		time.Sleep(time.Nanosecond)
		assert.Empty(t, musttest.New(mine.Load(t.Context())), "30 days after its last save")
	})
}

// A reader that asks for the retained entries has no gap if some of them go before it reads them. Once
// it has read some, it is told of others that go.
func TestSource_tellsOfAGapOnlyWhereAnIDWasAskedFor(t *testing.T) {
	for name, test := range map[string]struct {
		byID bool
		want []feed.Kind
	}{
		"from a time": {false, []feed.Kind{feed.Open}},
		"from an ID":  {true, []feed.Kind{feed.Open, feed.Gap}},
	} {
		t.Run(name, func(t *testing.T) {
			log := newMemoryLog()
			after, enough := "", errors.New("enough")
			first := eventlogtest.Append(t, log, "acme", eventlogtest.Entries("a", 2)...)[0]
			if test.byID {
				after = first.ID.String()
			}
			var kinds []feed.Kind
			err := musttest.New(eventlog.NewSource(log, "acme")).Follow(t.Context(), after, time.Unix(0, 0),
				func(e feed.Event) error {
					kinds = append(kinds, e.Kind)
					switch e.Kind {
					case feed.Open:
						return log.Drop(t.Context(), "acme", 0)
					case feed.CaughtUp:
						eventlogtest.Append(t, log, "acme", eventlogtest.Entry("b", len(kinds)))
					case feed.Entry:
						eventlogtest.Append(t, log, "acme", eventlogtest.Entry("b", len(kinds)))
						return log.Drop(t.Context(), "acme", 0)
					}
					if len(kinds) > len(test.want)+2 {
						return enough
					}
					return nil
				})
			require.ErrorIs(t, err, enough)
			require.Equal(t, append(test.want, feed.CaughtUp, feed.Entry, feed.Gap), kinds)
		})
	}
}
