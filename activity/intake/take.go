package intake

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/httpx"
)

// A request goes the same way for SDKs and webhooks: its product, its bytes, the check of its
// JSON, its events, their sessions, the sink, erasures. All that can refuse the request as a
// whole comes before the sink. After the sink only an erasure can fail; the sender repeats the
// request, and the sink ignores its events as duplicates.

// Call is a request of an SDK, but for its body. The zero value will do.
type Call struct {
	Token       string         // of a header; "" for that of the body
	Scheme      string         // for WWW-Authenticate; may be empty
	SentAt      string         // of a header; it goes before that of the body
	QuerySentAt string         // of the query; it goes after that of the body
	Kind        string         // of an event that does not state its own
	Taken       func(*Meaning) // is called with each event, when its Reason is final; may be nil
}

// Capture takes the events of an SDK's request, unless it is from a page that may not report to
// the product of its token. A token in a header is checked before the body is read. Its errors
// are answers.
func (in *Intake) Capture(w http.ResponseWriter, r *http.Request, src *Source, call Call) (_ Counts, err error) {
	t := taking{source: src, call: call}
	if call.Token != "" || call.Scheme != "" {
		if err = in.own(w, r, &t); err != nil {
			return Counts{}, err
		}
	}
	b, err := in.Receive(w, r)
	if err != nil {
		return Counts{}, err
	}
	defer b.Release()
	if t.payload, err = src.open(r.Context(), b); err != nil {
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

// own finds the product of a request by its token, and checks that the page may report to it.
func (in *Intake) own(w http.ResponseWriter, r *http.Request, t *taking) (err error) {
	if t.productID, err = in.productOf(t.call.Token, t.call.Scheme); err != nil {
		return err
	}
	return in.CheckOrigin(w, r, t.productID)
}

// open returns the payload of a body.
func (s *Source) open(ctx context.Context, b *Body) (payload, error) {
	json, err := b.JSON(ctx)
	if err != nil {
		return payload{}, err
	}
	return s.parse(json)
}

// CheckToken refuses a request from a page that may not report to the product of the token, if
// there is one. An unknown token is not refused: it has no list.
func (in *Intake) CheckToken(w http.ResponseWriter, r *http.Request, token string) error {
	if token == "" || r.Header.Get("Origin") == "" {
		return nil
	}
	productID, err := in.productOf(token, "")
	if isClientError(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return in.CheckOrigin(w, r, productID)
}

// isClientError reports whether err is an answer that blames the client: any below 500.
func isClientError(err error) bool {
	answer, ok := errors.AsType[*httpx.Error](err)
	return ok && answer.Status < http.StatusInternalServerError
}

// Discard reads a body of at most limit bytes and forgets it. It refuses one from
// a page that may not report to the product that the body names. A body that does not hold
// events, or no room is left to unpack, names none.
func (in *Intake) Discard(w http.ResponseWriter, r *http.Request, src *Source, limit int64) error {
	b, err := in.receive(w, r, limit)
	if err != nil {
		return err
	}
	defer b.Release()
	if r.Header.Get("Origin") == "" {
		return nil // no page
	}
	p, err := src.open(r.Context(), b)
	if err != nil {
		return nil
	}
	return in.CheckToken(w, r, src.token(&p))
}

// taking is a request for a product on its way to the sink.
type taking struct {
	source    *Source
	call      Call
	payload   payload
	productID string
	standing  activity.Standing // the least of its identities
	tokens    map[string]bool   // whether others than the request's own fit; nil where any token will do
	private   bool              // the browser asks for privacy
	limit     int               // how many events may be taken, the first; 0 for all
}

// take records the events of a request. The body's bytes are released before the events are
// recorded, so a slow sink holds none.
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
	for _, user := range slices.Compact(d.erased) { // after the events that came with them
		if err := in.opts.Erase(ctx, t.productID, user); err != nil {
			return Counts{}, httpx.Unavailable(err)
		}
	}
	in.events.WithLabelValues(t.productID, "accepted", "").Add(float64(len(d.erased)))
	counts.Accepted += len(d.erased)
	return counts, nil
}

// decoded is the events of a request.
type decoded struct {
	events  []activity.Event
	seeking []int // of the events, those that go to a session of their user
	erased  []string
	ignored Ignored
}

// decode decodes the events of a request. Call.Taken sees each event after it is judged and
// before it is vouched for. The error is an answer; then the events are not to be used.
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
			d.erased = append(d.erased, m.UserID)
			return true
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

// judge sets the reason for ignoring an event that its request may not bring: the event is the
// one of that number, from 1, and carries a token. The error is an answer, and ends the
// request.
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

// maxSought is how many users' sessions are looked for, at most, for the events of a request.
// An event of a user beyond them gets no session.
const maxSought = 128

// seekTimeout bounds the search, so that a request is answered within 5 seconds of a
// storage outage.
const seekTimeout = 3 * time.Second

// place gives the events at these indices the sessions that they go to. Events of one user and
// standing go to one session, but an action may go to another than an event without one. The
// error is an answer of 503, with some of the events changed.
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
