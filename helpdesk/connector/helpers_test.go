package connector

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/activity/intake"
	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/watchtest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// productsFunc is a configuration.
type productsFunc func(productID string) (Product, bool, error)

func (f productsFunc) Product(productID string) (Product, bool, error) { return f(productID) }

func (productsFunc) Refresh(string) error { return nil }

// always is the configuration of every product.
func always(p Product) Products {
	return productsFunc(func(string) (Product, bool, error) { return p, true, nil })
}

// promptNotes are notes that are written at once.
func promptNotes() Notes {
	notes := DefaultNotes()
	notes.Debounce, notes.Interval = 0, 0
	return notes
}

// summaries returns notes that are written at once, and summed up from threshold actions on.
func summaries(threshold int) Notes {
	notes := promptNotes()
	notes.SummaryThreshold = threshold
	return notes
}

// service records events in a log that a connector follows.
type service struct {
	*Connector
	recorder *eventlog.Recorder
}

// identitySecret signs the users of every product.
const identitySecret = "sign-acme-s3cr3t"

// hashOf returns the user_hash of a user ID.
func hashOf(userID string) string {
	return hex.EncodeToString(intake.Sign(identitySecret, []byte(userID)))
}

// tokenOf returns the token of a user ID.
func tokenOf(userID string, expires time.Time) string {
	part := base64.RawURLEncoding.EncodeToString
	signed := part([]byte(`{"alg":"HS256"}`)) + "." + part(fmt.Appendf(nil, `{"sub":%q,"exp":%d}`, userID, expires.Unix()))
	return signed + "." + part(intake.Sign(identitySecret, []byte(signed)))
}

// newService returns a service of the product over a log.
func newService(t testing.TB, log eventlog.Log, p Product, opts *Options) *service {
	t.Helper()
	o := Options{Logger: slog.New(slog.DiscardHandler)}
	if opts != nil {
		o = *opts
	}
	p.IdentitySecrets = []string{"older", identitySecret}
	c := musttest.New(New(log, always(p), &o))
	return &service{c, musttest.New(eventlog.NewRecorder(log, nil))}
}

// link links a session to a conversation. The session's user signs a signed link.
func (s *service) link(ctx context.Context, desk, conversationID, sessionID string, by linkedBy,
	at time.Time) (status, error) {
	known, _, err := s.store.dir.Session(ctx, "acme", sessionID)
	if err != nil {
		return "", err
	}
	return s.linker.link(ctx, linkClaim{productID: "acme", Link: Link{desk, conversationID}, by: by, at: at,
		proof: intake.Proof{UserHash: hashOf(known.UserID)}}, sessionID)
}

// linkContact links the session of a contact to a conversation of Zendesk.
func (s *service) linkContact(ctx context.Context, conversationID string, contact helpdesk.Contact) (status, error) {
	return s.linker.linkContact(ctx, linkClaim{productID: "acme", Link: Link{"zendesk", conversationID},
		by: byWebhook}, contact)
}

// visit records that the session viewed pages now.
func (s *service) visit(t testing.TB, sessionID string, pages ...string) {
	t.Helper()
	s.visitAs(t, sessionID, "", "", time.Now(), pages...)
}

// visitAs records page views of a user at the time.
func (s *service) visitAs(t testing.TB, sessionID, userID, email string, at time.Time, pages ...string) {
	t.Helper()
	require.NoError(t, s.record(t.Context(), sessionID, userID, email, at, pages...))
}

func (s *service) record(ctx context.Context, sessionID, userID, email string, at time.Time, pages ...string) error {
	var events []activity.Event
	for _, page := range pages {
		a := activity.Action{Type: activity.TypePageview, Description: "User visited " + page}
		events = append(events, activity.Event{ID: uuid.NewString(), Time: at, ServerTime: true, SessionID: sessionID,
			UserID: userID, Email: email, Action: &a})
	}
	_, err := s.recorder.Record(ctx, "acme", events)
	return err
}

// click records that the session clicked something now.
func (s *service) click(t testing.TB, sessionID, label string) {
	t.Helper()
	a := activity.Action{Type: activity.TypeClick, Title: "Click " + label, Description: "User clicked " + label}
	_, err := s.recorder.Record(t.Context(), "acme", []activity.Event{{ID: uuid.NewString(), Time: time.Now(),
		ServerTime: true, SessionID: sessionID, Action: &a}})
	require.NoError(t, err)
}

// configure configures the products anew.
func (s *service) configure(p Products) { s.products, s.linker.products = p, p }

// work does a conversation's due work now, model calls included, as a server does that has held the
// lease for a while.
func (s *service) work(t testing.TB, key string) {
	t.Helper()
	d := s.newDelivery("acme")
	lease := musttest.New(document.Acquire(t.Context(), s.store.docs, "acme", leaseName, time.Hour))
	defer func() { require.NoError(t, lease.Release(t.Context())) }()
	var models sync.WaitGroup
	d.spawn = func(work func(context.Context) error) { models.Go(func() { _ = work(t.Context()) }) }
	for range 4 {
		d.mu.Lock()
		l := d.lane(linkOf(key), time.Now())
		l.agenda().Remove(&l.slot)
		l.ownDue = true
		l.begin()
		d.mu.Unlock()
		product := d.product()
		desk, ok := product.find(l.account.desk)
		if !ok {
			return
		}
		j := &job{d: d, lane: l, product: product, desk: desk.Desk, can: desk.capabilities(),
			lease: lease, owned: time.Now().Add(-time.Hour)}
		require.NoError(t, d.start(t.Context(), []*job{j}))
		models.Wait()
	}
}

// stored returns the document of a conversation.
func (s *service) stored(t testing.TB, key string) conversation {
	t.Helper()
	r := musttest.New(s.store.read(t.Context(), "acme", linkOf(key)))
	return r.conversation
}

// put stores a conversation, and returns what of it fits.
func (s *service) put(t testing.TB, key string, c conversation) conversation {
	t.Helper()
	r := record{document.Document{Name: linkOf(key).documentName()}, c}
	put, _, err := s.store.change(&r)
	require.NoError(t, err)
	musttest.New(s.store.docs.Write(t.Context(), "acme", put))
	return r.conversation
}

// linkedTo returns the conversation that a session is linked to, empty for none.
func (s *service) linkedTo(t testing.TB, sessionID string) string {
	t.Helper()
	known, _, err := s.store.dir.Session(t.Context(), "acme", sessionID)
	require.NoError(t, err)
	return strings.Trim(known.Desk+"/"+known.ConversationID, "/")
}

// erases plans the erasure of a person, and commits it with further entries.
func (s *service) erases(t testing.TB, of Person, redact bool, more ...eventlog.Entry) Erasure {
	t.Helper()
	plan := musttest.New(s.Erase(t.Context(), "acme", of, redact))
	require.NoError(t, s.store.log.Append(t.Context(), "acme", append(plan.Entries, more...), plan.Changes...))
	return plan
}

// errAway is the error of a storage that fails.
var errAway = errors.New("storage is away")

// before returns a log that asks a function before each operation. An error takes the operation's
// place.
func before(log eventlog.Log, ask func(op watchtest.Op) error) *watchtest.Log {
	return &watchtest.Log{Log: log, Watch: watchtest.Watch{
		Before: func(_ context.Context, op watchtest.Op) error { return ask(op) }}}
}

// mortal returns a log as one process sees it: once the process is dead, nothing it does has an
// effect.
func mortal(log eventlog.Log) (seen *watchtest.Log, dead *atomic.Bool) {
	seen = &watchtest.Log{Log: log}
	return seen, &seen.Down
}

// desk is a help desk in memory.
type desk struct {
	size int  // characters that fit into a note; 0 for any number
	rate int  // requests in a minute that it states; 0 for none
	mute bool // about its notes' IDs

	// refuse is asked before a request has its effect, and lose before its answer
	// is sent. Both may be nil.
	refuse, lose func(op, conversationID string) *helpdesk.APIError
	// takes is the duration of a request. The request has its effect after half of it, even if the
	// client has gone.
	takes func() time.Duration
	pause func(conversationID string) time.Duration
	lacks func(*helpdesk.Capabilities) // may be nil

	mu    sync.Mutex
	last  int
	notes map[string][]*written // by conversation, in order
	order []string              // the conversation of each note
	asked map[string]int        // requests, by operation
	most  int                   // in flight at once
	now   int
}

// written is a note.
type written struct {
	id, text string
	at       time.Time
	redacted bool
}

func newDesk() *desk {
	return &desk{notes: map[string][]*written{}, asked: map[string]int{}}
}

func (d *desk) Fits(text string) bool { return d.size == 0 || len(text) <= d.size }

func (d *desk) Webhook(http.Header, []byte, time.Time) (helpdesk.Event, error) {
	return helpdesk.Event{}, helpdesk.ErrUnrecognized
}

func (d *desk) Pause(conversationID string) time.Duration {
	d.mu.Lock()
	pause := d.pause
	d.mu.Unlock()
	if pause == nil {
		return 0
	}
	return pause(conversationID)
}

func (d *desk) Rate() (int, time.Duration) { return d.rate, time.Minute }

// refuses sets refuse while the desk is in use.
func (d *desk) refuses(refuse func(op, conversationID string) *helpdesk.APIError) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refuse = refuse
}

// failing fails an operation, or everything in one conversation, or all requests for "".
func failing(of string, e helpdesk.APIError) func(op, conversationID string) *helpdesk.APIError {
	return func(op, conversationID string) *helpdesk.APIError {
		if of != "" && of != op && of != conversationID {
			return nil
		}
		failed := e
		return &failed
	}
}

// pauses sets pause while the desk is in use.
func (d *desk) pauses(pause func(conversationID string) time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pause = pause
}

// lacking takes capabilities away, even while the desk is in use.
func (d *desk) lacking(lacks func(*helpdesk.Capabilities)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lacks = lacks
}

// mostAtOnce returns the most requests in flight at once since the previous call.
func (d *desk) mostAtOnce() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	most := d.most
	d.most = 0
	return most
}

// request has an effect, or fails, as a desk behind a network does.
func (d *desk) request(ctx context.Context, op, conversationID string, effect func()) error {
	d.mu.Lock()
	d.asked[op]++
	d.now++
	d.most = max(d.most, d.now)
	refuse, lose, takes := d.refuse, d.lose, d.takes
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		d.now--
		d.mu.Unlock()
	}()
	if refuse != nil {
		if err := refuse(op, conversationID); err != nil {
			err.Desk, err.Op = "desk", op
			return err
		}
	}
	half := time.Duration(0)
	if takes != nil {
		half = takes() / 2
	}
	applied := make(chan struct{})
	go func() { // the desk's own, which goes on when the client has gone
		time.Sleep(half)
		d.mu.Lock()
		effect()
		d.mu.Unlock()
		close(applied)
	}()
	lost := &helpdesk.APIError{Desk: "desk", Op: op, Ambiguous: true, Err: context.Cause(ctx)}
	select {
	case <-applied:
	case <-ctx.Done():
		return lost
	}
	if half > 0 { // timers of a bubble that are due at once can crash the race detector of Go 1.26
		select {
		case <-time.After(half):
		case <-ctx.Done():
			return lost
		}
	}
	if lose != nil {
		if err := lose(op, conversationID); err != nil {
			err.Desk, err.Op, err.Ambiguous = "desk", op, true
			return err
		}
	}
	return nil
}

func (d *desk) Note(ctx context.Context, conversationID, text string) (string, error) {
	var id string
	err := d.request(ctx, "note", conversationID, func() {
		d.last++
		id = fmt.Sprint(d.last)
		d.notes[conversationID] = append(d.notes[conversationID], &written{id: id, text: text, at: time.Now()})
		d.order = append(d.order, conversationID)
	})
	if err != nil || d.mute {
		return "", err
	}
	return id, nil
}

func (d *desk) FindNote(ctx context.Context, conversationID, text, after string,
	since time.Time) (string, bool, error) {
	var id string
	var found bool
	err := d.request(ctx, "find", conversationID, func() {
		notes := d.notes[conversationID]
		if after != "" {
			notes = notes[1+slices.IndexFunc(notes, func(n *written) bool { return n.id == after }):]
		}
		for _, n := range notes {
			if n.text == text && (after != "" || !n.at.Before(since)) {
				id, found = n.id, true
			}
		}
	})
	if err != nil {
		return "", false, err
	}
	return id, found, nil
}

func (d *desk) Redact(ctx context.Context, conversationID, noteID string) error {
	return d.request(ctx, "redact", conversationID, func() {
		for _, n := range d.notes[conversationID] {
			if n.id == noteID {
				n.redacted = true
			}
		}
	})
}

// texts returns the bodies of a conversation's notes, without their headers.
func (d *desk) texts(conversationID string) (texts []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, n := range d.notes[conversationID] {
		_, body, _ := strings.Cut(n.text, "\n\n")
		texts = append(texts, body)
	}
	return texts
}

// count returns the number of requests for an operation.
func (d *desk) count(op string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asked[op]
}

func (d *desk) Capabilities() helpdesk.Capabilities {
	return d.without(helpdesk.Capabilities{Finder: d, Redactor: d, Pacer: d})
}

// without returns the capabilities without the ones that the desk lacks.
func (d *desk) without(can helpdesk.Capabilities) helpdesk.Capabilities {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lacks != nil {
		d.lacks(&can)
	}
	return can
}
