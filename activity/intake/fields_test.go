package intake_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/intake"
)

func TestParseTime(t *testing.T) {
	seconds, ten, half := noon.Unix(), noon.Add(-10*time.Second), noon.Add(-9500*time.Millisecond)
	for s, want := range map[string]time.Time{
		"2026-11-20T11:59:50Z":           ten,
		"2026-11-20T11:59:50.123456789Z": noon.Add(-9876543211),
		"2026-11-20T13:59:50+02:00":      ten,
		"2026-11-20T13:59:50.5+0200":     half,
		"2026-11-20T11:59:50.5":          half,
		"2026-11-20 11:59:50":            ten,
		"2026-11-20 13:59:50.5+02:00":    half,
		fmt.Sprint(seconds - 10):         ten,
		fmt.Sprint(seconds-10) + ".5":    half,
		fmt.Sprint(noon.UnixMilli()):     noon,
		"99999999999":                    time.Unix(99999999999, 0),
		"100000000000":                   time.UnixMilli(100000000000),
		"-100000000000":                  time.UnixMilli(-100000000000),
	} {
		got, ok := intake.ParseTime(s)
		assert.True(t, ok, s)
		assert.WithinDuration(t, want, got, time.Microsecond, s)
	}
	for _, s := range []string{"", "yesterday", "NaN", "Inf", "1e400", "1e200", "-1e200", "true", "2026-11-20"} {
		_, ok := intake.ParseTime(s)
		assert.False(t, ok, s)
	}
}

// Without a stamp an event has no time: it happened when it arrived. A stamp may come with the sender's clock.
func TestMeaning_time(t *testing.T) {
	from := intake.Request{Arrived: noon, Events: newCatalogue().products[shop].Events, SentAt: "2026-11-20T11:00:00Z"}
	m := decode(view(nil), from)
	assert.Equal(t, []any{time.Time{}, false, time.Time{}}, []any{m.Time, m.ServerTime, m.Sent})
	m = decode(view(fieldsOf{"time": noon.Unix() - 5}), from)
	assert.True(t, noon.Add(-5*time.Second).Equal(m.Time))
	assert.Equal(t, []any{false, noon.Add(-time.Hour)}, []any{m.ServerTime, m.Sent})
	for _, sent := range []string{"", "soon"} {
		from.SentAt = sent
		m = decode(view(fieldsOf{"time": noon.Unix(), "sent": "x"}), from)
		assert.Equal(t, []any{"", time.Time{}}, []any{m.Reason, m.Sent})
	}
	from.SentAt = ""
	m = decode(`{"sent":1795172400,"events":[`+view(fieldsOf{"time": 1000})+`]}`, from)
	assert.Equal(t, int64(1795172400), m.Sent.Unix(), "the envelope's")
	assert.Equal(t, intake.ReasonMalformed, decode(view(fieldsOf{"time": "soon"}), from).Reason)
}

func TestSource_refusesMalformedJSON(t *testing.T) {
	for _, body := range []string{"", "{", "[1,", "7", `{"events":{}}`} {
		n, err := source.Decode([]byte(body), intake.Request{}, func(*intake.Meaning) { t.Error(body) })
		assert.Error(t, err)
		assert.Zero(t, n)
	}
	n, err := source.Decode([]byte("[{},{},7]"), intake.Request{}, func(*intake.Meaning) {})
	assert.NoError(t, err)
	assert.Equal(t, 3, n)
}

// Names that differ only in punctuation share a URL.
func TestScreenURL(t *testing.T) {
	for name, want := range map[string]string{"Order Details": "order-details", "  Cart/2 ": "cart-2", "Größe": "größe",
		"": "unnamed", "!?": "unnamed", "e\u0301t": "e\u0301t", strings.Repeat("x", 300): strings.Repeat("x", 256)} {
		assert.Equal(t, "app://screen/"+want, intake.ScreenURL(name))
	}
}

// Visitors that share an ID must not see each other.
func TestUnsharedID(t *testing.T) {
	for _, id := range []string{"anonymous", "Guest", "DISTINCTID", "distinct_id", "id", "Not_Authenticated", "email",
		"undefined", "uNdEfInEd", "true", "False", "[object Object]", "NaN", "None", "none", "null", "0", "", " ", "\t\n",
		"\u00a0", `" "`, `"anonymous"`, "'guest'", `"null"`, "'0'", " anonymous ", "\tundefined\n", `" anonymous "`,
		` "null" `, "own", `"own"`, "00000000-0000-0000-0000-000000000000", `"00000000-0000-0000-0000-000000000000"`} {
		assert.Empty(t, intake.UnsharedID(id, "more", "own"), "%q", id)
	}
	for _, id := range []string{"Null", "nan", "NONE", "00", "1", " a", "ada", "anonymous2", "guest_7", "my id", `"ada"`,
		`"`, "''", "xnullx", `"null'`, "own", "00000000-0000-0000-0000-000000000001", " ada "} {
		assert.Equal(t, id, intake.UnsharedID(id))
	}
	assert.Equal(t, intake.Who("1", "", ""), intake.Who("1", "null", " undefined "))
}

// An event's user is the user ID, or else the visitor, whose session it is.
func TestWho(t *testing.T) {
	for _, c := range []struct{ user, visitor, wantUser, wantSession string }{
		{" ada ", "v", "ada", "v"}, {"", " v ", "v", "v"}, {"null", "v", "v", "v"}, {"ada", "null", "ada", ""},
		{"", "", "", ""},
	} {
		e := intake.Who("1", c.user, c.visitor, "x", " a@b.de ")
		assert.Equal(t, []any{"1", c.wantUser, c.wantSession, c.wantSession, "a@b.de", c.wantUser == "ada"},
			[]any{e.ID, e.UserID, e.SessionID, e.Visitor, e.Email, e.Identified}, c)
	}
}

// An identity links the visitor with a user, or a session with an address.
func TestMeaning_namesTheVisitor(t *testing.T) {
	long := strings.Repeat("x", intake.MaxID+1)
	for name, c := range map[string]struct {
		user, visitor, email, anonymous, reason string
	}{
		"a user and a visitor": {"ada", "v", "", "v", ""},
		"the same":             {"ada", "ada", "", "", ""},
		"a long visitor":       {"ada", long, "", "", ""},
		"a visitor's address":  {"", "v", "a@b.de", "", ""},
		"a visitor":            {"", "v", "", "", intake.ReasonNothing},
		"a user without more":  {"ada", "", "", "", intake.ReasonNothing},
		"a user's address":     {"ada", "", "a@b.de", "", ""},
	} {
		e := fieldsOf{"name": "identify", "user": c.user, "visitor": c.visitor, "email": c.email, "session": nil}
		if c.visitor == long {
			e["session"] = "s"
		}
		m := decode(view(e), intake.Request{})
		assert.Equal(t, [2]string{c.reason, c.anonymous}, [2]string{m.Reason, m.Anonymous}, name)
	}
	m := intake.Meaning{Event: activity.Event{UserID: "guess", Visitor: "v", Email: "a@b.de"}}
	m.NameVisitor()
	assert.Empty(t, m.Anonymous, "the user is not identified")
}

func TestTrimmed_leavesTextsThatMayHaveBeenCut(t *testing.T) {
	spaced := strings.Repeat(" ", intake.MaxText-4)
	assert.Equal(t, "a", intake.Trimmed(" a\n"))
	assert.Equal(t, "a", intake.Trimmed(spaced[1:]+"a"))
	assert.Equal(t, spaced+"a", intake.Trimmed(spaced+"a"))
}

func TestIsEmail(t *testing.T) {
	longest := strings.Repeat("a", 248) + "@x.com" // 254 bytes
	for s, want := range map[string]bool{"a@b": true, "a@b@c": true, longest: true, "a" + longest: false, "": false,
		"ada": false, "@b": false, "a@": false, "a b@c": false, "a\u2028b@c": false, "a\x00@c": false, "a\xff@c": false} {
		assert.Equal(t, want, intake.IsEmail(s), "%q", s)
	}
	assert.Equal(t, "c@d", intake.FirstEmail("", "b", " c@d ", "e@f"))
	assert.Empty(t, intake.FirstEmail(strings.Repeat(" ", 2040)+"ada@example.com"), "it may have been cut")
}

// IDs that are too long to be an ID, or not UTF-8, make their event malformed, and none is cut to another's.
func TestIDs_thatAreUnusable(t *testing.T) {
	longest, escaped := strings.Repeat("x", intake.MaxID), strings.Repeat(`"`, 256)
	spaced := strings.Repeat(" ", 1500) + longest
	reason := func(field, value string) string {
		from := intake.Request{Events: newCatalogue().products[shop].Events}
		return decode(strings.Replace(view(fieldsOf{field: "?"}), `"?"`, value, 1), from).Reason
	}
	text := func(s string) string { return fmt.Sprintf("%q", s) }
	for _, field := range []string{"id", "user", "session", "visitor"} {
		assert.Empty(t, reason(field, text(longest)), field)
		assert.Empty(t, reason(field, text("é\ufffd/?")), field)
		assert.Empty(t, reason(field, text(" "+longest+"\n")), field)
		if field == "visitor" {
			continue // who only matters without a user and a session
		}
		for name, value := range map[string]string{"too long": text(longest + "x"), "with space around": text(spaced),
			"with half a character of which nothing was read": `"` + spaced[:2046] + `\ud83d\ude00"`,
			"in Latin-1": "\"M\xfcller\"", "with half a character": `"M\ud83dller"`} {
			assert.Equal(t, intake.ReasonMalformed, reason(field, value), "%s %s", field, name)
		}
	}
	assert.Empty(t, reason("user", text(escaped)))
	assert.Equal(t, intake.ReasonMalformed, reason("user", text(escaped+`\`)))
}

func TestReasonToIgnore(t *testing.T) {
	did := &activity.Action{}
	for _, c := range []struct {
		event activity.Event
		want  string
	}{
		{activity.Event{ID: "1", Action: did, SessionID: "s"}, ""},
		{activity.Event{ID: "1", Action: did, UserID: "u"}, ""},
		{activity.Event{ID: "1", SessionID: "s", UserID: "u"}, ""},
		{activity.Event{ID: "1", SessionID: "s", Email: "a@b.de"}, ""},
		{activity.Event{ID: "1", UserID: "u", Email: "a@b.de"}, ""},
		{activity.Event{ID: "1", Action: did, Email: "a@b.de"}, intake.ReasonNobody},
		{activity.Event{ID: "1", SessionID: "s"}, intake.ReasonNothing},
		{activity.Event{ID: "1", UserID: "u"}, intake.ReasonNothing},
		{activity.Event{ID: "1", Email: "a@b.de"}, intake.ReasonNothing},
		{activity.Event{ID: "1"}, intake.ReasonNothing},
		{activity.Event{Action: did, SessionID: "s"}, intake.ReasonMalformed},
	} {
		assert.Equal(t, c.want, intake.ReasonToIgnore(&c.event), "%+v", c.event)
	}
}

// Without an ID, the same event has the same ID in any envelope: half the SHA-256 of its JSON.
func TestReader_digestsAnEventWithoutAnID(t *testing.T) {
	event := view(fieldsOf{"id": " "})
	sum := sha256.Sum256([]byte(event))
	for _, body := range []string{event, "[7 ,\n " + event + "]", batch("x", event)} {
		assert.Equal(t, uuid.UUID(sum[:16]).String(), decode(body, intake.Request{}).ID)
	}
	assert.Equal(t, "order-7", decode(view(fieldsOf{"id": " order-7\n"}), intake.Request{}).ID)
	assert.Empty(t, decode("[7]", intake.Request{}).ID)
}

// record has a field of each kind.
type record struct {
	inner
	intake.Span
	Text   string `in:"text"`
	Scalar string `in:"scalar,scalar"`
	URL    string `in:"url,url"`
	Token  string `in:"token,token"`
	Proof  string `in:"proof,proof"`
	Flag   bool   `in:"flag"`
	Inner  inner  `in:"inner"`
	Listed list   `in:"list"`
	Other  string
}

type inner struct {
	Deep string `in:"deep|low"`
}

// list is the first two texts of a list.
type list string

func (l *list) Read(r *intake.Reader) {
	r.Array(2, func() {
		text := ""
		r.SetText(&text)
		*l += list(text)
	})
}

// A field is filled in by a value of its type. Other values change nothing.
func TestFields_readEveryKindOfField(t *testing.T) {
	long := strings.Repeat("x", 1<<17)
	for json, want := range map[string]record{
		`{"deep":"x","low":"c","text":"a","text":"b","scalar":5,"flag":true,"inner":{"deep":"d","x":[]},` +
			`"list":["a","b","c"],"Other":"o","":"e"}`: {inner: inner{"c"}, Text: "b", Scalar: "5", Flag: true,
			Inner: inner{"d"}, Listed: "ab"},
		`{"text":5,"scalar":{},"url":[],"flag":"true","inner":["deep"],"list":{"a":1}}`: {},
		`{"scalar":true,"inner":null,"flag":null}`:                                      {Scalar: "true"},
		`["text"]`: {},
		fmt.Sprintf(`{"text":%q,"scalar":%[1]q,"url":%[1]q,"token":%[1]q,"proof":%[1]q}`, long): {
			Text: long[:intake.MaxText], Scalar: long[:intake.MaxText], URL: long[:intake.MaxURL],
			Token: long[:intake.MaxToken], Proof: long[:4<<10]},
	} {
		var got record
		r := &intake.Reader{}
		r.Reset([]byte(json))
		intake.FieldsOf[record]().Read(r, &got)
		require.NoError(t, r.Err())
		if json[0] == '{' {
			want.Span = intake.Span{To: int64(len(json))}
		}
		assert.Equal(t, want, got)
	}
	type number struct {
		N int `in:"n"`
	}
	type word struct {
		S string `in:"s,word"`
	}
	type hidden struct {
		s string `in:"s"`
	}
	assert.Panics(t, func() { intake.FieldsOf[number]() })
	assert.Panics(t, func() { intake.FieldsOf[word]() }, "an unknown kind")
	_ = hidden{}.s // reflect cannot set it
	assert.PanicsWithValue(t, "intake: the field s must be exported", func() { intake.FieldsOf[hidden]() })
}
