package intake

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/liveactivity/liveactivity/activity"
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
	t := taking{source: src, call: call}
	if call.Token != "" || call.Scheme != "" {
		if err = in.own(w, r, &t); err != nil {
			return Counts{}, err
		}
	}
	b, err := in.Receive(w, r, in.opts.MaxBody)
	if err != nil {
		return Counts{}, err
	}
	defer b.Release()
	if _, t.payload, err = b.open(r.Context(), src); err != nil {
		return Counts{}, err
	}
	if t.productID == "" {
		t.call.Token = src.token(&t.payload)
		if err = in.own(w, r, &t); err != nil {
			return Counts{}, err
		}
	}
	t.private = r.Header.Get("Sec-GPC") == "1"
	t.tokens = map[string]bool{}
	return in.take(r.Context(), b, &t)
}

// own finds the product of a request by its token, and checks that the page may send events to it.
func (in *Intake) own(w http.ResponseWriter, r *http.Request, t *taking) (err error) {
	if t.productID, err = in.productOf(t.call.Token, t.call.Scheme); err != nil {
		return err
	}
	return in.CheckOrigin(w, r, t.productID)
}

// open returns the payload of a body, and its source: the first one that recognizes the first event,
// or else the last of the sources, which must not be empty. A large body is unpacked and validated
// in its turn.
func (b *Body) open(ctx context.Context, sources ...*Source) (s *Source, p payload, err error) {
	defer b.endPass()
	json, err := b.JSON(ctx)
	if err != nil {
		return nil, payload{}, err
	}
	for _, s = range sources {
		if p, err = s.parse(json); err == nil && s.form.Recognizes != nil && s.form.Recognizes(outline(p.first())) {
			break
		}
	}
	return s, p, err
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
	b, err := in.Receive(w, r, limit)
	if err != nil {
		return err
	}
	defer b.Release()
	_, p, err := b.open(r.Context(), src)
	if err != nil {
		return nil
	}
	return in.CheckToken(w, r, src.token(&p))
}

// taking is the state of a request on its way to the sink.
type taking struct {
	source    *Source
	call      Call
	payload   payload
	productID string
	standing  activity.Standing // of its identities at least
	tokens    map[string]bool   // whether other tokens fit the product; nil if any token does
	private   bool              // the browser sends Global Privacy Control
	limit     int               // the number of leading events to accept; 0 for all
}

// take records the events of a request. It releases the body's bytes first, so a slow sink does not
// hold them.
func (in *Intake) take(ctx context.Context, b *Body, t *taking) (Counts, error) {
	if err := b.Admit(ctx, t.productID); err != nil {
		return Counts{}, err
	}
	d, err := in.decode(ctx, b, t)
	t.payload = payload{}
	b.Decoded()
	if err != nil {
		return Counts{}, err
	}
	if err := in.place(ctx, t.productID, d.events, d.seeking); err != nil {
		return Counts{}, err
	}
	counts, err := in.Record(ctx, t.productID, d.events, d.ignored)
	if err != nil {
		return Counts{}, err
	}
	slices.Sort(d.erased)
	for _, user := range slices.Compact(d.erased) { // after the request's other events
		if err := in.opts.Erase(ctx, t.productID, user); err != nil {
			return Counts{}, httpx.Unavailable(err)
		}
	}
	in.events.WithLabelValues(t.productID, "accepted", "").Add(float64(len(d.erased)))
	counts.Accepted += len(d.erased)
	return counts, nil
}

// decoded holds the decoded events of a request.
type decoded struct {
	events  []activity.Event
	seeking []int // indices of events that need a session of their user
	erased  []string
	ignored Ignored
}

// decode decodes the events of a request. It calls Call.Taken for each event after judge and before
// vouch. The error is a response, and invalidates the events.
func (in *Intake) decode(ctx context.Context, b *Body, t *taking) (d decoded, err error) {
	product, err := in.product(t.productID)
	if err != nil {
		return d, err
	}
	t.private = t.private && product.RespectGPC
	v := voucher{t.standing, product.IdentitySecrets, b.Arrived()}
	d.events = make([]activity.Event, 0, t.payload.count)
	from := Request{Arrived: b.Arrived(), SentAt: cmp.Or(t.call.SentAt, t.payload.sentAt, t.call.QuerySentAt),
		Kind: t.call.Kind, Webhook: t.standing == activity.Reported, Events: product.Events}
	read := 0
	t.source.each(&t.payload, from, func(token string, m *Meaning) bool {
		read++
		if err = in.judge(t, m, read, token); t.call.Taken != nil {
			t.call.Taken(m)
		}
		switch {
		case m.Reason != "":
			in.Ignore(ctx, &d.ignored, t.productID, m.SessionID, m.Reason)
			return err == nil
		case m.Erases:
			if d.erased = append(d.erased, m.UserID); len(d.erased) > maxErased {
				err = httpx.Errorf(http.StatusRequestEntityTooLarge,
					"The request asks for more than the limit of %d erasures.", maxErased)
			}
			return err == nil
		}
		m.Received = b.Arrived()
		v.vouch(&m.Event, m.Proof)
		if m.SeeksSession && m.SessionID == "" && m.UserID != "" {
			d.seeking = append(d.seeking, len(d.events))
		}
		d.events = append(d.events, m.Event)
		return err == nil
	})
	return d, err
}

// judge sets the reason for ignoring an event that the request must not contain. number counts the
// request's events from 1, and token is the event's own. An error is the response to the request.
func (in *Intake) judge(t *taking, m *Meaning, number int, token string) (err error) {
	fits := true
	if t.tokens != nil {
		fits, err = in.fits(t, token)
	}
	switch {
	case t.limit > 0 && number > t.limit:
		m.Reason = ReasonUnsigned
	case t.private:
		m.Reason = ReasonGPC
	case m.Reason == "" && !fits:
		m.Reason = ReasonToken
	case m.Erases && (in.opts.Erase == nil || t.standing != activity.Reported):
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

// place sets the sessions of the events at the given indices. Events with the same user and standing
// get the same session, except that events with and without an action may differ. The error is a
// 503, after which some of the events may have been changed.
func (in *Intake) place(ctx context.Context, productID string, events []activity.Event, seeking []int) error {
	if in.opts.SessionOf == nil || len(seeking) == 0 {
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
	for _, i := range seeking {
		e := &events[i]
		who := seeker{e.UserID, e.Standing, e.Action != nil}
		sessionID, known := found[who]
		if !known && len(found) < maxSought {
			var err error
			if sessionID, err = in.opts.SessionOf(ctx, productID, e); err != nil {
				return httpx.Unavailable(err)
			}
			found[who] = sessionID
		}
		e.SessionID = sessionID
	}
	return nil
}
