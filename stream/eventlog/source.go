package eventlog

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/internal/options"
	"github.com/liveactivity/liveactivity/internal/outage"
)

// Source is a product's log as a source for a consumer in the same process. Any number of
// calls may follow it concurrently, each with its own cursor.
type Source struct {
	// Logger logs the first of consecutive failed reads of the log; nil for slog.Default(). Set
	// it before use.
	Logger *slog.Logger

	log       Log
	productID string
	failing   atomic.Bool // the last read of the log failed
}

// NewSource returns the log of a product as a source. It reports all invalid
// arguments at once.
func NewSource(log Log, productID string) (*Source, error) {
	wrong := options.Mistakes{Package: "eventlog"}
	wrong.Require(log != nil, "log", "must not be nil")
	wrong.Require(productID != "", "productID", "must not be empty")
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	return &Source{log: log, productID: productID}, nil
}

// Follow calls deliver with every entry after the cursor, in order and one at
// a time, then with new ones, until ctx ends, the log is closed and read, or
// deliver returns an error; it returns that error. The cursor after is the ID
// of the last entry read; if empty, Follow starts with entries appended at
// since or later, and if that is zero, at the end of the log.
//
// An event is not always an entry: the first is a [feed.Open], a [feed.Gap] stands for lost entries, also
// after a cursor that is no ID, and a [feed.CaughtUp] for the end of the log. Follow skips entries of types
// that clients of the stream do not know; [Source.Entries] has all entries. The recipient may keep an event,
// but must not modify it.
//
// If the log cannot be read, Follow retries every second.
func (s *Source) Follow(ctx context.Context, after string, since time.Time, deliver func(feed.Event) error) error {
	f := &following{source: s, deliver: deliver, from: start{id: after, since: since}}
	see := f.see
	return follow(ctx, s.log, s.productID, func(ctx context.Context) (pace, error) {
		if !f.begun {
			return f.begin(ctx)
		}
		return s.advance(ctx, &f.cursor, see)
	})
}

// following is one call of Follow. Only one goroutine uses it.
type following struct {
	source  *Source
	deliver func(feed.Event) error
	from    start
	begun   bool
	lenient bool // trimmed entries are not a gap: nothing was read yet
	cursor  ID
}

// begin finds the first cursor and delivers "open", and then a gap if entries after the cursor
// are missing. It is called again until the log can be read.
func (f *following) begin(ctx context.Context) (pace, error) {
	opened := f.source.log.Now().Truncate(time.Second) // before the end of the log is looked up
	bounds, err := f.bounds(ctx)
	if err != nil {
		return f.source.retryRead(ctx, err)
	}
	var isGap bool
	f.cursor, isGap = f.from.cursor(bounds)
	f.begun, f.lenient = true, f.from.id == "" && !f.from.since.IsZero()
	if err := f.deliver(feed.Event{Kind: feed.Open, Opened: opened}); err != nil || !isGap {
		return pace{}, err
	}
	return pace{}, f.deliver(gapAfter(f.from.id, bounds.Oldest))
}

// bounds returns the bounds of the log after showing the cursor to the engine. A cursor beyond
// the newest entry may date from before a failover; the engine then continues after it. A
// program's own cursor is evidence of a failover, unlike an ID that a client of the stream names.
func (f *following) bounds(ctx context.Context) (Bounds, error) {
	b, err := f.source.log.Bounds(ctx, f.source.productID)
	if err != nil {
		return b, err
	}
	if id, err := ParseID(f.from.id); err != nil || id.Compare(b.Newest) <= 0 {
		return b, nil
	} else if _, err := f.source.log.Read(ctx, f.source.productID, id, make([]Entry, 1)); err != nil {
		return b, nil // the reader retries
	}
	return f.source.log.Bounds(ctx, f.source.productID)
}

// see delivers the entries that a client of the stream would get. An error of deliver ends
// Follow.
func (f *following) see(from ID, entries []Entry, gap *GapError) error {
	switch {
	case gap != nil && f.lenient:
		return nil
	case gap != nil:
		return f.deliver(gapAfter(from.String(), gap.Oldest))
	case len(entries) == 0:
		return f.deliver(feed.Event{Kind: feed.CaughtUp})
	}
	f.lenient = false
	for i := range entries {
		if e := &entries[i]; feed.IsPublic(e.Data) {
			if err := f.deliver(feed.Event{Message: e.Message()}); err != nil {
				return err
			}
		}
	}
	return nil
}

// gapAfter returns the event of a gap after a cursor; oldest is zero if nothing is retained.
func gapAfter(requested string, oldest ID) feed.Event {
	gap := newGap(requested, oldest)
	return feed.Event{Kind: feed.Gap, Requested: gap.Requested, Oldest: gap.Oldest}
}

// advance reads once after the cursor, moves it, and calls see with the entries after from.
// It passes no entries at the end of the log, and a gap if they are no longer retained. The
// slice is reused after the call. advance returns when to read again.
func (s *Source) advance(ctx context.Context, cursor *ID,
	see func(from ID, entries []Entry, gap *GapError) error) (next pace, err error) {
	into := entriesPool.Get().(*[readEntries]Entry)
	defer entriesPool.Put(into)
	from := *cursor
	n, err := s.log.Read(ctx, s.productID, from, into[:])
	defer clear(into[:n]) // the pool must not keep trimmed entries alive
	var gap *GapError
	switch {
	case errors.As(err, &gap):
		*cursor = gap.TrimmedTo
	case err != nil:
		return s.retryRead(ctx, err)
	case n == 0:
		next = pace{wait: math.MaxInt64, orChange: true} // an idle follower does not tick
	default:
		*cursor = into[n-1].ID
	}
	if err == nil {
		s.failing.Store(false)
	}
	return next, see(from, into[:n], gap)
}

// retryRead returns the pace of the next attempt after a failed read, or the error of a closed
// log. Only the first of consecutive failures is logged.
func (s *Source) retryRead(ctx context.Context, err error) (pace, error) {
	if errors.Is(err, ErrClosed) {
		return pace{}, err
	}
	if ctx.Err() == nil && !s.failing.Swap(true) {
		cmp.Or(s.Logger, slog.Default()).Log(ctx, outage.Level(err, slog.LevelWarn),
			"log cannot be read; retrying", "product_id", s.productID, "err", err)
	}
	return pace{wait: storageRetry}, nil
}

// Entries calls see with all entries after the cursor, of every type and in order, then with new
// ones: as many at a time as Read returns, along with the ID that it has reached. It runs until
// ctx ends, the log is closed and fully read, or see returns an error, and returns that error. If
// entries up to an ID are no longer retained, see gets that ID without entries. The slice is
// reused after the call, and the entries' memory, which is shared, must not be modified. If the
// log cannot be read, Entries retries every second.
func (s *Source) Entries(ctx context.Context, after ID, see func(at ID, entries []Entry) error) error {
	return follow(ctx, s.log, s.productID, func(ctx context.Context) (pace, error) {
		return s.advance(ctx, &after, func(_ ID, entries []Entry, gap *GapError) error {
			if gap == nil && len(entries) == 0 {
				return nil
			}
			return see(after, entries)
		})
	})
}
