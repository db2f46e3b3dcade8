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

// Options of a [Bridge]; a zero field means its default.
type Options struct {
	MaxSessions int // sessions kept, those not heard of for longest go first; DefaultMaxSessions
	MaxEvents   int // actions kept of a session, the rolling window; DefaultMaxEvents

	// MaxBytes bounds the memory of all sessions together; the default is two
	// fifths of the memory that the process may use.
	MaxBytes int64

	// TTL is how long an action is kept. A session that was not heard of for
	// that long is forgotten, and its vendor with it; activity.DefaultTTL.
	TTL time.Duration

	// AllowedOrigins are web origins, such as "https://portal.acme.example", whose
	// pages may use the bridge besides its own; "*." before the host matches any
	// subdomain. At a loopback address the bridge serves only these hosts and the
	// local machine. Behind a proxy that passes on the public host name, add the
	// bridge's own origin.
	AllowedOrigins []string
}

// Bridge holds the recent actions of each session and its vendor. Its methods
// are safe for concurrent use, and sessions never mix.
//
// Sessions are evicted in the order in which they were last reported on: asking for one does
// not keep it.
type Bridge struct {
	maxEvents int
	ttl       time.Duration
	origins   []string

	mu       sync.Mutex
	sessions *fair.Cache[string, *window]
}

// New returns a bridge that knows no session; opts may be nil. It reports
// everything that is wrong with them.
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

// Add takes a batch of the event stream into its session's window, in time
// order. An action that the window has already changes nothing, so a batch may
// come again; nor does one that is older than the TTL, or a batch without a
// session. It never fails.
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

// Erase forgets the sessions of a person, those included that others shared. It never fails.
func (b *Bridge) Erase(_ context.Context, e activity.Erasure) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range e.SessionIDs {
		b.sessions.Remove(owner, id)
	}
	return nil
}

// compact returns the action without its ID, with a title of a label's length and with texts that
// share no memory with a request: a label must not keep a whole request alive.
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
	Vendor    *Vendor           `json:"vendor"`  // the one reported last; nil before the first
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

// Sessions returns how many sessions are held.
func (b *Bridge) Sessions() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sessions.Len()
}

// Mux is where the routes of a bridge are registered: an [http.ServeMux], say.
type Mux interface {
	Handle(pattern string, handler http.Handler)
}

//go:embed page
var files embed.FS

// Register puts every endpoint in its place: the demo page at / and /static/, a small
// vendor portal with a chat widget that finds the rest relative to its own address;
// POST /demo/actions, which takes the report of one action; and GET /context/{session_id},
// which answers with the [Context] of a session.
//
// A report is {"session_id", "title", "type", "description", "url", "vendor"}, of which
// session_id and title are required; unknown fields are ignored. The Content-Type matters
// only to pages of an origin that is not allowed: theirs must be application/json, for which
// browsers ask first. Type is "click" by default, description is made from the title. Texts
// are cleaned and cut as [activity.CleanLabel] does, descriptions after 500 characters. The
// answer is 202 with how many actions the session's window holds; a report that is refused
// changes nothing.
//
// A context is JSON or, for a client that prefers text/plain, only its summary. The session
// ID may hold any character, percent-encoded. An unknown session is not an error.
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

// Handler returns a handler of all endpoints and nothing else.
func (b *Bridge) Handler() http.Handler {
	mux := httpx.NewMux(nil)
	b.Register(mux)
	return mux
}
