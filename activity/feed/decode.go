package feed

import (
	"bytes"
	"errors"
	"unicode/utf8"

	"github.com/segmentio/encoding/json" // several times as fast as the standard library here

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/jsonscan"
)

// TypeOf returns the type of an entry with these data, empty for none.
func TypeOf(data []byte) string {
	if bytes.HasPrefix(data, []byte(`{"type":"`+Actions+`"`)) {
		return Actions
	}
	typ, _ := head(data)
	return typ
}

// head returns the type and the session ID of an entry, and reads as little of it
// as possible.
func head(data []byte) (typ, sessionID string) {
	rest, more := bytes.CutPrefix(data, []byte("{"))
	hasType, hasSession := false, false
	for more {
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
			typ, hasType = typeName(value), true
		case "session_id":
			sessionID, hasSession = string(value), true
		}
		if hasType && hasSession {
			return typ, sessionID
		}
		rest, more = bytes.CutPrefix(rest, []byte(","))
	}
	return slowHead(data)
}

// typeName returns the string, without a copy for the usual types.
func typeName(name []byte) string {
	switch string(name) {
	case Actions:
		return Actions
	case Summary:
		return Summary
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

// Batch returns the batch of an "actions" entry: one action or more, all of its
// session. It is an error for any other entry.
func (m *Message) Batch() (*activity.Batch, error) {
	if m.batch != nil {
		return m.batch, nil
	}
	if m.Type != Actions {
		return nil, errNoActions
	}
	var b activity.Batch
	if err := m.Decode(&b); err != nil {
		return nil, err
	}
	if b.Type != m.Type || b.SessionID != m.SessionID {
		return nil, errTwice
	}
	if len(b.Actions) == 0 {
		return nil, errNoActions
	}
	b.Count = len(b.Actions)
	for i := range b.Actions {
		a := &b.Actions[i]
		if a.SessionID != "" && a.SessionID != b.SessionID {
			return nil, errors.New("an action belongs to another session")
		}
		a.SessionID = b.SessionID
	}
	return &b, nil
}

// Errors of an entry. The decoder's own errors would quote it.
var (
	errNoActions = errors.New("no actions")
	errTwice     = errors.New("duplicate field")
	errDeep      = errors.New("nested too deep")
	errMalformed = errors.New("not JSON, or a field of the wrong type")
)

// Decode decodes the JSON of the entry into v. Its error quotes nothing of it.
func (m *Message) Decode(v any) error { return decode(m.Data, v) }

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

// validUTF8 returns the data with invalid UTF-8 replaced.
func validUTF8(data []byte) []byte {
	if utf8.Valid(data) {
		return data
	}
	return bytes.ToValidUTF8(data, []byte("\ufffd"))
}
