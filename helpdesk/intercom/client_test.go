package intercom_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/helpdesk/helpdesktest"
	"github.com/liveactivity/liveactivity/helpdesk/intercom"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/options"
)

// workspace is a fake Intercom with a client of it and a conversation.
type workspace struct {
	*helpdesktest.Intercom
	client       *intercom.Client
	conversation string
	created      *http.Request
}

// config is the configuration for a fake.
func config(fake *helpdesktest.Intercom) intercom.Config {
	return intercom.Config{BaseURL: fake.URL(), AccessToken: helpdesktest.IntercomAccessToken,
		AdminID: helpdesktest.IntercomAdminID, ClientSecret: helpdesktest.IntercomClientSecret}
}

func newWorkspace(t testing.TB, opts helpdesktest.IntercomOptions) workspace {
	t.Helper()
	opts.InMemory = true
	fake := helpdesktest.NewIntercom(&opts)
	id, webhook := fake.Created("https://hooks.example",
		helpdesktest.IntercomContact{Email: "jane@acme.example", ExternalID: "user-7"}, "Hello")
	return workspace{fake, connect(t, fake, config(fake)), id, webhook}
}

func connect(t testing.TB, fake *helpdesktest.Intercom, config intercom.Config) *intercom.Client {
	t.Helper()
	client, err := intercom.New(config, &helpdesk.Options{HTTP: fake.Client(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	return client
}

// sent returns the requests so far as "METHOD path version".
func (w workspace) sent() (lines []string) {
	for _, r := range w.Requests() {
		lines = append(lines, r.Method+" "+strings.ReplaceAll(r.Path, w.conversation,
			"ID")+" "+r.Header.Get("Intercom-Version"))
	}
	return lines
}

// lastBody returns the body of the last request.
func (w workspace) lastBody(t *testing.T) (body map[string]any) {
	t.Helper()
	all := w.Requests()
	require.NoError(t, json.Unmarshal(all[len(all)-1].Body, &body))
	return body
}

// failed returns an error as the desk's.
func failed(t *testing.T, err error) *helpdesk.APIError {
	t.Helper()
	var e *helpdesk.APIError
	require.ErrorAs(t, err, &e)
	return e
}

const text = "session_id: s1\ntimestamp: 2026-11-22 02:25:04 UTC\n\n[1] User clicked <b>\"Save\" & 'go'</b> &amp; " +
	"{{x}}\n[2] <script>alert(1)</script>"

func TestNote_isWrittenAsTheSpecificationSays(t *testing.T) {
	w := newWorkspace(t, helpdesktest.IntercomOptions{})
	id := musttest.New(w.client.Note(t.Context(), w.conversation, "a < b\nc"))
	assert.Equal(t, w.Parts(w.conversation)[0].ID, id)
	assert.Equal(t, []string{"POST /conversations/ID/parts 2.11"}, w.sent())
	assert.Equal(t, map[string]any{"type": "admin", "admin_id": "1001", "message_type": "note", "body": "a &lt; b<br>c"},
		w.lastBody(t))
	assert.Equal(t, "a &lt; b<br>c", w.client.Render("a < b\nc"))
	header := w.Requests()[0].Header
	assert.Equal(t, "application/json", header.Get("Accept"))
	assert.Equal(t, "application/json", header.Get("Content-Type"))
	assert.Equal(t, "Bearer "+helpdesktest.IntercomAccessToken, header.Get("Authorization"))
}

func TestNote_goesToTheEndpointForRepliesOnceThatHasWorked(t *testing.T) {
	w := newWorkspace(t, helpdesktest.IntercomOptions{NotesByReply: true})
	w.Fail(helpdesktest.Fault{Path: "/reply", Status: 503, Times: 1})
	_, err := w.client.Note(t.Context(), w.conversation, "refused")
	assert.Equal(t, 503, failed(t, err).Status)
	for range 2 {
		id := musttest.New(w.client.Note(t.Context(), w.conversation, "taken"))
		parts := w.Parts(w.conversation)
		assert.Equal(t, parts[len(parts)-1].ID, id)
	}
	const parts, reply = "POST /conversations/ID/parts 2.11", "POST /conversations/ID/reply 2.11"
	assert.Equal(t, []string{parts, reply, parts, reply, reply}, w.sent())
	assert.Equal(t, []string{"taken", "taken"}, w.Notes(w.conversation))
	assert.Equal(t, "note", w.lastBody(t)["message_type"])
}

func TestNote_triesTheOtherEndpointOnlyWhenRefused(t *testing.T) {
	for status, requests := range map[int]int{400: 2, 422: 2, 404: 2, 401: 1, 403: 1, 409: 1, 413: 1, 429: 1,
		500: 1, 503: 1} {
		w := newWorkspace(t, helpdesktest.IntercomOptions{})
		w.Fail(helpdesktest.Fault{Path: "/parts", Status: status})
		_, err := w.client.Note(t.Context(), w.conversation, "x")
		assert.Len(t, w.sent(), requests, status)
		assert.Equal(t, requests == 2, err == nil, status)
	}
}

// writes are the requests that write into a conversation.
var writes = map[string]func(context.Context, *intercom.Client, string) error{
	"note":  func(ctx context.Context, c *intercom.Client, id string) error { return errorOf(c.Note(ctx, id, "x")) },
	"reply": func(ctx context.Context, c *intercom.Client, id string) error { return errorOf(c.Reply(ctx, id, "x")) },
	"offer": func(ctx context.Context, c *intercom.Client, id string) error {
		return errorOf(c.Offer(ctx, id, helpdesk.Offer{Body: "x"}))
	},
}

// errorOf returns the error of a request.
func errorOf[T any](_ T, err error) error { return err }

func TestWriting_asAnUnknownAdminIsAWrongConfiguration(t *testing.T) {
	for name, write := range writes {
		t.Run(name, func(t *testing.T) {
			w := newWorkspace(t, helpdesktest.IntercomOptions{})
			config := config(w.Intercom)
			config.AdminID = "77"
			err := write(t.Context(), connect(t, w.Intercom, config), w.conversation)
			assert.False(t, helpdesk.IsGone(err))
			e := failed(t, err)
			assert.True(t, e.AccountWide())
			assert.Equal(t, "admin_not_found", e.Code)
			assert.NotEmpty(t, e.RequestID)
			assert.NotContains(t, strings.Join(w.sent(), ","), "GET", "there is nothing to confirm")
		})
	}
}

func TestWriting_doesNotTakeAnother404ForADeletedConversation(t *testing.T) {
	for name, write := range writes {
		t.Run(name, func(t *testing.T) {
			w := newWorkspace(t, helpdesktest.IntercomOptions{})
			w.Fail(helpdesktest.Fault{Method: "POST", Status: 404})
			err := write(t.Context(), w.client, w.conversation)
			assert.Equal(t, 404, failed(t, err).Status)
			assert.False(t, helpdesk.IsGone(err), "it can be read")

			w.Fail(helpdesktest.Fault{Method: "GET", Lose: true})
			err = write(t.Context(), w.client, w.conversation)
			assert.True(t, failed(t, err).Temporary(), "it cannot be read now")
			assert.False(t, helpdesk.IsGone(err) || helpdesk.IsAmbiguous(err))
		})
	}
}

// An app may write without the right to read.
func TestWriting_needsNoRightToReadToFindAConversationDeleted(t *testing.T) {
	for name, write := range writes {
		t.Run(name, func(t *testing.T) {
			w := newWorkspace(t, helpdesktest.IntercomOptions{})
			require.NoError(t, w.client.Remove(t.Context(), w.conversation))
			w.Fail(helpdesktest.Fault{Method: "GET", Status: 403})
			err := write(t.Context(), w.client, w.conversation)
			assert.True(t, helpdesk.IsGone(err), "%v", err)
		})
	}
}

func TestWriting_doesNotTakeThe404OfAProxyForADeletedConversation(t *testing.T) {
	for _, body := range []string{"<html>no such host</html>", `{"message":"no Route matched with those values"}`} {
		client := served(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(body))
		})
		for name, write := range writes {
			err := write(t.Context(), client, "1")
			assert.False(t, helpdesk.IsGone(err), name)
			assert.Equal(t, 404, failed(t, err).Status, name)
			assert.True(t, failed(t, err).AccountWide(), "%s: nothing is dropped", name)
		}
		_, _, err := client.FindNote(t.Context(), "1", "text", "", time.Time{})
		assert.False(t, helpdesk.IsGone(err))
		require.Error(t, client.Redact(t.Context(), "1", "2"))
	}
}

func TestWriting_makesNoRequestForAnIdThatIsNone(t *testing.T) {
	w := newWorkspace(t, helpdesktest.IntercomOptions{})
	for _, id := range []string{"", ".", "..", "../me", "1/parts", "1?x", "1#", "1 2", "é", "last", "redact", "search",
		strings.Repeat("1", 129)} {
		for name, write := range writes {
			assert.True(t, helpdesk.IsGone(write(t.Context(), w.client, id)), "%s %q", name, id)
		}
		assert.True(t, helpdesk.IsGone(w.client.Redact(t.Context(), id, "1")), id)
		assert.True(t, helpdesk.IsGone(w.client.Remove(t.Context(), id)), id)
		_, _, err := w.client.FindNote(t.Context(), id, "x", "", time.Time{})
		assert.True(t, helpdesk.IsGone(err), id)
	}
	_, err := w.client.Contact(t.Context(), "../me")
	assert.Error(t, err)
	assert.Empty(t, w.sent())
}

func TestFindNote_looksBehindTheLastKnownNote(t *testing.T) {
	w := newWorkspace(t, helpdesktest.IntercomOptions{})
	first := musttest.New(w.client.Note(t.Context(), w.conversation, text))
	find := func(text, after string, since time.Time) string {
		id, found, err := w.client.FindNote(t.Context(), w.conversation, text, after, since)
		require.NoError(t, err)
		assert.Equal(t, found, id != "")
		return id
	}
	assert.Equal(t, first, find(text, "5", time.Now().Add(time.Hour)), "the id counts, not the time")
	assert.Empty(t, find(text, "", time.Now().Add(2*time.Second)))
	w.AgentReply(w.conversation, text)
	musttest.New(w.client.Reply(t.Context(), w.conversation, text))
	assert.Empty(t, find(text, first, time.Time{}), "neither is a note")
	second := musttest.New(w.client.Note(t.Context(), w.conversation, text))
	assert.Equal(t, second, find(text, first, time.Time{}))
	require.NoError(t, w.client.Redact(t.Context(), w.conversation, second))
	assert.Empty(t, find(text, first, time.Time{}))
}

// served returns a client of an Intercom that a handler stands for. Its admin is 42.
func served(t *testing.T, handler http.HandlerFunc) *intercom.Client {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return newClient(t, intercom.Config{BaseURL: s.URL, AccessToken: "t", AdminID: "42"})
}

// canned answers every request with one body.
func canned(t *testing.T, body string) *intercom.Client {
	t.Helper()
	return served(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Date"] = nil // so that times are compared as they stand
		_, _ = w.Write([]byte(body))
	})
}

// partsOf returns a conversation with these parts.
func partsOf(parts ...string) string {
	return `{"type":"conversation","id":"1","conversation_parts":{"conversation_parts":[` +
		strings.Join(parts, ",") + `]}}`
}

// partJSON returns a part of an author, such as "admin 42". Its IDs are numbers.
func partJSON(id int, partType, author, body string, createdAt int) string {
	authorType, authorID, _ := strings.Cut(author, " ")
	return fmt.Sprintf(`{"id":%d,"part_type":%q,"body":%q,"created_at":%d,"author":{"type":%q,"id":%s}}`, id, partType,
		body, createdAt, authorType, authorID)
}

func TestNote_isTheNewestOfOurAdminInAnyOrder(t *testing.T) {
	for name, test := range map[string]struct{ answer, id string }{
		"the one with the text": {partsOf(partJSON(9, "note", "admin 42", "<p>x</p>", 5),
			partJSON(10, "note", "admin 42", "<p>x</p>", 5), partJSON(3, "note", "admin 42", "x", 4),
			partJSON(11, "note", "admin 42", "y", 6)), "10"},
		"changed beyond recognition": {partsOf(partJSON(9, "note", "admin 42", "?", 7),
			partJSON(10, "note", "admin 42", "!", 5), partJSON(12, "note", "admin 41", "!", 9),
			partJSON(13, "comment", "admin 42", "!", 9)), "9"},
		"by another name": {partsOf(partJSON(9, "note", "bot 1", "?", 7),
			partJSON(10, "comment", "admin 42", "x", 8)), "9"},
		"by another type": {partsOf(partJSON(8, "comment", "user 1", "?", 7),
			partJSON(7, "open", "admin 42", "?", 7)), "7"},
		"without parts":    {partsOf(), ""},
		"without anything": {`{}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			id := musttest.New(canned(t, test.answer).Note(t.Context(), "1", "x"))
			assert.Equal(t, test.id, id)
		})
	}
}

func TestNote_withAnAnswerThatCannotBeReadIsAmbiguous(t *testing.T) {
	for _, answer := range []string{"", "{", "[]", `{"conversation_parts":{"conversation_parts":[{"id":{}}]}}`} {
		_, err := canned(t, answer).Note(t.Context(), "1", "x")
		assert.True(t, helpdesk.IsAmbiguous(err), answer)
	}
}

func TestFindNote_comparesTimesBeforeIds(t *testing.T) {
	client := canned(t, partsOf(partJSON(9, "note", "admin 42", "x", 7), partJSON(100, "note", "admin 42", "y", 6),
		partJSON(200, "note", "admin 41", "x", 9)))
	id, found, err := client.FindNote(t.Context(), "1", "x", "100", time.Time{})
	require.NoError(t, err)
	assert.True(t, found)
	assert.Equal(t, "9", id)
	_, found, err = client.FindNote(t.Context(), "1", "x", "99", time.Time{})
	require.NoError(t, err)
	assert.False(t, found, "the part is no longer among the latest, and its id is larger than that of 9")
	_, found, err = client.FindNote(t.Context(), "1", "x", "8", time.Time{})
	require.NoError(t, err)
	assert.True(t, found)
}

func TestReply_isWrittenAsAComment(t *testing.T) {
	w := newWorkspace(t, helpdesktest.IntercomOptions{})
	id := musttest.New(w.client.Reply(t.Context(), w.conversation, text))
	assert.Equal(t, []string{"POST /conversations/ID/reply 2.11"}, w.sent())
	assert.Equal(t, "comment", w.lastBody(t)["message_type"])
	part := w.Parts(w.conversation)[0]
	assert.Equal(t, text, part.Text)
	assert.Equal(t, part.ID, id)
	w.AgentReply(w.conversation, "x")
	found := musttest.New(w.client.FindReply(t.Context(), w.conversation, "x", time.Time{}))
	assert.False(t, found, "it is an agent's")
}

func TestIsRequesters_isFalseForTextsOfOthers(t *testing.T) {
	w := newWorkspace(t, helpdesktest.IntercomOptions{})
	musttest.New(w.client.Reply(t.Context(), w.conversation, "The service's"))
	musttest.New(w.client.Note(t.Context(), w.conversation, "In a note"))
	w.AgentReply(w.conversation, "The agent's & more")
	w.AgentReply(w.conversation, "Thanks")
	w.Replied("", w.conversation, "Thanks")
	for message, want := range map[string]bool{
		"Hello": true, "Thanks": true, "not shown yet": true, "In a note": true,
		"The service's": false, "The agent's & more": false,
	} {
		is := musttest.New(w.client.IsRequesters(t.Context(), w.conversation, message))
		assert.Equal(t, want, is, message)
	}
}

func TestRedact_takesTheTextAway(t *testing.T) {
	w := newWorkspace(t, helpdesktest.IntercomOptions{})
	id := musttest.New(w.client.Note(t.Context(), w.conversation, "x"))
	require.NoError(t, w.client.Redact(t.Context(), w.conversation, id))
	assert.Equal(t, "POST /conversations/redact 2.11", w.sent()[1])
	assert.Equal(t, map[string]any{"type": "conversation_part", "conversation_id": w.conversation,
		"conversation_part_id": id}, w.lastBody(t))
}

// An app may lack only the right to redact, to delete or to read.
func TestClient_withoutARightFailsInOneConversation(t *testing.T) {
	w := newWorkspace(t, helpdesktest.IntercomOptions{})
	for name, do := range map[string]func() error{
		"redact":  func() error { return w.client.Redact(t.Context(), w.conversation, "1") },
		"delete":  func() error { return w.client.Remove(t.Context(), w.conversation) },
		"contact": func() error { return errorOf(w.client.Contact(t.Context(), "c")) },
		"note": func() error {
			_, _, err := w.client.FindNote(t.Context(), w.conversation, "Hi", "", time.Time{})
			return err
		},
		"reply": func() error { return errorOf(w.client.FindReply(t.Context(), w.conversation, "Hi", time.Time{})) },
		"offer": func() error {
			_, _, err := w.client.FindOffer(t.Context(), w.conversation, helpdesk.Offer{Body: "Hi"}, time.Time{})
			return err
		},
		"message": func() error { return errorOf(w.client.IsRequesters(t.Context(), w.conversation, "Hi")) },
		"messages": func() error {
			return errorOf(w.client.Engaged(t.Context(), w.conversation, "", "Need a hand?"))
		},
	} {
		w.Fail(helpdesktest.Fault{Status: 403, Times: 1})
		e := failed(t, do())
		assert.True(t, e.OneConversation, name)
		assert.False(t, e.AccountWide() || e.Temporary(), name)
		w.Fail(helpdesktest.Fault{Status: 401, Times: 1})
		assert.True(t, failed(t, do()).AccountWide(), "%s: the token is refused", name)
	}
}

func TestRedact_ofANoteWithoutTextIsDone(t *testing.T) {
	code := "conversation_part_not_redactable"
	client := served(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprintf(w, `{"type":"error.list","errors":[{"code":%q}]}`, code)
	})
	require.NoError(t, client.Redact(t.Context(), "1", "2"))
	code = "parameter_invalid"
	require.Error(t, client.Redact(t.Context(), "1", "2"))
}

func TestOffer_isAQuickReply(t *testing.T) {
	w := newWorkspace(t, helpdesktest.IntercomOptions{})
	offer := helpdesk.Offer{Body: "Need a hand & help?", Labels: []string{"Yes, <show> me", "No"}}
	id := musttest.New(w.client.Offer(t.Context(), w.conversation, offer))
	assert.Equal(t, []string{"POST /conversations/ID/reply Unstable"}, w.sent())
	part := w.Parts(w.conversation)[0]
	assert.Equal(t, id+" quick_reply", part.ID+" "+part.Type)
	assert.Equal(t, offer, helpdesk.Offer{Body: part.Text, Labels: part.Labels})

	body, ids := w.lastBody(t), map[uuid.UUID]bool{}
	for _, option := range body["reply_options"].([]any) {
		ids[uuid.MustParse(option.(map[string]any)["uuid"].(string))] = true
	}
	assert.Len(t, ids, 2)
	delete(body, "reply_options")
	assert.Equal(t, map[string]any{"type": "admin", "admin_id": "1001", "message_type": "quick_reply",
		"body": "Need a hand &amp; help?"}, body)
}

func TestOffer_hasNoneToThreeLabels(t *testing.T) {
	w := newWorkspace(t, helpdesktest.IntercomOptions{})
	for n := range 4 {
		_, err := w.client.Offer(t.Context(), w.conversation, helpdesk.Offer{Body: "x", Labels: []string{"a", "b", "c"}[:n]})
		require.NoError(t, err)
		assert.Len(t, w.lastBody(t)["reply_options"], n)
	}
	before := len(w.sent())
	_, err := w.client.Offer(t.Context(), w.conversation, helpdesk.Offer{Body: "x", Labels: []string{"a", "b", "c", "d"}})
	require.Error(t, err)
	assert.Len(t, w.sent(), before)
}

func TestFindOffer_findsAnOfferWhoseBodyIntercomDidNotKeep(t *testing.T) {
	id, found, err := canned(t, partsOf(partJSON(7, "quick_reply", "admin 42", "", 100))).FindOffer(t.Context(), "1",
		helpdesk.Offer{Body: "x"}, time.Unix(100, 5))
	require.NoError(t, err)
	assert.True(t, found, "times have a resolution of a second")
	assert.Equal(t, "7", id)
}

func TestRemove_deletesAndKeepsTheMetrics(t *testing.T) {
	w := newWorkspace(t, helpdesktest.IntercomOptions{})
	require.NoError(t, w.client.Remove(t.Context(), w.conversation))
	assert.False(t, w.Exists(w.conversation))
	assert.Equal(t, []string{"DELETE /conversations/ID?retain_metrics=true 2.15"}, w.sent())
	assert.Empty(t, w.Requests()[0].Body)
}

func TestEngaged_reportsWritesOfPeopleAfterTheOffer(t *testing.T) {
	offer := partJSON(50, "quick_reply", "admin 42", "Need a hand?", 100)
	for name, test := range map[string]struct {
		part    string
		engaged bool
	}{
		"the contact's message":          {partJSON(51, "comment", "user 7", "Yes", 100), true},
		"a lead's message":               {partJSON(51, "comment", "lead 7", "Yes", 101), true},
		"a contact with the admin's id":  {partJSON(51, "open", "user 42", "Yes", 101), true},
		"the contact's message before":   {partJSON(49, "comment", "user 7", "Yes", 100), false},
		"a message of an earlier second": {partJSON(51, "comment", "user 7", "Yes", 99), false},
		"a teammate's message":           {partJSON(51, "comment", "admin 41", "Hi", 101), true},
		"a teammate takes it":            {partJSON(51, "assignment", "admin 41", "", 101), true},
		"a teammate's note":              {partJSON(51, "note", "admin 41", "mine", 101), true},
		"our note": {partJSON(51, "note", "admin 42",
			"session_id: s1<br>timestamp: 2026-11-22 02:15:04 UTC<br><br>[1] …", 101), false},
		"our note that was redacted": {partJSON(51, "note", "admin 42", "This note was deleted", 101)[:1] +
			`"redacted":true,` + partJSON(51, "note", "admin 42", "This note was deleted", 101)[1:], false},
		"a person's note as our admin":    {partJSON(51, "note", "admin 42", "Call her back", 101), true},
		"a person's image as our admin":   {partJSON(51, "comment", "admin 42", "<img src='x'>", 101), true},
		"our offer, shown late":           {partJSON(51, "quick_reply", "admin 42", "<p>Need a  hand?</p>", 101), false},
		"an offer without its body":       {partJSON(51, "quick_reply", "admin 42", "", 101), false},
		"a quick reply of another tool":   {partJSON(51, "quick_reply", "admin 42", "Which plan?", 101), true},
		"another admin's quick reply":     {partJSON(51, "quick_reply", "admin 41", "Need a hand?", 101), true},
		"closed with a text as our admin": {partJSON(51, "close", "admin 42", "Solved by phone", 101), true},
		"assigned with a text":            {partJSON(51, "assignment", "admin 42", "Please call her", 101), true},
		"reopened with a text":            {partJSON(51, "open", "admin 42", "Please look", 101), true},
		"closed as our admin":             {partJSON(51, "close", "admin 42", "", 101), false},
		"a redacted comment": {`{"redacted":true,` +
			partJSON(51, "comment", "admin 42", "This message was deleted", 101)[1:], true},
		"a file as our admin": {`{"attachments":[{"name":"x.pdf"}],` +
			partJSON(51, "comment", "admin 42", "", 101)[1:], true},
		"no files":           {`{"attachments":[],` + partJSON(51, "close", "admin 42", "", 101)[1:], false},
		"what the offer did": {partJSON(51, "open", "admin 42", "", 101), false},
		"our comment":        {partJSON(51, "comment", "admin 42", "Hi", 101), true},
		"a bot's message":    {partJSON(51, "comment", "bot 5", "Your order was refunded", 101), true},
		"a bot's note": {partJSON(51, "note", "bot 5",
			"session_id: s1<br>timestamp: 2026-11-22 02:15:04 UTC", 101), true},
		"what a bot did": {partJSON(51, "assignment", "bot 5", "", 101), false},
	} {
		t.Run(name, func(t *testing.T) {
			engaged, err := canned(t, partsOf(test.part, offer)).Engaged(t.Context(), "1", "50", "Need a hand?")
			require.NoError(t, err)
			assert.Equal(t, test.engaged, engaged)
		})
	}
}

// Any content but our own offer keeps the conversation, and so do parts that Intercom hides.
func TestEngaged_reportsAnyTextOfTheContact(t *testing.T) {
	offer := partJSON(50, "quick_reply", "admin 42", "Need a hand?", 100)
	begins := strings.TrimSuffix(partsOf(offer), "}") + ","
	byContact := func(fields string) string {
		return begins + `"source":{"author":{"type":"user","id":"7"},` + fields + `}}`
	}
	for name, test := range map[string]struct {
		body    string
		engaged bool
	}{
		"nothing":                 {byContact(`"body":""`), false},
		"an empty paragraph":      {byContact(`"body":"<p></p>","subject":"","attachments":[]`), false},
		"text":                    {byContact(`"body":"<p>Help</p>"`), true},
		"an image":                {byContact(`"body":"<img src=\"https://x.example/y.png\">"`), true},
		"an image in a paragraph": {byContact(`"body":"<p><img src=\"https://x.example/y.png\"></p>"`), true},
		"a subject":               {byContact(`"body":"","subject":"Where is my invoice?"`), true},
		"an attachment":           {byContact(`"body":"","attachments":[{"name":"x.pdf"}]`), true},
		"a remark":                {begins + `"conversation_rating":{"rating":1,"remark":"Never again"}}`, true},
		"no rating":               {begins + `"conversation_rating":null}`, false},
		"an opening as our admin": {begins + `"source":{"author":{"type":"admin","id":"42"},"body":"<p>Your invoice is ` +
			`overdue</p>"}}`, true},
		"a bot's opening": {begins + `"source":{"author":{"type":"bot","id":"5"},"body":"<p>Your order was ` +
			`refunded</p>"}}`, true},
		"a bot's empty opening": {begins + `"source":{"author":{"type":"bot","id":"5"},"body":""}}`, false},
		"a ticket":              {begins + `"ticket":{"type":"ticket","id":"5"}}`, true},
		"no ticket": {begins + `"ticket":null,"linked_objects":{"type":"list","data":[],"total_count":0}}`,
			false},
		"a linked ticket":           {begins + `"linked_objects":{"type":"list","data":[{"type":"ticket","id":"5"}]}}`, true},
		"our offer and its change":  {partsOf(offer, partJSON(51, "open", "admin 42", "", 100)), false},
		"no parts, not even ours":   {`{"type":"conversation","id":"1","conversation_parts":null}`, true},
		"parts that are not shown":  {strings.Replace(partsOf(offer), "]}}", `],"total_count":7}}`, 1), true},
		"an answer of another form": {`{}`, true},
		"another conversation":      {strings.Replace(partsOf(offer), `"id":"1"`, `"id":"2"`, 1), true},
	} {
		t.Run(name, func(t *testing.T) {
			engaged := musttest.New(canned(t, test.body).Engaged(t.Context(), "1", "", "Need a hand?"))
			assert.Equal(t, test.engaged, engaged)
		})
	}
}

func TestContact_returnsThePerson(t *testing.T) {
	w := newWorkspace(t, helpdesktest.IntercomOptions{NoEmail: true})
	event := readWebhook(t, w, w.created)
	assert.Empty(t, event.Contact.Email)
	contact := musttest.New(w.client.Contact(t.Context(), event.ContactID))
	assert.Equal(t, helpdesk.Contact{Email: "jane@acme.example", UserID: "user-7"}, contact)
	_, err := w.client.Contact(t.Context(), "none")
	assert.Equal(t, 404, failed(t, err).Status)
}

func TestContact_saysNothingOfALead(t *testing.T) {
	client := canned(t, `{"type":"contact","id":"c","role":"lead","email":"jane@acme.example","external_id":"user-7"}`)
	contact := musttest.New(client.Contact(t.Context(), "c"))
	assert.Zero(t, contact)
}

func TestLimit_saysWhenItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorkspace(t, helpdesktest.IntercomOptions{RequestsPer10s: 1})
		time.Sleep(time.Until(time.Now().Truncate(10 * time.Second).Add(13 * time.Second)))
		for range 2 {
			_, _ = w.client.Note(t.Context(), w.conversation, "x")
		}
		_, err := w.client.Note(t.Context(), w.conversation, "x")
		e := failed(t, err)
		assert.Equal(t, "rate_limit_exceeded", e.Code)
		assert.Equal(t, 7*time.Second, e.RetryAfter())
		assert.True(t, e.AccountWide() && e.Temporary())
		assert.Equal(t, 7*time.Second, w.client.Pause(w.conversation))
		requests, window := w.client.Rate()
		assert.Equal(t, 0.1, float64(requests)/window.Seconds())
	})
}

func TestAdmin_isTheOwnerOfTheTokenUnlessConfigured(t *testing.T) {
	w := newWorkspace(t, helpdesktest.IntercomOptions{})
	config := config(w.Intercom)
	config.AdminID = ""
	client := connect(t, w.Intercom, config)
	w.Fail(helpdesktest.Fault{Path: "/me", Times: 1, Lose: true})
	_, err := client.Note(t.Context(), w.conversation, "x")
	assert.True(t, failed(t, err).Temporary())
	assert.False(t, helpdesk.IsAmbiguous(err), "nothing was written")
	var wg sync.WaitGroup
	for range 4 {
		musttest.New(client.Note(t.Context(), w.conversation, "x"))
		wg.Go(func() { _, _, _ = client.FindNote(t.Context(), w.conversation, "x", "", time.Time{}) })
	}
	wg.Wait()
	assert.Equal(t, 2, strings.Count(strings.Join(w.sent(), "\n"), "GET /me"))
	assert.Equal(t, "1001", w.Parts(w.conversation)[0].AuthorID)
}

func TestToken_thatIsMissingOrWrongIsSaidSo(t *testing.T) {
	w := newWorkspace(t, helpdesktest.IntercomOptions{})
	config := config(w.Intercom)
	config.AccessToken = ""
	_, err := connect(t, w.Intercom, config).Note(t.Context(), w.conversation, "x")
	assert.True(t, failed(t, err).AccountWide())
	assert.ErrorContains(t, err, "access_token is not configured")
	assert.Empty(t, w.sent())

	config.AccessToken = "s3cr3t"
	_, err = connect(t, w.Intercom, config).Note(t.Context(), w.conversation, "x")
	assert.True(t, failed(t, err).AccountWide())
	assert.NotContains(t, err.Error(), "s3cr3t")
}

func TestFits_countsTheRenderedText(t *testing.T) {
	client := newClient(t, intercom.Config{})
	assert.True(t, client.Fits(strings.Repeat("x", intercom.MaxNoteSize)))
	assert.False(t, client.Fits(strings.Repeat("x", intercom.MaxNoteSize+1)))
	assert.False(t, client.Fits(strings.Repeat("\n", intercom.MaxNoteSize/4+1)))
	assert.True(t, client.Fits(strings.Repeat("<", intercom.MaxNoteSize/4)))
}

func TestCheck_namesMissingPartsInWords(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*intercom.Config)
		fault  *helpdesktest.Fault
		wrong  []string
	}{
		"nothing":             {func(*intercom.Config) {}, nil, nil},
		"no admin configured": {func(c *intercom.Config) { c.AdminID = "" }, nil, nil},
		"the client secret": {func(c *intercom.Config) { c.ClientSecret = "" }, nil,
			[]string{"Without client_secret"}},
		"the token": {func(c *intercom.Config) { c.AccessToken = "" }, nil,
			[]string{"no access_token"}},
		"the right token": {func(c *intercom.Config) { c.AccessToken = "x" }, nil,
			[]string{"refuses the access token"}},
		"the admin": {func(c *intercom.Config) { c.AdminID = "5" }, nil,
			[]string{"admin_id cannot be read: There is no such teammate."}},
		"the scope to read conversations": {func(*intercom.Config) {},
			&helpdesktest.Fault{Path: "/conversations", Status: 403}, []string{"cannot read conversations"}},
		"the scope to read contacts": {func(*intercom.Config) {}, &helpdesktest.Fault{Path: "/contacts", Status: 403},
			[]string{"cannot read contacts"}},
		"Intercom": {func(*intercom.Config) {}, &helpdesktest.Fault{Refuse: true},
			[]string{"cannot be reached"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorkspace(t, helpdesktest.IntercomOptions{})
			if test.fault != nil {
				w.Fail(*test.fault)
			}
			config := config(w.Intercom)
			test.change(&config)
			var wrong []string
			for _, finding := range connect(t, w.Intercom, config).Check(t.Context()) {
				assert.NotContains(t, finding.Text, helpdesktest.IntercomAccessToken)
				if !finding.OK {
					wrong = append(wrong, finding.Text)
				}
			}
			require.Len(t, wrong, len(test.wrong), "%q", wrong)
			for i := range wrong {
				assert.Contains(t, wrong[i], test.wrong[i])
			}
			for _, r := range w.Requests() {
				assert.Equal(t, http.MethodGet, r.Method)
			}
		})
	}
}

func TestKind_reportsEveryMistakeByItsField(t *testing.T) {
	for config, fields := range map[string][]string{
		`{}`:                    nil,
		`{"access_token": "t"}`: nil,
		`{"base_url": "https://api.eu.intercom.io/", "access_token": "t", "admin_id": "123", "client_secret": "s"}`: nil,
		`{"base_url": "http://127.0.0.1:8123"}`:         nil,
		`{"base_url": "api.intercom.io"}`:               {"base_url"},
		`{"base_url": "http://api.intercom.io"}`:        {"base_url"},
		`{"base_url": "https://u:p@api.intercom.io"}`:   {"base_url"},
		`{"admin_id": 123}`:                             {"admin_id"},
		`{"token": "t"}`:                                {"token"},
		`[]`:                                            {""},
		`{"access_token": "t ", "client_secret": "\n"}`: {"access_token", "client_secret"},
		`{"access_token": "", "client_secret": ""}`:     {"access_token", "client_secret"},
		`{"base_url": "?", "admin_id": null}`:           {"admin_id", "base_url"},
	} {
		desk, err := intercom.Kind.Open([]byte(config), nil)
		assert.Equal(t, fields == nil, desk != nil, config)
		if fields == nil {
			require.NoError(t, err, config)
			continue
		}
		var got []string
		for _, err := range options.Split(err) {
			var mistake *helpdesk.ConfigError
			require.ErrorAs(t, err, &mistake)
			got = append(got, mistake.Field)
		}
		assert.Equal(t, fields, got, config)
	}
}

// readWebhook returns the event of a webhook of the workspace.
func readWebhook(t *testing.T, w workspace, r *http.Request) helpdesk.Event {
	t.Helper()
	body := musttest.New(io.ReadAll(r.Body))
	event := musttest.New(w.client.Webhook(r.Header, body, time.Now()))
	return event
}

func TestFindNote_goesByIntercomsClock(t *testing.T) {
	for _, skew := range []time.Duration{-time.Hour, time.Hour} {
		now := time.Now().Truncate(time.Second)
		client := served(t, func(w http.ResponseWriter, _ *http.Request) {
			theirs := now.Add(skew)
			w.Header().Set("Date", theirs.UTC().Format(http.TimeFormat))
			_, _ = w.Write([]byte(partsOf(partJSON(1, "note", "admin 42", "x", int(theirs.Unix())-10),
				partJSON(2, "note", "admin 42", "x", int(theirs.Unix())))))
		})
		id, found, err := client.FindNote(t.Context(), "1", "x", "", now)
		require.NoError(t, err)
		assert.True(t, found)
		assert.Equal(t, "2", id)
		_, found, err = client.FindNote(t.Context(), "1", "x", "", now.Add(10*time.Second))
		require.NoError(t, err)
		assert.False(t, found)
	}
}

func TestCheck_namesTheOwnerOfTheToken(t *testing.T) {
	for body, text := range map[string]string{
		`{"id":"42","name":"Ann","has_inbox_seat":false}`: "Notes are written in the name of Ann, who has no Inbox seat.",
		`{}`: "The access token belongs to no teammate; configure admin_id.",
	} {
		assert.Contains(t, canned(t, body).Check(t.Context()), helpdesk.Finding{Text: text})
	}
}
