package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/liveactivity/liveactivity/activity"
)

// maxMerged is how many actions of a session wait for a pause, or for a link.
const maxMerged = 500

// WriterOptions of a [Writer]. A zero field means its default.
type WriterOptions struct {
	// Debounce is how long a session must be quiet before what waits is
	// written as one batch. With zero each batch is written at once, by itself.
	Debounce time.Duration
	// Summarizer sums up what was written. Without one it is only written.
	Summarizer *Summarizer
	// AwaitLink keeps what a session does until it is known which conversation
	// it belongs to.
	AwaitLink bool
	// MaxPending is how many batches wait or are being written, of all
	// sessions together; half of DefaultMaxPending, less than a [Consumer] has
	// in hand. When there are as many nothing waits for a pause any longer,
	// and Add waits for a write.
	MaxPending int
	// MaxSessions is how many sessions that wait for a link, or have one, are
	// remembered; the least recently used go first; DefaultMaxSessions.
	MaxSessions int
	// Logger is told of writes that fail; nil for silence.
	Logger *slog.Logger
}

// Writer hands batches over to a write function, such as one that appends to a
// store or posts a note. Add takes them, Run writes them.
//
// # When
//
// A session's batches wait until none has come for the time of Debounce, or
// until they hold 500 actions or have waited for ten times as long; then they
// are written as one, as [activity.Merge] makes it. Batches that were forwarded further apart than
// Debounce are not made one, however fast they come: what is read back from a
// stream is written as it was when it was new.
//
// # In which order
//
// The writes of one session never overlap, and are in the order in which the
// batches were added. Sessions do not wait for each other. What is done
// outside any session is written by user, and not merged at all where the
// user is not known either.
//
// # When it fails
//
// A write that fails is repeated, with the same batch, after 1 s, 2 s, 4 s and
// so on up to 30 s, each give or take a fifth, until it succeeds or Run ends;
// what comes meanwhile is gathered for the next write, up to 500 actions. The function may therefore
// see a batch again that it failed on. A batch that was added from a
// [Consumer] counts as finished once it is written: until then the consumer's
// cursor does not pass it, so after a restart it comes again.
//
// # Summaries
//
// What was written is handed to the Summarizer. The built-in summary is made
// before the session's next write, so it covers the same batches each time a
// stream is read back. A model at work does not hold up writes, and its summary
// replaces only what was written before it was asked. The Summarizer's overwrite is never called while a write of the same
// session is under way, nor the other way round. The Summarizer must be given
// batches by this Writer only.
//
// # Links
//
// A session is linked to a conversation by [Writer.SessionLinked], or by the
// first batch that carries a ConversationID. The first link stays: from then on
// each batch of the session, and each action in it, is written with that
// ConversationID. With AwaitLink nothing of a session is written before; its
// newest 500 actions wait in memory, and are then written at once, as one
// batch. To a consumer they count as finished, and they are lost with the
// process. What is done outside any session cannot be linked: with AwaitLink
// it is dropped unless it carries a ConversationID.
type Writer struct {
	write      func(ctx context.Context, b activity.Batch) error
	debounce   time.Duration
	summarizer *Summarizer
	awaitLink  bool
	logger     *slog.Logger
	slots      chan struct{} // one in it for each batch pending
	woken      chan struct{} // full when there are idle sessions

	mu       sync.Mutex
	sessions map[writerKey]*writerSession // those with something to do
	idle     []*writerSession             // those without a goroutine
	links    links
	nobodys  uint64 // batches of nobody so far
}

// NewWriter returns a writer; opts may be nil. Write should return soon after
// its ctx has ended, and must not change the batch it is given. Nothing is
// written before Run.
func NewWriter(write func(ctx context.Context, b activity.Batch) error, opts *WriterOptions) *Writer {
	var o WriterOptions
	if opts != nil {
		o = *opts
	}
	w := &Writer{write: write, debounce: max(o.Debounce, 0), summarizer: o.Summarizer, awaitLink: o.AwaitLink, logger: o.Logger,
		slots: make(chan struct{}, orDefault(o.MaxPending, DefaultMaxPending/2)), woken: make(chan struct{}, 1),
		sessions: map[writerKey]*writerSession{}, links: newLinks(orDefault(o.MaxSessions, DefaultMaxSessions))}
	if w.logger == nil {
		w.logger = slog.New(slog.DiscardHandler)
	}
	return w
}

// Add takes a batch, which must not be changed afterwards, and returns before
// it is written. It waits while MaxPending batches are pending; when ctx ends
// it returns an error and has not taken the batch. It fails for no other
// reason. The batches of one session must be added one after the other.
func (w *Writer) Add(ctx context.Context, b activity.Batch) error {
	if len(b.Actions) == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case w.slots <- struct{}{}:
	default:
		w.rush()
		select {
		case w.slots <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	release := hold(ctx)
	if pending := w.take(b, release); !pending {
		<-w.slots
		release()
	}
	return nil
}

// rush lets nothing wait for a pause.
func (w *Writer) rush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.sessions {
		if n := len(s.waiting); n > 0 {
			s.waiting[n-1].now = true
			signal(s.wake)
		}
	}
}

// take takes a batch, and reports false when it needs no write for now.
func (w *Writer) take(b activity.Batch, release func()) (pending bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	conversationID := b.ConversationID
	var freed []activity.Batch
	if b.SessionID != "" {
		conversationID, freed = w.links.follow(b)
		w.free(freed, conversationID)
	}
	if conversationID == "" && w.awaitLink {
		w.links.wait(b)
		return false
	}
	s := w.session(w.keyOf(b))
	p := s.pileFor(b, w.debounce, freed != nil)
	p.add(b, conversationID, time.Now(), w.debounce)
	p.slots++
	p.done = append(p.done, release)
	w.serveSoon(s)
	return true
}

// free makes what waited for a link wait for its write, as one batch. It is not
// counted as pending: who links a session must not wait for others.
func (w *Writer) free(batches []activity.Batch, conversationID string) {
	for _, b := range batches {
		s := w.session(w.keyOf(b))
		if len(s.waiting) == 0 {
			s.waiting = append(s.waiting, &pile{now: true})
		}
		s.waiting[len(s.waiting)-1].add(b, conversationID, time.Now(), 0)
		w.serveSoon(s)
	}
}

// keyOf returns under which key a batch waits. What nobody did outside any
// session has one of its own.
func (w *Writer) keyOf(b activity.Batch) writerKey {
	switch {
	case b.SessionID != "":
		return writerKey{product: b.ProductID, session: b.SessionID}
	case b.UserID != "":
		return writerKey{product: b.ProductID, user: b.UserID}
	}
	w.nobodys++
	return writerKey{product: b.ProductID, nobody: w.nobodys}
}

// session returns the session of a key, which has something to do now.
func (w *Writer) session(key writerKey) *writerSession {
	s, ok := w.sessions[key]
	if !ok {
		s = &writerSession{key: key, wake: make(chan struct{}, 1), guard: make(chan struct{}, 1)}
		w.sessions[key] = s
	}
	return s
}

// serveSoon makes sure that a session with something to do has a goroutine,
// and that this one notices what is due now.
func (w *Writer) serveSoon(s *writerSession) {
	switch {
	case !s.served:
		s.served = true
		w.idle = append(w.idle, s)
		signal(w.woken)
	case s.wait(time.Now()) <= 0:
		signal(s.wake)
	}
}

// signal fills a channel of capacity one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// SessionLinked links a session to a conversation, before or after its first
// action, and returns before anything is written. The same link again is nil;
// when the session is linked to another conversation, SessionLinked changes
// nothing and returns a *LinkError.
func (w *Writer) SessionLinked(ctx context.Context, sessionID, conversationID string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if sessionID == "" || conversationID == "" {
		return errEmptyLink
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	freed, err := w.links.set(sessionID, conversationID)
	w.free(freed, conversationID)
	return err
}

// errEmptyLink is of a link without one of its ends.
var errEmptyLink = errors.New("stream: a link needs a session id and a conversation id")

// LinkError says that a session is linked to another conversation.
type LinkError struct {
	SessionID      string
	ConversationID string // the one it is linked to
}

func (e *LinkError) Error() string {
	return fmt.Sprintf("stream: session %q is linked to conversation %q", e.SessionID, e.ConversationID)
}

// Flush writes what waits for a pause now, and returns when that and what was
// being written is written, or when ctx ends. What waits for a link stays. It
// needs Run to be under way, and returns no earlier than a write that is being
// repeated succeeds.
func (w *Writer) Flush(ctx context.Context) error {
	for _, written := range w.hurry() {
		select {
		case <-written:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// hurry makes everything due that waits, and returns channels that are closed
// when it is written.
func (w *Writer) hurry() (all []chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.sessions {
		last := s.writing
		if n := len(s.waiting); n > 0 {
			last = s.waiting[n-1]
			last.now = true
			signal(s.wake)
		}
		if last == nil {
			continue
		}
		written := make(chan struct{})
		last.done = append(last.done, func() { close(written) })
		all = append(all, written)
	}
	return all
}

// Run writes what is added until ctx ends, and then returns the error of ctx,
// after every call under way has returned. Those calls are given a ctx that
// ends with it; no further one begins. What is not written then goes on with
// the next Run, if there is one.
func (w *Writer) Run(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	for ctx.Err() == nil {
		select {
		case <-w.woken:
			for _, s := range w.takeIdle() {
				all.Go(func() { w.serve(ctx, &all, s) })
			}
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

func (w *Writer) takeIdle() []*writerSession {
	w.mu.Lock()
	defer w.mu.Unlock()
	idle := w.idle
	w.idle = nil
	return idle
}

// serve writes what waits in a session until nothing does.
func (w *Writer) serve(ctx context.Context, all *sync.WaitGroup, s *writerSession) {
	for w.await(ctx, s) {
		b := s.writing.batch()
		if !w.repeat(ctx, s, b) {
			continue // ctx has ended
		}
		if w.summarizer != nil {
			w.sumUp(ctx, all, s, b)
		}
		w.written(s)
	}
}

// await returns when something of the session is to be written; it reports
// false when the session has nothing to do any more, and when ctx has ended.
func (w *Writer) await(ctx context.Context, s *writerSession) bool {
	for ctx.Err() == nil {
		wait, ok := w.due(s)
		if !ok || wait <= 0 {
			return ok
		}
		select {
		case <-time.After(wait):
		case <-s.wake:
		case <-ctx.Done():
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.idle = append(w.idle, s)
	signal(w.woken)
	return false
}

// due returns how long to wait before what waits in a session is written. When
// that is now, it is being written from here on; when nothing waits, the
// session has no goroutine from here on.
func (w *Writer) due(s *writerSession) (wait time.Duration, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.writing != nil {
		return 0, true // since an earlier Run
	}
	if len(s.waiting) == 0 {
		s.served = false
		w.forget(s)
		return 0, false
	}
	if wait = s.wait(time.Now()); wait <= 0 {
		s.writing = s.next()
	}
	return wait, true
}

// forget drops a session that has nothing to do.
func (w *Writer) forget(s *writerSession) {
	if !s.served && s.summing == 0 {
		delete(w.sessions, s.key)
	}
}

// repeat writes a batch until that succeeds; it reports false when ctx ended
// before.
func (w *Writer) repeat(ctx context.Context, s *writerSession, b activity.Batch) bool {
	var pauses *backoff.ExponentialBackOff
	for {
		err := w.attempt(ctx, s, b)
		if err == nil || ctx.Err() != nil {
			return err == nil
		}
		if pauses == nil {
			w.failing(s)
			pauses = newBackOff(DefaultMinBackoff, DefaultMaxBackoff)
		}
		pause := pauses.NextBackOff()
		w.logger.Warn("write failed and is repeated", "product_id", b.ProductID, "session_id", b.SessionID, "pause", pause, "err", err)
		if sleep(ctx, pause) != nil {
			return false
		}
	}
}

// failing notes that a write is repeated.
func (w *Writer) failing(s *writerSession) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.failed = true
}

// attempt writes a batch once, while the session's summary is not overwritten.
func (w *Writer) attempt(ctx context.Context, s *writerSession, b activity.Batch) error {
	select {
	case s.guard <- struct{}{}:
		defer func() { <-s.guard }()
	case <-ctx.Done():
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return w.write(ctx, b)
}

// sumUp hands what was written to the summarizer. Where a summary is due it is
// made before the next write, or beside further ones if a model is to write it.
func (w *Writer) sumUp(ctx context.Context, all *sync.WaitGroup, s *writerSession, b activity.Batch) {
	h := w.summarizer.note(b)
	switch {
	case h == nil:
		return
	case w.summarizer.model == nil:
		w.summarizer.work(ctx, h, s.guard)
		return
	}
	w.summing(s, 1)
	all.Go(func() {
		defer w.summing(s, -1)
		w.summarizer.work(ctx, h, s.guard)
	})
}

// summing counts the summaries under way in a session, which is not forgotten
// meanwhile: its guard is in use.
func (w *Writer) summing(s *writerSession, change int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.summing += change
	w.forget(s)
}

// written tells whom it concerns that what was being written is written.
func (w *Writer) written(s *writerSession) {
	w.mu.Lock()
	p := s.writing
	s.writing = nil
	w.mu.Unlock()
	for range p.slots {
		<-w.slots
	}
	callAll(p.done)
}

// callAll makes the calls at the same time, so that they can share the cost of
// a commit, and waits for them.
func callAll(calls []func()) {
	var others sync.WaitGroup
	defer others.Wait()
	for i, call := range calls {
		if i == len(calls)-1 {
			call()
			return
		}
		others.Go(call)
	}
}

// writerKey is whose batches are merged: those of a session, of a user outside
// any session, or a single one of nobody.
type writerKey struct {
	product, session, user string
	nobody                 uint64
}

// writerSession is what there is to do for a key. The writer's mutex guards
// it, but for the channels.
type writerSession struct {
	key     writerKey
	waiting []*pile       // for their writes, in order; more is added to the last one only
	writing *pile         // nil for nothing
	failed  bool          // what is being written had to be repeated
	served  bool          // has a goroutine, or will have one
	summing int           // summaries under way
	wake    chan struct{} // full when its goroutine must look again
	guard   chan struct{} // full during a write and during an overwrite
}

// wait returns how long the first pile, which there must be, waits for more.
func (s *writerSession) wait(now time.Time) time.Duration {
	if len(s.waiting) > 1 {
		return 0
	}
	return s.waiting[0].wait(now)
}

// next takes the first pile. After a write that had to be repeated it is joined
// by those that have gathered.
func (s *writerSession) next() *pile {
	p := s.waiting[0]
	n := 1
	for ; s.failed && n < len(s.waiting) && p.actions < maxMerged; n++ {
		p.join(s.waiting[n])
	}
	s.waiting = slices.Delete(s.waiting, 0, n)
	s.failed = false
	return p
}

// pileFor returns the pile that a batch belongs on: the last one, if that is to
// be joined or takes it, or a new one.
func (s *writerSession) pileFor(b activity.Batch, debounce time.Duration, join bool) *pile {
	if n := len(s.waiting); n == 0 || !join && !s.waiting[n-1].takes(b, debounce) {
		s.waiting = append(s.waiting, &pile{})
	}
	return s.waiting[len(s.waiting)-1]
}

// pile is what is written as one batch.
type pile struct {
	batches        []activity.Batch
	actions        int     // in the batches
	conversationID string  // empty while it is not known
	forwardedAt    float64 // of the newest batch
	due, latest    time.Time
	now            bool     // due already
	slots          int      // that the batches take
	done           []func() // to call when it is written
}

// takes reports whether a batch may be written together with the pile.
func (p *pile) takes(b activity.Batch, debounce time.Duration) bool {
	return debounce > 0 && p.actions < maxMerged && b.ForwardedAt-p.forwardedAt <= debounce.Seconds()
}

// maxWaits is how many times the debounce a pile waits for a pause at most.
const maxWaits = 10

// add puts a batch on the pile, which becomes due after the debounce unless
// more comes.
func (p *pile) add(b activity.Batch, conversationID string, now time.Time, debounce time.Duration) {
	if len(p.batches) == 0 {
		p.latest = now.Add(maxWaits * debounce)
	}
	p.batches = append(p.batches, b)
	p.actions += len(b.Actions)
	p.forwardedAt = max(p.forwardedAt, b.ForwardedAt)
	p.conversationID = conversationID
	p.due = now.Add(debounce)
	if p.due.After(p.latest) {
		p.due = p.latest
	}
}

// join puts a later pile on this one.
func (p *pile) join(later *pile) {
	p.batches = append(p.batches, later.batches...)
	p.actions += later.actions
	p.conversationID = later.conversationID
	p.forwardedAt = later.forwardedAt
	p.slots += later.slots
	p.done = append(p.done, later.done...)
}

// wait returns how long the pile waits for more.
func (p *pile) wait(now time.Time) time.Duration {
	if p.now || p.actions >= maxMerged {
		return 0
	}
	return p.due.Sub(now)
}

// batch returns the pile as one batch.
func (p *pile) batch() activity.Batch {
	b := activity.Merge(p.batches...)
	if p.conversationID != "" {
		b.ConversationID = p.conversationID
		for i := range b.Actions {
			b.Actions[i].ConversationID = p.conversationID
		}
	}
	return b
}

// links knows which conversations sessions are linked to, and keeps what waits
// to know.
type links struct{ sessions *simplelru.LRU[string, *link] }

// link is that of a session.
type link struct {
	conversationID string           // empty while it is not known
	waiting        []activity.Batch // the newest actions until then, in order
	actions        int              // in waiting
}

func newLinks(size int) links {
	sessions, _ := simplelru.NewLRU[string, *link](size, nil) // fails for sizes below one only
	return links{sessions}
}

func (k links) of(sessionID string) *link {
	l, ok := k.sessions.Get(sessionID)
	if !ok {
		l = &link{}
		k.sessions.Add(sessionID, l)
	}
	return l
}

// set links a session and returns what waited for that. The first link stays.
func (k links) set(sessionID, conversationID string) (freed []activity.Batch, err error) {
	l := k.of(sessionID)
	if l.conversationID == "" {
		freed = l.waiting
		*l = link{conversationID: conversationID}
	}
	if l.conversationID != conversationID {
		err = &LinkError{SessionID: sessionID, ConversationID: l.conversationID}
	}
	return freed, err
}

// follow returns the conversation that a batch belongs to, if it is known, and
// what has waited for the link that the batch itself makes.
func (k links) follow(b activity.Batch) (conversationID string, freed []activity.Batch) {
	if b.ConversationID != "" {
		freed, _ = k.set(b.SessionID, b.ConversationID) // an error says that there is a link
	}
	if l, ok := k.sessions.Get(b.SessionID); ok {
		conversationID = l.conversationID
	}
	return conversationID, freed
}

// wait keeps a batch until its session is linked, and drops the oldest actions
// of the session beyond maxMerged.
func (k links) wait(b activity.Batch) {
	if b.SessionID == "" {
		return
	}
	l := k.of(b.SessionID)
	l.waiting = append(l.waiting, b)
	l.actions += len(b.Actions)
	for excess := l.actions - maxMerged; excess > 0; excess = l.actions - maxMerged {
		oldest := &l.waiting[0]
		drop := min(excess, len(oldest.Actions))
		oldest.Actions = oldest.Actions[drop:]
		l.actions -= drop
		if len(oldest.Actions) == 0 {
			l.waiting = slices.Delete(l.waiting, 0, 1)
		}
	}
}
