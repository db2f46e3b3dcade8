package bridge

import (
	"cmp"
	"context"
	"embed"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/internal/fair"
	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/memlimit"
	"github.com/liveactivity/liveactivity/internal/options"
	"github.com/liveactivity/liveactivity/internal/origin"
	"github.com/liveactivity/liveactivity/internal/pages"
)

// Defaults of [Options].
const (
	DefaultMaxSessions = 10_000
	DefaultMaxEvents   = 30
)

// Options configure a [Bridge]. A zero field means its default.
type Options struct {
	MaxSessions int // sessions kept, oldest report evicted first; DefaultMaxSessions
	MaxEvents   int // actions kept per session, a rolling window; DefaultMaxEvents

	// MaxBytes bounds the memory of all sessions together; the default is two
	// fifths of the memory that the process may use.
	MaxBytes int64

	// TTL is how long an action is kept; activity.DefaultTTL. A session without
	// a report for that long is forgotten, together with its vendor.
	TTL time.Duration

	// AllowedOrigins are web origins, such as "https://portal.acme.example", whose
	// pages may use the bridge besides its own; "*." before the host matches any
	// subdomain. At a loopback address the bridge serves only these hosts and the
	// local machine. Behind a proxy that forwards the public host name, add the
	// bridge's own origin.
	AllowedOrigins []string
}

// Bridge holds the recent actions of each session and its vendor. Its methods
// are safe for concurrent use, and sessions never mix.
//
// Sessions are evicted in the order in which they were last reported on: a query does not
// keep a session.
type Bridge struct {
	maxEvents int
	ttl       time.Duration
	origins   []string

	mu       sync.Mutex
	sessions *fair.Cache[string, *window]
}

// New returns a bridge without sessions; opts may be nil. Its error joins all
// invalid options.
func New(opts *Options) (*Bridge, error) {
	o := *cmp.Or(opts, &Options{})
	wrong := options.Mistakes{Package: "bridge"}
	maxSessions := options.Default(&wrong, "MaxSessions", o.MaxSessions, DefaultMaxSessions)
	maxEvents := options.Default(&wrong, "MaxEvents", o.MaxEvents, DefaultMaxEvents)
	maxBytes := options.Default(&wrong, "MaxBytes", o.MaxBytes, memlimit.Kept())
	b := &Bridge{maxEvents: maxEvents, ttl: options.Default(&wrong, "TTL", o.TTL, activity.DefaultTTL),
		origins: make([]string, len(o.AllowedOrigins))}
	for i, text := range o.AllowedOrigins {
		b.origins[i] = strings.ToLower(strings.TrimSuffix(text, "/"))
		wrong.Require(origin.IsPattern(b.origins[i]), "AllowedOrigins", "must be like https://portal.acme.example")
	}
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	b.sessions = fair.New[string, *window](&fair.Options{MaxBytes: maxBytes, MaxItems: maxSessions}, nil)
	return b, nil
}

// Add merges a batch of the event stream into its session's window, in time
// order. A repeated action changes nothing, except that a marked click replaces
// its unmarked version, so a batch may come again. Add ignores actions older
// than the TTL and batches without a session ID. It never fails.
func (b *Bridge) Add(_ context.Context, batch activity.Batch) error {
	if batch.SessionID == "" {
		return nil
	}
	actions := make([]activity.Action, len(batch.Actions))
	for i, a := range batch.Actions {
		actions[i] = compact(a.Action.Clean())
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	s, oldest := b.open(batch.SessionID, now), b.oldest(now)
	for _, a := range actions {
		if before := s.index(a); before >= 0 {
			if a.TakesPlace(&s.actions[before]) {
				s.actions[before] = a
			}
		} else if a.TimestampStart >= oldest {
			s.add(a, b.maxEvents)
		}
	}
	if len(s.actions) > 0 {
		b.keep(batch.SessionID, s, now)
	}
	return nil
}

// Erase forgets all sessions of a person, including those shared with others. It never
// fails.
func (b *Bridge) Erase(_ context.Context, e feed.Erasure) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range e.SessionIDs {
		b.sessions.Remove(fair.NoProduct, id)
	}
	return nil
}

// compact returns the action without its ID, with its title cut to the length of a label. Its
// texts share no memory with the request, because a label must not keep a whole request alive.
func compact(a activity.Action) activity.Action {
	a.ID, a.Title = "", activity.CleanLabel(a.Title)
	for _, text := range []*string{&a.Type, &a.Title, &a.Description, &a.RawURL, &a.CanonicalURL} {
		*text = strings.Clone(*text)
	}
	return a
}

// Context is the JSON answer of GET /context/{session_id}: the actions of a
// session, its vendor, and a summary in words.
type Context struct {
	SessionID string            `json:"session_id"`
	Summary   string            `json:"summary"` // sentences for a person, never empty
	Actions   []activity.Action `json:"actions"` // oldest first, indexed from zero, never nil
	Vendor    *Vendor           `json:"vendor"`  // the latest one reported; nil before the first
}

// Context returns the context of a session. An unknown session has no actions,
// no vendor, and a friendly summary.
func (b *Bridge) Context(sessionID string) Context {
	b.mu.Lock()
	s := b.open(sessionID, time.Now())
	actions, vendor := append([]activity.Action{}, s.actions...), s.vendor // not nil
	b.mu.Unlock()
	for i := range actions {
		actions[i].Index = i
		actions[i].TimestampEnd = max(actions[i].TimestampStart, actions[i].TimestampEnd)
		if i > 0 {
			actions[i-1].TimestampEnd = actions[i].TimestampStart
		}
	}
	return Context{SessionID: sessionID, Summary: summarise(actions, vendor), Actions: actions, Vendor: vendor}
}

// Sessions returns the number of sessions held.
func (b *Bridge) Sessions() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sessions.Len()
}

// Mux is a router for a bridge's routes, such as an [http.ServeMux].
type Mux interface {
	Handle(pattern string, handler http.Handler)
}

//go:embed page
var files embed.FS

// Register adds all endpoints. The demo page at / and /static/ is a small vendor portal
// with a chat widget that finds the other endpoints relative to its own address. POST
// /demo/actions takes the report of one action. GET /context/{session_id} answers with the
// [Context] of a session.
//
// A report is {"session_id", "title", "type", "description", "url", "vendor"}, of which
// session_id and title are required; unknown fields are ignored. The Content-Type matters
// only for pages of an origin that is not allowed: they must use application/json, for which
// browsers send a preflight. Type defaults to "click", and description is derived from the
// title. Texts are cleaned and cut as by [activity.CleanLabel], descriptions to 500
// characters. The answer is 202 with the number of actions in the session's window; a
// refused report changes nothing.
//
// A context is JSON or, for a client that prefers text/plain, only its summary. The session
// ID may contain any character, percent-encoded. An unknown session is not an error.
func (b *Bridge) Register(mux Mux) {
	page := pages.Handler(files, "static") // a demo
	for pattern, handler := range map[string]http.Handler{
		"GET /{$}":                      page,
		"GET /static/{file}":            page,
		"POST /demo/actions":            b.shared(b.actions),
		"GET /context/{session_id}":     b.shared(b.context),
		"OPTIONS /demo/actions":         http.HandlerFunc(b.preflight),
		"OPTIONS /context/{session_id}": http.HandlerFunc(b.preflight),
	} {
		mux.Handle(pattern, handler)
	}
}

// Handler returns a handler with all endpoints and no others.
func (b *Bridge) Handler() http.Handler {
	mux := httpx.NewMux(nil)
	b.Register(mux)
	return mux
}
