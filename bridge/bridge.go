package bridge

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/memlimit"
	"github.com/liveactivity/liveactivity/internal/options"
	"github.com/liveactivity/liveactivity/internal/origin"
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

	// MaxBytes bounds what all sessions take; two fifths of the memory that the
	// process may use.
	MaxBytes int64

	// TTL is how long an action is kept. A session that was not heard of for
	// that long is forgotten, and its vendor with it; activity.DefaultTTL.
	TTL time.Duration

	MaxBody int64 // of a report, in bytes; DefaultMaxBody

	// AllowedOrigins are those whose pages may use the bridge, besides the
	// bridge's own, such as "https://portal.acme.example"; "*." before the host
	// stands for any subdomain. A bridge that is reached at a loopback address
	// answers for their hosts and for those of this machine, and for no others:
	// behind a proxy that passes on the name by which the world knows the
	// bridge, its own origin belongs here, too.
	AllowedOrigins []string
}

// Bridge holds what every session did of late and the vendor it is about. All
// its methods are safe for concurrent use, and sessions never mix.
type Bridge struct {
	windows *windows
	maxBody int64
	origins []string
}

// OptionError is a mistake in the [Options].
type OptionError = options.Error

// New returns a bridge that knows no session; opts may be nil. It reports
// everything that is wrong with them.
func New(opts *Options) (*Bridge, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	wrong := options.Mistakes{Package: "bridge"}
	maxSessions := options.Default(&wrong, "MaxSessions", o.MaxSessions, DefaultMaxSessions)
	maxEvents := options.Default(&wrong, "MaxEvents", o.MaxEvents, DefaultMaxEvents)
	maxBytes := options.Default(&wrong, "MaxBytes", o.MaxBytes, memlimit.Kept())
	ttl := options.Default(&wrong, "TTL", o.TTL, activity.DefaultTTL)
	b := &Bridge{maxBody: options.Default(&wrong, "MaxBody", o.MaxBody, DefaultMaxBody), origins: make([]string, len(o.AllowedOrigins))}
	for i, text := range o.AllowedOrigins {
		b.origins[i] = strings.ToLower(strings.TrimSuffix(text, "/"))
		wrong.Require(origin.IsPattern(b.origins[i]), "AllowedOrigins", "must be like https://portal.acme.example")
	}
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	b.windows = newWindows(maxSessions, maxBytes, maxEvents, ttl)
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
		actions[i] = compact(bounded(a.Action))
	}
	b.windows.merge(strings.Clone(batch.SessionID), actions)
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

// compact returns the action without references to what its texts were cut
// from: a label must not keep a request alive.
func compact(a activity.Action) activity.Action {
	for _, text := range []*string{&a.Type, &a.Title, &a.Description, &a.RawURL, &a.CanonicalURL} {
		*text = strings.Clone(*text)
	}
	return a
}

// Context is what the bridge knows of a session, and how it would say so. It is
// the JSON of GET /context/{session_id}.
type Context struct {
	SessionID string            `json:"session_id"`
	Summary   string            `json:"summary"` // sentences for a person, never empty
	Actions   []activity.Action `json:"actions"` // oldest first, indexed from zero, never nil
	Vendor    *Vendor           `json:"vendor"`  // the one reported last; nil before the first
}

// Context returns what is known of a session. Of a session it never heard of it
// knows nothing, and gets a friendly answer.
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
