package directory

import (
	"encoding/json"

	fastjson "github.com/segmentio/encoding/json" // decodes several times as fast, and does not know omitzero

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/document"
)

// sessionDocument is the stored JSON of a session. Times here and in the clock are microseconds
// since the epoch; zero means unknown.
type sessionDocument struct {
	UserID         string            `json:"user_id,omitempty"`
	UserBy         provenance        `json:"user_by,omitzero"`
	Standing       activity.Standing `json:"standing,omitempty"`
	Email          string            `json:"email,omitempty"` // as stated, whoever the user is
	EmailBy        provenance        `json:"email_by,omitzero"`
	EmailStanding  activity.Standing `json:"email_standing,omitempty"`
	Desk           string            `json:"desk,omitempty"`
	ConversationID string            `json:"conversation_id,omitempty"`
	LinkedUser     string            `json:"linked_user,omitempty"`
	LinkedEmail    string            `json:"linked_email,omitempty"`
	Former         *formerLink       `json:"former,omitempty"`
	Actions        int               `json:"actions,omitempty"`
	Identified     []string          `json:"identified,omitempty"`
	Past           *past             `json:"past,omitempty"`
	Clock          clock             `json:"clock,omitzero"`
	Noticed        *noticed          `json:"noticed,omitempty"`
}

// set decodes a document that was read. A malformed one counts as empty and will be overwritten.
func (p *storedDocument) set(doc document.Document) {
	p.doc, p.read = doc, true
	if !doc.Exists() {
		return
	}
	var err error
	if p.kind == sessionKind {
		var d sessionDocument
		if err = fastjson.Unmarshal(doc.Value, &d); err == nil {
			p.session, p.acted = d.session(), d.Clock.newest()
		}
	} else {
		var f fact
		if err = fastjson.Unmarshal(doc.Value, &f); err == nil {
			p.fact = f
		}
	}
	p.damaged = err != nil
}

// value returns the document's JSON, the inverse of set.
func (p *storedDocument) value() []byte {
	if p.kind == sessionKind {
		return encodeDocument(p.session.document())
	}
	return encodeDocument(p.fact)
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
		UserID: s.UserID, UserBy: s.userBy.stored(s.UserID), Standing: s.Standing,
		Email: s.statedEmail, EmailBy: s.emailBy.stored(s.UserID), EmailStanding: s.statedStanding,
		Desk: s.Desk, ConversationID: s.ConversationID, LinkedUser: s.linkedUser,
		LinkedEmail: s.linkedEmail, Former: s.former, Past: s.past,
		Actions: s.Actions, Identified: s.identified, Clock: s.clock, Noticed: s.noticed,
	}
}

// session is the inverse of document.
func (d *sessionDocument) session() Session {
	s := Session{
		UserID: d.UserID, userBy: d.UserBy.known(d.UserID), Standing: d.Standing,
		statedEmail: d.Email, emailBy: d.EmailBy.known(d.UserID), statedStanding: d.EmailStanding,
		Desk: d.Desk, ConversationID: d.ConversationID, linkedUser: d.LinkedUser,
		linkedEmail: d.LinkedEmail, former: d.Former, past: d.Past,
		Actions: d.Actions, identified: d.Identified, clock: d.Clock, noticed: d.Noticed,
	}
	s.setEmail()
	return s
}

// stored returns the provenance's stored form in a session of the user. It omits a user ID that equals
// the session's, as most do: IDs may be long.
func (p provenance) stored(userID string) provenance {
	if p.Identified != "" && p.Identified == userID {
		p.Identified, p.IsUser = "", true
	}
	return p
}

// known is the inverse of stored for the same user.
func (p provenance) known(userID string) provenance {
	if p.IsUser {
		p.Identified, p.IsUser = userID, false
	}
	return p
}
