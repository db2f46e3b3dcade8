package mcptool

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/liveactivity/liveactivity/internal/admission"
	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/jsonscan"
	"github.com/liveactivity/liveactivity/internal/memlimit"
)

// Bounds of a request. The SDK decodes a body several times, and the whole
// response is in memory until it is sent; so both are bounded first.
const (
	maxBody     = 1 << 20 // bytes
	maxStranger = 4 << 10 // bytes of a body without a valid key, which has strangersTime to arrive
	maxCalls    = 20      // messages in a batch
	maxDepth    = 64      // nesting of objects and arrays
	maxValues   = 10_000  // JSON values
	maxAnswer   = 8 << 20 // bytes
)

// strangersTime is short: a client without a valid key holds a connection for no longer.
const strangersTime = 200 * time.Millisecond

// tooMuch is the tool error of a call whose result exceeds the budget.
const tooMuch = "The answer would exceed 8 MiB; use a smaller limit, or query fewer users at once."

// bounded returns the request with its body read, the body's content and a budget for its
// response, or an error if it is no POST or the body exceeds the bounds. The content is valid until release,
// which is called once the request is served and may be called again. The key of that name gives access to
// the product.
func bounded(w http.ResponseWriter, r *http.Request, productID, keyName string) (_ *http.Request, content []byte,
	release func(), err error) {
	if r.Method != http.MethodPost {
		return nil, nil, nil, httpx.MethodNotAllowed(http.MethodPost)
	}
	body, err := httpx.ReadBody(w, r, maxBody, productID)
	if err != nil {
		return nil, nil, nil, err
	}
	calls, err := check(body.Bytes())
	if err != nil {
		body.Release()
		return nil, nil, nil, err
	}
	a := &answer{productID: productID, keyName: keyName, deadline: time.Now().Add(maxTime),
		room: int64(min(max(calls, 1), copies)) * maxAnswer, left: maxAnswer - maxCalls*overhead,
		looking: make(chan struct{}, 1)}
	r = r.WithContext(context.WithValue(r.Context(), answerKey{}, a))
	r.Body = io.NopCloser(bytes.NewReader(body.Bytes()))
	return r, body.Bytes(), body.Release, nil
}

// Bounds of the answers to all requests: they hold room until they are sent.
const (
	maxAnswers = 256 << 20       // bytes
	copies     = 5               // of the largest answer that a batch holds: results, messages, and the growing response
	ofMemory   = 8               // answers may hold 1/ofMemory of the memory
	sharers    = 4               // the fewest products that can fill the room
	maxWaiting = 16 << 20        // bytes that the waiting requests of a product hold
	maxTime    = 4 * time.Second // for room and for the lookups, so that a request is answered within 5 seconds
)

// newAnswers returns the room for all answers: at least one answer, and otherwise at most
// 1/ofMemory of the memory.
func newAnswers() *admission.Pool {
	total := max(min(maxAnswers, memlimit.Bytes()/ofMemory), maxAnswer)
	return admission.NewPool(total, max(total/sharers, maxAnswer), maxWaiting)
}

// admit waits for room for the largest answer of a request, and fails if there is
// none in time. The answer of a single call is far smaller, so all copies of it fit
// into the room for one.
func admit(r *http.Request, answers *admission.Pool) (release func(), err error) {
	a := answerOf(r.Context())
	if release, err = answers.Acquire(r.Context(), a.deadline, a.productID, a.room, maxBody); err != nil {
		return nil, httpx.Unavailable(err)
	}
	return release, nil
}

// check refuses a body that is too much work to decode, and returns the number of calls in its
// batch, zero if it is no batch. A body that is not JSON may pass: the SDK answers it.
func check(body []byte) (calls int, err error) {
	s := jsonscan.ShapeOf(body)
	switch {
	case s.Elements > maxCalls:
		return 0, httpx.BadRequest("A batch must contain at most %d calls.", maxCalls)
	case s.Depth > maxDepth:
		return 0, httpx.BadRequest("The request is nested deeper than %d objects and arrays.", maxDepth)
	case s.Values > maxValues:
		return 0, httpx.BadRequest("The request contains more than %d JSON values.", maxValues)
	}
	return s.Elements, nil
}

// answer is the budget of all results in one response, and the product that they are about. The calls
// of a batch share it, and may run concurrently.
type answer struct {
	productID   string      // of the caller's key, which was checked
	keyName     string      // see access.Audit
	room        int64       // bytes held until it is sent
	deadline    time.Time   // of the lookups
	unavailable atomic.Bool // a lookup failed
	// looking holds a value during a lookup, because the room is for one at a time.
	looking chan struct{}
	left    int // bytes on the wire that results may still take; guarded by looking
}

// answerKey is the key of an answer in a context. The SDK passes a call only the
// context and the header of its HTTP request.
type answerKey struct{}

// answerOf returns the answer to a request.
func answerOf(ctx context.Context) *answer { return ctx.Value(answerKey{}).(*answer) }

// overhead bounds the bytes of a result besides the data looked up: the frame of JSON-RPC and of
// the tool result.
const overhead = 4 << 10

// wireSize returns an upper bound of the bytes that the JSON takes in a
// response, which contains it twice: as JSON and as a string.
func wireSize(data []byte) int {
	size := 2 * len(data)
	for _, c := range data {
		switch c {
		case '"', '\\':
			size++ // in the string
		case '<', '>', '&':
			size += 10 // \u003c in both
		case 0xe2: // U+2028 and U+2029, of three bytes, become six
			size += 6
		}
	}
	return size
}
