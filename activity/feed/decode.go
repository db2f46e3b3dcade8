package feed

import (
	"bytes"
	"errors"
	"unicode/utf8"

	"github.com/segmentio/encoding/json" // several times as fast as the standard library here

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/jsonscan"
)

// Entries come from this process or, over a stream, from a server that may have another version,
// so nothing is taken for granted: an entry that cannot be decoded is an error, so that its
// reader can skip it, and errors quote nothing from the entry, because they get into logs.

// TypeOf returns the type of an entry with these data, empty for none.
func TypeOf(data []byte) string {
	if bytes.HasPrefix(data, []byte(`{"type":"`+Actions+`"`)) {
		return Actions
	}
	typ, _ := head(data)
	return typ
}

// head returns the type and the session ID of an entry. A missing field is empty. If the entry
// is not JSON, or one of the two is not a string, both are empty.
func head(data []byte) (typ, sessionID string) {
	var h struct {
		Type      string `json:"type"`
		SessionID string `json:"session_id"`
	}
	if decode(data, &h) != nil {
		return "", ""
	}
	return h.Type, h.SessionID
}

// Batch returns the batch of an "actions" entry: at least one action, all of its session. Any
// other entry is an error. The batch may be shared by all readers of the entry and must not be
// modified.
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
	errDeep      = errors.New("nested too deep")
	errMalformed = errors.New("not JSON, or a field of the wrong type")
)

// Decode decodes the JSON of the entry into v. Its error quotes nothing from the entry.
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

// isDeep counts brackets first, because hardly any entry has enough of them to be worth a scan.
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
