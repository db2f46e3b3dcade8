package intake

import (
	"context"
	"net/http"

	"github.com/liveactivity/liveactivity/internal/httpx"
)

// The steps of a body, in order: Receive, open, Admit, decoding, Decoded, recording, Release. Its
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
	json     []byte // unpacked, nil before open; may share the body's memory
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

// open returns the payload of a body, and its source: the first one that recognizes the first event,
// or else the last of the sources, which must not be empty. It detects the format by content, but a
// Content-Encoding other than gzip is a 415, and more than MaxDecoded bytes of JSON are a 413. A large
// body is unpacked and validated in its turn. Call it once. Errors are responses.
func (b *Body) open(ctx context.Context, sources ...*Source) (s *Source, p payload, err error) {
	defer b.endPass()
	u := unpacker{limit: b.in.opts.MaxDecoded, room: func() error { return b.awaitTurn(ctx) }}
	b.json, err = u.unpack(b.Bytes(), b.encoding)
	if b.pass != nil {
		b.Shrink(b.in.opts.MaxDecoded - int64(len(b.json)))
	}
	if err != nil {
		return nil, payload{}, err
	}
	for _, s = range sources {
		if p, err = s.parse(b.json); err == nil && s.form.Recognizes != nil && s.form.Recognizes(outline(p.first())) {
			break
		}
	}
	return s, p, err
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

// endPass ends the body's turn, if it has one.
func (b *Body) endPass() {
	if b.pass != nil {
		b.pass()
		b.pass = nil
	}
}

// Admit waits for room for the JSON and the decoded events of a product's request. open must have
// been called before. No product gets more than a quarter of the whole room. A large body also
// waits for a turn to be decoded, which Decoded ends.
func (b *Body) Admit(ctx context.Context, productID string) (err error) {
	n := int64(len(b.json))
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
