package httpx

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/liveactivity/liveactivity/internal/admission"
)

const (
	// firstRead is the number of bytes allocated for a body before any has
	// arrived.
	firstRead = 8 << 10
	// BodyTime is the maximum time that the body of a request between servers may
	// take to arrive.
	BodyTime = 5 * time.Second
	// MaxWait is the maximum time that a request waits for others once its body has
	// arrived. The rest of the 5 seconds until its answer is for lookups and for
	// recording.
	MaxWait = 3 * time.Second
)

// Body is the body of a request. It holds part of the memory reserved for all bodies, from its
// first bytes until it is released. Only one goroutine may use it at a time.
//
// It holds two kinds of memory in turn: for arriving bytes, by arrival, from the first byte
// until Free; for decoded values, by release, from Admit until Release.
type Body struct {
	room    *admission.Room
	arrived time.Time
	arrival *admission.Arrival
	first   *[firstRead]byte // from firsts; nil once it is returned
	raw     []byte           // starts in first, and moves when it grows
	release func()           // frees the memory for decoded values; may be nil
}

var firsts = sync.Pool{New: func() any { return new([firstRead]byte) }}

// ReadBody reads a request's body of at most limit bytes, within BodyTime, and waits until the
// product may hold it; productID is "" for all requests with an unknown product. Unless there
// is an error, the caller must call Release in the end. A longer body is 413, one that arrives
// too slowly 408, one that breaks off 400, and one without memory 503.
func ReadBody(w http.ResponseWriter, r *http.Request, limit int64, productID string) (*Body, error) {
	done := Hasten(w, BodyTime)
	b, err := Receive(w, r, limit, admission.Bodies())
	if err != nil {
		return nil, err
	}
	done()
	if err := b.Admit(r.Context(), productID, int64(len(b.raw))); err != nil {
		b.Release()
		return nil, err
	}
	return b, nil
}

// Hasten requires a request's body to arrive within a time. Call done once it has: an expired
// deadline would end the request's context. After an error do not call it, as the connection is
// closed.
func Hasten(w http.ResponseWriter, within time.Duration) (done func()) {
	control := http.NewResponseController(w)
	// A writer without deadlines does not belong to a connection.
	_ = control.SetReadDeadline(time.Now().Add(within))
	return func() { _ = control.SetReadDeadline(time.Time{}) }
}

// Receive reads a request's body of at most limit bytes, as fast as the sender and the memory
// allow. It returns the errors of ReadBody, or a 503 for a body that had to give way to faster
// ones; after any error the connection is closed. Unless there is an error, the caller must
// call Release in the end.
func Receive(w http.ResponseWriter, r *http.Request, limit int64, room *admission.Room) (*Body, error) {
	if r.ContentLength > limit {
		return nil, TooLarge(limit)
	}
	control := http.NewResponseController(w)
	b := &Body{room: room, first: firsts.Get().(*[firstRead]byte)}
	b.arrival = room.Arriving.Begin(func() { _ = control.SetReadDeadline(time.Unix(1, 0)) })
	b.raw = b.first[:0]
	err := b.Hold(firstRead)
	if err == nil {
		err = b.read(r.Body, limit)
	}
	if err != nil {
		b.Release()
		return nil, err
	}
	b.arrival.Arrived()
	b.arrived = time.Now()
	r.Body = http.NoBody
	return b, nil
}

func (b *Body) read(r io.Reader, limit int64) error {
	for {
		if len(b.raw) == cap(b.raw) {
			if err := b.grow(); err != nil {
				return err
			}
		}
		n, err := r.Read(b.raw[len(b.raw):cap(b.raw)])
		b.raw = b.raw[:len(b.raw)+n]
		switch {
		case int64(len(b.raw)) > limit:
			return TooLarge(limit)
		case err == nil:
		case err == io.EOF:
			return nil
		case b.arrival.GaveWay():
			return Unavailable(admission.ErrBusy)
		default:
			return brokenOff(err)
		}
	}
}

// Discard reads and drops a request's body of at most limit bytes, in almost no memory. It returns
// the errors of Receive.
func Discard(r *http.Request, limit int64) error {
	if r.ContentLength > limit {
		return TooLarge(limit)
	}
	switch _, err := io.CopyN(io.Discard, r.Body, limit+1); err {
	case nil:
		return TooLarge(limit)
	case io.EOF:
		return nil
	default:
		return brokenOff(err)
	}
}

func brokenOff(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return &Error{Status: http.StatusRequestTimeout, Detail: "The request body did not arrive in time.", Cause: err}
	}
	return &Error{Status: http.StatusBadRequest, Detail: "The request body broke off before its end.", Cause: err}
}

// grow doubles the body's memory. A sender that is slower than others may have to
// give way.
func (b *Body) grow() error {
	if err := b.Hold(int64(cap(b.raw))); err != nil {
		return err
	}
	larger := make([]byte, len(b.raw), 2*cap(b.raw))
	copy(larger, b.raw)
	b.raw = larger
	return nil
}

// Bytes returns the body as it arrived. It is valid until Free or Release.
func (b *Body) Bytes() []byte { return b.raw }

// Arrived returns when the body had completely arrived.
func (b *Body) Arrived() time.Time { return b.arrived }

// Hold reserves memory for n more bytes of the body. Shrink returns it.
func (b *Body) Hold(n int64) error {
	if err := b.arrival.Grow(n); err != nil {
		return Unavailable(err)
	}
	return nil
}

// Shrink returns the memory for n bytes.
func (b *Body) Shrink(n int64) { b.arrival.Shrink(n) }

// Admit waits until a product's request may hold n bytes of decoded values. No
// product holds more than a quarter of the total.
func (b *Body) Admit(ctx context.Context, productID string, n int64) (err error) {
	b.release, err = b.Wait(ctx, b.room.Decoded, productID, n, n)
	return err
}

// Wait acquires n of a pool, in time for an answer. holds is the number of decoded bytes that
// the request holds during the wait. The time counts from the body's arrival, over all waits
// of a request together. The error is a 503.
func (b *Body) Wait(ctx context.Context, pool *admission.Pool, key string, n, holds int64) (release func(), err error) {
	release, err = pool.Acquire(ctx, b.arrived.Add(MaxWait), key, n, int64(cap(b.raw))+holds)
	if err != nil {
		return nil, Unavailable(err)
	}
	return release, nil
}

// Free releases the body's bytes: nothing may refer to them afterwards. The
// memory from Admit stays reserved.
func (b *Body) Free() {
	b.arrival.Release()
	if b.first != nil {
		firsts.Put(b.first)
	}
	b.first, b.raw = nil, nil
}

// Release releases everything. It may be called more than once.
func (b *Body) Release() {
	b.Free()
	if b.release != nil {
		b.release()
		b.release = nil
	}
}

// TooLarge returns a 413.
func TooLarge(limit int64) *Error {
	return Errorf(http.StatusRequestEntityTooLarge, "The request body is larger than the limit of %d bytes.", limit)
}
