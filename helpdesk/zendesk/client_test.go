package zendesk_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/helpdesk/helpdesktest"
	"github.com/liveactivity/liveactivity/helpdesk/zendesk"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

const target = "https://hooks.example/zendesk/chat/acme"

// account is a fake account in memory, a client of it and a ticket.
type account struct {
	*helpdesktest.Zendesk
	client *zendesk.Client
	ticket string
}

func newAccount(t testing.TB, opts helpdesktest.ZendeskOptions) account {
	t.Helper()
	opts.InMemory = true
	fake := helpdesktest.NewZendesk(&opts)
	a := account{Zendesk: fake, client: clientOf(t, fake,
		zendesk.Config{Email: helpdesktest.ZendeskEmail, APIToken: helpdesktest.ZendeskAPIToken})}
	a.ticket, _ = fake.NewTicket(target, "jane@acme.example", "Help!")
	return a
}

func clientOf(t testing.TB, fake *helpdesktest.Zendesk, config zendesk.Config) *zendesk.Client {
	t.Helper()
	config.BaseURL = fake.URL()
	return musttest.New(zendesk.New(config, &helpdesk.Options{HTTP: fake.Client()}))
}

// minting is the configuration of a client that gets its tokens itself.
var minting = zendesk.Config{OAuthClientID: helpdesktest.ZendeskClientID,
	OAuthClientSecret: helpdesktest.ZendeskClientSecret}

func apiError(t testing.TB, err error) *helpdesk.APIError {
	t.Helper()
	var failed *helpdesk.APIError
	require.ErrorAs(t, err, &failed)
	return failed
}

const note = "session_id: s1\ntimestamp: 2026-11-22 02:15:04 UTC\n\n[1] User landed on the pricing page\n\n[2] User " +
	"clicked Buy"

func TestClient_Note_isAnInternalCommentWithItsLines(t *testing.T) {
	a := newAccount(t, helpdesktest.ZendeskOptions{})
	id := musttest.New(a.client.Note(t.Context(), a.ticket, note))
	r := a.Requests()[0]
	assert.Equal(t, "PUT /api/v2/tickets/"+a.ticket+".json", r.Method+" "+r.Path)
	assert.Equal(t, "application/json", r.Header.Get("Content-Type"))
	assert.Equal(t, "Basic Ym90QGFjbWUuZXhhbXBsZS90b2tlbjp6ZW5kZXNrLWFwaS10b2tlbg==", r.Header.Get("Authorization"),
		"base64 of EMAIL/token:TOKEN")
	assert.JSONEq(t, `{"ticket": {"comment": {"public": false, "html_body":
		"session_id: s1<br>timestamp: 2026-11-22 02:15:04 UTC<br><br>`+
		`[1] User landed on the pricing page<br><br>[2] User clicked Buy"}}}`, string(r.Body))
	written := a.Comments(a.ticket)[1]
	assert.Equal(t, id, written.ID)
	assert.Equal(t, note, written.Text)
	assert.False(t, written.Public)
}

var hostile = []string{
	`<script>alert(1)</script><img src=x onerror=y> & "quoted" 'so'`,
	"{{ticket.requester.email}} {{{a}}} {%raw%} {%} {{ {{ }} %} }%} {\n{a}\n}",
	"&#123;&#123;ticket.id}} &lt;b&gt;",
	"</div><br><redact>\u202e",
	strings.Repeat("<{{\"&", 3000),
}

func TestClient_Note_meansNothingBeyondItsText(t *testing.T) {
	a := newAccount(t, helpdesktest.ZendeskOptions{})
	assert.Equal(t, "ab[1m\tc<br>{\u200b{ticket.id}\u200b}", a.client.Render("a\x00b\x1b[1m\tc\n{\x00{ticket.id}\x00}"),
		"a control character is dropped, and joins no braces")
	for i, text := range hostile {
		began := time.Now()
		id := musttest.New(a.client.Note(t.Context(), a.ticket, text))
		written := a.Comments(a.ticket)[i+1]
		assert.True(t, text == written.Text, "%.200q instead of %.200q", written.Text, text)
		assert.NotRegexp(t, `\{\{|\}\}|\{%|%\}`, a.client.Render(text))
		found, _, err := a.client.FindNote(t.Context(), a.ticket, text, "", began)
		require.NoError(t, err)
		assert.Equal(t, id, found)
	}
}

func TestClient_ConversationURL_leadsToTheTicket(t *testing.T) {
	client := newClient(t, zendesk.Config{BaseURL: "https://acme.zendesk.com/"})
	url, ok := client.ConversationURL("17")
	assert.True(t, ok)
	assert.Equal(t, "https://acme.zendesk.com/agent/tickets/17", url)
	for _, id := range []string{"", "0", "01", "-1", "1/2", "../1", "1?x", "1#x", "1\n", "x", "１",
		strings.Repeat("1", 20)} {
		_, ok := client.ConversationURL(id)
		assert.False(t, ok, "%q", id)
	}
}

func TestClient_Fits_countsTheRenderedText(t *testing.T) {
	client := newClient(t, zendesk.Config{})
	assert.True(t, client.Fits(""))
	assert.True(t, client.Fits(strings.Repeat("a", 64_000)))
	assert.False(t, client.Fits(strings.Repeat("a", 64_001)))
	assert.True(t, client.Fits(strings.Repeat("<", 16_000)))
	assert.False(t, client.Fits(strings.Repeat("<", 16_001)))
	assert.False(t, client.Fits(strings.Repeat("\n", 16_001)))
	assert.False(t, client.Fits(strings.Repeat("é", 32_001)), "bytes, not characters")
}

func TestClient_getsATokenForItsOAuthClientOnce(t *testing.T) {
	a := newAccount(t, helpdesktest.ZendeskOptions{UpdatesPerTicket: -1, UpdatesPerMinute: -1, RequestsPerMinute: -1})
	client := clientOf(t, a.Zendesk, minting)
	writeAtOnce := func() {
		waittest.Together(50, func(int) {
			_, err := client.Note(t.Context(), a.ticket, "note")
			assert.NoError(t, err)
		})
	}
	writeAtOnce()
	assert.Equal(t, 1, a.Minted())
	r := a.Requests()[0]
	assert.Equal(t, "POST /oauth/tokens", r.Method+" "+r.Path)
	assert.Empty(t, r.Header.Get("Authorization"))
	assert.JSONEq(t, `{"grant_type":"client_credentials","client_id":"zendesk-client",`+
		`"client_secret":"zendesk-client-secret","scope":"read write"}`, string(r.Body))

	a.ExpireTokens()
	writeAtOnce()
	assert.Equal(t, 2, a.Minted(), "those that were refused at the same time share one")
	assert.Len(t, a.Notes(a.ticket), 100)
}

func TestClient_keepsATokenThatIsNewerThanTheOneRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAccount(t, helpdesktest.ZendeskOptions{})
		config := minting
		config.OAuthToken = "expired"
		client := clientOf(t, a.Zendesk, config)
		a.Fail(helpdesktest.Fault{Delay: 5 * time.Second, Times: 1})
		var slow sync.WaitGroup
		slow.Go(func() {
			_, err := client.Note(t.Context(), a.ticket, "slow")
			assert.NoError(t, err)
		})
		synctest.Wait()
		musttest.New(client.Note(t.Context(), a.ticket, "fast"))
		slow.Wait()
		assert.Equal(t, []string{"fast", "slow"}, a.Notes(a.ticket))
		assert.Equal(t, 1, a.Minted())
	})
}

func TestClient_replacesAnOAuthTokenThatIsRefused(t *testing.T) {
	a := newAccount(t, helpdesktest.ZendeskOptions{})
	const token, expired = helpdesktest.ZendeskOAuthToken, "expired"
	renewing := minting
	renewing.OAuthToken = expired
	for _, test := range []struct {
		config           zendesk.Config
		refused          bool
		minted, requests int
	}{
		{zendesk.Config{OAuthToken: token}, false, 0, 1},
		{zendesk.Config{OAuthToken: token, Email: "x@y", APIToken: "wrong"}, false, 0, 1},
		{zendesk.Config{OAuthToken: expired}, true, 0, 1},
		{renewing, false, 1, 3},
		{zendesk.Config{OAuthClientID: minting.OAuthClientID, OAuthClientSecret: "wrong"}, true, 1, 1},
		{zendesk.Config{Email: helpdesktest.ZendeskEmail, APIToken: "wrong"}, true, 1, 1},
	} {
		before := len(a.Requests())
		_, err := clientOf(t, a.Zendesk, test.config).Note(t.Context(), a.ticket, "note")
		if assert.Equal(t, test.refused, err != nil); test.refused {
			failed := apiError(t, err)
			assert.Equal(t, 401, failed.Status)
			assert.True(t, failed.AccountWide())
			assert.False(t, failed.Ambiguous)
		}
		assert.Equal(t, test.minted, a.Minted())
		assert.Len(t, a.Requests(), before+test.requests)
	}
}

func TestClient_withoutCredentialsSaysSo(t *testing.T) {
	a := newAccount(t, helpdesktest.ZendeskOptions{})
	_, err := clientOf(t, a.Zendesk, zendesk.Config{}).Note(t.Context(), a.ticket, "note")
	failed := apiError(t, err)
	assert.True(t, failed.AccountWide())
	assert.False(t, failed.Temporary() && failed.Ambiguous)
	assert.Contains(t, err.Error(), "no credentials")
	assert.Empty(t, a.Requests())
}

// A note is certainly not written if its token could not be obtained.
func TestClient_Note_isNotAmbiguousWithoutAToken(t *testing.T) {
	for name, fault := range map[string]helpdesktest.Fault{"lost": {Lose: true}, "slow": {Delay: time.Minute},
		"broken": {Status: 500}, "refused": {Status: 404}} {
		synctest.Test(t, func(t *testing.T) {
			a := newAccount(t, helpdesktest.ZendeskOptions{})
			fault.Path = "/oauth/tokens"
			a.Fail(fault)
			_, err := clientOf(t, a.Zendesk, minting).Note(t.Context(), a.ticket, "note")
			failed := apiError(t, err)
			assert.False(t, failed.Ambiguous, name)
			assert.False(t, failed.Gone, name)
			assert.True(t, failed.AccountWide(), name)
			assert.Equal(t, name != "refused", failed.Temporary(), name)
		})
	}
}

func TestClient_Note_namesTheFailure(t *testing.T) {
	for name, test := range map[string]struct {
		fault helpdesktest.Fault
		want  helpdesk.APIError
		wide  bool
	}{
		"closed":    {helpdesktest.Fault{}, helpdesk.APIError{Status: 422, Code: "RecordInvalid", Gone: true}, false},
		"collision": {helpdesktest.Fault{Status: 409}, helpdesk.APIError{Status: 409, Code: "UpdateConflict"}, false},
		"forbidden": {helpdesktest.Fault{Status: 403}, helpdesk.APIError{Status: 403, Code: "Forbidden"}, true},
		"one forbidden ticket": {helpdesktest.Fault{Status: 403, Path: "/tickets/"},
			helpdesk.APIError{Status: 403, Code: "Forbidden", OneConversation: true}, false},
		"no right to write": {helpdesktest.Fault{Status: 403, Method: "PUT"},
			helpdesk.APIError{Status: 403, Code: "Forbidden"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAccount(t, helpdesktest.ZendeskOptions{})
			if a.Fail(test.fault); name == "closed" {
				a.Heal()
				a.SetStatus(a.ticket, "closed")
			}
			_, err := a.client.Note(t.Context(), a.ticket, "note")
			failed := *apiError(t, err)
			assert.Equal(t, test.wide, failed.AccountWide())
			test.want.Desk, test.want.Op, test.want.Message, test.want.RequestID = "zendesk", "write note", failed.Message,
				failed.RequestID
			assert.Equal(t, test.want, failed)
		})
	}
}

// A user may see only some tickets, or write only private comments there.
func TestClient_withoutARightToAnswerFailsInOneTicket(t *testing.T) {
	const write, read, everything = "PUT", "GET", ""
	for _, test := range []struct {
		method, path   string
		reply, whether bool // an error of one ticket
	}{{write, "/tickets/", true, false}, {read, "/tickets/", false, true}, {everything, "/tickets/", true, true},
		{everything, "", false, false}} {
		a := newAccount(t, helpdesktest.ZendeskOptions{})
		a.Fail(helpdesktest.Fault{Status: 403, Method: test.method, Path: test.path})
		if _, err := a.client.Reply(t.Context(), a.ticket, "Yes"); test.method != read {
			assert.Equal(t, !test.reply, apiError(t, err).AccountWide(), "%+v", test)
		}
		if _, err := a.client.IsRequesters(t.Context(), a.ticket, "Can you?"); test.method != write {
			assert.Equal(t, !test.whether, apiError(t, err).AccountWide(), "%+v", test)
		}
		if _, _, err := a.client.FindNote(t.Context(), a.ticket, "Hi", "", time.Time{}); test.method != write {
			assert.Equal(t, !test.whether, apiError(t, err).AccountWide(), "%+v", test)
		}
	}
}

// vendor answers as written, for bodies that the fake does not have.
func vendor(t *testing.T, answers map[string]string) *zendesk.Client {
	t.Helper()
	return served(t, func(w http.ResponseWriter, r *http.Request) {
		status, body, _ := strings.Cut(answers[r.Method+" "+r.URL.Path], " ")
		if code, err := strconv.Atoi(status); err == nil {
			w.WriteHeader(code)
		}
		_, _ = w.Write([]byte(body))
	})
}

// served returns a client of an account that a handler stands for.
func served(t *testing.T, handler http.HandlerFunc) *zendesk.Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return newClient(t, zendesk.Config{BaseURL: server.URL, OAuthToken: "t"})
}

func TestClient_Note_endsOnlyForTicketsThatAreGone(t *testing.T) {
	const invalid = `422 {"error":"RecordInvalid","description":"Fehler","details":{"status":[{"description":"Status: ` +
		`geschlossen"}]}}`
	const missing = `404 {"error":"RecordNotFound","description":"Not found"}`
	for name, test := range map[string]struct {
		put, get                  string // the answers
		gone, misconfigured, temp bool
	}{
		"closed, in another language": {invalid, `200 {"ticket":{"status":"closed"}}`, true, false, false},
		"deleted":                     {invalid, `200 {"ticket":{"status":"deleted"}}`, true, false, false},
		"gone meanwhile":              {invalid, missing, true, false, false},
		"open, but not valid":         {invalid, `200 {"ticket":{"status":"open"}}`, false, false, false},
		"closed, but unreadable now":  {invalid, `500 `, false, false, true},
		"no such account":             {`404 <html>No help desk at x.zendesk.com</html>`, "", false, true, false},
		"gone without words":          {`404 {}`, "", true, false, false},
		"a gateway without a route":   {`404 {"message":"no Route matched with those values"}`, "", false, true, false},
		"nothing":                     {`404 `, "", false, true, false},
		"a wrong path":                {`404 {"error":"InvalidEndpoint","description":"Not found"}`, "", false, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			const path = " /api/v2/tickets/7.json"
			client := vendor(t, map[string]string{"PUT" + path: test.put, "GET" + path: test.get})
			_, err := client.Note(t.Context(), "7", "note")
			failed := apiError(t, err)
			assert.Equal(t, test.gone, failed.Gone)
			assert.Equal(t, test.misconfigured, failed.Misconfigured)
			assert.Equal(t, test.temp, failed.Temporary())
			assert.False(t, failed.Ambiguous)
		})
	}
}

func TestClient_Note_withoutACommentInTheAuditIsWritten(t *testing.T) {
	id, err := vendor(t, map[string]string{"PUT /api/v2/tickets/7.json": `200 {"ticket":{},"audit":{"events":[{"id":1,` +
		`"type":"Change"}]}}`}).Note(t.Context(), "7", "note")
	require.NoError(t, err)
	assert.Empty(t, id)
}

func TestClient_FindNote_asksForItsOwnUserOnce(t *testing.T) {
	a := newAccount(t, helpdesktest.ZendeskOptions{})
	for range 3 {
		_, _, err := a.client.FindNote(t.Context(), a.ticket, "x", "", time.Now())
		require.NoError(t, err)
	}
	assert.Len(t, a.Requests(), 1+3)

	a = newAccount(t, helpdesktest.ZendeskOptions{})
	musttest.New(a.client.Note(t.Context(), a.ticket, "x"))
	_, _, err := a.client.FindNote(t.Context(), a.ticket, "x", "", time.Now())
	require.NoError(t, err)
	assert.Len(t, a.Requests(), 2, "the answer to a note says it, too")
}

func TestClient_FindNote_failsWhereItCannotLook(t *testing.T) {
	for _, path := range []string{"users/me", "comments"} {
		a := newAccount(t, helpdesktest.ZendeskOptions{})
		a.Fail(helpdesktest.Fault{Path: path, Status: 503})
		_, _, err := a.client.FindNote(t.Context(), a.ticket, "x", "", time.Now())
		assert.True(t, apiError(t, err).Temporary())
	}
	client := vendor(t, map[string]string{"GET /api/v2/users/me.json": `200 {"user":{"id":null,"name":"Anonymous ` +
		`user","role":"end-user"}}`})
	_, _, err := client.FindNote(t.Context(), "7", "x", "", time.Now())
	assert.True(t, apiError(t, err).Misconfigured)
	client = vendor(t, map[string]string{"GET /api/v2/users/me.json": `404 {"error":"RecordNotFound"}`})
	_, _, err = client.FindNote(t.Context(), "7", "x", "", time.Now())
	assert.False(t, helpdesk.IsGone(err), "that says nothing about the ticket")
}

func TestClient_FindNote_readsListsThatAreNotSorted(t *testing.T) {
	client := vendor(t, map[string]string{
		"GET /api/v2/users/me.json": `200 {"user":{"id":5}}`,
		"GET /api/v2/tickets/7/comments.json": `200 {"comments":[
			{"id":1,"author_id":5,"public":false,"html_body":"old","created_at":"2026-11-22T02:00:00Z"},
			{"id":2,"author_id":5,"public":false,"body":"new","created_at":"2026-11-22T03:00:00Z"},
			{"id":3,"author_id":6,"public":false,"body":"an agent's","created_at":"2026-11-22T03:00:01Z"}]}`,
	})
	for text, want := range map[string]string{"an agent's": "", "new": "2", "old": ""} {
		after, since := "1", time.Time{}
		if text == "old" {
			after, since = "", time.Date(2026, 11, 22, 2, 30, 0, 0, time.UTC)
		}
		id, found, err := client.FindNote(t.Context(), "7", text, after, since)
		require.NoError(t, err)
		assert.Equal(t, want, id, text)
		assert.Equal(t, want != "", found, text)
	}
}

func TestClient_IsRequesters_excludesTextsOfAgentsAndTheService(t *testing.T) {
	a := newAccount(t, helpdesktest.ZendeskOptions{})
	is := func(message string) bool { return musttest.New(a.client.IsRequesters(t.Context(), a.ticket, message)) }
	a.UserReply(target, a.ticket, "Where is <it> & \"that\"?\nThanks")
	assert.True(t, is("Where is <it> & \"that\"?\nThanks"))
	assert.True(t, is(`Where is &lt;it&gt; &amp; &quot;that&quot;? Thanks`), "as a placeholder may show it")
	a.AgentReply(target, a.ticket, "Under Billing.")
	assert.False(t, is("Under Billing."))
	musttest.New(a.client.Reply(t.Context(), a.ticket, "In the **settings**."))
	assert.False(t, is("In the **settings**."))
	musttest.New(a.client.Note(t.Context(), a.ticket, "Thanks!"))
	assert.True(t, is("Thanks!"), "a note that says the same is not public")
	a.UserReply(target, a.ticket, "Thanks!")
	assert.True(t, is("Thanks!"))
	a.AgentReply(target, a.ticket, "Thanks!")
	assert.False(t, is("Thanks!"), "the newest counts")

	a.DeleteTicket(a.ticket)
	_, err := a.client.IsRequesters(t.Context(), a.ticket, "x")
	assert.True(t, helpdesk.IsGone(err))
}

// A person in copy is an end user, too.
func TestClient_IsRequesters_excludesTextsOfAPersonInCopy(t *testing.T) {
	client := vendor(t, map[string]string{
		"GET /api/v2/tickets/7.json": `200 {"ticket":{"id":7,"requester_id":11}}`,
		"GET /api/v2/tickets/7/comments.json": `200 {"comments":[
			{"id":2,"author_id":12,"public":true,"body":"Any news?","created_at":"2026-11-22T02:31:00Z"},
			{"id":1,"author_id":11,"public":true,"body":"Where?","created_at":"2026-11-22T02:30:00Z"}]}`})
	for message, want := range map[string]bool{"Where?": true, "Any news?": false} {
		assert.Equal(t, want, musttest.New(client.IsRequesters(t.Context(), "7", message)), message)
	}
}

func TestClient_IsRequesters_trustsTheTriggerForMessagingTickets(t *testing.T) {
	a := newAccount(t, helpdesktest.ZendeskOptions{Messaging: true})
	a.UserReply(target, a.ticket, "Where?")
	assert.True(t, musttest.New(a.client.IsRequesters(t.Context(), a.ticket, "Where?")))
}

func TestKind_redactsOnlyWhereItIsConfigured(t *testing.T) {
	a := newAccount(t, helpdesktest.ZendeskOptions{MayRedact: true})
	var config map[string]any
	require.NoError(t, json.Unmarshal(a.Config(), &config))
	open := func() helpdesk.Desk {
		data := musttest.New(json.Marshal(config))
		return musttest.New(zendesk.Kind.Open(data, &helpdesk.Options{HTTP: a.Client()}))
	}
	assert.Nil(t, open().Capabilities().Redactor)

	config["redact"] = true
	redactor := open().Capabilities().Redactor
	for _, gone := range [][2]string{{a.ticket, "1"}, {"1", "1"}, {"x", "1"}, {a.ticket, "x"}} {
		require.NoError(t, redactor.Redact(t.Context(), gone[0], gone[1]), "a note that is gone is no error")
	}
}

func TestClient_Redact_marksAllTextAndLinks(t *testing.T) {
	var sent string
	client := served(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			body := make([]byte, r.ContentLength)
			_, _ = r.Body.Read(body)
			sent = r.URL.Path + " " + string(body)
			w.WriteHeader(http.StatusNotFound) // gone meanwhile
			_, _ = w.Write([]byte(`{"error":"RecordNotFound"}`))
			return
		}
		_, _ = w.Write([]byte(`{"comments":[{"id":8,"html_body":"<div>mail <a href=\"mailto:a@b\">a@b</a><br> ` +
			`<br>x</div>"}]}`))
	})
	require.NoError(t, client.Redact(t.Context(), "7", "8"))
	path, body, _ := strings.Cut(sent, " ")
	assert.Equal(t, "/api/v2/comment_redactions/8", path)
	assert.JSONEq(t, `{"ticket_id":7,"html_body":"<div><redact>mail </redact><a redact `+
		`href=\"mailto:a@b\"><redact>a@b</redact></a><br> <br><redact>x</redact></div>"}`, body)
}

func TestClient_Redact_needsTheRight(t *testing.T) {
	a := newAccount(t, helpdesktest.ZendeskOptions{})
	id := musttest.New(a.client.Note(t.Context(), a.ticket, "one"))
	failed := apiError(t, a.client.Redact(t.Context(), a.ticket, id))
	assert.Equal(t, 403, failed.Status)
	assert.False(t, failed.AccountWide(), "notes can still be written")
	assert.Equal(t, []string{"one"}, a.Notes(a.ticket))
}

// Zendesk does not say how a 429 names its limit, so each sign is enough.
func TestClient_tellsTheLimitOfATicketFromTheAccounts(t *testing.T) {
	const spent, left = "total=30; remaining=0; resets=300", "total=30; remaining=5; resets=300"
	const ticket, remaining, reset = "Zendesk-RateLimit-Per-Ticket-Updates", "X-Rate-Limit-Remaining", "RateLimit-Reset"
	type headers = map[string]string
	for name, test := range map[string]struct {
		header headers
		body   string
		ticket bool
		wait   time.Duration
	}{
		"nothing is said":       {nil, "", false, 0},
		"the ticket's header":   {headers{ticket: spent, remaining: "500"}, "", true, 300 * time.Second},
		"the words":             {nil, "You have exceeded the rate limit for updating a single ticket.", true, 0},
		"a long time":           {headers{"Retry-After": "61"}, "", true, 61 * time.Second},
		"a short time":          {headers{"Retry-After": "60", ticket: left}, "", false, 60 * time.Second},
		"the account's headers": {headers{"X-Rate-Limit": "700", remaining: "0", reset: "41"}, "", false, 41 * time.Second},
		"the endpoint's header": {headers{"Zendesk-RateLimit-Tickets-Update": "total=100; remaining=0; resets=17",
			remaining: "500", reset: "41"}, "", false, 17 * time.Second},
		"both are spent":          {headers{ticket: spent, remaining: "0", reset: "41"}, "", false, 41 * time.Second},
		"headers without meaning": {headers{ticket: "remaining=-1; resets=x", remaining: "many"}, "", false, 0},
		"more than it can ask":    {headers{ticket: "total=1; remaining=0; resets=999999999"}, "", true, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			client := served(t, func(w http.ResponseWriter, _ *http.Request) {
				for name, value := range test.header {
					w.Header().Set(name, value)
				}
				w.WriteHeader(http.StatusTooManyRequests)
				_, _ = w.Write([]byte(test.body))
			})
			_, err := client.Note(t.Context(), "7", "note")
			failed := apiError(t, err)
			assert.Equal(t, test.ticket, failed.OneConversation)
			assert.Equal(t, test.wait, failed.Wait)
			assert.Greater(t, client.Pause("7"), test.wait-5*time.Second)
			if test.ticket {
				assert.Zero(t, client.Pause("8"))
			} else {
				assert.InDelta(t, test.wait.Seconds(), client.Pause("8").Seconds(), 5)
			}
		})
	}
}

func TestClient_Pause_spreadsTheUpdatesOfATicket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAccount(t, helpdesktest.ZendeskOptions{})
		other, _ := a.NewTicket(target, "joe@acme.example", "Help!")
		ends := time.Now().Add(20 * time.Minute)
		written := 0
		for ; time.Now().Before(ends); written++ {
			time.Sleep(a.client.Pause(a.ticket))
			_, err := a.client.Note(t.Context(), a.ticket, "note")
			require.NoError(t, err, "no limit is hit")
			assert.Zero(t, a.client.Pause(other))
			if written == 25 {
				assert.Greater(t, a.client.Pause(a.ticket), 30*time.Second)
				assert.Less(t, a.client.Pause(a.ticket), 150*time.Second, "it does not stop for long")
			}
			time.Sleep(time.Second)
		}
		assert.InDelta(t, 60, written, 5, "and none of the 30 in ten minutes is wasted")
	})
}

func TestClient_Pause_leavesALittleOfTheAccountsLimitToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAccount(t, helpdesktest.ZendeskOptions{RequestsPerMinute: 40, UpdatesPerTicket: -1})
		written := 0
		for ; a.client.Pause("1") == 0; written++ {
			musttest.New(a.client.Note(t.Context(), a.ticket, "note"))
		}
		assert.Equal(t, 38, written)
		requests, window := a.client.Rate()
		assert.Equal(t, 40.0, float64(requests)/window.Minutes())
		assert.Equal(t, time.Minute, a.client.Pause(a.ticket))
		time.Sleep(time.Minute)
		assert.Zero(t, a.client.Pause(a.ticket))
	})
}

// Zendesk limits updates of tickets more than other requests, and does not say so.
func TestClient_Rate_isAtMostThatOfUpdates(t *testing.T) {
	a := newAccount(t, helpdesktest.ZendeskOptions{})
	for range 2 { // before and after an answer
		requests, window := a.client.Rate()
		assert.Equal(t, helpdesktest.DefaultUpdatesPerMinute, int(float64(requests)/window.Minutes()))
		musttest.New(a.client.Note(t.Context(), a.ticket, "note"))
	}
}
