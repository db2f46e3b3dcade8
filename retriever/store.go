package retriever

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/fair"
	"github.com/liveactivity/liveactivity/internal/memlimit"
	"github.com/liveactivity/liveactivity/internal/options"
	"github.com/liveactivity/liveactivity/stream"
)

// Defaults of [StoreOptions].
const (
	DefaultMaxSessions = 100_000
	DefaultMaxChunks   = 50
)

// StoreOptions limit a [Store]. A zero field means its default.
type StoreOptions struct {
	// MaxSessions is the maximum number of sessions, and of email addresses;
	// the least recently written or read are evicted first.
	MaxSessions int
	// MaxBytes bounds the memory of sessions and email addresses; the default
	// is two fifths of the memory that the process may use. Beyond it, the
	// least recently written or read are evicted first.
	MaxBytes int64
	// MaxChunks is the maximum number of chunks per session; the oldest are
	// dropped first.
	MaxChunks int
	// TTL is the maximum age of a chunk; activity.DefaultTTL. Older chunks are
	// never returned, and a session without any newer chunk is forgotten.
	TTL time.Duration
}

// Store keeps the chunks of one product's sessions in memory. A chunk is the
// text of a batch or of a summary. Its methods are safe for concurrent use. To
// keep their order, a session's batches and summaries must be added one after
// the other, as a [stream.Writer] does.
//
// Expired chunks are freed when their session is next written or read, and
// gradually as other sessions are written.
type Store struct {
	ttl       time.Duration
	maxChunks int

	mu       sync.Mutex
	sessions *fair.Cache[string, *session]
	emails   *fair.Cache[string, seen] // keyed by folded address
}

// session holds a session's chunks. It numbers the session's actions from one,
// in the order they were written.
type session struct {
	id      string
	chunks  []chunk // in the order they were written
	written int     // number of the last action
	summed  int     // number of the last action that a summary covers
}

// seen is the session in which an address was last seen, and the session's user
// then.
type seen struct{ session, user string }

// chunk is the text of a batch or of a summary.
type chunk struct {
	text string
	at   int64  // epoch microseconds
	last int    // number of its last action, or unsummed
	user string // of all its actions; empty if unknown or mixed
}

// record is a chunk in an answer.
type record struct {
	Content  string      `json:"content"`
	Score    json.Number `json:"score"`
	Title    string      `json:"title"`
	Metadata *struct{}   `json:"metadata,omitempty"` // Dify wants an object
}

// NewStore returns an empty store; opts may be nil. Its error joins all invalid
// options.
func NewStore(opts *StoreOptions) (*Store, error) {
	o := *cmp.Or(opts, &StoreOptions{})
	wrong := options.Mistakes{Package: "retriever"}
	sessions := options.Default(&wrong, "MaxSessions", o.MaxSessions, DefaultMaxSessions)
	s := &Store{ttl: options.Default(&wrong, "TTL", o.TTL, activity.DefaultTTL),
		maxChunks: options.Default(&wrong, "MaxChunks", o.MaxChunks, DefaultMaxChunks)}
	bytes := options.Default(&wrong, "MaxBytes", o.MaxBytes, memlimit.Kept())
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	emails := bytes / 8
	s.sessions = fair.New[string, *session](&fair.Options{MaxItems: sessions, MaxBytes: bytes - emails}, nil)
	s.emails = fair.New[string, seen](&fair.Options{MaxItems: sessions, MaxBytes: emails}, nil)
	return s, nil
}

// keep stores the session as the most recently used one.
func (s *Store) keep(ss *session) {
	item := fair.Item{Bytes: fair.Size(unsafe.Sizeof(*ss)) + fair.Size(len(ss.id)) +
		fair.Size(cap(ss.chunks)*int(unsafe.Sizeof(chunk{}))), Due: 1}
	for _, c := range ss.chunks {
		item.Bytes += fair.Size(len(c.text)) + fair.Size(len(c.user))
		item.Due = max(item.Due, c.at+s.ttl.Microseconds()+1)
	}
	s.sessions.Put(fair.NoProduct, ss.id, ss, item)
	s.sessions.Trim(fair.NoProduct)
}

// Learning returns a handler for [stream.Handlers].Deliver that passes each batch
// to Learn and then calls next, the Deliver method of a [stream.Writer]. The
// consumer calls the handler in the order of the stream, which a Writer's writes
// do not keep across sessions. The handler also forgets the addresses of erased
// persons.
func (s *Store) Learning(
	next func(ctx context.Context, d *stream.Delivery) error,
) func(ctx context.Context, d *stream.Delivery) error {
	return func(ctx context.Context, d *stream.Delivery) error {
		if b, err := d.Batch(); err == nil {
			s.Learn(b)
		} else if e, err := d.Erasure(); err == nil {
			s.unlearn(e)
		}
		return next(ctx, d)
	}
}

// Learn records the user of a batch's session. From then on the batch's email
// addresses lead to that session and no other: the last call wins. Call it with
// batches as they arrive, because a Writer merges them.
func (s *Store) Learn(b activity.Batch) {
	if b.SessionID == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index(b.Email, seen{b.SessionID, b.UserID})
	for _, a := range b.Actions {
		if a.Email != b.Email { // another user's address
			s.index(a.Email, seen{b.SessionID, a.UserID})
		}
	}
}

// unlearn forgets the addresses of an erased person.
func (s *Store) unlearn(e stream.Erasure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.emails.Each(fair.NoProduct, func(held *fair.Entry[string, seen]) bool {
		if e.Erases(held.Value.session, held.Value.user) || e.HasEmail(held.Key()) {
			s.emails.Remove(fair.NoProduct, held.Key())
		}
		return true
	})
}

// Erase drops the chunks of a person's sessions. It is for the Erase option of a
// [stream.Writer]. In a session shared with others, it keeps the chunks that are
// entirely by one other user. It never fails.
func (s *Store) Erase(_ context.Context, e stream.Erasure) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range e.SessionIDs {
		ss, ok := s.sessions.Get(fair.NoProduct, id)
		if !ok {
			continue
		}
		ss.chunks = slices.DeleteFunc(ss.chunks, func(c chunk) bool { return c.user == "" || e.Erases(id, c.user) })
		if len(ss.chunks) == 0 {
			s.sessions.Remove(fair.NoProduct, id)
		} else {
			ss.beginAnew()
			s.keep(ss)
		}
	}
	return nil
}

// unsummed stands for the last action of a chunk that no summary will cover.
const unsummed = math.MaxInt

// beginAnew restarts the numbering of actions at one, as a [stream.Summarizer] does after an
// erasure. Later summaries do not cover the earlier actions, so the chunks of those stay.
func (ss *session) beginAnew() {
	ss.written, ss.summed = 0, 0
	for i := range ss.chunks {
		ss.chunks[i].last = unsummed
	}
}

// userOf returns the user of all actions of a batch, or "" if there are
// several.
func userOf(b *activity.Batch) string {
	for i := range b.Actions {
		if b.Actions[i].UserID != b.Actions[0].UserID {
			return ""
		}
	}
	return strings.Clone(b.Actions[0].UserID)
}

// Add stores a batch as one chunk of its session. It is the write function for a
// [stream.Writer]. Beyond MaxChunks it drops the session's oldest chunk. It
// ignores a batch that has expired, or has no session ID or no actions. It never
// fails.
func (s *Store) Add(_ context.Context, b activity.Batch) error {
	now := time.Now()
	at, expired := s.forwarded(b.ForwardedAt, now)
	if b.SessionID == "" || len(b.Actions) == 0 || expired {
		return nil
	}
	c := chunk{text: strings.Clone(b.Text()), at: at, user: userOf(&b)}
	s.mu.Lock()
	defer s.mu.Unlock()
	ss := s.open(b.SessionID, now)
	ss.written += len(b.Actions)
	c.last = ss.written
	ss.insert(len(ss.chunks), c, s.maxChunks)
	s.keep(ss)
	return nil
}

// Overwrite replaces chunks with a summary of them. It is the overwrite function for a
// [stream.Summarizer]. It removes the session's earlier summary and its oldest chunks whose
// actions are all among the next sum.Replaces actions, counted from the end of the earlier
// summary and including dropped ones. Chunks with a later action stay and count as newer; if
// they fill the session, the oldest of them is dropped. The summary is no newer than the newest
// chunk that it replaces, so it lives no longer, and no newer than the chunks that stay. An
// unknown session is created; other sessions do not change. A summary without a session ID is
// ignored. One without text is an error and changes nothing.
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
	at, _ := s.forwarded(sum.ForwardedAt, now)
	place, at := ss.replace(max(sum.Replaces, 0), at)
	ss.insert(place, chunk{text: strings.Clone(sum.Text), at: at, last: ss.summed}, s.maxChunks)
	s.keep(ss)
	return nil
}

// replace drops the chunks that a summary of the next actions replaces. It returns the summary's
// index, after the chunks that no summary covers, and its time: at or, if earlier, the time of the
// newest dropped chunk or of the oldest chunk that stays after it.
func (ss *session) replace(actions int, at int64) (place int, _ int64) {
	ss.summed += min(actions, ss.written-ss.summed)
	newest := at
	ss.chunks = slices.DeleteFunc(ss.chunks, func(old chunk) bool {
		if old.last > ss.summed {
			return false
		}
		newest = old.at // the last one is the newest
		return true
	})
	for place < len(ss.chunks) && ss.chunks[place].last == unsummed {
		place++
	}
	if place < len(ss.chunks) {
		at = min(at, ss.chunks[place].at)
	}
	return place, min(at, newest)
}

// forwarded converts a time from epoch seconds to epoch microseconds. It returns now if that time
// has expired, is in the future or is missing. A missing time does not count as expired.
func (s *Store) forwarded(at float64, now time.Time) (micros int64, expired bool) {
	micros = int64(math.Round(at * 1e6))
	if expired = micros < now.Add(-s.ttl).UnixMicro(); expired || micros > now.UnixMicro() {
		return now.UnixMicro(), expired && micros > 0
	}
	return micros, false
}

// open returns the session, or a new one that the caller must keep.
func (s *Store) open(id string, now time.Time) *session {
	s.sweep(now)
	if ss := s.find(id, now); ss != nil {
		return ss
	}
	return &session{id: strings.Clone(id)}
}

// find returns the session without its expired chunks, or nil if it is not held or has completely
// expired.
func (s *Store) find(id string, now time.Time) *session {
	ss, ok := s.sessions.Get(fair.NoProduct, id)
	if !ok {
		return nil
	}
	oldest := now.Add(-s.ttl).UnixMicro()
	ss.chunks = slices.DeleteFunc(ss.chunks, func(c chunk) bool { return c.at < oldest })
	if len(ss.chunks) == 0 {
		s.sessions.Remove(fair.NoProduct, id)
		return nil
	}
	return ss
}

// index records where an email address was seen. A later call replaces it.
func (s *Store) index(email string, in seen) {
	if email = foldEmail(email); email != "" {
		s.keepEmail(strings.Clone(email), seen{strings.Clone(in.session), strings.Clone(in.user)})
	}
}

// keepEmail stores the address as the most recently used one.
func (s *Store) keepEmail(email string, in seen) {
	s.emails.Put(fair.NoProduct, email, in, fair.Item{
		Bytes: fair.Size(len(email)) + fair.Size(len(in.session)) + fair.Size(len(in.user))})
	s.emails.Trim(fair.NoProduct)
}

// foldEmail returns the form of an email address under which it is stored.
func foldEmail(email string) string { return strings.ToLower(strings.TrimSpace(email)) }

// sweep frees up to two expired sessions. It is called for each batch, so it
// frees them faster than they arrive.
func (s *Store) sweep(now time.Time) {
	for range 2 {
		if expired := s.sessions.Due(now.UnixMicro()); expired != nil {
			expired.Remove()
		}
	}
}

// insert adds a chunk and allocates little more memory than is likely needed.
// At the limit it drops the oldest chunk.
func (ss *session) insert(at int, c chunk, limit int) {
	if len(ss.chunks) == limit {
		ss.chunks = slices.Delete(ss.chunks, 0, 1)
		at = max(0, at-1)
	}
	if n := len(ss.chunks); n == cap(ss.chunks) {
		ss.chunks = slices.Grow(ss.chunks, max(2, n/2))
	}
	ss.chunks = slices.Insert(ss.chunks, at, c)
}

// SessionOf returns the session in which the email address was last seen, if
// that session is still held. It ignores the address's case and surrounding
// white space. It never falls back to an older session of the same address.
func (s *Store) SessionOf(email string) (sessionID string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	email = foldEmail(email)
	last, ok := s.emails.Get(fair.NoProduct, email)
	if !ok {
		return "", false
	}
	s.keepEmail(email, last) // it is used
	ss := s.find(last.session, time.Now())
	if ss == nil {
		return "", false
	}
	return ss.id, true
}

// Sessions returns how many sessions are held, including expired ones that are
// not freed yet.
func (s *Store) Sessions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions.Len()
}

// records returns the session's newest records, at most limit of them, newest first and never
// nil.
func (s *Store) records(sessionID string, limit int) []record {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	found := []record{}
	ss := s.find(sessionID, now)
	if ss == nil {
		return found
	}
	s.keep(ss) // it is used
	for _, c := range slices.Backward(ss.chunks[max(0, len(ss.chunks)-limit):]) {
		found = append(found, record{Content: c.text, Score: "1.0",
			Title: "events @ " + time.UnixMicro(c.at).UTC().Format("2006-01-02T15:04:05.000Z")})
	}
	return found
}
