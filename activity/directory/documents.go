package directory

import (
	"encoding/json"
	"time"

	fastjson "github.com/segmentio/encoding/json" // decodes several times as fast, and does not know omitzero

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/document"
)

// sessionDocument is the stored JSON of a session. Times here and in the clock are microseconds
// since the epoch; zero means unknown.
type sessionDocument struct {
	UserID         string             `json:"user_id,omitempty"`
	UserBy         provenanceDocument `json:"user_by,omitzero"`
	Standing       activity.Standing  `json:"standing,omitempty"`
	Email          string             `json:"email,omitempty"` // as stated, whoever the user is
	EmailBy        provenanceDocument `json:"email_by,omitzero"`
	EmailStanding  activity.Standing  `json:"email_standing,omitempty"`
	Desk           string             `json:"desk,omitempty"`
	ConversationID string             `json:"conversation_id,omitempty"`
	LinkedUser     string             `json:"linked_user,omitempty"`
	LinkedEmail    string             `json:"linked_email,omitempty"`
	Former         *formerLink        `json:"former,omitempty"`
	Actions        int                `json:"actions,omitempty"`
	Identified     []string           `json:"identified,omitempty"`
	Past           *past              `json:"past,omitempty"`
	Clock          clock              `json:"clock,omitzero"`
	Noticed        *noticed           `json:"noticed,omitempty"`
}

// provenanceDocument is the stored JSON of a provenance. It omits a user ID that equals the
// session's, as most do: IDs may be long.
type provenanceDocument struct {
	At         int64  `json:"at,omitempty"`
	IsUser     bool   `json:"is_user,omitempty"` // the session's user is the identified one
	Identified string `json:"identified,omitempty"`
}

// factDocument is the stored JSON of a user or an email address.
type factDocument struct {
	Email     string            `json:"email,omitempty"`      // of a user
	SessionID string            `json:"session_id,omitempty"` // of an email address
	Standing  activity.Standing `json:"standing,omitempty"`
	At        int64             `json:"at,omitempty"`
}

// set decodes a document that was read. A malformed one counts as empty and will be overwritten.
func (p *storedDocument) set(doc document.Document) {
	p.doc, p.read = doc, true
	if !doc.Exists() {
		return
	}
	var err error
	switch p.kind {
	case sessionKind:
		var d sessionDocument
		if err = fastjson.Unmarshal(doc.Value, &d); err == nil {
			p.session = d.session()
		}
	default:
		var d factDocument
		if err = fastjson.Unmarshal(doc.Value, &d); err == nil {
			p.fact = fact{d.Email + d.SessionID, d.Standing, momentOf(d.At)} // it has one of them
		}
	}
	p.damaged = err != nil
}

// value returns the document's JSON, the inverse of set.
func (p *storedDocument) value() []byte {
	at := microsOf(p.fact.at)
	switch p.kind {
	case userKind:
		return encodeDocument(factDocument{Email: p.fact.is, Standing: p.fact.standing, At: at})
	case emailKind:
		return encodeDocument(factDocument{SessionID: p.fact.is, Standing: p.fact.standing, At: at})
	}
	return encodeDocument(p.session.document())
}

// encodeDocument returns the JSON of a document. Encoding cannot fail.
func encodeDocument(v any) []byte {
	value, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return value
}

// document returns the session's stored form with the address that its events stated. An address
// known only from its user is looked up again on reading.
func (s *Session) document() sessionDocument {
	return sessionDocument{
		UserID: s.UserID, UserBy: s.userBy.document(s.UserID), Standing: s.Standing,
		Email: s.statedEmail, EmailBy: s.emailBy.document(s.UserID), EmailStanding: s.statedStanding,
		Desk: s.Desk, ConversationID: s.ConversationID, LinkedUser: s.linkedUser,
		LinkedEmail: s.linkedEmail, Former: s.former, Past: s.past,
		Actions: s.Actions, Identified: s.identified, Clock: s.clock, Noticed: s.noticed,
	}
}

// session is the inverse of document.
func (d *sessionDocument) session() Session {
	s := Session{
		UserID: d.UserID, userBy: d.UserBy.provenance(d.UserID), Standing: d.Standing,
		statedEmail: d.Email, emailBy: d.EmailBy.provenance(d.UserID), statedStanding: d.EmailStanding,
		Desk: d.Desk, ConversationID: d.ConversationID, linkedUser: d.LinkedUser,
		linkedEmail: d.LinkedEmail, former: d.Former, past: d.Past,
		Actions: d.Actions, identified: d.Identified, clock: d.Clock, noticed: d.Noticed,
	}
	s.setEmail()
	return s
}

// document returns the provenance's stored form in a session of the user.
func (p provenance) document(userID string) provenanceDocument {
	d := provenanceDocument{At: microsOf(p.At), Identified: p.Identified}
	if p.Identified != "" && p.Identified == userID {
		d.Identified, d.IsUser = "", true
	}
	return d
}

// provenance is the inverse of document for the same user.
func (d provenanceDocument) provenance(userID string) provenance {
	if d.IsUser {
		d.Identified = userID
	}
	return provenance{At: momentOf(d.At), Identified: d.Identified}
}

// microsOf returns t in microseconds since the epoch, or zero for the zero time.
func microsOf(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// momentOf is the inverse of microsOf, to the microsecond.
func momentOf(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}
