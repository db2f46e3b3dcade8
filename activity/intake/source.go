package intake

import (
	"cmp"
	"sync"
	"time"

	"github.com/liveactivity/liveactivity/activity"
)

// Source decodes one vendor's events. Create it once, with [NewSource]. It is safe for concurrent use.
type Source struct {
	form     Form
	decoders sync.Pool // of *decoding
}

// NewSource returns a source. The function returns a decoder that reads from the given reader.
// Decoders are reused, each for one request at a time.
func NewSource(form Form, newDecoder func(*Reader) Decoder) *Source {
	return &Source{form: form, decoders: sync.Pool{New: func() any {
		d := &decoding{}
		d.decoder = newDecoder(&d.reader)
		return d
	}}}
}

// Decoder decodes the events of a request, one after the other.
type Decoder interface {
	// Next reads the next JSON value, whether an event or not, and returns its capture token, ""
	// for none. It must consume exactly that value and drop the state of the one before.
	Next() (token string)
	// Meaning fills in m, which is empty, for the event that Next read. It is called at most
	// once after each Next, and not at all if only the token is needed. It must not retain or
	// modify from.
	Meaning(from *Request, m *Meaning)
}

// decoding is the state of decoding a request, reused for others.
type decoding struct {
	reader  Reader
	decoder Decoder
	from    Request
	meaning Meaning // of the event read last
}

// Request has the facts about a request that affect the meaning of its events.
type Request struct {
	Arrived time.Time // by the service's clock
	SentAt  string    // by the sender's clock, as stated in the request; "" if unknown
	Kind    string    // of events that do not state their own; "" if unknown
	Webhook bool      // sent by the vendor, which has corrected the times
	Events  *Events   // custom events of the product that become actions
}

// Meaning is the decoded meaning of a source's event.
type Meaning struct {
	activity.Event
	Proof  Proof
	Key    string // the sender's ID of the event; "" for none
	Reason string // for ignoring it, see [Ignored]; "" for none
	// SeeksSession means that the event has a user and no session, and belongs to a session of
	// the user; see Options.SessionOf.
	SeeksSession bool
	// Erases means that the event is a request to erase its user, and nothing else; see
	// Options.Erase.
	Erases bool
}

// NameVisitor makes the event identify its visitor as its user, if it states both. An event that
// states neither a user nor an email address has no identity to learn.
func (m *Meaning) NameVisitor() {
	if m.Identified && m.Visitor != m.UserID {
		m.Anonymous = ifUsable(m.Visitor)
	}
	if !m.Identified && m.Email == "" {
		m.Reason = ReasonNothing
	}
}

// Finish sets the event's time and, if it has none, the reason for ignoring it. The time is the
// stamp, by the sender's clock, which showed sentAt when the request was sent; without a stamp the
// event has none, so it happened on arrival. An unreadable stamp makes the event malformed. Without a
// readable sentAt the time is not corrected.
func (m *Meaning) Finish(from *Request, stamp, sentAt string) {
	if m.Reason = cmp.Or(m.Reason, ReasonToIgnore(&m.Event)); m.Reason != "" {
		return
	}
	if stamp == "" {
		return
	}
	m.Sent, _ = ParseTime(sentAt)
	ok := false
	if m.Time, ok = ParseTime(stamp); !ok {
		m.Reason = ReasonMalformed
	}
}

// parse returns the payload of a request's JSON. Errors are responses.
func (s *Source) parse(json []byte) (payload, error) {
	d := s.decoders.Get().(*decoding)
	defer s.decoders.Put(d)
	return d.reader.parse(&s.form, json)
}

// each calls take with the token and the meaning of each event until take returns false. take may
// modify the meaning, but must not retain it.
func (s *Source) each(p *payload, from Request, take func(token string, m *Meaning) bool) {
	d := s.decoders.Get().(*decoding)
	defer s.decoders.Put(d)
	d.from = from
	p.each(&d.reader, func() bool {
		token := d.decoder.Next()
		d.meaning = Meaning{}
		d.decoder.Meaning(&d.from, &d.meaning)
		return take(token, &d.meaning)
	})
	d.from, d.meaning = Request{}, Meaning{}
}

// token returns the capture token of the request, or else the first token of its events, or "".
func (s *Source) token(p *payload) (token string) {
	if token = cmp.Or(p.tokens[:]...); token == "" {
		d := s.decoders.Get().(*decoding)
		defer s.decoders.Put(d)
		p.each(&d.reader, func() bool {
			token = d.decoder.Next()
			return token == ""
		})
	}
	return token
}

// Decode calls take with the meaning of each event in a request's JSON and returns the number of
// events. Errors are responses.
func (s *Source) Decode(json []byte, from Request, take func(*Meaning)) (int, error) {
	p, err := s.parse(json)
	if err != nil {
		return 0, err
	}
	from.SentAt = cmp.Or(from.SentAt, p.sentAt)
	s.each(&p, from, func(_ string, m *Meaning) bool {
		take(m)
		return true
	})
	return p.count, nil
}
