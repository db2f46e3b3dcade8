package activity

import (
	"maps"
	"slices"
	"strconv"

	"github.com/liveactivity/liveactivity/internal/jsontext"
)

// Entries are encoded by hand, once for all readers. The result equals [jsontext.Marshal] of the
// same structs, with the fields in the order of their declaration. A new field in those structs
// must be added here.

// AppendJSON appends the batch's JSON, without escaping HTML characters. It does not allocate if dst
// has enough capacity. It fails if a time is not a finite number; it then returns nil, though it may
// have written to dst.
func (b *Batch) AppendJSON(dst []byte) (_ []byte, err error) {
	dst = jsontext.AppendField(dst, jsontext.TypeField, b.Type)
	dst = jsontext.AppendField(dst, `,"product_id":`, b.ProductID)
	dst = appendOwner(dst, b.SessionID, b.UserID, b.Email, b.ConversationID)
	dst = append(dst, `,"count":`...)
	dst = strconv.AppendInt(dst, int64(b.Count), 10)
	dst = append(dst, `,"forwarded_at":`...)
	if dst, err = jsontext.AppendTime(dst, b.ForwardedAt); err != nil {
		return nil, err
	}
	dst = append(dst, `,"actions":[`...)
	for i := range b.Actions {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = b.Actions[i].appendJSON(dst); err != nil {
			return nil, err
		}
	}
	return append(dst, `]}`...), nil
}

func (a *BatchAction) appendJSON(dst []byte) (_ []byte, err error) {
	dst = a.AppendHead(dst)
	dst = append(dst, `,"timestamp_start":`...)
	if dst, err = jsontext.AppendTime(dst, a.TimestampStart); err != nil {
		return nil, err
	}
	dst = append(dst, `,"timestamp_end":`...)
	if dst, err = jsontext.AppendTime(dst, a.TimestampEnd); err != nil {
		return nil, err
	}
	dst = jsontext.AppendField(dst, jsontext.RawURLField, a.RawURL)
	dst = jsontext.AppendField(dst, jsontext.CanonicalURLField, a.CanonicalURL)
	dst = append(dst, `,"index":`...)
	dst = strconv.AppendInt(dst, int64(a.Index), 10)
	dst = appendOwner(dst, a.SessionID, a.UserID, a.Email, a.ConversationID)
	return append(dst, '}'), nil
}

// AppendHead appends the beginning of the action's JSON object: type, texts, properties and marks. It
// does not close the object.
func (a *Action) AppendHead(dst []byte) []byte {
	dst = jsontext.AppendField(dst, jsontext.TypeField, a.Type)
	dst = jsontext.AppendField(dst, jsontext.TitleField, a.Title)
	dst = jsontext.AppendField(dst, jsontext.DescriptionField, a.Description)
	if len(a.Properties) > 0 {
		dst = a.appendProperties(dst)
	}
	for i, mark := range a.Marks {
		before := ","
		if i == 0 {
			before = jsontext.MarksField
		}
		dst = jsontext.AppendField(dst, before, mark)
	}
	if len(a.Marks) > 0 {
		dst = append(dst, ']')
	}
	return dst
}

// appendProperties sorts the names as encoding/json does, so equal actions have equal JSON.
func (a *Action) appendProperties(dst []byte) []byte {
	before := `,"properties":{`
	for _, name := range slices.Sorted(maps.Keys(a.Properties)) {
		dst = jsontext.AppendString(append(dst, before...), name)
		dst = jsontext.AppendField(dst, ":", a.Properties[name])
		before = ","
	}
	return append(dst, '}')
}

// appendOwner appends the fields that identify the session and the user of a batch or an action.
func appendOwner(dst []byte, session, user, email, conversation string) []byte {
	dst = jsontext.AppendField(dst, `,"session_id":`, session)
	dst = jsontext.AppendField(dst, `,"user_id":`, user)
	dst = jsontext.AppendField(dst, `,"email":`, email)
	if conversation != "" {
		dst = jsontext.AppendField(dst, `,"conversation_id":`, conversation)
	}
	return dst
}
