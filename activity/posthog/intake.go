package posthog

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/liveactivity/liveactivity/internal/admission"
	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/jsonscan"
	"github.com/liveactivity/liveactivity/internal/memlimit"
)

// intake bounds what the bodies of all requests together hold in memory, on their
// way from the connection to events.
type intake struct {
	maxBody, maxDecoded int64

	arriving *admission.Arrivals // bytes as they arrive
	decoded  *admission.Pool     // bytes of JSON, by product
	passes   *admission.Pool     // passes over large bodies that run at once, by product where it is known
}

const (
	maxArriving = 64 << 20
	maxAtOnce   = 256 << 20 // of all that is decoded, in bytes
	ofMemory    = 8         // the part of the memory that may hold what is decoded
	sharers     = 4         // products that fill the pools together, at least

	// windowSize is how much of a body is unpacked before it is known whose it is.
	windowSize = 64 << 10
	// ofProcessors is the part of the processors that passes over larger bodies may
	// use, however many come: what is small, and all else, finds another.
	ofProcessors = 2
	// maxWait is how long a request waits for others to finish, from when it has
	// arrived: the rest of 5 seconds is for who looks up tokens and records.
	maxWait = 3 * time.Second
)

func newIntake(maxBody, maxDecoded int64) *intake {
	total := max(min(maxAtOnce, memlimit.Bytes()/ofMemory), maxDecoded)
	arriving := max(min(maxArriving, memlimit.Bytes()/ofMemory/2), 2*maxBody)
	return &intake{
		maxBody:    maxBody,
		maxDecoded: maxDecoded,
		arriving:   admission.NewArrivals(arriving),
		decoded:    admission.NewPool(total, max(total/sharers, min(total, maxDecoded)), arriving/sharers),
		passes:     admission.NewPool(maxPasses(), maxPasses(), arriving/2),
	}
}

// maxPasses is how many passes over large bodies run at once.
func maxPasses() int64 { return max(int64(runtime.GOMAXPROCS(0)/ofProcessors), 1) }

// body is a request's body. It holds room for itself until it is released.
type body struct {
	in       *intake
	arrival  *admission.Arrival
	arrived  time.Time
	bytes    []byte
	encoding string
	json     []byte // unpacked, if it is little
	decoded  func() // releases its share of the decode budget
}

func (b *body) release() {
	b.arrival.Release()
	if b.decoded != nil {
		b.decoded()
	}
}

// firstRead is how much room a body gets before it arrives, in bytes.
const firstRead = 4 << 10

// receive reads a request's body as it arrives. It must be released in the end.
func (in *intake) receive(w http.ResponseWriter, r *http.Request) (*body, error) {
	if r.ContentLength > in.maxBody {
		return nil, httpx.TooLarge(in.maxBody)
	}
	control := http.NewResponseController(w)
	b := &body{in: in, encoding: r.Header.Get("Content-Encoding")}
	b.arrival = in.arriving.Begin(func() { _ = control.SetReadDeadline(time.Unix(1, 0)) })
	if err := b.read(http.MaxBytesReader(w, r.Body, in.maxBody)); err != nil {
		b.release()
		if errors.Is(err, admission.ErrBusy) {
			w.Header().Set("Connection", "close") // the rest is not waited for
		}
		return nil, err
	}
	b.arrival.Arrived()
	b.arrived = time.Now()
	return b, nil
}

func (b *body) read(r io.Reader) error {
	for {
		if len(b.bytes) == cap(b.bytes) {
			if err := b.grow(); err != nil {
				return err
			}
		}
		n, err := r.Read(b.bytes[len(b.bytes):cap(b.bytes)])
		b.bytes = b.bytes[:len(b.bytes)+n]
		var tooLarge *http.MaxBytesError
		switch {
		case err == nil:
		case err == io.EOF:
			return nil
		case errors.As(err, &tooLarge):
			return httpx.TooLarge(tooLarge.Limit)
		case b.arrival.GaveWay():
			return httpx.Unavailable(admission.ErrBusy)
		default:
			return &httpx.Error{Status: http.StatusBadRequest, Detail: "The request body broke off before its end.", Cause: err}
		}
	}
}

// grow doubles the room of a body.
func (b *body) grow() error {
	more := max(cap(b.bytes), firstRead)
	if err := b.arrival.Grow(int64(more)); err != nil {
		return httpx.Unavailable(err)
	}
	larger := make([]byte, len(b.bytes), cap(b.bytes)+more)
	copy(larger, b.bytes)
	b.bytes = larger
	return nil
}

var windows = sync.Pool{New: func() any { return new([windowSize]byte) }}

// survey takes a first look at a body, which needs the same little memory
// whatever it contains. The decoded body is released unless it is small.
func (b *body) survey(ctx context.Context) (survey, error) {
	if isPlain(b.bytes, b.encoding) {
		b.json = b.bytes
		return takeSurvey(jsonscan.New(b.json))
	}
	u, err := unpack(b.bytes, b.encoding, b.in.maxDecoded)
	if err != nil {
		return survey{}, err
	}
	defer u.Close()
	window := windows.Get().(*[windowSize]byte)
	defer windows.Put(window)
	n, err := io.ReadFull(u, window[:])
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		b.json = bytes.Clone(window[:n])
		return takeSurvey(jsonscan.New(b.json))
	}
	if err != nil {
		return survey{}, unpackProblem(err)
	}
	release, err := b.wait(ctx, b.in.passes, "", 1, int64(cap(b.bytes)+2*windowSize))
	if err != nil {
		return survey{}, err
	}
	defer release()
	return takeSurvey(jsonscan.NewReader(u, window[:], n))
}

// isPlain reports whether a body is JSON as it stands.
func isPlain(body []byte, encoding string) bool {
	return isJSON(body) && checkEncoding(encoding) == nil
}

// unpackProblem is the answer to what is wrong around the JSON.
func unpackProblem(err error) error {
	if errors.As(err, new(*httpx.Error)) {
		return err
	}
	return &httpx.Error{Status: http.StatusBadRequest, Detail: "The base64 data of the request body is damaged.", Cause: err}
}

// scan waits until there is room for what a product's request holds, and calls
// read with a scanner of its JSON, which is unpacked while it is read. From then
// on nothing is held of the body.
func (b *body) scan(ctx context.Context, productID string, s survey, read func(*jsonscan.Scanner) error) error {
	release, err := b.wait(ctx, b.in.decoded, productID, s.size, int64(cap(b.bytes)))
	if err != nil {
		return err
	}
	b.decoded = release
	defer func() {
		b.bytes, b.json = nil, nil
		b.arrival.Release()
	}()
	if s.size > windowSize {
		done, err := b.wait(ctx, b.in.passes, productID, 1, int64(cap(b.bytes)))
		if err != nil {
			return err
		}
		defer done()
	}
	if b.json != nil {
		return read(jsonscan.New(b.json))
	}
	u, err := unpack(b.bytes, b.encoding, b.in.maxDecoded)
	if err != nil {
		return err
	}
	defer u.Close()
	window := windows.Get().(*[windowSize]byte)
	defer windows.Put(window)
	return read(jsonscan.NewReader(u, window[:], 0))
}

// wait takes n of a pool, in time for an answer; hold is what is held meanwhile.
func (b *body) wait(ctx context.Context, pool *admission.Pool, key string, n, hold int64) (release func(), err error) {
	ctx, cancel := context.WithDeadline(ctx, b.arrived.Add(maxWait))
	defer cancel()
	if release, err = pool.Acquire(ctx, key, n, hold); err != nil {
		return nil, httpx.Unavailable(err)
	}
	return release, nil
}
