package directory

import (
	"encoding/json"

	fastjson "github.com/segmentio/encoding/json" // decodes several times as fast, and does not know omitzero

	"github.com/liveactivity/liveactivity/activity/document"
)

// set decodes a document that was read. A malformed one counts as empty and will be overwritten.
func (p *storedDocument) set(doc document.Document) {
	p.doc, p.read = doc, true
	if !doc.Exists() {
		return
	}
	var err error
	switch p.kind {
	case sessionKind:
		var s Session
		if err = fastjson.Unmarshal(doc.Value, &s); err == nil {
			s.UserBy, s.EmailBy = s.UserBy.known(s.UserID), s.EmailBy.known(s.UserID)
			s.setEmail()
			p.session, p.acted = s, s.newest()
		}
	case ownedKind:
		if err = fastjson.Unmarshal(doc.Value, &p.owned); err != nil {
			p.owned = nil
		}
	default:
		var f fact
		if err = fastjson.Unmarshal(doc.Value, &f); err == nil {
			p.fact = f
		}
	}
	p.damaged = err != nil
}

// value returns the document's JSON, the inverse of set. Of a session's addresses it has the stated
// one: an address known only from the user is looked up again on reading.
func (p *storedDocument) value() []byte {
	switch p.kind {
	case sessionKind:
		s := p.session
		s.UserBy, s.EmailBy = s.UserBy.stored(s.UserID), s.EmailBy.stored(s.UserID)
		return encodeDocument(&s)
	case ownedKind:
		return encodeDocument(p.owned)
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
