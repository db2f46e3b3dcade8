package helpdesktest_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/helpdesk/helpdesktest"
	"github.com/liveactivity/liveactivity/helpdesk/intercom"
	"github.com/liveactivity/liveactivity/internal/musttest"
)

// ask sends a request to the fake as Intercom wants it, except for the changes that change makes.
// It returns the status, the headers and the body.
func ask(t *testing.T, fake *helpdesktest.Intercom, method, path, version, body string,
	change func(http.Header)) (int, http.Header, string) {
	t.Helper()
	r := musttest.New(http.NewRequestWithContext(t.Context(), method, fake.URL()+path, strings.NewReader(body)))
	r.Header.Set("Authorization", "Bearer "+helpdesktest.IntercomAccessToken)
	r.Header.Set("Accept", "application/json")
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Intercom-Version", version)
	if change != nil {
		change(r.Header)
	}
	response := musttest.New(fake.Client().Do(r))
	defer func() { _ = response.Body.Close() }()
	answer := musttest.New(io.ReadAll(response.Body))
	return response.StatusCode, response.Header, string(answer)
}

func TestIntercom_refusesRequestsAsIntercomDoes(t *testing.T) {
	const note = `{"type":"admin","admin_id":"1001","message_type":"note","body":"x"}`
	offer := func(options string) string {
		return `{"type":"admin","admin_id":"1001","message_type":"quick_reply","body":"","reply_options":` + options + `}`
	}
	option := `{"text":"a","uuid":"a5e1c524-5ddd-4c3e-9328-6bca5d6e3edb"}`
	with := func(old, changed string) string { return strings.Replace(note, old, changed, 1) }
	without := func(name string) func(http.Header) { return func(h http.Header) { h.Del(name) } }
	const reply, unstable = "POST /conversations/ID/reply", "Unstable"
	for name, test := range map[string]struct {
		request, version, body string // of a note as a part in version 2.11, where they are empty
		change                 func(http.Header)
		status                 int
		code                   string
	}{
		"a note":            {status: 200},
		"a note as a reply": {request: reply, status: 200},
		"without a token":   {change: without("Authorization"), status: 401, code: "unauthorized"},
		"another token": {change: func(h http.Header) { h.Set("Authorization", "Bearer x") }, status: 401,
			code: "unauthorized"},
		"without Accept": {change: without("Accept"), status: 406, code: "media_type_not_acceptable"},
		"another content type": {change: func(h http.Header) { h.Set("Content-Type", "text/plain") }, status: 415,
			code: "content_type_not_supported"},
		"without a version":       {change: without("Intercom-Version"), status: 400, code: "intercom_version_invalid"},
		"an unknown version":      {version: "9.9", status: 400, code: "intercom_version_invalid"},
		"an unknown conversation": {request: "POST /conversations/1/parts", status: 404, code: "not_found"},
		"an unknown path":         {request: "POST /nothing", status: 404, code: "not_found"},
		"an unknown admin":        {body: with("1001", "7"), status: 404, code: "admin_not_found"},
		"a number as admin":       {body: with(`"1001"`, "1001"), status: 400, code: "parameter_invalid"},
		"a user's note":           {body: with(`"admin"`, `"user"`), status: 400, code: "parameter_invalid"},
		"an unknown field":        {body: with(`"body"`, `"text"`), status: 400, code: "parameter_invalid"},
		"no body":                 {body: with(`,"body":"x"`, ``), status: 400, code: "parameter_not_found"},
		"an empty body":           {request: reply, body: with(`"x"`, `""`), status: 400, code: "parameter_not_found"},
		"a comment as a part":     {body: with("note", "comment"), status: 400, code: "parameter_invalid"},
		"options with a note": {request: reply, body: with(`"body"`, `"reply_options":[],"body"`), status: 400,
			code: "parameter_invalid"},
		"an offer":                   {request: reply, version: unstable, body: offer("[" + option + "]"), status: 200},
		"an offer by the newer name": {request: reply, version: "Preview", body: offer("[" + option + "]"), status: 200},
		"an offer without options":   {request: reply, version: unstable, body: offer("[]"), status: 200},
		"an offer in a numeric one":  {reply, "2.15", offer("[" + option + "]"), nil, 400, "parameter_invalid"},
		"an offer as a part":         {"", unstable, offer("[" + option + "]"), nil, 400, "parameter_invalid"},
		"an offer of null":           {reply, unstable, offer("null"), nil, 400, "parameter_invalid"},
		"an option without text": {reply, unstable, offer(`[{"uuid":"a5e1c524-5ddd-4c3e-9328-6bca5d6e3edb"}]`), nil, 400,
			"parameter_invalid"},
		"an option without a UUID": {reply, unstable, offer(`[{"text":"a","uuid":"1"}]`), nil, 400, "parameter_invalid"},
		"four options": {reply, unstable, offer("[" + strings.Repeat(option+",", 3) + option + "]"), nil, 400,
			"parameter_invalid"},
		"deletion in an old version": {request: "DELETE /conversations/ID", status: 404, code: "not_found"},
		"deletion with other words": {request: "DELETE /conversations/ID?retain_metrics=yes", version: "2.15", status: 400,
			code: "parameter_invalid"},
		"deletion": {request: "DELETE /conversations/ID?retain_metrics=true", version: "2.15", status: 200},
		"redaction of no part": {request: "POST /conversations/redact", status: 404,
			body: `{"type":"conversation_part","conversation_id":"ID","conversation_part_id":"1"}`,
			code: "conversation_part_or_message_not_found"},
		"redaction of something else": {"POST /conversations/redact", "", `{"type":"source"}`, nil, 400,
			"parameter_invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			fake := helpdesktest.NewIntercom(&helpdesktest.IntercomOptions{InMemory: true})
			id, _ := fake.Created("", helpdesktest.IntercomContact{}, "Hello")
			method, path, _ := strings.Cut(cmp.Or(test.request, "POST /conversations/ID/parts"), " ")
			status, _, answer := ask(t, fake, method, strings.Replace(path, "ID", id, 1), cmp.Or(test.version, "2.11"),
				strings.Replace(cmp.Or(test.body, note), "ID", id, 1), test.change)
			assert.Equal(t, test.status, status, answer)
			if test.code == "" {
				return
			}
			var list struct {
				Type      string
				RequestID string `json:"request_id"`
				Errors    []struct{ Code, Message string }
			}
			require.NoError(t, json.Unmarshal([]byte(answer), &list))
			assert.Equal(t, "error.list", list.Type)
			assert.NotEmpty(t, list.RequestID)
			require.Len(t, list.Errors, 1)
			assert.Equal(t, test.code, list.Errors[0].Code)
			assert.Empty(t, fake.Parts(id))
		})
	}
}

func TestIntercom_keepsAContactThatTheAPIMadeBesideTheNext(t *testing.T) {
	fake := helpdesktest.NewIntercom(&helpdesktest.IntercomOptions{InMemory: true})
	status, _, made := ask(t, fake, "POST", "/contacts", "2.11", `{"role":"user","email":"ada@example.com"}`, nil)
	require.Equal(t, 200, status, made)
	fake.Created("", helpdesktest.IntercomContact{Email: "bob@example.com"}, "Hello")
	_, contacts := fake.Left()
	assert.Equal(t, 2, contacts)
	var contact struct{ ID string }
	require.NoError(t, json.Unmarshal([]byte(made), &contact))
	_, _, found := ask(t, fake, "GET", "/contacts/"+contact.ID, "2.11", "", nil)
	assert.Contains(t, found, "ada@example.com")
}

func TestIntercom_showsAConversationWithoutItsContact(t *testing.T) {
	fake := helpdesktest.NewIntercom(&helpdesktest.IntercomOptions{InMemory: true})
	id, _ := fake.Created("", helpdesktest.IntercomContact{ExternalID: "user-7"}, "Hello")
	var shown struct {
		Contacts struct{ Contacts []struct{ ID string } }
	}
	_, _, answer := ask(t, fake, "GET", "/conversations/"+id, "2.11", "", nil)
	require.NoError(t, json.Unmarshal([]byte(answer), &shown))
	status, _, _ := ask(t, fake, "DELETE", "/contacts/"+shown.Contacts.Contacts[0].ID, "2.11", "", nil)
	require.Equal(t, 200, status)
	status, _, answer = ask(t, fake, "GET", "/conversations/"+id, "2.11", "", nil)
	assert.Equal(t, 200, status)
	assert.NotContains(t, answer, "user-7")
}

func TestIntercom_limitsInWindowsOfTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := helpdesktest.NewIntercom(&helpdesktest.IntercomOptions{InMemory: true, RequestsPer10s: 2})
		time.Sleep(time.Until(time.Now().Truncate(10 * time.Second).Add(14 * time.Second)))
		for i, want := range []string{"200 1", "200 0", "429 0", "429 0", "200 1"} {
			if i == 4 {
				time.Sleep(6 * time.Second)
			}
			status, header, _ := ask(t, fake, "GET", "/me", "2.11", "", nil)
			assert.Equal(t, want, fmt.Sprint(status, " ", header.Get("X-RateLimit-Remaining")))
			assert.Equal(t, "2", header.Get("X-RateLimit-Limit"))
			assert.Equal(t, fmt.Sprint(time.Now().Truncate(10*time.Second).Add(10*time.Second).Unix()),
				header.Get("X-RateLimit-Reset"))
		}
	})
}

func TestIntercom_changesTheMarkupButNotTheLines(t *testing.T) {
	for sent, want := range map[string]struct{ body, text string }{
		"a<br>b":             {"<p>a<br>b</p>", "a\nb"},
		"a<br> <br>b<BR />c": {"<p>a</p>\n<p>b<br>c</p>", "a\n\nb\nc"},
		"a\nb   c":           {"<p>a b c</p>", "a b c"}, // bare newlines are lost
		"<p>a</p>":           {"<p>a</p>", "a"},
		"<script>alert(1)</script>a<i onclick='x'>b</i><form>": {"<p>a<i>b</i></p>", "ab"},
		"1 &lt;b&gt; &amp;amp;":                                {"<p>1 &lt;b&gt; &amp;amp;</p>", "1 <b> &amp;"},
	} {
		fake := helpdesktest.NewIntercom(&helpdesktest.IntercomOptions{InMemory: true})
		id, _ := fake.Created("", helpdesktest.IntercomContact{}, "Hello")
		body, err := json.Marshal(map[string]string{"type": "admin", "admin_id": "1001", "message_type": "note",
			"body": sent})
		require.NoError(t, err)
		status, _, _ := ask(t, fake, "POST", "/conversations/"+id+"/parts", "2.11", string(body), nil)
		require.Equal(t, 200, status)
		part := fake.Parts(id)[0]
		assert.Equal(t, want.body, part.Body, sent)
		assert.Equal(t, want.text, part.Text, sent)
	}
}

func TestIntercom_signsWebhooks(t *testing.T) {
	const target = "https://hooks.example/chatbot-webhook/acme"
	for _, sha256 := range []bool{false, true} {
		fake := helpdesktest.NewIntercom(&helpdesktest.IntercomOptions{InMemory: true, SHA256: sha256})
		id, created := fake.Created(target, helpdesktest.IntercomContact{Email: "jane@acme.example"}, "Hello")
		fake.CloseConversation(id)
		seen := map[string]bool{}
		for topic, r := range map[string]*http.Request{
			"ping": fake.Ping(target), "conversation.user.created": created,
			"conversation.user.replied": fake.Replied(target, id, "Still there?"),
		} {
			body := musttest.New(io.ReadAll(r.Body))
			require.NoError(t, intercom.Verify(helpdesktest.IntercomClientSecret, r.Header, body))
			assert.Equal(t, sha256, r.Header.Get("X-Hub-Signature") == "")
			assert.Equal(t, target, r.URL.String())
			var n struct{ ID, Topic string }
			require.NoError(t, json.Unmarshal(body, &n))
			assert.Equal(t, topic, n.Topic)
			assert.False(t, seen[n.ID])
			seen[n.ID] = true
			assert.Equal(t, topic == "conversation.user.replied", strings.Contains(string(body), `"part_type":"open"`))
		}
	}
}

func TestIntercom_showsTheLatest500Parts(t *testing.T) {
	fake := helpdesktest.NewIntercom(&helpdesktest.IntercomOptions{InMemory: true})
	id, _ := fake.Created("", helpdesktest.IntercomContact{}, "Hello")
	for i := range 510 {
		fake.Replied("", id, fmt.Sprint("message ", i))
	}
	_, _, answer := ask(t, fake, "GET", "/conversations/"+id, "2.11", "", nil)
	assert.Equal(t, 500, strings.Count(answer, `"conversation_part"`))
	assert.Contains(t, answer, `"total_count":510`)
	assert.Contains(t, answer, "message 509")
}

// This tests an integration that leaves a note in every new conversation, with and without failures of
// the desk.
func ExampleIntercom() {
	desk := helpdesktest.NewIntercom(nil)
	defer desk.Close()
	client, err := intercom.New(intercom.Config{
		BaseURL: desk.URL(), AccessToken: helpdesktest.IntercomAccessToken, ClientSecret: helpdesktest.IntercomClientSecret,
	}, nil)
	if err != nil {
		panic(err)
	}
	integration := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		event, err := client.Webhook(r.Header, body, time.Now())
		if err != nil {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if event.Type == helpdesk.EventOpened {
			if _, err := client.Note(r.Context(), event.ConversationID, "New: "+event.Contact.Email); err != nil {
				w.WriteHeader(http.StatusBadGateway)
			}
		}
	}
	deliver := func(webhook *http.Request) {
		webhook.Body, _ = webhook.GetBody() // to deliver it more than once
		answer := httptest.NewRecorder()
		integration(answer, webhook)
		fmt.Println("answered", answer.Code)
	}

	conversation, webhook := desk.Created("", helpdesktest.IntercomContact{Email: "jane@acme.example"}, "Help!")
	desk.Fail(helpdesktest.Fault{Status: http.StatusServiceUnavailable, Times: 1})
	deliver(webhook)
	deliver(webhook) // as Intercom does when an answer says no
	fmt.Println(desk.Notes(conversation))

	webhook.Header.Set(intercom.HeaderSignatureSHA1, "sha1=00")
	deliver(webhook)
	// Output:
	// answered 502
	// answered 200
	// [New: jane@acme.example]
	// answered 401
}
