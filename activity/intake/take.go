package intake

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/tracing"
	"github.com/liveactivity/liveactivity/internal/httpx"
)

// Requests of SDKs and webhooks take the same steps: product, body, validation of the JSON, events,
// sessions, sink, erasures. Everything that can refuse the whole request comes before the sink.
// After the sink only an erasure can fail. The sender then repeats the request, and the sink drops
// its events as duplicates.

// Call has the parts of an SDK's request outside its body. The zero value is valid.
type Call struct {
	Token       string         // from a header; "" to use the body's
	Scheme      string         // for WWW-Authenticate; may be empty
	SentAt      string         // from a header; overrides the body's
	QuerySentAt string         // from the query; used if the body has none
	Kind        string         // of events that do not state their own
	Taken       func(*Meaning) // called with each event once its Reason is final; may be nil
}

// Capture records the events of an SDK's request, unless it is from a page that may not send events
// to the product of its token. A token in a header is checked before the body is read. Errors are
// responses.
func (in *Intake) Capture(w http.ResponseWriter, r *http.Request, src *Source, call Call) (_ Counts, err error) {
	t := taking{in: in, call: call}
	if call.Token != "" || call.Scheme != "" {
		if err = t.own(w, r); err != nil {
			return Counts{}, err
		}
	}
	if err = t.receive(w, r, in.opts.MaxBody); err != nil {
		return Counts{}, err
	}
	defer t.release()
	if err = t.open(r.Context(), src); err != nil {
		return Counts{}, err
	}
	if t.productID == "" {
		t.call.Token = src.token(&t.payload)
		if err = t.own(w, r); err != nil {
			return Counts{}, err
		}
	}
	t.private = r.Header.Get("Sec-GPC") == "1"
	t.tokens = map[string]bool{}
	return t.take(r.Context())
}

// own finds the product of a request by its token, and checks that the page may send events to it.
func (t *taking) own(w http.ResponseWriter, r *http.Request) (err error) {
	if t.productID, err = t.in.productOf(t.call.Token, t.call.Scheme); err != nil {
		return err
	}
	return t.in.CheckOrigin(w, r, t.productID)
}

// CheckToken refuses a request from a page that may not send events to the token's product. It does
// not refuse unknown tokens.
func (in *Intake) CheckToken(w http.ResponseWriter, r *http.Request, token string) error {
	if token == "" || r.Header.Get("Origin") == "" {
		return nil
	}
	productID, known, err := in.products.ProductOfToken(token)
	switch {
	case err != nil:
		return httpx.Unavailable(err)
	case !known:
		return nil
	}
	return in.CheckOrigin(w, r, productID)
}

// Discard reads and drops a body of at most limit bytes. It refuses a request from a page that may
// not send events to the product of the body's token. A body without events, or one that there is
// no room to unpack, has no token. A request without an Origin is not from a page and takes no room.
func (in *Intake) Discard(w http.ResponseWriter, r *http.Request, src *Source, limit int64) error {
	if r.Header.Get("Origin") == "" {
		return httpx.Discard(r, limit)
	}
	t := taking{in: in}
	if err := t.receive(w, r, limit); err != nil {
		return err
	}
	defer t.release()
	if t.open(r.Context(), src) != nil {
		return nil
	}
	return in.CheckToken(w, r, src.token(&t.payload))
}

// taking is the state of a request on its way to the sink. It holds room until it is released. Decoded
// values that outlive decoded must be copies. It is not safe for concurrent use.
type taking struct {
	in       *Intake
	body     *httpx.Body
	encoding string
	json     []byte // unpacked, nil before open; may share the body's memory
	pass     func() // ends the body's turn; may be nil

	source    *Source
	call      Call
	payload   payload
	productID string
	standing  activity.Standing // of its identities at least
	tokens    map[string]bool   // whether other tokens fit the product; nil if any token does
	private   bool              // the browser sends Global Privacy Control
	limit     int               // the number of leading events to accept; 0 for all

	// These are decoded from the payload.
	events  []activity.Event
	seeking []int    // indices of events that need a session of their user
	erased  []string // users to erase
	ignored Ignored
}

// take records the events of a request. It releases the body's bytes first, so a slow sink does not
// hold them. The client may hang up, or close its side of the connection, once it has sent the body.
func (t *taking) take(ctx context.Context) (Counts, error) {
	if err := t.admit(ctx); err != nil {
		return Counts{}, err
	}
	err := t.decode(ctx)
	t.decoded()
	if err != nil {
		return Counts{}, err
	}
	ctx = context.WithoutCancel(ctx)
	if err := t.place(ctx); err != nil {
		return Counts{}, err
	}
	counts, err := t.in.Record(ctx, t.productID, t.events, t.ignored)
	if err != nil {
		return Counts{}, err
	}
	slices.Sort(t.erased)
	for _, user := range slices.Compact(t.erased) { // after the request's other events
		if err := t.in.opts.Erase(ctx, t.productID, user); err != nil {
			return Counts{}, httpx.Unavailable(err)
		}
	}
	if n := len(t.erased); n > 0 {
		t.in.events.WithLabelValues(t.productID, "accepted", "").Add(float64(n))
		t.in.opts.Meter.Count(t.productID, tracing.Flow{Accepted: n})
		counts.Accepted += n
	}
	return counts, nil
}

// decode decodes the events of a request. It calls Call.Taken for each event after judge and before
// vouch. The error is a response, and invalidates the events.
func (t *taking) decode(ctx context.Context) error {
	product, err := t.in.product(t.productID)
	if err != nil {
		return err
	}
	t.private = t.private && product.RespectGPC
	arrived := t.body.Arrived()
	v := voucher{t.standing, product.IdentitySecrets, arrived}
	t.events = make([]activity.Event, 0, t.payload.count)
	from := Request{Arrived: arrived, SentAt: cmp.Or(t.call.SentAt, t.payload.sentAt, t.call.QuerySentAt),
		Kind: t.call.Kind, Webhook: t.standing == activity.Reported, Events: product.Events}
	read := 0
	t.source.each(&t.payload, from, func(token string, m *Meaning) bool {
		read++
		if err = t.judge(m, read, token); t.call.Taken != nil {
			t.call.Taken(m)
		}
		switch {
		case m.Reason != "":
			t.in.Ignore(ctx, &t.ignored, t.productID, m.SessionID, m.Reason)
			return err == nil
		case m.Erases:
			if t.erased = append(t.erased, m.UserID); len(t.erased) > maxErased {
				err = httpx.Errorf(http.StatusRequestEntityTooLarge,
					"The request asks for more than the limit of %d erasures.", maxErased)
			}
			return err == nil
		}
		m.Received = arrived
		v.vouch(&m.Event, m.Proof)
		if m.SeeksSession && m.SessionID == "" { // then it has a user
			t.seeking = append(t.seeking, len(t.events))
		}
		t.events = append(t.events, m.Event)
		return err == nil
	})
	return err
}

// judge sets the reason for ignoring an event that the request must not contain. number counts the
// request's events from 1, and token is the event's own. An error is the response to the request.
func (t *taking) judge(m *Meaning, number int, token string) (err error) {
	fits := true
	if t.tokens != nil {
		fits, err = t.fits(token)
	}
	switch {
	case t.limit > 0 && number > t.limit:
		m.Reason = ReasonUnsigned
	case t.private:
		m.Reason = ReasonGPC
	case m.Reason == "" && !fits:
		m.Reason = ReasonToken
	case m.Reason == "" && t.standing == activity.Claimed && t.in.opts.IsOwn != nil && t.in.opts.IsOwn(m.SessionID):
		m.Reason = ReasonMalformed
	case m.Erases && (t.in.opts.Erase == nil || t.standing != activity.Reported):
		m.Reason = ReasonDelete
	}
	return err
}

// maxErased is the largest number of erasures in a request; more are a 413. Each erasure searches all
// sessions of the product and is committed alone.
const maxErased = 50

// maxSought is the number of users of a request whose sessions are looked up. Events of further users
// get no session.
const maxSought = 128

// seekTimeout bounds the lookup, so that a request is answered within 5 seconds while storage is
// down.
const seekTimeout = 3 * time.Second

// place sets the sessions of the events that seek one. Events with the same user and standing get the
// same session, except that events with and without an action may differ. The error is a
// 503, after which some of the events may have been changed.
func (t *taking) place(ctx context.Context) error {
	if t.in.opts.SessionOf == nil || len(t.seeking) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, seekTimeout)
	defer cancel()
	type seeker struct {
		userID   string
		standing activity.Standing
		acts     bool
	}
	found := map[seeker]string{}
	for _, i := range t.seeking {
		e := &t.events[i]
		who := seeker{e.UserID, e.Standing, e.Action != nil}
		sessionID, known := found[who]
		if !known && len(found) < maxSought {
			var err error
			if sessionID, err = t.in.opts.SessionOf(ctx, t.productID, e); err != nil {
				return httpx.Unavailable(err)
			}
			found[who] = sessionID
		}
		e.SessionID, e.Placed = sessionID, true
	}
	return nil
}
