package helpdesktest

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/helpdesk"
)

// Account is a desk under test, with one open conversation on the fake server that
// receives the desk's requests. The functions read or change that conversation.
type Account struct {
	Desk    helpdesk.Desk
	Server  *Server  // in memory
	Secrets []string // from the desk's configuration: no error may contain one

	ConversationID string
	// Message is a message that the contact wrote in the conversation.
	Message string
	// Notes returns the notes as an agent sees them, oldest first, without redacted ones.
	Notes func() []string
	// Write makes the contact write a message. It may be nil if the desk is not
	// a [helpdesk.Remover].
	Write func(message string)
	// Delete deletes the conversation.
	Delete func()

	// Opened and Wrote are webhook bodies: the conversation began, and its contact wrote
	// the Message. Sign returns the headers with which the vendor would send a body now.
	Opened, Wrote []byte
	Sign          func(body []byte) http.Header
}

// TestDesk tests that a desk keeps every promise of [helpdesk.Desk] and of the
// [helpdesk.Capabilities] that it declares. It calls open for each test, within a
// testing/synctest bubble, where waits take no time. The desk must be configured to
// verify webhooks and, like the service's desks, not to retry.
func TestDesk(t *testing.T, open func(t *testing.T) *Account) {
	var can helpdesk.Capabilities
	synctest.Test(t, func(t *testing.T) { can = open(t).Desk.Capabilities() })
	for _, suite := range []struct {
		has   bool
		tests []deskTest
	}{
		{true, noteTests},
		{true, webhookTests},
		{can.Finder != nil, finderTests},
		{can.Redactor != nil, redactorTests},
		{can.Replier != nil, replierTests},
		{can.Chats, chatTests},
		{can.Offerer != nil, offererTests},
		{can.Remover != nil, removerTests},
		{can.Pacer != nil, pacerTests},
		{can.Contacts != nil, contactTests},
		{can.Renderer != nil, rendererTests},
		{can.Addresser != nil, addresserTests},
		{can.Checker != nil, checkerTests},
		{can.Rehearser != nil, rehearserTests},
	} {
		if !suite.has {
			continue
		}
		for _, test := range suite.tests {
			t.Run(test.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					a := open(t)
					require.Nil(t, a.Server.listener, "the server must be in memory")
					test.run(&deskFixture{T: t, Account: a, can: a.Desk.Capabilities(), began: time.Now()})
				})
			})
		}
	}
}

type deskTest struct {
	name string
	run  func(f *deskFixture)
}

type deskFixture struct {
	*testing.T
	*Account
	can   helpdesk.Capabilities
	began time.Time
}

// note writes a note that must succeed.
func (f *deskFixture) note(text string) (id string) {
	f.Helper()
	id, err := f.Desk.Note(f.Context(), f.ConversationID, text)
	require.NoError(f, err)
	return id
}

// failed returns the typed error, and requires that it contains no secret.
func (f *deskFixture) failed(err error) *helpdesk.APIError {
	f.Helper()
	var failed *helpdesk.APIError
	require.ErrorAs(f, err, &failed)
	for _, secret := range f.Secrets {
		assert.NotContains(f, err.Error(), secret)
	}
	return failed
}

// gone requires the error for a missing conversation.
func (f *deskFixture) gone(err error, what ...any) {
	f.Helper()
	require.Error(f, err, what...)
	assert.True(f, f.failed(err).Gone, append([]any{err}, what...)...)
}

// writes returns the requests that may have changed something.
func (f *deskFixture) writes() (writes []Request) {
	for _, r := range f.Server.Requests() {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			writes = append(writes, r)
		}
	}
	return writes
}

// breaks injects a fault into the next note, and returns the note's error.
func (f *deskFixture) breaks(fault Fault, text string) error {
	f.Helper()
	f.note("Before the fault")
	before := f.writes()
	fault.Method = before[len(before)-1].Method
	f.Server.Fail(fault)
	_, err := f.Desk.Note(f.Context(), f.ConversationID, text)
	f.Server.Heal()
	assert.LessOrEqual(f, len(f.writes()), len(before)+1, "the desk retries, which is the caller's part")
	return err
}

// trailing matches spaces at the ends of lines.
var trailing = regexp.MustCompile(`(?m) +$`)

// seen returns the part of a text that a person sees.
func seen(text string) string {
	return trailing.ReplaceAllString(strings.Map(func(r rune) rune {
		if r != '\n' && !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text), "")
}

// hostile is a note with everything that a desk might interpret as more than
// text.
const hostile = `session_id: s1 <b>bold</b> & &lt;entity&gt;

[1] "User" clicked 'Buy' **now** _x_ ` + "`code`" + ` [link](https://evil.example) #1 - x
[2] {{ticket.requester.email}} {% if true %}x{% endif %} \{{x}} ${x} %s
[3] <script>alert(1)</script> <img src=x onerror=alert(1)> ünïcödé 😀`

var noteTests = []deskTest{
	{"Note writes text as it is, by one request that changes something", func(f *deskFixture) {
		id := f.note(hostile)
		assert.Len(f, f.writes(), 1)
		other := f.note("Another")
		assert.True(f, id == "" || id != other, "two notes have one ID")
		notes := f.Notes()
		require.Len(f, notes, 2)
		assert.Equal(f, seen(hostile), seen(notes[0]))
		assert.Equal(f, "Another", seen(notes[1]))
	}},
	{"Note may be called concurrently", func(f *deskFixture) {
		const at = 8
		failures := make(chan error, at)
		for range at {
			go func() {
				_, err := f.Desk.Note(f.Context(), f.ConversationID, "Together")
				failures <- err
			}()
		}
		for range at {
			require.NoError(f, <-failures)
		}
		assert.Len(f, f.Notes(), at)
	}},
	{"Note refuses IDs that no conversation has", func(f *deskFixture) {
		id := f.ConversationID
		for _, id := range []string{
			"", ".", "..", "../" + id, id + "/../" + id, id + "?x=1", id + "#x", id + "\n", "%2e%2e", strings.Repeat("9", 300),
		} {
			_, err := f.Desk.Note(f.Context(), id, "Lost")
			f.gone(err, id)
		}
		assert.Empty(f, f.Notes())
	}},
	{"Note says that a deleted conversation is gone", func(f *deskFixture) {
		f.Delete()
		_, err := f.Desk.Note(f.Context(), f.ConversationID, "Lost")
		f.gone(err)
		assert.False(f, f.failed(err).Temporary())
		assert.False(f, f.failed(err).AccountWide())
	}},
	{"Note says that the account is away", func(f *deskFixture) {
		for _, status := range []int{500, 502, 503} {
			err := f.failed(f.breaks(Fault{Status: status}, "Lost"))
			assert.True(f, err.Temporary() && err.AccountWide() && !err.Gone, "%d", status)
			assert.Equal(f, status, err.Status)
		}
	}},
	{"Note says that the credentials are refused", func(f *deskFixture) {
		err := f.failed(f.breaks(Fault{Status: http.StatusUnauthorized}, "Lost"))
		assert.True(f, err.AccountWide() && !err.Temporary() && !err.Ambiguous && !err.Gone)
	}},
	{"Note says how long a limit lasts", func(f *deskFixture) {
		err := f.failed(f.breaks(Fault{Status: http.StatusTooManyRequests, RetryAfter: 7 * time.Second}, "Lost"))
		assert.True(f, err.Temporary() && !err.Ambiguous && !err.Gone)
		assert.Equal(f, 7*time.Second, err.RetryAfter())
	}},
	{"Note says that a refused connection had no effect", func(f *deskFixture) {
		err := f.failed(f.breaks(Fault{Refuse: true}, "Lost"))
		assert.True(f, err.Temporary() && err.AccountWide() && !err.Ambiguous)
	}},
	{"Note says that a lost answer is ambiguous", func(f *deskFixture) {
		err := f.failed(f.breaks(Fault{Lose: true}, "Written"))
		assert.True(f, err.Temporary() && err.Ambiguous)
		assert.Len(f, f.Notes(), 2)
	}},
	{"Note gives up within 30 seconds", func(f *deskFixture) {
		err := f.failed(f.breaks(Fault{Delay: time.Hour}, "Written"))
		assert.True(f, err.Temporary() && err.Ambiguous)
		assert.LessOrEqual(f, time.Since(f.began), 30*time.Second)
	}},
	{"Note ends with its context", func(f *deskFixture) {
		f.Server.Fail(Fault{Delay: time.Hour})
		ctx, cancel := context.WithTimeout(f.Context(), time.Second)
		defer cancel()
		_, err := f.Desk.Note(ctx, f.ConversationID, "Late")
		assert.ErrorIs(f, err, context.DeadlineExceeded)
		assert.Equal(f, time.Second, time.Since(f.began))
	}},
	{"Fits accepts the texts that Note can write whole", func(f *deskFixture) {
		for i := range hostile {
			require.True(f, f.Desk.Fits(hostile[:i]), "a prefix of a text that fits")
		}
		least := sort.Search(1<<17, func(n int) bool { return !f.Desk.Fits(strings.Repeat("<ü", n+1)) })
		longest := strings.Repeat("<ü", least)
		f.note(longest)
		require.Len(f, f.Notes(), 1)
		assert.True(f, longest == seen(f.Notes()[0]), "a note of %d pairs of characters is cut", least)
		assert.Empty(f, f.Server.Requests()[1:], "Fits makes a request")
	}},
}

var webhookTests = []deskTest{
	{"Webhook reads a conversation that begins", func(f *deskFixture) {
		e, err := f.Desk.Webhook(f.Sign(f.Opened), f.Opened, time.Now())
		require.NoError(f, err)
		assert.Equal(f, helpdesk.EventOpened, e.Type)
		assert.Equal(f, f.ConversationID, e.ConversationID)
		assert.NotEqual(f, [3]string{}, [3]string{e.ContactID, e.Contact.Email, e.Contact.UserID}, "nobody is named")
		assert.Empty(f, f.Server.Requests(), "Webhook makes a request")
		assert.True(f, f.can.SignedBy == nil || slices.ContainsFunc(f.can.SignedBy, func(name string) bool {
			return f.Sign(f.Opened).Get(name) != ""
		}), "the service refuses a webhook without a header of SignedBy")
	}},
	{"Webhook reads a message, alike when it is repeated", func(f *deskFixture) {
		header := f.Sign(f.Wrote)
		first, err := f.Desk.Webhook(header, f.Wrote, time.Now())
		require.NoError(f, err)
		assert.Equal(f, helpdesk.EventMessage, first.Type)
		assert.Equal(f, f.ConversationID, first.ConversationID)
		assert.Equal(f, f.Message, first.Message)
		time.Sleep(time.Minute)
		again, err := f.Desk.Webhook(header, f.Wrote, time.Now())
		require.NoError(f, err)
		assert.Equal(f, first, again)
	}},
	{"Webhook refuses a changed body", func(f *deskFixture) {
		for _, body := range [][]byte{f.Opened, f.Wrote} {
			for _, changed := range [][]byte{append(body[:len(body):len(body)], ' '), body[:len(body)-1]} {
				_, err := f.Desk.Webhook(f.Sign(body), changed, time.Now())
				assert.ErrorIs(f, err, helpdesk.ErrSignature)
			}
		}
	}},
	{"Webhook refuses a request without its headers", func(f *deskFixture) {
		for name := range f.Sign(f.Opened) {
			header := f.Sign(f.Opened)
			header.Del(name)
			if e, err := f.Desk.Webhook(header, f.Opened, time.Now()); err == nil {
				assert.Equal(f, f.ConversationID, e.ConversationID, "%s is not part of the signature", name)
			} else {
				assert.True(f, errors.Is(err, helpdesk.ErrSignature) || errors.Is(err, helpdesk.ErrUnrecognized),
					"%s: %v", name, err)
			}
		}
		_, err := f.Desk.Webhook(http.Header{"Content-Type": {"application/json"}}, f.Opened, time.Now())
		assert.True(f, errors.Is(err, helpdesk.ErrSignature) || errors.Is(err, helpdesk.ErrUnrecognized), err)
	}},
	{"Webhook leaves the requests of others alone", func(f *deskFixture) {
		for _, body := range []string{`{"hello": "world"}`, `[]`, `hello`, ``} {
			_, err := f.Desk.Webhook(http.Header{"Content-Type": {"application/json"}}, []byte(body), time.Now())
			assert.ErrorIs(f, err, helpdesk.ErrUnrecognized, body)
		}
	}},
	{"Webhook says that a signed request is malformed", func(f *deskFixture) {
		for _, body := range [][]byte{f.Opened, f.Wrote} {
			for _, cut := range []int{1, len(body) / 2, len(body) - 1} {
				_, err := f.Desk.Webhook(f.Sign(body[:cut]), body[:cut], time.Now())
				assert.ErrorAs(f, err, new(*helpdesk.PayloadError), "%s", body[:cut])
			}
		}
	}},
	{"Webhook survives any value of a field", func(f *deskFixture) {
		const marker = "marker-5f1c"
		for _, body := range [][]byte{f.Opened, f.Wrote} {
			for _, value := range []string{`null`, `-7`, `true`, `[{}]`, `{"id": {}}`, `"` + marker + `"`} {
				for _, changed := range withEach(body, value) {
					e, err := f.Desk.Webhook(f.Sign(changed), changed, time.Now())
					if err != nil {
						assert.NotContains(f, err.Error(), marker, "an error holds a part of the body")
						assert.True(f, errors.Is(err, helpdesk.ErrUnrecognized) ||
							errors.As(err, new(*helpdesk.PayloadError)), "%s: %v", changed, err)
					} else if e.Type == helpdesk.EventOpened || e.Type == helpdesk.EventMessage {
						assert.NotEmpty(f, e.ConversationID, "return a PayloadError for %s", changed)
					}
				}
			}
		}
	}},
}
