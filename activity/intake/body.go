package intake

import (
	"context"
	"net/http"

	"github.com/liveactivity/liveactivity/internal/httpx"
)

// The steps of a body, in order: receive, open, admit, decoding, decoded, recording, release. Its
// bytes count against the shared room for arriving requests until decoded, and its events against
// the product's part of the room from admit to release. Large bodies wait for one of a few turns
// to be unpacked and decoded. Small bodies, which are nearly all, do not wait.

// smallBody is the number of bytes of JSON that are unpacked without a turn.
const smallBody = 64 << 10

// receive reads the body of a request, of at most limit bytes; see [httpx.Receive] for the errors.
// Without an error, the caller must call release in the end.
func (t *taking) receive(w http.ResponseWriter, r *http.Request, limit int64) (err error) {
	t.encoding = r.Header.Get("Content-Encoding")
	t.body, err = httpx.Receive(w, r, limit, t.in.room)
	return err
}

// open sets the payload of a body, and its source: the first one that recognizes the first event, or
// else the last of the sources, which must not be empty. It detects the format by content, but a
// Content-Encoding other than gzip is a 415, and more than MaxDecoded bytes of JSON are a 413. A large
// body is unpacked and validated in its turn. Call it once. Errors are responses.
func (t *taking) open(ctx context.Context, sources ...*Source) (err error) {
	defer t.endPass()
	u := unpacker{limit: t.in.opts.MaxDecoded, room: func() error { return t.awaitTurn(ctx) }}
	t.json, err = u.unpack(t.body.Bytes(), t.encoding)
	if t.pass != nil {
		t.body.Shrink(t.in.opts.MaxDecoded - int64(len(t.json)))
	}
	if err != nil {
		return err
	}
	for _, s := range sources {
		t.source = s
		t.payload, err = s.parse(t.json)
		if err == nil && s.form.Recognizes != nil && s.form.Recognizes(outline(t.payload.first())) {
			break
		}
	}
	return err
}

// awaitTurn waits for a turn to unpack and validate a large body, unless the body has one, and
// reserves room for the largest possible result. The turn lasts until endPass. The product is not
// known yet, so all large bodies wait in one queue.
func (t *taking) awaitTurn(ctx context.Context) (err error) {
	if t.pass != nil {
		return nil
	}
	if t.pass, err = t.body.Wait(ctx, t.in.room.Passes, "", 1, 0); err != nil {
		return err
	}
	return t.body.Hold(t.in.opts.MaxDecoded)
}

// endPass ends the body's turn, if it has one.
func (t *taking) endPass() {
	if t.pass != nil {
		t.pass()
		t.pass = nil
	}
}

// admit waits for room for the JSON and the decoded events of a product's request. open must have
// been called before. No product gets more than a quarter of the whole room. A large body also
// waits for a turn to be decoded, which decoded ends.
func (t *taking) admit(ctx context.Context) (err error) {
	n := int64(len(t.json))
	if err = t.body.Admit(ctx, t.productID, n); err == nil && n > smallBody {
		t.pass, err = t.body.Wait(ctx, t.in.room.Passes, t.productID, 1, n)
	}
	return err
}

// decoded releases the body's bytes, to which nothing may refer any more. The room from admit remains
// reserved for the decoded events.
func (t *taking) decoded() {
	t.endPass()
	t.body.Free()
	t.json, t.payload = nil, payload{}
}

// release releases everything. It may be called more than once.
func (t *taking) release() {
	t.decoded()
	t.body.Release()
}
