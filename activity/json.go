package activity

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Marshal returns the JSON of v without escaping HTML characters, so that URLs
// stay readable. It is on one line for everyone: U+0085, which ends a line to
// Python's httpx_sse before 0.4.2, is escaped as well.
func Marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	data := bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
	if bytes.Contains(data, []byte("\u0085")) { // only inside a string
		data = bytes.ReplaceAll(data, []byte("\u0085"), []byte(`\u0085`))
	}
	return data, nil
}

// AppendJSON appends the JSON that Marshal returns of the batch. It does not
// allocate where dst has room. Like Marshal it fails for a time that is no
// number.
func (b *Batch) AppendJSON(dst []byte) (_ []byte, err error) {
	dst = appendField(dst, `{"type":`, b.Type)
	dst = appendField(dst, `,"product_id":`, b.ProductID)
	dst = appendOwner(dst, b.SessionID, b.UserID, b.Email, b.ConversationID)
	dst = append(dst, `,"count":`...)
	dst = strconv.AppendInt(dst, int64(b.Count), 10)
	dst = append(dst, `,"forwarded_at":`...)
	if dst, err = appendTime(dst, b.ForwardedAt); err != nil {
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
	dst = a.appendWords(dst)
	dst = append(dst, `,"timestamp_start":`...)
	if dst, err = appendTime(dst, a.TimestampStart); err != nil {
		return nil, err
	}
	dst = append(dst, `,"timestamp_end":`...)
	if dst, err = appendTime(dst, a.TimestampEnd); err != nil {
		return nil, err
	}
	dst = appendField(dst, `,"raw_url":`, a.RawURL)
	dst = appendField(dst, `,"canonical_url":`, a.CanonicalURL)
	dst = append(dst, `,"index":`...)
	dst = strconv.AppendInt(dst, int64(a.Index), 10)
	dst = appendOwner(dst, a.SessionID, a.UserID, a.Email, a.ConversationID)
	return append(dst, '}'), nil
}

// appendWords appends the beginning of the action's JSON.
func (a *Action) appendWords(dst []byte) []byte {
	dst = appendField(dst, typeField, a.Type)
	dst = appendField(dst, titleField, a.Title)
	dst = appendField(dst, descriptionField, a.Description)
	if len(a.Properties) > 0 {
		dst = a.appendProperties(dst)
	}
	for i, mark := range a.Marks {
		before := ","
		if i == 0 {
			before = marksField[:len(marksField)-1]
		}
		dst = appendField(dst, before, mark)
	}
	if len(a.Marks) > 0 {
		dst = append(dst, ']')
	}
	return dst
}

func (a *Action) appendProperties(dst []byte) []byte {
	before := `,"properties":{`
	for _, name := range slices.Sorted(maps.Keys(a.Properties)) {
		dst = appendString(append(dst, before...), name)
		dst = appendField(dst, ":", a.Properties[name])
		before = ","
	}
	return append(dst, '}')
}

// appendOwner appends the fields that say whose a batch or an action is.
func appendOwner(dst []byte, session, user, email, conversation string) []byte {
	dst = appendField(dst, `,"session_id":`, session)
	dst = appendField(dst, `,"user_id":`, user)
	dst = appendField(dst, `,"email":`, email)
	if conversation != "" {
		dst = appendField(dst, `,"conversation_id":`, conversation)
	}
	return dst
}

// appendField appends a text as it is, and a string after it.
func appendField(dst []byte, before, s string) []byte {
	return appendString(append(dst, before...), s)
}

// verbatim are the bytes that stand for themselves in a JSON string.
var verbatim = func() (table [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		table[c] = c != '"' && c != '\\'
	}
	return table
}()

// appendString appends a string as Marshal writes it.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	done := 0 // bytes of s that were appended
	for i := 0; i < len(s); {
		if verbatim[s[i]] {
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if r >= utf8.RuneSelf && size > 1 && r != '\u0085' && r != '\u2028' && r != '\u2029' {
			i += size
			continue
		}
		dst = append(dst, s[done:i]...)
		dst = appendEscaped(dst, r)
		i += size
		done = i
	}
	dst = append(dst, s[done:]...)
	return append(dst, '"')
}

// appendEscaped appends the escape of a character of at most 16 bits.
func appendEscaped(dst []byte, r rune) []byte {
	switch r {
	case '"', '\\':
		return append(dst, '\\', byte(r))
	case '\b':
		return append(dst, `\b`...)
	case '\f':
		return append(dst, `\f`...)
	case '\n':
		return append(dst, `\n`...)
	case '\r':
		return append(dst, `\r`...)
	case '\t':
		return append(dst, `\t`...)
	}
	const digits = "0123456789abcdef"
	return append(dst, '\\', 'u', digits[r>>12], digits[r>>8&0xf], digits[r>>4&0xf], digits[r&0xf])
}

// appendTime appends a number of seconds as encoding/json writes it.
func appendTime(dst []byte, seconds float64) ([]byte, error) {
	// Up to the year 2112 whole microseconds are the shortest text of their number.
	const exact = 1 << 52
	if at := micros(seconds); at != 0 && -exact < at && at < exact && float64(at)/1e6 == seconds {
		return appendSeconds(dst, at), nil
	}
	text, err := json.Marshal(seconds)
	return append(dst, text...), err
}

// appendSeconds appends microseconds as decimal seconds, without trailing zeros.
func appendSeconds(dst []byte, micros int64) []byte {
	if micros < 0 {
		dst, micros = append(dst, '-'), -micros
	}
	dst = strconv.AppendInt(dst, micros/1e6, 10)
	fraction := micros % 1e6
	if fraction == 0 {
		return dst
	}
	dst = append(dst, '.')
	for scale := int64(1e5); fraction > 0; scale /= 10 {
		dst = append(dst, byte('0'+fraction/scale))
		fraction %= scale
	}
	return dst
}
