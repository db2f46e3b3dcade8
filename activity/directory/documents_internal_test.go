package directory

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/document"
)

// read returns a document of a kind with this value, as a book reads it.
func read(kind documentKind, value []byte) *storedDocument {
	p := &storedDocument{kind: kind}
	p.set(document.Document{Version: 1, Value: value})
	return p
}

// reread returns a session as it is read back from its document.
func reread(t testing.TB, s Session) Session {
	t.Helper()
	p := read(sessionKind, (&storedDocument{session: s}).value())
	require.False(t, p.damaged)
	return p.session
}

// Documents outlive the version that wrote them: their names and units stay.
func TestDocuments_areReadAsTheyWereEverWritten(t *testing.T) {
	const at = 1790848800500000
	minusFive := int64(-5)
	for value, want := range map[string]Session{
		`{"user_id":"u","user_by":{"at":1790848800500000,"is_user":true},"email":"a@b.c",` +
			`"email_by":{"at":1790848800500000,"identified":"v"},"actions":3,` +
			`"past":{"stated":[{"email":"d@b.c"},{"user_id":"v","email":"a@b.c"}]},"clock":{"correction":-5,"points":[[1,2],` +
			`[3,4]],"cut":true}}`: {
			UserID: "u", Actions: 3, state: state{
				UserBy:      provenance{At: at, Identified: "u"},
				StatedEmail: "a@b.c", EmailBy: provenance{At: at, Identified: "v"},
				Past:  past{Stated: []Statement{{"", "d@b.c"}, {"v", "a@b.c"}}},
				Clock: clock{&minusFive, []point{{1, 2}, {3, 4}}, true},
			},
		},
		`{"user_id":"u","email":"a@b.c"}`: {
			UserID: "u", Email: "a@b.c", state: state{StatedEmail: "a@b.c"},
		},
		`{"desk":"zendesk","conversation_id":"7","later":{"x":[1,{"y":null}]}}`: {Desk: "zendesk", ConversationID: "7"},
		`{}`: {},
	} {
		p := read(sessionKind, []byte(value))
		require.False(t, p.damaged, value)
		require.Equal(t, want, p.session, value)
		require.Equal(t, want, reread(t, want))
	}
	require.Equal(t, fact{Email: "a@b.c", At: at}, read(userKind, []byte(`{"email":"a@b.c","at":1790848800500000}`)).fact)
	require.Equal(t, fact{SessionID: "s", At: at},
		read(emailKind, []byte(`{"session_id":"s","at":1790848800500000}`)).fact)
	p := &storedDocument{kind: emailKind, fact: fact{SessionID: "s", At: at}}
	require.Equal(t, p.fact, read(emailKind, p.value()).fact)
}

func TestSession_forgetsThePersonsEarlierLinks(t *testing.T) {
	s := Session{state: state{Past: past{Earlier: []formerLink{{"zendesk", "1", "ada", time.Time{}, ""},
		{"zendesk", "2", "bob", time.Time{}, ""}, {"zendesk", "3", "", time.Time{}, ""}}}}}
	s.forget(Person{UserIDs: []string{"ada"}})
	require.Equal(t, []Conversation{{"zendesk", "2", "bob"}}, s.Conversations())
}

// Two users of a session have one address. It stays the other's, whose own erasure must find it, unless the erasure is
// the address's.
func TestSession_keepsTheAddressThatAnotherStatedToo(t *testing.T) {
	const shared = "us@x.example"
	for address, want := range map[string][]Statement{"": {{"bob", shared}}, shared: {}} {
		s := Session{state: state{Past: past{Stated: []Statement{{"ada", shared}, {"bob", shared}, {"anon", shared},
			{"", shared}}}}}
		s.forget(Person{UserIDs: []string{"ada"}, Visitors: []string{"anon"}, Emails: []string{shared}, Address: address})
		require.Equal(t, want, s.Past.Stated, address)
	}
}

// Nobody in the session is identified, so a link belongs to its address, or to the session's user without one.
func TestSession_keepsLinksOfNobodyYetFromAnothersErasure(t *testing.T) {
	link := func(id, email string) formerLink { return formerLink{"zendesk", id, "", time.Time{}, email} }
	session := func() Session {
		former := link("2", "Ada@x.example")
		return Session{UserID: "bob", Desk: "zendesk", ConversationID: "1", state: state{
			LinkEmail: "ada@x.example", Former: &former,
			Past: past{Earlier: []formerLink{link("3", "ada@x.example"), link("4", "")},
				Stated: []Statement{{"ada", "ada@x.example"}}}}}
	}
	for name, c := range map[string]struct{ userIDs, emails, theirs, left []string }{
		"the address":        {nil, []string{"ada@x.example"}, []string{"1", "2", "3"}, []string{"4"}},
		"who stated it":      {[]string{"ada"}, nil, []string{"1", "2", "3"}, []string{"4"}},
		"the session's user": {[]string{"bob"}, []string{"bob@x.example"}, []string{"4"}, []string{"1", "2", "3"}},
		"another user":       {[]string{"eve"}, nil, nil, []string{"1", "2", "4", "3"}},
	} {
		ids := func(all []Conversation) (ids []string) {
			for _, c := range all {
				ids = append(ids, c.ID)
			}
			return ids
		}
		s := session()
		require.ElementsMatch(t, c.theirs, ids(s.ConversationsOf(c.userIDs, c.emails)), name)
		s.forget(Person{UserIDs: c.userIDs, Emails: c.emails})
		require.ElementsMatch(t, c.left, ids(s.Conversations()), name)
	}
}
