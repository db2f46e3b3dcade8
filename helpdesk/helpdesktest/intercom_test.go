package helpdesktest_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/helpdesk/helpdesktest"
	"github.com/liveactivity/liveactivity/helpdesk/intercom"
)

// ask sends a request to the fake as Intercom wants it, but for what change does,
// and returns the status, the headers and the body.
func ask(t *testing.T, fake *helpdesktest.Intercom, method, path, version, body string,
	change func(http.Header)) (int, http.Header, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, fake.URL()+path, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+helpdesktest.IntercomAccessToken)
	r.Header.Set("Accept", "application/json")
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Intercom-Version", version)
	if change != nil {
		change(r.Header)
	}
	response, err := fake.Client().Do(r)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, response.Header, string(answer)
}

func TestIntercom_refusesWhatIntercomWouldRefuse(t *testing.T) {
	const note = `{"type":"admin","admin_id":"1001","message_type":"note","body":"x"}`
	offer := func(options string) string {
		return `{"type":"admin","admin_id":"1001","message_type":"quick_reply","body":"","reply_options":` + options + `}`
	}
	option := `{"text":"a","uuid":"a5e1c524-5ddd-4c3e-9328-6bca5d6e3edb"}`
	without := func(name string) func(http.Header) { return func(h http.Header) { h.Del(name) } }
	for name, test := range map[string]struct {
		method, path, version, body string
		change                      func(http.Header)
		status                      int
		code                        string
	}{
		"a note":            {"POST", "/conversations/ID/parts", "2.11", note, nil, 200, ""},
		"a note as a reply": {"POST", "/conversations/ID/reply", "2.11", note, nil, 200, ""},
		"without a token": {"POST", "/conversations/ID/parts", "2.11", note, without("Authorization"), 401,
			"unauthorized"},
		"another token": {"GET", "/me", "2.11", "", func(h http.Header) { h.Set("Authorization", "Bearer x") },
			401, "unauthorized"},
		"without Accept": {"POST", "/conversations/ID/parts", "2.11", note, without("Accept"), 406,
			"media_type_not_acceptable"},
		"another content type": {"POST", "/conversations/ID/parts", "2.11", note,
			func(h http.Header) { h.Set("Content-Type", "text/plain") }, 415, "content_type_not_supported"},
		"without a version": {"POST", "/conversations/ID/parts", "2.11", note, without("Intercom-Version"), 400,
			"intercom_version_invalid"},
		"an unknown version":      {"POST", "/conversations/ID/parts", "9.9", note, nil, 400, "intercom_version_invalid"},
		"an unknown conversation": {"POST", "/conversations/1/parts", "2.11", note, nil, 404, "not_found"},
		"an unknown path":         {"POST", "/nothing", "2.11", note, nil, 404, "not_found"},
		"an unknown admin": {"POST", "/conversations/ID/parts", "2.11", strings.Replace(note, "1001", "7", 1), nil,
			404, "admin_not_found"},
		"a number as admin": {"POST", "/conversations/ID/parts", "2.11", strings.Replace(note, `"1001"`, "1001", 1),
			nil, 400, "parameter_invalid"},
		"a user's note": {"POST", "/conversations/ID/parts", "2.11",
			strings.Replace(note, `"admin"`, `"user"`, 1), nil, 400, "parameter_invalid"},
		"an unknown field": {"POST", "/conversations/ID/parts", "2.11",
			strings.Replace(note, `"body"`, `"text"`, 1), nil, 400, "parameter_invalid"},
		"no body": {"POST", "/conversations/ID/parts", "2.11",
			strings.Replace(note, `,"body":"x"`, ``, 1), nil, 400, "parameter_not_found"},
		"an empty body": {"POST", "/conversations/ID/reply", "2.11", strings.Replace(note, `"x"`, `""`, 1), nil,
			400, "parameter_not_found"},
		"a comment as a part": {"POST", "/conversations/ID/parts", "2.11",
			strings.Replace(note, "note", "comment", 1), nil, 400, "parameter_invalid"},
		"options with a note": {"POST", "/conversations/ID/reply", "2.11",
			strings.Replace(note, `"body"`, `"reply_options":[],"body"`, 1), nil, 400, "parameter_invalid"},
		"an offer": {"POST", "/conversations/ID/reply", "Unstable", offer("[" + option + "]"), nil,
			200, ""},
		"an offer without options": {"POST", "/conversations/ID/reply", "Unstable", offer("[]"), nil, 200, ""},
		"an offer in a numeric one": {"POST", "/conversations/ID/reply", "2.15", offer("[" + option + "]"), nil, 400,
			"parameter_invalid"},
		"an offer as a part": {"POST", "/conversations/ID/parts", "Unstable", offer("[" + option + "]"), nil, 400,
			"parameter_invalid"},
		"an offer of null": {"POST", "/conversations/ID/reply", "Unstable", offer("null"), nil, 400,
			"parameter_invalid"},
		"an option without text": {"POST", "/conversations/ID/reply", "Unstable",
			offer(`[{"uuid":"a5e1c524-5ddd-4c3e-9328-6bca5d6e3edb"}]`), nil, 400, "parameter_invalid"},
		"an option without a UUID": {"POST", "/conversations/ID/reply", "Unstable", offer(`[{"text":"a","uuid":"1"}]`),
			nil, 400, "parameter_invalid"},
		"four options": {"POST", "/conversations/ID/reply", "Unstable",
			offer("[" + strings.Repeat(option+",", 3) + option + "]"), nil, 400, "parameter_invalid"},
		"deletion in an old version": {"DELETE", "/conversations/ID", "2.11", "", nil, 404, "not_found"},
		"deletion with other words": {"DELETE", "/conversations/ID?retain_metrics=yes", "2.15", "", nil, 400,
			"parameter_invalid"},
		"deletion": {"DELETE", "/conversations/ID?retain_metrics=true", "2.15", "", nil, 200, ""},
		"redaction of no part": {"POST", "/conversations/redact", "2.11",
			`{"type":"conversation_part","conversation_id":"ID","conversation_part_id":"1"}`, nil, 404,
			"conversation_part_or_message_not_found"},
		"redaction of something else": {"POST", "/conversations/redact", "2.11", `{"type":"source"}`, nil, 400,
			"parameter_invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			fake := helpdesktest.NewIntercom(&helpdesktest.IntercomOptions{InMemory: true})
			id, _ := fake.Created("", helpdesktest.IntercomContact{}, "Hello")
			status, _, answer := ask(t, fake, test.method, strings.Replace(test.path, "ID", id, 1), test.version,
				strings.Replace(test.body, "ID", id, 1), test.change)
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

func TestIntercom_withNotesByReplyTakesThemThereOnly(t *testing.T) {
	const note = `{"type":"admin","admin_id":"1001","message_type":"note","body":"x"}`
	fake := helpdesktest.NewIntercom(&helpdesktest.IntercomOptions{InMemory: true, NotesByReply: true})
	id, _ := fake.Created("", helpdesktest.IntercomContact{}, "Hello")
	status, _, _ := ask(t, fake, "POST", "/conversations/"+id+"/parts", "2.11", note, nil)
	assert.Equal(t, 400, status)
	status, _, _ = ask(t, fake, "POST", "/conversations/"+id+"/reply", "2.11", note, nil)
	assert.Equal(t, 200, status)
	assert.Equal(t, []string{"x"}, fake.Notes(id))
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
			body, err := io.ReadAll(r.Body)
			require.NoError(t, err)
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
	assert.Contains(t, answer, "message 509")
}
