package intake

import (
	"cmp"
	"sync"
	"time"

	"github.com/liveactivity/liveactivity/activity"
)

// Source is one vendor's form of events. It is made once, by [NewSource], and is safe for
// concurrent use.
type Source struct {
	form     Form
	decoders sync.Pool // of *decoding
}

// NewSource returns a source. The function makes decoders, each of one reader, which are used
// again for other requests, one at a time.
func NewSource(form Form, newDecoder func(*Reader) Decoder) *Source {
	return &Source{form: form, decoders: sync.Pool{New: func() any {
		d := &decoding{}
		d.decoder = newDecoder(&d.reader)
		return d
	}}}
}

// Decoder decodes the events of a request, one after the other.
type Decoder interface {
	// Next reads the JSON value that comes next, an event or not, and returns the project token
	// that it carries, "" for none. It must read exactly that value and forget the one before.
	Next() (token string)
	// Meaning sets the meaning, which is empty, of the event that Next read. It is called at
	// most once after Next, and not at all where only the token is needed. Nothing of from may
	// be kept or changed.
	Meaning(from *Request, m *Meaning)
}

// decoding decodes the events of one request, and is used again for others.
type decoding struct {
	reader  Reader
	decoder Decoder
	from    Request
	meaning Meaning // of the event read last
}

// Request is the circumstances that the meaning of an event depends on.
type Request struct {
	Arrived time.Time // by the service's clock
	SentAt  string    // by the sender's clock, as the request says it; "" for unknown
	Kind    string    // of an event that does not state its own; "" for unknown
	Webhook bool      // the vendor sent it, and has corrected the time
	Events  *Events   // custom events of the product that become actions
}

// Meaning is the meaning of an event that a source sent.
type Meaning struct {
	activity.Event
	Proof  Proof
	Key    string // the ID that the sender gave the event; "" for none
	Reason string // for ignoring it, see [Ignored]; "" for none
	// SeeksSession says that an event with a user and no session goes to a session of the
	// user: see Options.SessionOf.
	SeeksSession bool
	// Erases says that the event asks for the erasure of its user, and does nothing else:
	// see Options.Erase.
	Erases bool
}

// NameVisitor makes the event say that its visitor is its user, if it states both.
func (m *Meaning) NameVisitor() {
	if m.Identified && m.Visitor != m.UserID {
		m.Anonymous = kept(m.Visitor)
	}
}

// Finish sets the reason for ignoring the event, if it has none, and the event's time: the
// stamp by the sender's clock, which showed sentAt when the request was sent, or else the time
// of arrival. A stamp that cannot be read makes the event malformed; a sentAt that cannot be
// read only means that the sender's clock is not corrected.
func (m *Meaning) Finish(from *Request, stamp, sentAt string) {
	if m.Reason = cmp.Or(m.Reason, Finish(&m.Event)); m.Reason != "" {
		return
	}
	if stamp == "" {
		m.ServerTime, m.Time = true, from.Arrived
		return
	}
	m.Sent, _ = ParseTime(sentAt)
	ok := false
	if m.Time, ok = ParseTime(stamp); !ok {
		m.Reason = ReasonMalformed
	}
}

// parse returns the payload of a request's JSON. Its errors are answers.
func (s *Source) parse(json []byte) (payload, error) {
	d := s.decoders.Get().(*decoding)
	defer s.decoders.Put(d)
	return d.reader.parse(&s.form, json)
}

// each calls take with the meaning of each of the events, which take may change but not keep,
// and with the token that the event carries, until it returns false.
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

// token returns the project token of the request: its own, or else the first that one of its
// events carries. "" if there is none.
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

// Decode calls take with the meaning of each event in the JSON of a request, and
// returns how many events there are. Its errors are answers.
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
