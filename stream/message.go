package stream

import (
	"bytes"
	"errors"
	"unicode/utf8"

	"github.com/segmentio/encoding/json" // several times as fast as the standard library here

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/jsonscan"
)

// newMessage returns the entry with an id.
func newMessage(id string, data []byte) Message {
	m := Message{ID: id, Data: data}
	var ok bool
	if m.Type, m.SessionID, ok = head(data); !ok {
		m.Data = validUTF8(data)
		m.Type, m.SessionID = slowHead(m.Data)
	}
	return m
}

// validUTF8 returns the data with invalid UTF-8 replaced.
func validUTF8(data []byte) []byte {
	if utf8.Valid(data) {
		return data
	}
	return bytes.ToValidUTF8(data, []byte("\ufffd"))
}

// short truncates an id for a log.
func short(id string) string {
	const enough = 128
	if len(id) <= enough {
		return id
	}
	return id[:enough] + "…"
}

// head returns the type and the session id of an entry, reading as little of
// it as possible. It reports false if that takes a decoder.
func head(data []byte) (typ, sessionID string, ok bool) {
	rest, more := bytes.CutPrefix(data, []byte("{"))
	for more && (typ == "" || sessionID == "") {
		var name, value []byte
		if name, rest, more = cutString(rest); !more {
			break
		}
		if rest, more = bytes.CutPrefix(rest, []byte(":")); !more {
			break
		}
		if value, rest, more = cutString(rest); !more {
			break
		}
		switch string(name) {
		case "type":
			typ = typeName(value)
		case "session_id":
			sessionID = string(value)
		}
		rest, more = bytes.CutPrefix(rest, []byte(","))
	}
	return typ, sessionID, typ != "" && sessionID != "" && utf8.ValidString(typ) && utf8.ValidString(sessionID)
}

// typeName returns the string, without a copy for the usual types.
func typeName(name []byte) string {
	switch string(name) {
	case activity.BatchType:
		return activity.BatchType
	case SummaryType:
		return SummaryType
	}
	return string(name)
}

// cutString cuts a JSON string that needs no decoding off the start of b.
func cutString(b []byte) (s, rest []byte, ok bool) {
	if len(b) == 0 || b[0] != '"' {
		return nil, nil, false
	}
	end := bytes.IndexByte(b[1:], '"')
	if end < 0 || bytes.IndexByte(b[1:1+end], '\\') >= 0 {
		return nil, nil, false
	}
	return b[1 : 1+end], b[2+end:], true
}

// slowHead is head with a decoder. A missing field is empty.
func slowHead(data []byte) (typ, sessionID string) {
	var e struct {
		Type      string `json:"type"`
		SessionID string `json:"session_id"`
	}
	if decode(data, &e) != nil {
		return "", ""
	}
	return e.Type, e.SessionID
}

// decodeActions returns the batch of an entry, which must have actions, all of
// one session.
func decodeActions(m Message) (b activity.Batch, err error) {
	if err := decode(m.Data, &b); err != nil {
		return b, err
	}
	if b.Type != m.Type || b.SessionID != m.SessionID {
		return b, errTwice
	}
	if len(b.Actions) == 0 {
		return b, errors.New("no actions")
	}
	b.Count = len(b.Actions)
	for i := range b.Actions {
		a := &b.Actions[i]
		if a.SessionID != "" && a.SessionID != b.SessionID {
			return b, errors.New("an action belongs to another session")
		}
		a.SessionID = b.SessionID
	}
	return b, nil
}

func decodeSummary(m Message) (s Summary, err error) {
	if err := decode(m.Data, &s); err != nil {
		return s, err
	}
	if s.Type != m.Type || s.SessionID != m.SessionID {
		return s, errTwice
	}
	return s, nil
}

// Errors of an entry. The decoder's own errors would quote it.
var (
	errTwice     = errors.New("duplicate field")
	errDeep      = errors.New("nested too deep")
	errMalformed = errors.New("not JSON, or a field of the wrong type")
)

func decode(data []byte, v any) error {
	if isDeep(data) {
		return errDeep
	}
	if json.Unmarshal(data, v) != nil {
		return errMalformed
	}
	return nil
}

// maxDepth bounds the nesting of objects and arrays. The decoder is recursive,
// and a stack overflow ends the process.
const maxDepth = 1000

func isDeep(data []byte) bool {
	brackets := bytes.Count(data, []byte("{")) + bytes.Count(data, []byte("["))
	return brackets > maxDepth && jsonscan.ShapeOf(data).Depth > maxDepth
}
