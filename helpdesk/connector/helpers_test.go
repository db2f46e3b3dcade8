package connector

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
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
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// productsFunc is a configuration.
type productsFunc func(productID string) (Product, bool, error)

func (f productsFunc) Product(productID string) (Product, bool, error) { return f(productID) }

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
	return s.linker.link(ctx, claim{productID: "acme", desk: desk, conversationID: conversationID, by: by, at: at,
		proof: intake.Proof{UserHash: hashOf(known.UserID)}}, sessionID)
}

// linkContact links the session of a contact to a conversation of Zendesk.
func (s *service) linkContact(ctx context.Context, conversationID string, contact helpdesk.Contact) (status, error) {
	return s.linker.linkContact(ctx, claim{productID: "acme", desk: "zendesk", conversationID: conversationID,
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
	d := s.delivery("acme")
	lease, err := document.Acquire(t.Context(), s.store.docs, "acme", leaseName, s.opts.LeaseTTL)
	require.NoError(t, err)
	defer func() { require.NoError(t, lease.Release(t.Context())) }()
	var models sync.WaitGroup
	d.spawn = func(work func(context.Context) error) { models.Go(func() { _ = work(t.Context()) }) }
	for range 4 {
		d.mu.Lock()
		l := d.lane(key, time.Now())
		l.agenda().Remove(&l.slot)
		l.own = true
		l.begin()
		d.mu.Unlock()
		product := d.product()
		desk, ok := product.find(l.account.desk)
		if !ok {
			return
		}
		j := &job{d: d, lane: l, account: l.account, product: product, desk: desk.Desk, can: desk.capabilities(),
			lease: lease, owned: time.Now().Add(-time.Hour)}
		require.NoError(t, d.start(t.Context(), []*job{j}))
		models.Wait()
	}
}

// stored returns the document of a conversation.
func (s *service) stored(t testing.TB, key string) conversation {
	t.Helper()
	r, err := s.store.read(t.Context(), "acme", key)
	require.NoError(t, err)
	return r.conversation
}

// put stores a conversation.
func (s *service) put(t testing.TB, r record) {
	t.Helper()
	put, _, err := s.store.change(&r)
	require.NoError(t, err)
	_, err = s.store.docs.Write(t.Context(), "acme", put)
	require.NoError(t, err)
}

// watchedLog is a log that reports reads, appends and operations on documents, by name, before they
// are made, and gets and writes of documents afterwards. An error takes the place of the operation,
// or of its answer.
type watchedLog struct {
	eventlog.Log
	before func(op string, names []string) error
	after  func(op string, names []string) error // nil for nothing
}

func (l *watchedLog) Read(ctx context.Context, productID string, after eventlog.ID, dst []eventlog.Entry) (int, error) {
	if err := l.before("read", nil); err != nil {
		return 0, err
	}
	return l.Log.Read(ctx, productID, after, dst)
}

func (l *watchedLog) Append(ctx context.Context, productID string, entries []eventlog.Entry,
	changes ...document.Change) error {
	if err := l.before("append", nil); err != nil {
		return err
	}
	return l.Log.Append(ctx, productID, entries, changes...)
}

func (l *watchedLog) Documents() document.Store { return watchedStore{l.Log.Documents(), l} }

type watchedStore struct {
	document.Store
	log *watchedLog
}

func (s watchedStore) Get(ctx context.Context, productID string, names ...string) ([]document.Document, error) {
	if err := s.log.before("get", names); err != nil {
		return nil, err
	}
	docs, err := s.Store.Get(ctx, productID, names...)
	if s.log.after != nil {
		err = cmp.Or(s.log.after("get", names), err)
	}
	return docs, err
}

func (s watchedStore) List(ctx context.Context, productID, prefix, after string,
	limit int) ([]document.Document, error) {
	if err := s.log.before("list", nil); err != nil {
		return nil, err
	}
	return s.Store.List(ctx, productID, prefix, after, limit)
}

func (s watchedStore) Write(ctx context.Context, productID string,
	changes ...document.Change) (document.Version, error) {
	var names []string
	for _, c := range changes {
		names = append(names, c.Name)
	}
	if err := s.log.before("write", names); err != nil {
		return 0, err
	}
	version, err := s.Store.Write(ctx, productID, changes...)
	if s.log.after != nil {
		err = cmp.Or(s.log.after("write", names), err)
	}
	return version, err
}

// errAway is the error of a storage that fails.
var errAway = errors.New("storage is away")

// mortal returns a log as one process sees it: once the process is dead, nothing it does has an
// effect.
func mortal(log eventlog.Log) (seen *watchedLog, dead *atomic.Bool) {
	dead = new(atomic.Bool)
	return &watchedLog{Log: log, before: func(string, []string) error {
		if dead.Load() {
			return errAway
		}
		return nil
	}}, dead
}

// skewedLog is a log whose clock differs from this host's.
type skewedLog struct {
	eventlog.Log
	by time.Duration
}

func (l skewedLog) Now() time.Time { return l.Log.Now().Add(l.by) }
