package bridge

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/httpx"
)

// Defaults of [Options].
const (
	DefaultMaxSessions = 10_000
	DefaultMaxEvents   = 30
	DefaultMaxBody     = 64 << 10 // bytes
)

// Options of a [Bridge]; a zero field means its default.
type Options struct {
	MaxSessions int // sessions kept, those not heard of for longest go first; DefaultMaxSessions
	MaxEvents   int // actions kept of a session, the rolling window; DefaultMaxEvents

	// TTL is how long an action is kept. A session that was not heard of for
	// that long is forgotten, and its vendor with it; activity.DefaultTTL.
	TTL time.Duration

	MaxBody int64 // of a report, in bytes; DefaultMaxBody

	// AllowedOrigins are those whose pages may use the bridge, besides the
	// bridge's own, such as "https://portal.acme.example".
	AllowedOrigins []string
}

// Bridge holds what every session did of late and the vendor it is about. All
// its methods are safe for concurrent use, and sessions never mix.
type Bridge struct {
	windows *windows
	maxBody int64
	origins []string
}

// New returns a bridge that knows no session; opts may be nil.
func New(opts *Options) *Bridge {
	var o Options
	if opts != nil {
		o = *opts
	}
	b := &Bridge{maxBody: orDefault(o.MaxBody, DefaultMaxBody), origins: make([]string, len(o.AllowedOrigins)),
		windows: newWindows(orDefault(o.MaxSessions, DefaultMaxSessions), orDefault(o.MaxEvents, DefaultMaxEvents),
			orDefault(o.TTL, activity.DefaultTTL))}
	for i, origin := range o.AllowedOrigins {
		b.origins[i] = strings.ToLower(strings.TrimSuffix(origin, "/"))
	}
	return b
}

// orDefault returns the value, or fallback for one below one.
func orDefault[T int | int64 | time.Duration](value, fallback T) T {
	return cmp.Or(max(value, 0), fallback)
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
		actions[i] = bounded(a.Action)
	}
	b.windows.merge(batch.SessionID, actions)
	return nil
}

// bounded returns the action with its texts cut as those of a report are, and
// without a URL that is too long to keep.
func bounded(a activity.Action) activity.Action {
	a.ID = ""
	a.Title, a.Description = activity.CleanLabel(a.Title), cleanText(a.Description, maxDescription)
	if len(a.RawURL) > maxURL {
		a.RawURL = ""
	}
	if len(a.CanonicalURL) > maxURL {
		a.CanonicalURL = ""
	}
	return a
}

// Context is what the bridge knows of a session, and how it would say so. It is
// the JSON of GET /context/{session_id}.
type Context struct {
	SessionID string            `json:"session_id"`
	Summary   string            `json:"summary"` // sentences for a person, never empty
	Actions   []activity.Action `json:"actions"` // oldest first, indexed from zero, never nil
	Vendor    *Vendor           `json:"vendor"`  // the one reported last; nil while there is none
}

// Context returns what is known of a session. Of a session it never heard of it
// knows nothing, and says so in a friendly way.
func (b *Bridge) Context(sessionID string) Context {
	actions, vendor := b.windows.get(sessionID)
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
func (b *Bridge) Sessions() int { return b.windows.len() }

// Mux is where the routes of a bridge are registered: an [http.ServeMux], say.
type Mux interface {
	Handle(pattern string, handler http.Handler)
}

// Register puts every endpoint in its place.
func (b *Bridge) Register(mux Mux) {
	for pattern, handler := range map[string]http.HandlerFunc{
		"GET /{$}":                      b.ServePage,
		"GET /static/{file}":            b.ServePage,
		"POST /demo/actions":            b.ServeActions,
		"GET /context/{session_id}":     b.ServeContext,
		"OPTIONS /demo/actions":         b.ServePreflight,
		"OPTIONS /context/{session_id}": b.ServePreflight,
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

// isAllowed reports whether pages of the origin may use the bridge.
func (b *Bridge) isAllowed(origin string) bool {
	return slices.Contains(b.origins, strings.ToLower(origin))
}
