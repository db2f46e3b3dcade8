package intake

import (
	"context"
	"io"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/liveactivity/liveactivity/internal/admission"
	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/memlimit"
)

// room bounds the memory that the bodies of all requests hold together, on their
// way from the connection to events.
type room struct {
	arriving *admission.Arrivals // bytes that arrive, or wait to be admitted
	decoded  *admission.Pool     // bytes of JSON, by product
	passes   *admission.Pool     // passes over large bodies that run at once, by product where it is known
}

const (
	maxArriving = 64 << 20  // bytes
	maxAtOnce   = 256 << 20 // bytes of JSON of all requests
	ofMemory    = 8         // the part of the memory that may hold JSON
	sharers     = 4         // products that fill the room together, at least

	// firstRead is how many bytes of a body are read before they count as arriving.
	firstRead = 8 << 10
	// smallBody is how many bytes of JSON are unpacked without waiting for a turn.
	smallBody = 64 << 10
	// ofProcessors is the part of the processors that passes over larger bodies may
	// use: small requests, and everything else, find another.
	ofProcessors = 2
	// maxWait is how long a request waits for others, counted from its arrival: of
	// the 5 seconds until its answer the rest is for lookups and for recording.
	maxWait = 3 * time.Second
)

func newRoom(maxBody, maxDecoded int64) room {
	total := max(min(maxAtOnce, memlimit.Bytes()/ofMemory), maxDecoded)
	arriving := max(min(maxArriving, memlimit.Bytes()/ofMemory/2), 2*maxBody+maxDecoded)
	return room{
		arriving: admission.NewArrivals(arriving),
		decoded:  admission.NewPool(total, max(total/sharers, min(total, maxDecoded)), arriving/sharers),
		passes:   admission.NewPool(maxPasses(), maxPasses(), arriving/2),
	}
}

// maxPasses is how many passes over large bodies run at once.
func maxPasses() int64 { return max(int64(runtime.GOMAXPROCS(0)/ofProcessors), 1) }

// Body is the body of a request. It holds room for itself until it is released,
// and is used by one goroutine.
type Body struct {
	in       *Intake
	encoding string
	arrived  time.Time
	arrival  *admission.Arrival // nil for a body that fits into first
	first    *[firstRead]byte
	raw      []byte // as it arrived
	json     []byte // unpacked; may be a part of raw
	windows  []*[smallBody]byte

	admitted, pass func() // release the body's room, and its turn; may be nil
}

var firsts = sync.Pool{New: func() any { return new([firstRead]byte) }}

// Receive reads the body of a request as it arrives. Release must be called in
// the end.
func (in *Intake) Receive(w http.ResponseWriter, r *http.Request) (*Body, error) {
	if r.ContentLength > in.opts.MaxBody {
		return nil, httpx.TooLarge(in.opts.MaxBody)
	}
	b := &Body{in: in, encoding: r.Header.Get("Content-Encoding"), first: firsts.Get().(*[firstRead]byte)}
	b.raw = b.first[:0]
	if err := b.read(w, r.Body); err != nil {
		b.Release()
		w.Header().Set("Connection", "close") // the rest is not waited for
		return nil, err
	}
	if b.arrival != nil {
		b.arrival.Arrived()
	}
	b.arrived = time.Now()
	return b, nil
}

func (b *Body) read(w http.ResponseWriter, r io.Reader) error {
	limit := b.in.opts.MaxBody
	for {
		if len(b.raw) == cap(b.raw) {
			if err := b.grow(w); err != nil {
				return err
			}
		}
		n, err := r.Read(b.raw[len(b.raw):cap(b.raw)])
		b.raw = b.raw[:len(b.raw)+n]
		switch {
		case int64(len(b.raw)) > limit:
			return httpx.TooLarge(limit)
		case err == nil:
		case err == io.EOF:
			return nil
		case b.arrival != nil && b.arrival.GaveWay():
			return httpx.Unavailable(admission.ErrBusy)
		default:
			return &httpx.Error{Status: http.StatusBadRequest, Cause: err,
				Detail: "The request body broke off before its end."}
		}
	}
}

// grow doubles the room for the body. A sender that is slower than others may have
// to give way.
func (b *Body) grow(w http.ResponseWriter) error {
	if b.arrival == nil {
		control := http.NewResponseController(w)
		b.arrival = b.in.room.arriving.Begin(func() { _ = control.SetReadDeadline(time.Unix(1, 0)) })
	}
	if err := b.arrival.Grow(int64(cap(b.raw))); err != nil {
		return httpx.Unavailable(err)
	}
	larger := make([]byte, len(b.raw), 2*cap(b.raw))
	copy(larger, b.raw)
	b.raw = larger
	return nil
}

// Bytes returns the body as it arrived. It is valid until Decoded or Release.
func (b *Body) Bytes() []byte { return b.raw }

// Arrived returns when the body had arrived.
func (b *Body) Arrived() time.Time { return b.arrived }

// JSON returns the JSON inside the body: gunzipped, and taken out of a form's base64
// or lz-string. The content decides, but a Content-Encoding other than gzip is 415.
// More than MaxDecoded bytes are 413. The result is valid until Decoded or Release.
func (b *Body) JSON(ctx context.Context) (_ []byte, err error) {
	u := unpacker{body: b, limit: b.in.opts.MaxDecoded, room: func() error { return b.awaitTurn(ctx) }}
	defer func() { b.endTurn(int64(len(b.json))) }()
	b.json, err = u.unpack(b.raw, b.encoding)
	return b.json, err
}

// awaitTurn waits until a large body may be unpacked, and holds room for the most
// that can come out.
func (b *Body) awaitTurn(ctx context.Context) (err error) {
	if b.arrival == nil {
		b.arrival = b.in.room.arriving.Begin(func() {})
		b.arrival.Arrived()
	}
	if b.pass, err = b.wait(ctx, b.in.room.passes, "", 1); err != nil {
		return err
	}
	if err := b.arrival.Grow(b.in.opts.MaxDecoded); err != nil {
		return httpx.Unavailable(err)
	}
	return nil
}

// endTurn keeps room for so many of the bytes that awaitTurn held.
func (b *Body) endTurn(n int64) {
	if b.pass != nil {
		b.pass()
		b.pass = nil
		b.arrival.Shrink(b.in.opts.MaxDecoded - min(n, b.in.opts.MaxDecoded))
	}
}

// Admit waits until a product's request may hold its JSON and what becomes of it. No
// product holds more than a quarter of the room for all. A large body also waits for
// its turn to be decoded.
func (b *Body) Admit(ctx context.Context, productID string) (err error) {
	if b.admitted, err = b.wait(ctx, b.in.room.decoded, productID, int64(len(b.json))); err != nil {
		return err
	}
	if len(b.json) > smallBody {
		b.pass, err = b.wait(ctx, b.in.room.passes, productID, 1)
	}
	return err
}

// wait takes n of a pool, in time for an answer.
func (b *Body) wait(ctx context.Context, pool *admission.Pool, key string, n int64) (release func(), err error) {
	release, err = pool.Acquire(ctx, b.arrived.Add(maxWait), key, n, int64(cap(b.raw)+len(b.json)))
	if err != nil {
		return nil, httpx.Unavailable(err)
	}
	return release, nil
}

// Decoded releases the body's bytes: nothing may refer to them any more. The room
// that Admit took is kept for what became of them.
func (b *Body) Decoded() {
	if b.pass != nil {
		b.pass()
		b.pass = nil
	}
	if b.arrival != nil {
		b.arrival.Release()
	}
	if b.first != nil {
		firsts.Put(b.first)
	}
	for _, window := range b.windows {
		windows.Put(window)
	}
	b.first, b.raw, b.json, b.windows = nil, nil, nil, nil
}

// Release releases everything. It may be called more than once.
func (b *Body) Release() {
	b.Decoded()
	if b.admitted != nil {
		b.admitted()
		b.admitted = nil
	}
}
