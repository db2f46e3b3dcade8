package helpdesktest

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/helpdesk"
)

// found requires that a search found something, and returns its ID.
func (f *deskFixture) found(id string, found bool, err error) string {
	f.Helper()
	require.NoError(f, err)
	assert.True(f, found)
	return id
}

// notFound requires that a search found nothing.
func (f *deskFixture) notFound(_ string, found bool, err error) {
	f.Helper()
	require.NoError(f, err)
	assert.False(f, found)
}

// later waits for longer than clocks may differ, and returns the current time.
func later() time.Time {
	time.Sleep(time.Hour)
	return time.Now()
}

var finderTests = []deskTest{
	{"FindNote finds a note whose answer was lost", func(f *deskFixture) {
		for _, text := range []string{hostile, "Written"} {
			require.Error(f, f.breaks(Fault{Lose: true}, text))
			f.found(f.can.Finder.FindNote(f.Context(), f.ConversationID, text, "", f.began))
		}
	}},
	{"FindNote finds nothing else", func(f *deskFixture) {
		id := f.note("Hello")
		for _, text := range []string{"Hell", "Hello again", "Hello\nagain", f.Message} {
			f.notFound(f.can.Finder.FindNote(f.Context(), f.ConversationID, text, "", f.began))
		}
		f.notFound(f.can.Finder.FindNote(f.Context(), f.ConversationID, "Hello", id, f.began))
		f.notFound(f.can.Finder.FindNote(f.Context(), f.ConversationID, "Hello", "", later()))
		again := f.note("Hello")
		got := f.found(f.can.Finder.FindNote(f.Context(), f.ConversationID, "Hello", id, later()))
		assert.Equal(f, again, got, "the second note")
		f.Delete()
		_, _, err := f.can.Finder.FindNote(f.Context(), f.ConversationID, "Hello", "", f.began)
		f.gone(err)
	}},
}

var redactorTests = []deskTest{
	{"Redact blanks one note", func(f *deskFixture) {
		id := f.note("Replaced by a summary")
		f.note("Kept")
		for range 2 {
			require.NoError(f, f.can.Redactor.Redact(f.Context(), f.ConversationID, id))
			for _, note := range f.Notes() {
				assert.NotContains(f, note, "summary")
			}
			assert.Contains(f, f.Notes(), "Kept")
		}
	}},
	{"Redact needs no note", func(f *deskFixture) {
		id := f.note("Hello")
		f.Server.Fail(Fault{Status: http.StatusServiceUnavailable})
		assert.True(f, f.failed(f.can.Redactor.Redact(f.Context(), f.ConversationID, id)).Temporary())
		f.Server.Heal()
		assert.NoError(f, f.can.Redactor.Redact(f.Context(), f.ConversationID, id+"0"))
		f.Delete()
		assert.NoError(f, f.can.Redactor.Redact(f.Context(), f.ConversationID, id))
	}},
}

var replierTests = []deskTest{
	{"Reply writes in public", func(f *deskFixture) {
		_, err := f.can.Replier.Reply(f.Context(), f.ConversationID, hostile)
		require.NoError(f, err)
		assert.Empty(f, f.Notes())
		assert.Len(f, f.writes(), 1)
		found, err := f.can.Replier.FindReply(f.Context(), f.ConversationID, hostile, f.began)
		require.NoError(f, err)
		assert.True(f, found)
		f.Delete()
		_, err = f.can.Replier.Reply(f.Context(), f.ConversationID, "Lost")
		f.gone(err)
	}},
	{"FindReply finds nothing else", func(f *deskFixture) {
		f.note("Hello")
		_, err := f.can.Replier.Reply(f.Context(), f.ConversationID, "Answer")
		require.NoError(f, err)
		for text, since := range map[string]time.Time{
			"Hello": f.began, "Hello again": f.began, f.Message: f.began, "Answer": later(),
		} {
			found, err := f.can.Replier.FindReply(f.Context(), f.ConversationID, text, since)
			require.NoError(f, err)
			assert.False(f, found, text)
		}
	}},
	{"IsRequesters tells the contact from the service", func(f *deskFixture) {
		_, err := f.can.Replier.Reply(f.Context(), f.ConversationID, "Answer")
		require.NoError(f, err)
		for text, want := range map[string]bool{f.Message: true, "Answer": false} {
			is, err := f.can.Replier.IsRequesters(f.Context(), f.ConversationID, text)
			require.NoError(f, err)
			assert.Equal(f, want, is, text)
		}
	}},
}

var chatTests = []deskTest{
	{"A desk that chats replies, and verifies webhooks", func(f *deskFixture) {
		assert.NotNil(f, f.can.Replier)
		assert.NotEmpty(f, f.can.SignedBy)
	}},
}

var offererTests = []deskTest{
	{"Offer shows a body with labels", func(f *deskFixture) {
		for _, offer := range []helpdesk.Offer{
			{Body: "Need a hand?\nJust ask.", Labels: []string{"Yes, show me", "No & <never>", "Talk to sales"}},
			{Body: "Just so you know"},
		} {
			id, err := f.can.Offerer.Offer(f.Context(), f.ConversationID, offer)
			require.NoError(f, err)
			assert.Equal(f, id, f.found(f.can.Offerer.FindOffer(f.Context(), f.ConversationID, offer, f.began)))
		}
		require.Len(f, f.writes(), 2)
		assert.Regexp(f, "(?s)Yes.*never.*sales", string(f.writes()[0].Body), "the labels, in order")
		assert.Empty(f, f.Notes())
		f.Delete()
		_, err := f.can.Offerer.Offer(f.Context(), f.ConversationID, helpdesk.Offer{Body: "Lost"})
		f.gone(err)
	}},
	{"FindOffer finds nothing else", func(f *deskFixture) {
		f.note("Need a hand?")
		offer := helpdesk.Offer{Body: "Need a hand?", Labels: []string{"Yes"}}
		f.notFound(f.can.Offerer.FindOffer(f.Context(), f.ConversationID, offer, f.began))
		_, err := f.can.Offerer.Offer(f.Context(), f.ConversationID, offer)
		require.NoError(f, err)
		f.notFound(f.can.Offerer.FindOffer(f.Context(), f.ConversationID, helpdesk.Offer{Body: "Another"}, f.began))
		f.notFound(f.can.Offerer.FindOffer(f.Context(), f.ConversationID, offer, later()))
	}},
}

var removerTests = []deskTest{
	{"Engaged sees the contact's messages", func(f *deskFixture) {
		engaged := func(after string) bool {
			is, err := f.can.Remover.Engaged(f.Context(), f.ConversationID, after, "")
			require.NoError(f, err)
			return is
		}
		id := f.note("Before")
		assert.True(f, engaged(""), "the contact opened the conversation")
		assert.False(f, engaged(id))
		time.Sleep(time.Second)
		f.Write("Still there?")
		assert.True(f, engaged(id))
	}},
	{"Remove deletes the conversation", func(f *deskFixture) {
		f.Server.Fail(Fault{Status: http.StatusServiceUnavailable})
		assert.True(f, f.failed(f.can.Remover.Remove(f.Context(), f.ConversationID)).Temporary())
		f.Server.Heal()
		for range 2 {
			require.NoError(f, f.can.Remover.Remove(f.Context(), f.ConversationID))
			_, err := f.Desk.Note(f.Context(), f.ConversationID, "Lost")
			f.gone(err)
			_, err = f.can.Remover.Engaged(f.Context(), f.ConversationID, "1", "")
			f.gone(err)
		}
	}},
}

var pacerTests = []deskTest{
	{"Pause lasts as long as the desk asked", func(f *deskFixture) {
		pause := func() time.Duration {
			return max(f.can.Pacer.Pause(""), f.can.Pacer.Pause(f.ConversationID))
		}
		assert.Zero(f, pause())
		for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
			require.Error(f, f.breaks(Fault{Status: status, RetryAfter: 7 * time.Second}, "Lost"))
			assert.Equal(f, 7*time.Second, pause(), "%d", status)
			time.Sleep(7 * time.Second)
			assert.Zero(f, pause())
			f.note("Again")
		}
	}},
}

var contactTests = []deskTest{
	{"Contact names the contact of an event", func(f *deskFixture) {
		e, err := f.Desk.Webhook(f.Sign(f.Opened), f.Opened, time.Now())
		require.NoError(f, err)
		require.NotEmpty(f, e.ContactID)
		contact, err := f.can.Contacts.Contact(f.Context(), e.ContactID)
		require.NoError(f, err)
		assert.NotEqual(f, helpdesk.Contact{}, contact)
		if e.Contact.Email != "" {
			assert.Equal(f, e.Contact.Email, contact.Email)
		}
		for _, id := range []string{"", "../" + e.ContactID, e.ContactID + "0"} {
			_, err = f.can.Contacts.Contact(f.Context(), id)
			require.Error(f, err, id)
			assert.False(f, f.failed(err).Temporary(), id)
		}
	}},
}

var rendererTests = []deskTest{
	{"Render lets nothing be markup", func(f *deskFixture) {
		html := f.can.Renderer.Render(hostile)
		for _, markup := range []string{"<b>", "<script", "<img"} {
			assert.NotContains(f, html, markup)
		}
		assert.Contains(f, html, "ünïcödé")
		assert.Empty(f, f.Server.Requests(), "Render makes a request")
	}},
}

var addresserTests = []deskTest{
	{"ConversationURL is for conversations only", func(f *deskFixture) {
		address, ok := f.can.Addresser.ConversationURL(f.ConversationID)
		require.True(f, ok)
		u, err := url.Parse(address)
		require.NoError(f, err)
		assert.True(f, slices.Contains([]string{"http", "https"}, u.Scheme) && u.Host != "", address)
		for _, id := range []string{"", "../x", "javascript:alert(1)", f.ConversationID + "?x"} {
			_, ok = f.can.Addresser.ConversationURL(id)
			assert.False(f, ok, "%q is the ID of no conversation", id)
		}
	}},
}

var checkerTests = []deskTest{
	{"Check changes nothing", func(f *deskFixture) {
		for _, finding := range f.can.Checker.Check(f.Context()) {
			assert.True(f, finding.OK, finding.Text)
			assert.NotEmpty(f, finding.Text)
		}
		assert.Empty(f, f.writes())
	}},
	{"Check finds that the credentials are refused", func(f *deskFixture) {
		f.Server.Fail(Fault{Status: http.StatusUnauthorized})
		findings := f.can.Checker.Check(f.Context())
		assert.True(f, slices.ContainsFunc(findings, func(found helpdesk.Finding) bool { return !found.OK }))
		for _, finding := range findings {
			for _, secret := range f.Secrets {
				assert.False(f, strings.Contains(finding.Text, secret), "a finding holds a secret")
			}
		}
	}},
}

var rehearserTests = []deskTest{
	{"BeginRehearsal opens a conversation that takes notes", func(f *deskFixture) {
		rehearsal, err := f.can.Rehearser.BeginRehearsal(f.Context(), "test@example.com", "Is anybody there?")
		require.NoError(f, err)
		assert.NotEmpty(f, rehearsal.ContactID)
		for _, text := range []string{"First", "Second"} {
			_, err = f.Desk.Note(f.Context(), rehearsal.ConversationID, text)
			require.NoError(f, err)
		}
		notes, err := f.can.Rehearser.Notes(f.Context(), rehearsal.ConversationID)
		require.NoError(f, err)
		assert.ElementsMatch(f, []string{"First", "Second"}, notes, "the message is no note")
	}},
	{"EndRehearsal removes everything, and may be repeated", func(f *deskFixture) {
		rehearsal, err := f.can.Rehearser.BeginRehearsal(f.Context(), "test@example.com", "Is anybody there?")
		require.NoError(f, err)
		for range 2 {
			left, err := f.can.Rehearser.EndRehearsal(f.Context(), rehearsal)
			require.NoError(f, err)
			assert.Empty(f, left)
		}
		_, err = f.Desk.Note(f.Context(), rehearsal.ConversationID, "Lost")
		f.gone(err)
		_, err = f.can.Rehearser.BeginRehearsal(f.Context(), "test@example.com", "Again")
		assert.NoError(f, err, "the person is still there")
	}},
	{"EndRehearsal says which part may not be removed", func(f *deskFixture) {
		rehearsal, err := f.can.Rehearser.BeginRehearsal(f.Context(), "test@example.com", "Is anybody there?")
		require.NoError(f, err)
		f.Server.Fail(Fault{Method: http.MethodDelete, Status: http.StatusForbidden})
		left, err := f.can.Rehearser.EndRehearsal(f.Context(), rehearsal)
		require.NoError(f, err)
		assert.Len(f, left, 2)
	}},
}

// withEach returns one copy of a JSON object for each of its fields, at any depth, with
// that field set to the value.
func withEach(body []byte, value string) (all [][]byte) {
	var whole any
	if json.Unmarshal(body, &whole) != nil {
		return nil
	}
	var walk func(v any, set func(any))
	walk = func(v any, set func(any)) {
		set(json.RawMessage(value))
		all = append(all, mustMarshal(whole))
		set(v)
		switch v := v.(type) {
		case map[string]any:
			for name, field := range v {
				walk(field, func(to any) { v[name] = to })
			}
		case []any:
			for i, element := range v {
				walk(element, func(to any) { v[i] = to })
			}
		}
	}
	walk(whole, func(to any) { whole = to })
	return all[1:] // the first one is the value alone
}
