package feed

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// The head and the body of any entry are text and agree with each other, read in either way.
func FuzzNewMessage(f *testing.F) {
	for _, seed := range []string{
		`{"type":"actions","session_id":"s1","actions":[{"title":"a"}]}`, `{"type":"summary","session_id":"","summary":"x"}`,
		`{"session_id":"s1","type":"actions","actions":[{"session_id":"s1"},null]}`,
		`{"type":"actions","session_id":"s\u0031","actions":[{}]}`,
		"{\"type\":\"actions\",\"session_id\":\"\xff\xfe\",\"actions\":[{\"title\":\"\xff\"}]}",
		` {"type" : "actions", "actions" : [{}]}`,
		`{"product_id":"acme","type":"actions","session_id":"s1"`, `{"type":"actions","type":"summary"}`,
		`{"type":"x","session_id":5}`, "\xff",
		`[`, `{"type":{}}`, `{"":"","type":"actions"}`, `{"type":"actions","session_id":"\ud800","actions":[{}]}`,
		strings.Repeat(`{"a":`, 2000),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		e := NewMessage("1-0", bytes.Clone(data))
		require.True(t, utf8.ValidString(e.Type+"/"+e.SessionID) && utf8.Valid(e.Data), "%q", e)
		if b, err := e.Batch(); err == nil {
			require.Equal(t, e.Type, b.Type)
			require.NotEmpty(t, b.Actions)
			require.Len(t, b.Actions, b.Count)
			for _, a := range b.Actions {
				require.Equal(t, e.SessionID, a.SessionID)
				require.True(t, utf8.ValidString(a.Title+a.Email+a.RawURL+b.Email))
			}
		}
	})
}

func TestIsDeep(t *testing.T) {
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for name, test := range map[string]struct {
		data string
		want bool
	}{
		"nothing":             {"", false},
		"as deep as may be":   {nested(maxDepth), false},
		"deeper":              {nested(maxDepth + 1), true},
		"deeper, unfinished":  {strings.Repeat(`{"a":[`, maxDepth), true},
		"wide":                {"[" + strings.Repeat("[],", 5*maxDepth) + "[]]", false},
		"wide, then deep":     {strings.Repeat("[]", maxDepth) + strings.Repeat("[", maxDepth+1), true},
		"in a text":           {`["` + nested(5*maxDepth) + `"]`, false},
		"in a text of quotes": {`["\"` + nested(5*maxDepth) + `\\"]`, false},
		"after a text":        {`["\\",` + nested(maxDepth) + `]`, true},
		"an open text":        {`"` + strings.Repeat("[", 5*maxDepth) + `\`, false},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, test.want, isDeep([]byte(test.data))) })
	}
}
