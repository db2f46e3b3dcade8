package helpdesktest_test

import (
	"encoding/base64"
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

	"github.com/liveactivity/liveactivity/helpdesk/helpdesktest"
	"github.com/liveactivity/liveactivity/helpdesk/zendesk"
	"github.com/liveactivity/liveactivity/internal/musttest"
)

// newZendesk returns a fake in memory with a ticket, and how to make a request to it.
func newZendesk(t *testing.T, opts helpdesktest.ZendeskOptions) (fake *helpdesktest.Zendesk, ticket string,
	do func(method, path, body string) (*http.Response, string)) {
	t.Helper()
	opts.InMemory = true
	fake = helpdesktest.NewZendesk(&opts)
	ticket, _ = fake.NewTicket("https://hooks.example", "jane@acme.example", "Help!")
	return fake, ticket, func(method, path, body string) (*http.Response, string) {
		response, got, err := call(t.Context(), fake, method, path, body)
		require.NoError(t, err)
		return response, got
	}
}

func TestZendesk_takesOnlyItsCredentials(t *testing.T) {
	fake, ticket, _ := newZendesk(t, helpdesktest.ZendeskOptions{})
	basic := func(pair string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(pair)) }
	for header, status := range map[string]int{
		basic("bot@acme.example/token:zendesk-api-token"): 200, "Bearer zendesk-oauth-token": 200,
		basic("bot@acme.example:zendesk-api-token"): 401, basic("bot@acme.example/token:x"): 401,
		basic("x@acme.example/token:zendesk-api-token"): 401,
		"Bearer x": 401, "Bearer": 401, "": 401, "Token zendesk-oauth-token": 401,
	} {
		r := musttest.New(http.NewRequest(http.MethodGet, fake.URL()+"/api/v2/tickets/"+ticket, nil))
		r.Header.Set("Authorization", header)
		response := musttest.New(fake.Client().Do(r))
		assert.Equal(t, status, response.StatusCode, header)
	}
}

func TestZendesk_givesTokensThatEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake, _, do := newZendesk(t, helpdesktest.ZendeskOptions{TokenLifetime: time.Hour})
		response, body := do("POST", "/oauth/tokens",
			`{"grant_type":"client_credentials","client_id":"zendesk-client","client_secret":"zendesk-client-secret",`+
				`"scope":"read write"}`)
		require.Equal(t, 200, response.StatusCode)
		var token struct {
			AccessToken string `json:"access_token"`
		}
		require.NoError(t, json.Unmarshal([]byte(body), &token))
		assert.Equal(t, 1, fake.Minted())
		status := func() int {
			r := musttest.New(http.NewRequest(http.MethodGet, fake.URL()+"/api/v2/users/me.json", nil))
			r.Header.Set("Authorization", "Bearer "+token.AccessToken)
			response := musttest.New(fake.Client().Do(r))
			return response.StatusCode
		}
		time.Sleep(time.Hour - 1)
		assert.Equal(t, 200, status())
		time.Sleep(time.Nanosecond)
		assert.Equal(t, 401, status())
		for body, status := range map[string]int{
			`{"grant_type":"client_credentials","client_id":"zendesk-client","client_secret":"x","scope":"read"}`:           401,
			`{"grant_type":"password","client_id":"zendesk-client","client_secret":"zendesk-client-secret","scope":"read"}`: 400,
			`{"grant_type":"client_credentials","client_id":"zendesk-client","client_secret":"zendesk-client-secret"}`:      400,
			`{`: 400,
		} {
			response, _ := do("POST", "/oauth/tokens", body)
			assert.Equal(t, status, response.StatusCode, body)
		}
		assert.Equal(t, 1, fake.Minted())
	})
}

func TestZendesk_answersAsTheRealOneDoes(t *testing.T) {
	for name, test := range map[string]struct {
		opts               helpdesktest.ZendeskOptions
		prepare            func(fake *helpdesktest.Zendesk, ticket string)
		method, path, body string
		status             int
		part               string // of the answer
	}{
		"a note": {method: "PUT", path: "/api/v2/tickets/ID.json", body: comment, status: 200,
			part: `"type":"Comment"`},
		"without .json": {method: "PUT", path: "/api/v2/tickets/ID", body: comment, status: 200, part: `"audit"`},
		"an empty comment": {method: "PUT", path: "/api/v2/tickets/ID.json",
			body: `{"ticket":{"comment":{"html_body":"<br>","public":false}}}`, status: 422, part: "blank"},
		"no comment": {method: "PUT", path: "/api/v2/tickets/ID.json", body: `{"ticket":{}}`, status: 400},
		"a field unheard of": {method: "PUT", path: "/api/v2/tickets/ID.json",
			body: `{"ticket":{"comment":{"html":"x"}}}`, status: 400},
		"public as a string": {method: "PUT", path: "/api/v2/tickets/ID.json",
			body: `{"ticket":{"comment":{"body":"x","public":"false"}}}`, status: 400},
		"not JSON": {method: "PUT", path: "/api/v2/tickets/ID.json", body: `note`, status: 400},
		"another ticket": {method: "PUT", path: "/api/v2/tickets/1.json", body: comment, status: 404,
			part: "RecordNotFound"},
		"no ticket":        {method: "GET", path: "/api/v2/tickets/x.json", status: 404, part: "RecordNotFound"},
		"no such endpoint": {method: "GET", path: "/api/v2/nothing", status: 404, part: "InvalidEndpoint"},
		"no such method":   {method: "DELETE", path: "/api/v2/tickets/ID/comments", status: 404, part: "InvalidEndpoint"},
		"a deleted ticket": {prepare: func(fake *helpdesktest.Zendesk, ticket string) { fake.DeleteTicket(ticket) },
			method: "PUT", path: "/api/v2/tickets/ID.json", body: comment, status: 404, part: "RecordNotFound"},
		"a closed ticket": {prepare: func(fake *helpdesktest.Zendesk, ticket string) { fake.SetStatus(ticket, "closed") },
			method: "PUT", path: "/api/v2/tickets/ID.json", body: comment, status: 422, part: "closed prevents ticket update"},
		"a closed ticket, to solve": {prepare: func(fake *helpdesktest.Zendesk, ticket string) {
			fake.SetStatus(ticket, "closed")
		}, method: "PUT", path: "/api/v2/tickets/ID", status: 422, part: "closed prevents ticket update",
			body: `{"ticket":{"status":"solved","assignee_id":23000000000001}}`},
		"a solved ticket": {prepare: func(fake *helpdesktest.Zendesk, ticket string) { fake.SetStatus(ticket, "solved") },
			method: "PUT", path: "/api/v2/tickets/ID.json", body: comment, status: 200},
		"its status":   {method: "GET", path: "/api/v2/tickets/ID.json", status: 200, part: `"status":"new"`},
		"the comments": {method: "GET", path: "/api/v2/tickets/ID/comments.json", status: 200, part: "Help!"},
		"of a messaging ticket": {opts: helpdesktest.ZendeskOptions{Messaging: true}, method: "GET",
			path: "/api/v2/tickets/ID/comments.json", status: 200, part: `"comments":[]`},
		"an administrator": {method: "GET", path: "/api/v2/users/me.json", status: 200, part: `"role":"admin"`},
		"an agent": {opts: helpdesktest.ZendeskOptions{Agent: true}, method: "GET",
			path: "/api/v2/users/me.json", status: 200, part: `"role":"agent"`},
		"an agent's webhooks": {opts: helpdesktest.ZendeskOptions{Agent: true}, method: "GET",
			path: "/api/v2/webhooks", status: 403},
		"an agent's triggers": {opts: helpdesktest.ZendeskOptions{Agent: true}, method: "POST", path: "/api/v2/triggers",
			body: "{}", status: 403},
		"redaction": {method: "PUT", path: "/api/v2/comment_redactions/1", body: "{}", status: 403},
		"redaction of no comment": {opts: helpdesktest.ZendeskOptions{MayRedact: true}, method: "PUT",
			path: "/api/v2/comment_redactions/1", body: "{}", status: 404},
		"an incomplete webhook": {method: "POST", path: "/api/v2/webhooks", body: `{"webhook":{"name":"x"}}`, status: 400},
		"a trigger of no webhook": {method: "POST", path: "/api/v2/triggers", status: 422,
			body: `{"trigger":{"title":"x","active":true,"conditions":{"all":[{"field":"a","operator":"is","value":"b"}]},` +
				`"actions":[{"field":"notification_webhook","value":["nope","{}"]}]}}`},
		"the secret of no webhook": {method: "GET", path: "/api/v2/webhooks/nope/signing_secret", status: 404},
	} {
		t.Run(name, func(t *testing.T) {
			fake, ticket, do := newZendesk(t, test.opts)
			if test.prepare != nil {
				test.prepare(fake, ticket)
			}
			response, body := do(test.method, strings.Replace(test.path, "ID", ticket, 1), test.body)
			assert.Equal(t, test.status, response.StatusCode, body)
			assert.Contains(t, body, test.part)
		})
	}
}

func TestZendesk_wantsJSON(t *testing.T) {
	fake, ticket, _ := newZendesk(t, helpdesktest.ZendeskOptions{})
	r, err := http.NewRequest(http.MethodPut, fake.URL()+"/api/v2/tickets/"+ticket+".json", strings.NewReader(comment))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+helpdesktest.ZendeskOAuthToken)
	response := musttest.New(fake.Client().Do(r))
	assert.Equal(t, http.StatusUnsupportedMediaType, response.StatusCode)
}

func TestZendesk_changesCommentsLikeTheRealOne(t *testing.T) {
	fake, ticket, do := newZendesk(t, helpdesktest.ZendeskOptions{})
	for i, test := range []struct{ field, body, html, text string }{
		{"html_body", "a<br>b", "a<br>b", "a\nb"},
		{"html_body", `<b onclick="x">a</b><script>evil()</script><img src=x>&lt;i&gt;`, `<b>a</b>&lt;i&gt;`, "a<i>"},
		{"html_body", "{{ticket.id}} {%raw%}", "EXPANDED EXPANDED", "EXPANDED EXPANDED"},
		{"html_body", "&#123;&#123;ticket.id}}", "EXPANDED", "EXPANDED"},
		{"html_body", "{\u200b{ticket.id}\u200b}", "{\u200b{ticket.id}\u200b}", "{{ticket.id}}"},
		{"body", "a <b>\nc {{x}}", "a &lt;b&gt;<br>c EXPANDED", "a <b>\nc EXPANDED"},
		{"html_body", strings.Repeat("é", 40_000), strings.Repeat("é", 40_000), ""},
	} {
		body, err := json.Marshal(map[string]any{"ticket": map[string]any{"comment": map[string]any{test.field: test.body,
			"public": i%2 == 0}}})
		require.NoError(t, err)
		response, _ := do("PUT", "/api/v2/tickets/"+ticket+".json", string(body))
		require.Equal(t, 200, response.StatusCode)
		got := fake.Comments(ticket)[i+1]
		assert.Equal(t, i%2 == 0, got.Public)
		assert.Equal(t, helpdesktest.ZendeskEmail, got.Author)
		if len(test.body) > 64<<10 {
			assert.Less(t, len(got.HTML), 64<<10+1, "cut")
			continue
		}
		assert.Equal(t, `<div class="zd-comment" dir="auto">`+test.html+`</div>`, got.HTML)
		assert.Equal(t, test.text, got.Text)
	}
	do("PUT", "/api/v2/tickets/"+ticket+".json", `{"ticket":{"comment":{"body":"x"}}}`)
	all := fake.Comments(ticket)
	assert.True(t, all[len(all)-1].Public, "what does not say otherwise is public")
	assert.Nil(t, fake.Comments("1"))
}

func TestZendesk_limitsRatesByTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, ticket, do := newZendesk(t, helpdesktest.ZendeskOptions{RequestsPerMinute: 10, UpdatesPerMinute: 6,
			UpdatesPerTicket: 9})
		write := func() *http.Response {
			response, _ := do("PUT", "/api/v2/tickets/"+ticket+".json", comment)
			return response
		}
		time.Sleep(15 * time.Second) // the bubble begins at a whole minute
		response := write()
		for name, want := range map[string]string{"X-Rate-Limit": "10", "X-Rate-Limit-Remaining": "9",
			"Ratelimit-Limit": "10", "Ratelimit-Remaining": "9", "Ratelimit-Reset": "45",
			"Zendesk-Ratelimit-Per-Ticket-Updates": "total=9; remaining=8; resets=585"} {
			assert.Equal(t, want, response.Header.Get(name), name)
		}
		statuses := func(n int) (all []int) {
			for range n {
				response = write()
				all = append(all, response.StatusCode)
			}
			return all
		}
		assert.Equal(t, []int{200, 200, 200, 200, 200, 429}, statuses(6), "of updates of the account")
		assert.Equal(t, "45", response.Header.Get("Retry-After"))
		assert.Equal(t, []int{429, 429, 429, 429}, statuses(4))
		assert.Equal(t, "0", response.Header.Get("Ratelimit-Remaining"))

		time.Sleep(45 * time.Second)
		response = write()
		assert.Equal(t, 429, response.StatusCode, "of the ticket, which those count for, too, that the account refused")
		assert.Equal(t, "540", response.Header.Get("Retry-After"))
		assert.Equal(t, "total=9; remaining=0; resets=540", response.Header.Get("Zendesk-Ratelimit-Per-Ticket-Updates"))
		assert.Equal(t, "9", response.Header.Get("Ratelimit-Remaining"))
		time.Sleep(9 * time.Minute)
		assert.Equal(t, 200, write().StatusCode)
	})
}

func TestZendesk_signsItsWebhooks(t *testing.T) {
	const target = "https://hooks.example/zendesk/chat/acme"
	fake, ticket, do := newZendesk(t, helpdesktest.ZendeskOptions{})
	verify := func(r *http.Request, secret string) string {
		body := musttest.New(io.ReadAll(r.Body))
		require.NoError(t, zendesk.Verify([]string{secret}, r.Header, body, time.Now(), 0))
		assert.NotEmpty(t, r.Header.Get(zendesk.HeaderDelivery))
		assert.Equal(t, "application/json; charset=utf-8", r.Header.Get("Content-Type"))
		return string(body)
	}
	ticket2, webhook := fake.NewTicket(target, "Joe@acme.example", "Hi")
	assert.NotEqual(t, ticket, ticket2)
	assert.JSONEq(t, `{"ticket_id":"`+ticket2+`","requester_email":"Joe@acme.example","trigger_type":"new_ticket"}`,
		verify(webhook, helpdesktest.ZendeskSigningSecret))
	assert.Equal(t, "Hi", fake.Comments(ticket2)[0].Text)

	reply := fake.UserReply(target, ticket, "so \"what\"?\n")
	assert.JSONEq(t, `{"ticket_id":"`+ticket+`","requester_email":"jane@acme.example","trigger_type":"user_reply",`+
		`"user_message":"so \"what\"?\n"}`, verify(reply, helpdesktest.ZendeskSigningSecret))
	assert.Equal(t, "jane@acme.example", fake.Comments(ticket)[1].Author)
	agents := fake.AgentReply(target, ticket, "Under Billing.")
	assert.Contains(t, verify(agents, helpdesktest.ZendeskSigningSecret), "Under Billing.")
	assert.Equal(t, "agent@acme.example", fake.Comments(ticket)[2].Author)
	assert.Equal(t, "{", verify(fake.Webhook(target, []byte("{")), helpdesktest.ZendeskSigningSecret))

	_, body := do("POST", "/api/v2/webhooks",
		`{"webhook":{"name":"x","endpoint":"`+target+`","http_method":"POST","request_format":"json","status":"active",`+
			`"subscriptions":["conditional_ticket_events"]}}`)
	assert.NotContains(t, body, "secret")
	var made struct{ Webhook struct{ ID string } }
	require.NoError(t, json.Unmarshal([]byte(body), &made))
	_, body = do("GET", "/api/v2/webhooks/"+made.Webhook.ID+"/signing_secret", "")
	var shown struct {
		SigningSecret struct{ Secret string } `json:"signing_secret"`
	}
	require.NoError(t, json.Unmarshal([]byte(body), &shown))
	verify(fake.UserReply(target, ticket, "again"), shown.SigningSecret.Secret)
}

func TestZendesk_canLeaveMessagesUnescaped(t *testing.T) {
	fake, ticket, _ := newZendesk(t, helpdesktest.ZendeskOptions{RawMessages: true})
	body := musttest.New(io.ReadAll(fake.UserReply("https://hooks.example", ticket, `so "what"?`).Body))
	assert.Contains(t, string(body), `"user_message": "so "what"?"}`)
}

// This tests an integration that thanks for every new ticket in a note, while Zendesk fails.
func ExampleZendesk() {
	account := helpdesktest.NewZendesk(nil)
	defer account.Close()
	client, err := zendesk.New(zendesk.Config{
		BaseURL: account.URL(), Email: helpdesktest.ZendeskEmail, APIToken: helpdesktest.ZendeskAPIToken,
		SigningSecret: zendesk.Secrets{helpdesktest.ZendeskSigningSecret},
	}, nil)
	if err != nil {
		panic(err)
	}
	integration := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		event, err := client.Webhook(r.Header, body, time.Now())
		if err != nil {
			w.WriteHeader(http.StatusUnauthorized)
		} else if _, err := client.Note(r.Context(), event.ConversationID, "Thanks, "+event.Contact.Email); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}
	account.Fail(helpdesktest.Fault{Status: http.StatusConflict, Times: 1})
	ticket, webhook := account.NewTicket("https://hooks.example", "jane@acme.example", "Help!")
	for range 2 { // Zendesk repeats requests that are answered 503
		webhook.Body, _ = webhook.GetBody()
		answer := httptest.NewRecorder()
		integration(answer, webhook)
		fmt.Println(answer.Code, account.Notes(ticket))
	}
	// Output:
	// 503 []
	// 200 [Thanks, jane@acme.example]
}
