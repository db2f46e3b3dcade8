package intake

import (
	"context"
	"net/http"

	"github.com/liveactivity/liveactivity/internal/httpx"
)

// A body goes through these steps, in this order: Receive, JSON, Admit, decoding, Decoded,
// recording, Release. Its bytes are counted in the shared room of arriving requests until
// Decoded, its events in the product's part of the room from Admit to Release. Gunzipping and
// decoding a large body wait for a turn, of which there are few; small bodies, nearly all of
// them, wait for none.

// smallBody is how many bytes of JSON are unpacked without waiting for a turn.
const smallBody = 64 << 10

// Body is the body of a request. It holds room for itself until it is released, and is used by
// one goroutine. Everything decoded from it that outlives Decoded must be a copy.
type Body struct {
	*httpx.Body
	in       *Intake
	encoding string
	json     []byte // unpacked, nil before JSON; may be a part of the body's bytes
	pass     func() // ends the body's turn; may be nil
}

// Receive reads the body of a request as it arrives, at most MaxBody bytes of it: see
// [httpx.Receive] for the errors. Release must be called in the end, unless there is an error.
func (in *Intake) Receive(w http.ResponseWriter, r *http.Request) (*Body, error) {
	return in.receive(w, r, in.opts.MaxBody)
}

func (in *Intake) receive(w http.ResponseWriter, r *http.Request, limit int64) (*Body, error) {
	body, err := httpx.Receive(w, r, limit, in.room)
	if err != nil {
		return nil, err
	}
	return &Body{Body: body, in: in, encoding: r.Header.Get("Content-Encoding")}, nil
}

// JSON returns the JSON inside the body: gunzipped, and taken out of a form's base64 or
// lz-string. The content decides, but a Content-Encoding other than gzip is 415. More than
// MaxDecoded bytes are 413. Whether it is valid JSON is not checked. The result is valid until
// Decoded or Release, and the same at each call.
func (b *Body) JSON(ctx context.Context) (_ []byte, err error) {
	if b.json != nil {
		return b.json, nil
	}
	u := unpacker{limit: b.in.opts.MaxDecoded, room: func() error { return b.awaitTurn(ctx) }}
	defer func() { b.endTurn(int64(len(b.json))) }()
	b.json, err = u.unpack(b.Bytes(), b.encoding)
	return b.json, err
}

// awaitTurn waits until a large body may be unpacked, unless it may already, and holds room for
// the most that can come out. The product is not known yet, so all such bodies wait in one
// line.
func (b *Body) awaitTurn(ctx context.Context) (err error) {
	if b.pass != nil {
		return nil
	}
	if b.pass, err = b.Wait(ctx, b.in.room.Passes, "", 1, 0); err != nil {
		return err
	}
	return b.Hold(b.in.opts.MaxDecoded)
}

// endTurn keeps room for n of the bytes that awaitTurn held. Without a turn it does nothing.
func (b *Body) endTurn(n int64) {
	if b.endPass() {
		b.Shrink(b.in.opts.MaxDecoded - min(n, b.in.opts.MaxDecoded))
	}
}

// endPass ends the body's turn, if it has one.
func (b *Body) endPass() bool {
	if b.pass == nil {
		return false
	}
	b.pass()
	b.pass = nil
	return true
}

// Admit waits until a product's request may hold its JSON and its decoded events; JSON must
// have been called. No product holds more than a quarter of the room for all. A large body also
// waits for its turn to be decoded, which Decoded ends.
func (b *Body) Admit(ctx context.Context, productID string) (err error) {
	n := int64(len(b.json))
	if err = b.Body.Admit(ctx, productID, n); err == nil && n > smallBody {
		b.pass, err = b.Wait(ctx, b.in.room.Passes, productID, 1, n)
	}
	return err
}

// Decoded releases the body's bytes: nothing may refer to them any more. The room
// that Admit took stays with the decoded events.
func (b *Body) Decoded() {
	b.endPass()
	b.Free()
	b.json = nil
}

// Release releases everything. It may be called more than once.
func (b *Body) Release() {
	b.Decoded()
	b.Body.Release()
}
