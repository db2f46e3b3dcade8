package activity

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func readSession(value []byte) (s Session, err error) {
	var r documentReader
	r.begin([]byte(`{"user_id":7,"x":[`)) // what came before does not matter
	r.session(&s)
	s = Session{}
	r.begin(value)
	r.session(&s)
	return s, r.end()
}

// jsonSession decodes what readSession does.
type jsonSession struct {
	UserID         string    `json:"user_id"`
	UserBy         jsonEvent `json:"user_by"`
	Email          string    `json:"email"`
	EmailBy        jsonEvent `json:"email_by"`
	Desk           string    `json:"desk"`
	ConversationID string    `json:"conversation_id"`
	Actions        int       `json:"actions"`
	Clock          struct {
		Correction *int64  `json:"correction"`
		Points     []point `json:"points"`
	} `json:"clock"`
}

type jsonEvent struct {
	At         *int64 `json:"at"` // microseconds since the epoch
	Identified string `json:"identified"`
	IsUser     bool   `json:"is_user"` // it is the session's user who is identified
}

func (j jsonEvent) provenance(userID string) provenance {
	if j.IsUser {
		return provenance{moment(j.At), userID}
	}
	return provenance{moment(j.At), j.Identified}
}

func moment(micros *int64) (t time.Time) {
	if micros != nil {
		t = time.UnixMicro(*micros).UTC()
	}
	return t
}

func (j jsonSession) session() Session {
	s := Session{UserID: j.UserID, userBy: j.UserBy.provenance(j.UserID), statedEmail: j.Email, emailBy: j.EmailBy.provenance(j.UserID),
		Desk: j.Desk, ConversationID: j.ConversationID, Actions: j.Actions, clock: clock{Correction: j.Clock.Correction}}
	s.clock.Points = append(s.clock.Points, j.Clock.Points...)
	s.setEmail()
	return s
}

var documents = []string{
	`{"user_id":"u","user_by":{"at":1790848800500000,"identified":"u"},"email":"a@b.c","email_by":{"at":-1},"actions":3,"clock":{"correction":-5,"points":[[1,2],[3,4]]}}`,
	`{"desk":"zendesk","conversation_id":"7","later":{"x":[1,{"y":null}]},"clock":{"points":[[],[1],[1,2,3],null],"correction":null}}`,
	`{"session_id":"s","at":1790848800000000}`, `{"email":"a@b.c","at":1790848800000000}`, `{}`, `null`, ` {} `, ``, `[]`, `7`, `"x"`, `{"user_id":7}`, `{"user_id":null}`, `{"actions":1.5}`, `{"actions":"1"}`,
	`{"actions":99999999999999999999}`, `{"clock":[]}`, `{"clock":{"points":{}}}`, `{"clock":{"points":[["1"]]}}`, `{"clock":{"points":[7]}}`, `{"user_by":{"at":""}}`, `{"user_by":{"at":1.5}}`, `{"user_by":{"at":null}}`,
	`{"user_by":7}`, `{"user_id":"u"}x`, `{"user_id":"u"`, `{"user_id":"u",}`, `{"at":"7"}`, `{"session_id":[]}`, `{"clock":{"correction":true}}`,
	`{"user_id":7,"user_by":{"at":1790848800000000}}`, `{"user_by":{"is_user":true},"user_id":"u","email_by":{"is_user":false,"identified":"v"}}`,
	`{"user_id":"u","user_by":{"identified":"v","is_user":null},"email_by":{"is_user":true}}`, `{"user_by":{"is_user":1}}`, `{"user_by":{"is_user":"true"}}`,
}

// FuzzDocumentReader: a document says what encoding/json reads in it, and is
// damaged where that fails.
func FuzzDocumentReader(f *testing.F) {
	for _, value := range documents {
		f.Add([]byte(value))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		if json.Valid(value) && isPeculiar(value) {
			return
		}
		var want jsonSession
		failed := json.Unmarshal(value, &want) != nil
		got, err := readSession(value)
		require.Equal(t, failed, err != nil, err)
		if !failed {
			require.Equal(t, want.session(), got)
		}
		var wantFact struct {
			At        *int64 `json:"at"`
			SessionID string `json:"session_id"`
		}
		failed = json.Unmarshal(value, &wantFact) != nil
		var r documentReader
		var gotFact fact
		r.begin(value)
		r.fact(&gotFact, "session_id")
		require.Equal(t, failed, r.end() != nil)
		if !failed {
			require.Equal(t, fact{wantFact.SessionID, moment(wantFact.At)}, gotFact)
		}
	})
}

// isPeculiar reports whether a document has what no writer writes and where
// encoding/json differs: names in capitals or twice, and escapes in times.
func isPeculiar(value []byte) bool {
	if !utf8.Valid(value) || bytes.ContainsRune(value, '\\') {
		return true
	}
	d := json.NewDecoder(bytes.NewReader(value))
	var names []map[string]bool // of the objects around
	inKey := false
	for {
		token, err := d.Token()
		if err == io.EOF {
			return false
		}
		if name, ok := token.(string); ok && inKey {
			known := names[len(names)-1]
			if known[name] || strings.ToLower(strings.ToUpper(name)) != name {
				return true
			}
			known[name], inKey = true, false
			continue
		}
		switch token {
		case json.Delim('{'):
			names = append(names, map[string]bool{})
		case json.Delim('['):
			names = append(names, nil)
		case json.Delim('}'), json.Delim(']'):
			names = names[:len(names)-1]
		}
		inKey = len(names) > 0 && names[len(names)-1] != nil
	}
}

func BenchmarkDocumentReader(b *testing.B) {
	value := []byte(documents[0])
	b.Run("session", func(b *testing.B) {
		b.ReportAllocs()
		var r documentReader
		for b.Loop() {
			var s Session
			r.begin(value)
			r.session(&s)
			require.NoError(b, r.end())
		}
	})
	b.Run("encoding/json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var s jsonSession
			require.NoError(b, json.Unmarshal(value, &s))
		}
	})
}
