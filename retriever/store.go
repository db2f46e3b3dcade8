package retriever

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/stream"
)

// Defaults of [StoreOptions].
const (
	DefaultMaxSessions = 100_000
	DefaultMaxChunks   = 50
)

// StoreOptions are the bounds of a [Store]. A zero field means its default.
type StoreOptions struct {
	// MaxSessions is how many sessions are kept, and how many e-mail
	// addresses; the least recently written or read go first.
	MaxSessions int
	// MaxChunks is how many chunks of a session are kept; the oldest go first.
	MaxChunks int
	// TTL is how old a chunk may become; activity.DefaultTTL. Older ones are
	// never returned, and a session that has no other is forgotten.
	TTL time.Duration
}

// Store keeps the chunks of the sessions of one product in memory: the text of
// what was done in a batch, or of a summary. It is safe for concurrent use; a
// session's batches and summaries must be added one after the other for their
// order to be kept, as a [stream.Writer] does.
//
// Expired chunks are freed when their session is next written or read, and
// little by little as other sessions are written.
type Store struct {
	ttl       time.Duration
	maxChunks int

	mu       sync.Mutex
	sessions *simplelru.LRU[string, *session]
	emails   *simplelru.LRU[string, sighting] // by folded address
}

// sighting is where and when an e-mail address was seen last.
type sighting struct {
	sessionID string
	at        float64 // epoch seconds
}

// session is what is kept of one. Its actions are numbered from one in the
// order they were written.
type session struct {
	id      string
	chunks  []chunk // in the order they were written
	written int     // number of the last action
	summed  int     // number of the last action that a summary covers
}

// chunk is a record that is encoded once, so that a retrieval copies bytes and
// nothing else.
type chunk struct {
	record string // JSON object
	at     int64  // epoch microseconds
	last   int    // number of the last action it tells of
}

// NewStore returns an empty store; opts may be nil.
func NewStore(opts *StoreOptions) *Store {
	var o StoreOptions
	if opts != nil {
		o = *opts
	}
	sessions := positive(o.MaxSessions, DefaultMaxSessions)
	s := &Store{ttl: positive(o.TTL, activity.DefaultTTL), maxChunks: positive(o.MaxChunks, DefaultMaxChunks)}
	// NewLRU fails only for a size below one.
	s.sessions, _ = simplelru.NewLRU[string, *session](sessions, nil)
	s.emails, _ = simplelru.NewLRU[string, sighting](sessions, nil)
	return s
}

func positive[T cmp.Ordered](v, otherwise T) T {
	var zero T
	if v > zero {
		return v
	}
	return otherwise
}

// Learning returns a handler for a [stream.Consumer] that takes note of whose
// session each batch is, and then calls next: that of a Writer that writes with
// Add, or Add itself. From then on the e-mail addresses of the batch lead to its
// session and to no other, unless they were seen in a batch that was forwarded
// later. It must see batches as they come: a Writer merges them, and writes
// those of different sessions in any order.
func (s *Store) Learning(next func(ctx context.Context, b activity.Batch) error) func(ctx context.Context, b activity.Batch) error {
	return func(ctx context.Context, b activity.Batch) error {
		s.learn(b)
		return next(ctx, b)
	}
}

func (s *Store) learn(b activity.Batch) {
	if b.SessionID == "" {
		return
	}
	now := time.Now()
	seen := sighting{b.SessionID, b.ForwardedAt}
	if !(seen.at > activity.Seconds(now.Add(-maxAge)) && seen.at <= activity.Seconds(now)) {
		seen.at = activity.Seconds(now)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index(b.Email, seen)
	for _, a := range b.Actions {
		if a.Email != b.Email { // somebody else's
			s.index(a.Email, seen)
		}
	}
}

// Add keeps a batch as one chunk of its session; it is what a [stream.Writer]
// writes with. The session's oldest chunk is dropped when there are too many. A
// batch without a session id or without actions is not kept, nor is one that
// has expired before it came. Add never fails.
func (s *Store) Add(_ context.Context, b activity.Batch) error {
	now := time.Now()
	if b.SessionID == "" || len(b.Actions) == 0 || s.isExpired(b.ForwardedAt, now) {
		return nil
	}
	c := encode(b.Text(), s.believe(b.ForwardedAt, now))
	s.mu.Lock()
	defer s.mu.Unlock()
	ss := s.open(b.SessionID, now)
	ss.written += len(b.Actions)
	c.last = ss.written
	if len(ss.chunks) == s.maxChunks {
		ss.chunks = slices.Delete(ss.chunks, 0, 1)
	}
	ss.insert(len(ss.chunks), c)
	return nil
}

// maxAge is the age beyond which a time is taken for no time at all: no stream
// retains anything for as long.
const maxAge = 7 * 24 * time.Hour

// isExpired reports whether what was forwarded at that epoch second is too old
// to be kept.
func (s *Store) isExpired(forwardedAt float64, now time.Time) bool {
	return forwardedAt < activity.Seconds(now.Add(-s.ttl)) && forwardedAt > activity.Seconds(now.Add(-maxAge))
}

// Overwrite puts a summary in the place of what it sums up; it is what a
// [stream.Summarizer] writes with. What goes are the session's earlier summary
// and its oldest chunks whose actions are all among the sum.Replaces actions
// that follow those the earlier summary replaced, be they still here or
// dropped. Chunks that tell of a later action stay, as newer ones. If those are
// as many as a session may have, the oldest of them is dropped. The summary
// tells a time that is not after theirs. A session that is not known is made, other sessions are left as they are. A summary without a
// session id is not kept; one without text is an error and changes nothing.
func (s *Store) Overwrite(_ context.Context, sum stream.Summary) error {
	if sum.SessionID == "" {
		return nil
	}
	if strings.TrimSpace(sum.Text) == "" {
		return errors.New("retriever: overwrite: the summary is empty")
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	ss := s.open(sum.SessionID, now)
	ss.summed += min(max(sum.Replaces, 0), ss.written-ss.summed)
	ss.chunks = slices.DeleteFunc(ss.chunks, func(old chunk) bool { return old.last <= ss.summed })
	at := s.believe(sum.ForwardedAt, now)
	if len(ss.chunks) > 0 {
		at = min(at, ss.chunks[0].at)
	}
	c := encode(sum.Text, at)
	c.last = ss.summed
	if len(ss.chunks) == s.maxChunks {
		ss.chunks = slices.Delete(ss.chunks, 0, 1)
	}
	ss.insert(0, c)
	return nil
}

// believe returns when something was forwarded, in epoch microseconds: at that
// epoch second, or now if that is in the future or has expired.
func (s *Store) believe(forwardedAt float64, now time.Time) int64 {
	if forwardedAt >= activity.Seconds(now.Add(-s.ttl)) && forwardedAt <= activity.Seconds(now) {
		return int64(math.Round(forwardedAt * 1e6))
	}
	return now.UnixMicro()
}

// encode makes a chunk of text that was forwarded at that epoch microsecond.
func encode(text string, at int64) chunk {
	content, _ := activity.Marshal(text) // a string can always be encoded
	const before, between, after = `{"content":`, `,"score":1.0,"title":"events @ `, `"}`
	title := time.UnixMicro(at).UTC().Format("2006-01-02T15:04:05.000Z")
	return chunk{record: before + string(content) + between + title + after, at: at}
}

// open returns the session, a new one where none is held.
func (s *Store) open(id string, now time.Time) *session {
	s.sweep(now)
	if ss := s.find(id, now); ss != nil {
		return ss
	}
	ss := &session{id: id}
	s.sessions.Add(id, ss)
	return ss
}

// find returns the session, nil where none is held or all of it has expired.
func (s *Store) find(id string, now time.Time) *session {
	ss, ok := s.sessions.Get(id)
	if !ok || s.forget(ss, now) {
		return nil
	}
	return ss
}

// forget drops what has expired of a session that is held, and the session if
// nothing is left; it reports whether it did that.
func (s *Store) forget(ss *session, now time.Time) bool {
	oldest := now.Add(-s.ttl).UnixMicro()
	ss.chunks = slices.DeleteFunc(ss.chunks, func(c chunk) bool { return c.at < oldest })
	return len(ss.chunks) == 0 && s.sessions.Remove(ss.id)
}

// maxEmail is the longest e-mail address that is taken note of, in bytes: RFC
// 5321 allows 256.
const maxEmail = 320

// index takes note of where an e-mail address was seen, unless it was seen
// somewhere later.
func (s *Store) index(email string, seen sighting) {
	if email = foldEmail(email); email == "" || len(email) > maxEmail {
		return
	}
	if last, known := s.emails.Peek(email); !known || seen.at >= last.at {
		s.emails.Add(strings.Clone(email), seen)
	}
}

// foldEmail returns the form of an e-mail address that finds it.
func foldEmail(email string) string { return strings.ToLower(strings.TrimSpace(email)) }

// sweep frees some of what has expired. More goes than comes, as it is called
// for each batch.
func (s *Store) sweep(now time.Time) {
	for range 2 {
		if _, ss, ok := s.sessions.GetOldest(); ok {
			s.forget(ss, now)
		}
	}
}

// insert adds a chunk without setting more memory aside than is likely needed.
func (ss *session) insert(at int, c chunk) {
	if n := len(ss.chunks); n == cap(ss.chunks) {
		ss.chunks = slices.Grow(ss.chunks, max(2, n/2))
	}
	ss.chunks = slices.Insert(ss.chunks, at, c)
}

// SessionOf returns the session that the e-mail address was last seen in,
// whatever its case and the space around it, while that session is held. That
// an older session of the same address is still held does not count.
func (s *Store) SessionOf(email string) (sessionID string, ok bool) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	seen, ok := s.emails.Get(foldEmail(email))
	if !ok {
		return "", false
	}
	ss, ok := s.sessions.Peek(seen.sessionID)
	if !ok || s.forget(ss, now) {
		return "", false
	}
	return ss.id, true
}

// Sessions returns how many sessions are held, among them some that have
// expired and are not freed yet.
func (s *Store) Sessions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions.Len()
}

// appendRecords appends the session's newest records, at most limit of them,
// newest first, with commas between them. Each ends in end instead of "}".
func (s *Store) appendRecords(dst []byte, sessionID string, limit int, end string) []byte {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	ss := s.find(sessionID, now)
	if ss == nil {
		return dst
	}
	newest := ss.chunks[max(0, len(ss.chunks)-limit):]
	for i, c := range slices.Backward(newest) {
		dst = append(dst, c.record[:len(c.record)-1]...)
		dst = append(dst, end...)
		if i > 0 {
			dst = append(dst, ',')
		}
	}
	return dst
}
