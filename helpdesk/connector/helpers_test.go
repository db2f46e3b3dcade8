package connector

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
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
	c, err := New(log, always(p), &o)
	require.NoError(t, err)
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
	lease, err := document.Acquire(t.Context(), s.store.docs, "acme", leaseName, time.Hour)
	require.NoError(t, err)
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
	r, err := s.store.read(t.Context(), "acme", linkOf(key))
	require.NoError(t, err)
	return r.conversation
}

// put stores a conversation, and returns what of it fits.
func (s *service) put(t testing.TB, key string, c conversation) conversation {
	t.Helper()
	r := record{document.Document{Name: linkOf(key).documentName()}, c}
	put, _, err := s.store.change(&r)
	require.NoError(t, err)
	_, err = s.store.docs.Write(t.Context(), "acme", put)
	require.NoError(t, err)
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
	plan, err := s.Erase(t.Context(), "acme", of, redact)
	require.NoError(t, err)
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
