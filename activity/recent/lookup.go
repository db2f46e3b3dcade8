package recent

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/jsontext"
	"github.com/liveactivity/liveactivity/internal/options"
)

// LiveActivity is the response of a lookup: the recent actions of a user.
type LiveActivity struct {
	ProductID string            `json:"product_id"`
	UserID    string            `json:"user_id"`
	Count     int               `json:"count" jsonschema:"Number of actions."`
	AsOf      float64           `json:"as_of" jsonschema:"Time of the lookup, in epoch seconds."`
	Actions   []activity.Action `json:"actions" jsonschema:"The user's actions, oldest first."` // never nil
}

// Lookup returns the recent actions of users. It is the handler of
//
//	GET /users/{product_id}/{user_id}/live-activity?limit=N
//
// and must be mounted under that pattern, behind authentication. A limit that is omitted, below one
// or above the maximum means the maximum; one that is not an integer is a 400. The response for a
// user without activity has an empty array. If the store cannot be read, the response is a 503.
//
// A Lookup has no state of its own, and is safe for concurrent use.
type Lookup struct {
	store Store
	max   int
}

// NewLookup returns a Lookup over store that returns at most maxEvents actions (DefaultMaxEvents if
// zero). It reports all invalid arguments together.
func NewLookup(store Store, maxEvents int) (*Lookup, error) {
	wrong := options.Mistakes{Package: "recent"}
	wrong.Require(store != nil, "store", "must not be nil")
	maxEvents = options.Default(&wrong, "maxEvents", maxEvents, DefaultMaxEvents)
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	return &Lookup{store: store, max: maxEvents}, nil
}

// Get returns the newest actions of a user. An unknown user is not an error; errors are the store's.
func (l *Lookup) Get(ctx context.Context, productID, userID string, limit int) (LiveActivity, error) {
	recent, err := l.store.Recent(ctx, productID, Subject{UserID: userID}, l.limit(limit))
	if err != nil {
		return LiveActivity{}, err
	}
	actions, err := recent.Actions()
	if err != nil {
		return LiveActivity{}, err
	}
	return LiveActivity{ProductID: productID, UserID: userID, Count: len(actions), AsOf: activity.Seconds(time.Now()),
		Actions: actions}, nil
}

// AppendJSON appends the JSON of a [LiveActivity]. It copies the stored actions without encoding them
// again. After an error of the store it returns dst unchanged.
func (l *Lookup) AppendJSON(ctx context.Context, dst []byte, productID, userID string, limit int) ([]byte, error) {
	recent, err := l.store.Recent(ctx, productID, Subject{UserID: userID}, l.limit(limit))
	if err != nil {
		return dst, err
	}
	dst = jsontext.AppendField(dst, `{"product_id":`, productID)
	dst = jsontext.AppendField(dst, `,"user_id":`, userID)
	dst = append(dst, `,"count":`...)
	dst = strconv.AppendInt(dst, int64(len(recent.Records)), 10)
	dst = append(dst, `,"as_of":`...)
	dst = jsontext.AppendSeconds(dst, time.Now().UnixMicro())
	dst = append(dst, `,"actions":`...)
	dst = recent.AppendJSON(dst)
	return append(dst, '}'), nil
}

// limit returns the number of actions to return for a requested limit.
func (l *Lookup) limit(limit int) int {
	if limit <= 0 || limit > l.max {
		return l.max
	}
	return limit
}

// ServeHTTP implements [http.Handler].
func (l *Lookup) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	httpx.Handler(l.serve).ServeHTTP(w, r)
}

// bodies are reusable buffers for responses of up to maxPooled bytes.
var bodies = sync.Pool{New: func() any { return new([]byte) }}

const maxPooled = 256 << 10

func (l *Lookup) serve(w http.ResponseWriter, r *http.Request) error {
	limit, err := httpx.Limit(r)
	if err != nil {
		return err
	}
	productID, err := httpx.PathValue(r, "product_id")
	if err != nil {
		return err
	}
	userID, err := httpx.PathValue(r, "user_id")
	if err != nil {
		return err
	}
	buf := bodies.Get().(*[]byte)
	defer func() {
		if cap(*buf) <= maxPooled {
			bodies.Put(buf)
		}
	}()
	*buf, err = l.AppendJSON(r.Context(), (*buf)[:0], productID, userID, limit)
	if err != nil {
		return httpx.Unavailable(err)
	}
	httpx.WriteEncoded(w, *buf)
	return nil
}
