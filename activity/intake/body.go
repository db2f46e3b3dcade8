package intake

import (
	"context"
	"net/http"

	"github.com/liveactivity/liveactivity/internal/httpx"
)

// The steps of a body, in order: Receive, JSON, Admit, decoding, Decoded, recording, Release. Its
// bytes count against the shared room for arriving requests until Decoded, and its events against
// the product's part of the room from Admit to Release. Large bodies wait for one of a few turns
// to be unpacked and decoded. Small bodies, which are nearly all, do not wait.

// smallBody is the number of bytes of JSON that are unpacked without a turn.
const smallBody = 64 << 10

// Body is the body of a request. It holds room until it is released. Decoded values that outlive
// Decoded must be copies. A Body is not safe for concurrent use.
type Body struct {
	*httpx.Body
	in       *Intake
	encoding string
	json     []byte // unpacked, nil before JSON; may share the body's memory
	pass     func() // ends the body's turn; may be nil
}

// Receive reads the body of a request, of at most limit bytes; see [httpx.Receive] for the errors.
// Without an error, the caller must call Release in the end.
func (in *Intake) Receive(w http.ResponseWriter, r *http.Request, limit int64) (*Body, error) {
	body, err := httpx.Receive(w, r, limit, in.room)
	if err != nil {
		return nil, err
	}
	return &Body{Body: body, in: in, encoding: r.Header.Get("Content-Encoding")}, nil
}

// JSON unpacks the JSON inside the body: from gzip, and from a form's base64 or lz-string. It
// detects the format by content, but a Content-Encoding other than gzip is a 415. More than
// MaxDecoded bytes are a 413. It does not validate the JSON. The result is valid until Decoded or
// Release. A large body keeps its turn until Admit or Release. Call it once.
func (b *Body) JSON(ctx context.Context) (_ []byte, err error) {
	u := unpacker{limit: b.in.opts.MaxDecoded, room: func() error { return b.awaitTurn(ctx) }}
	defer func() { b.shrinkTo(int64(len(b.json))) }()
	b.json, err = u.unpack(b.Bytes(), b.encoding)
	return b.json, err
}

// awaitTurn waits for a turn to unpack and validate a large body, unless the body has one, and
// reserves room for the largest possible result. The turn lasts until endPass. The product is not
// known yet, so all large bodies wait in one queue.
func (b *Body) awaitTurn(ctx context.Context) (err error) {
	if b.pass != nil {
		return nil
	}
	if b.pass, err = b.Wait(ctx, b.in.room.Passes, "", 1, 0); err != nil {
		return err
	}
	return b.Hold(b.in.opts.MaxDecoded)
}

// shrinkTo reduces the room that awaitTurn reserved to n bytes. Without a turn it does nothing.
func (b *Body) shrinkTo(n int64) {
	if b.pass != nil {
		b.Shrink(b.in.opts.MaxDecoded - min(n, b.in.opts.MaxDecoded))
	}
}

// endPass ends the body's turn, if it has one.
func (b *Body) endPass() {
	if b.pass != nil {
		b.pass()
		b.pass = nil
	}
}

// Admit waits for room for the JSON and the decoded events of a product's request. JSON must have
// been called before. No product gets more than a quarter of the whole room. A large body also
// waits for a turn to be decoded, which Decoded ends.
func (b *Body) Admit(ctx context.Context, productID string) (err error) {
	n := int64(len(b.json))
	b.endPass()
	if err = b.Body.Admit(ctx, productID, n); err == nil && n > smallBody {
		b.pass, err = b.Wait(ctx, b.in.room.Passes, productID, 1, n)
	}
	return err
}

// Decoded releases the body's bytes, to which nothing may refer any more. The room from Admit remains
// reserved for the decoded events.
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
