package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
)

// followed is what a source delivered, a line for each event.
type followed struct {
	mu    sync.Mutex
	lines []string
	ended chan struct{} // closed when Follow has returned
	err   error         // of Follow, once it has
}

// delivered returns what was delivered once the bubble is idle.
func (f *followed) delivered() []string {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.lines)
}

// followSource follows a source until the test ends. Deliver is asked first; nil
// takes everything.
func followSource(t *testing.T, log eventlog.Log, after string, since time.Time, session string, refuse func(event string) error) *followed {
	f := &followed{ended: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(f.ended)
		f.err = musttest.New(eventlog.NewSource(log, "acme")).Follow(ctx, after, since, session, func(event, id string, data []byte) error {
			if refuse != nil {
				if err := refuse(event); err != nil {
					return err
				}
			}
			if event == "" {
				_, err := eventlog.ParseID(id)
				require.NoError(t, err)
			} else if event != "gap" {
				data = nil
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			f.lines = append(f.lines, event+string(data))
			return nil
		})
	}()
	t.Cleanup(func() { cancel(); <-f.ended })
	return f
}

func appendN(t *testing.T, log eventlog.Log, entries ...eventlog.Entry) {
	t.Helper()
	require.NoError(t, log.Append(t.Context(), "acme", entries))
	synctest.Wait()
}

func TestSource_deliversWhatIsThereAndThenWhatComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := musttest.New(memorylog.New(nil))
		appendN(t, log, eventlog.Entry{SessionID: "a", Data: []byte("1")}, eventlog.Entry{SessionID: "b", Data: []byte("2")})
		all := followSource(t, log, "", time.Unix(0, 0), "", nil)
		live := followSource(t, log, "", time.Time{}, "", nil)
		one := followSource(t, log, "", time.Unix(0, 0), "b", nil)
		require.Equal(t, []string{"open", "1", "2", "heartbeat"}, all.delivered())
		require.Equal(t, []string{"open", "heartbeat"}, live.delivered())
		require.Equal(t, []string{"open", "2", "heartbeat"}, one.delivered())
		appendN(t, log, eventlog.Entry{SessionID: "a", Data: []byte("3")})
		require.Equal(t, []string{"open", "1", "2", "heartbeat", "3", "heartbeat"}, all.delivered())
		require.Equal(t, []string{"open", "heartbeat", "3", "heartbeat"}, live.delivered())
		require.NotContains(t, one.delivered(), "3")
		require.NoError(t, log.Close())
		<-all.ended
		require.ErrorIs(t, all.err, eventlog.ErrClosed)
	})
}

func TestSource_resumesAfterAnIDAndReportsGaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := musttest.New(memorylog.New(&memorylog.Options{Retention: eventlog.Retention{TTL: time.Hour}}))
		entries := []eventlog.Entry{{Data: []byte("1")}, {Data: []byte("2")}}
		appendN(t, log, entries...)
		first := entries[0].ID.String()
		require.Equal(t, []string{"open", "2", "heartbeat"}, followSource(t, log, first, time.Time{}, "", nil).delivered())
		time.Sleep(2 * time.Hour)
		late := []eventlog.Entry{{Data: []byte("3")}}
		appendN(t, log, late...)
		gap := fmt.Sprintf(`gap{"requested":%q,"oldest":%q}`, first, late[0].ID)
		require.Equal(t, []string{"open", gap, "3", "heartbeat"}, followSource(t, log, first, time.Time{}, "", nil).delivered())
		require.Equal(t, []string{"open", "3", "heartbeat"}, followSource(t, log, "", time.Unix(0, 0), "", nil).delivered(), "nothing was asked for that is missing")
	})
}

func TestSource_endsWithTheErrorOfDeliver(t *testing.T) {
	errFull := errors.New("full")
	for _, event := range []string{"open", "", "heartbeat"} {
		synctest.Test(t, func(t *testing.T) {
			log := musttest.New(memorylog.New(nil))
			appendN(t, log, eventlog.Entry{Data: []byte("1")})
			f := followSource(t, log, "", time.Unix(0, 0), "", func(e string) error {
				if e == event {
					return errFull
				}
				return nil
			})
			<-f.ended
			require.ErrorIs(t, f.err, errFull)
		})
	}
}

// brokenLog cannot be read for a while.
type brokenLog struct {
	eventlog.Log
	until time.Time
}

func (b *brokenLog) Bounds(ctx context.Context, productID string) (eventlog.Bounds, error) {
	if time.Now().Before(b.until) {
		return eventlog.Bounds{}, errors.New("storage is away")
	}
	return b.Log.Bounds(ctx, productID)
}

func TestSource_waitsForStorage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &brokenLog{musttest.New(memorylog.New(nil)), time.Now().Add(time.Minute)}
		appendN(t, log, eventlog.Entry{Data: []byte("1")})
		f := followSource(t, log, "", time.Unix(0, 0), "", nil)
		time.Sleep(59 * time.Second)
		synctest.Wait()
		require.Empty(t, f.delivered())
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(t, []string{"open", "1", "heartbeat"}, f.delivered())
	})
}

func TestSource_Entries_givesPagesOfWhatIsRetainedAndThenWhatComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := musttest.New(memorylog.New(&memorylog.Options{Retention: eventlog.Retention{TTL: time.Hour}}))
		appendN(t, log, eventlog.Entry{SessionID: "trimmed", Data: []byte("1")})
		time.Sleep(2 * time.Hour)
		var many []eventlog.Entry
		for range 500 {
			many = append(many, eventlog.Entry{SessionID: "a", Data: []byte("2")})
		}
		appendN(t, log, many...)
		var seen []eventlog.Entry
		read := func(after eventlog.ID, enough error) error {
			seen = nil
			return musttest.New(eventlog.NewSource(log, "acme")).Entries(t.Context(), after, func(entries []eventlog.Entry) error {
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
		appendN(t, log, eventlog.Entry{SessionID: "b", Data: []byte("3")})
		require.ErrorIs(t, <-done, enough)
		require.Equal(t, "b", seen[500].SessionID)

		require.NoError(t, log.Close())
		require.ErrorIs(t, read(seen[498].ID, enough), eventlog.ErrClosed)
		require.Len(t, seen, 2)
	})
}

func TestSource_AwaitClose_returnsWhenTheLogIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := musttest.New(memorylog.New(nil))
		source := musttest.New(eventlog.NewSource(log, "acme"))
		ended := make(chan error, 2)
		go func() { ended <- source.AwaitClose(t.Context()) }()
		ctx, cancel := context.WithCancel(t.Context())
		go func() { ended <- source.AwaitClose(ctx) }()
		appendN(t, log, eventlog.Entry{SessionID: "a", Data: []byte("1")})
		time.Sleep(time.Hour)
		require.Empty(t, ended)
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		require.NoError(t, log.Close())
		require.ErrorIs(t, <-ended, eventlog.ErrClosed)
	})
}
