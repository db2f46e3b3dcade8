package zendesk_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/option"
	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/helpdesk/helpdesktest"
	"github.com/liveactivity/liveactivity/helpdesk/zendesk"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/options"
)

func TestURLs_leadToTheService(t *testing.T) {
	for host, base := range map[string]string{
		"https://hooks.acme.example": "https://hooks.acme.example", "hooks.acme.example": "https://hooks.acme.example",
		"https://acme.example/live/": "https://acme.example/live",
		"http://localhost:8080":      "http://localhost:8080", "[::1]:8080": "https://[::1]:8080",
		"10.0.0.1": "https://10.0.0.1",
	} {
		got := musttest.New(zendesk.ContextURL(host, "acme"))
		assert.Equal(t, base+"/chatbot-webhook/acme", got)
		got = musttest.New(zendesk.ChatURL(host, "a b?"))
		assert.Equal(t, base+"/zendesk/chat/a%20b%3F", got)
	}
}

func TestURLs_refuseInvalidHostsAndProducts(t *testing.T) {
	for _, host := range []string{"", " ", "https://", "ftp://acme.example", "https://u@acme.example",
		"https://acme.example?x=1", "https://acme.example/#x", "acme example", "acme.example:port",
		"acme.example:", "acme.example:0", "acme.example:99999", ".example", "a..b", "https://ac\nme", "acme_example,b",
		"//x", "://"} {
		for _, build := range []func(string, string) (string, error){zendesk.ContextURL, zendesk.ChatURL} {
			got, err := build(host, "acme")
			assert.Empty(t, got)
			var mistake *option.Error
			if assert.ErrorAs(t, err, &mistake, "%q", host) {
				assert.Equal(t, "host", mistake.Option)
			}
		}
	}
	for _, product := range []string{"", "/", "a/b", "/a", "a/", ".", ".."} {
		_, err := zendesk.ContextURL("https://acme.example", product)
		var mistake *option.Error
		if assert.ErrorAs(t, err, &mistake, "%q", product) {
			assert.Equal(t, "productID", mistake.Option)
		}
	}
	_, err := zendesk.ChatURL("", "")
	assert.Len(t, strings.Split(err.Error(), "\n"), 2, "all at once")
}

const host = "https://hooks.acme.example"

// changes returns the requests that change something.
func changes(a account) (all []string) {
	for _, r := range a.Requests() {
		if r.Method != http.MethodGet {
			all = append(all, r.Method+" "+r.Path+" "+string(r.Body))
		}
	}
	return all
}

func TestClient_Provision_createsWebhooksAndTriggers(t *testing.T) {
	a := newAccount(t, helpdesktest.ZendeskOptions{})
	done := musttest.New(a.client.Provision(t.Context(), host, "acme", false))
	assert.Contains(t, changesOf(done), zendesk.Created)
	made := changes(a)
	require.Len(t, made, 4)
	for i, want := range []struct{ path, body string }{
		{"/webhooks", `{"webhook":{"name":"liveactivity context: acme",
			"endpoint":"https://hooks.acme.example/chatbot-webhook/acme",
			"http_method":"POST","request_format":"json","status":"active","subscriptions":["conditional_ticket_events"]}}`},
		{"/triggers", `{"trigger":{"title":"liveactivity context: acme","active":true,
			"conditions":{"all":[{"field":"update_type","operator":"is","value":"Create"}]},
			"actions":[{"field":"notification_webhook",
				"value":["` + done.Steps[0].ID + `",` + quoted(zendesk.NewTicketBody) + `]}]}}`},
		{"/webhooks", `{"webhook":{"name":"liveactivity chat: acme",
			"endpoint":"https://hooks.acme.example/zendesk/chat/acme",
			"http_method":"POST","request_format":"json","status":"active","subscriptions":["conditional_ticket_events"]}}`},
		{"/triggers", `{"trigger":{"title":"liveactivity chat: acme","active":true,
			"conditions":{"all":[{"field":"update_type","operator":"is","value":"Change"},
				{"field":"comment_is_public","operator":"is","value":"true"},
				{"field":"role","operator":"is","value":"end_user"}]},
			"actions":[{"field":"notification_webhook",
				"value":["` + done.Steps[2].ID + `",` + quoted(zendesk.UserReplyBody) + `]}]}}`},
	} {
		path, body, _ := strings.Cut(strings.TrimPrefix(made[i], "POST /api/v2"), " ")
		assert.Equal(t, want.path, path)
		assert.JSONEq(t, want.body, body)
	}
	require.Len(t, done.SigningSecrets, 2)
	assert.NotEqual(t, done.SigningSecrets[0], done.SigningSecrets[1])

	ticket, webhook := a.NewTicket(host+"/chatbot-webhook/acme", "jane@acme.example", "Help!")
	body := make([]byte, webhook.ContentLength)
	_, _ = webhook.Body.Read(body)
	event, err := newClient(t, zendesk.Config{SigningSecret: done.SigningSecrets}).Webhook(webhook.Header,
		body, time.Now())
	require.NoError(t, err, "the secrets are those that webhooks are signed with")
	assert.Equal(t, ticket, event.ConversationID)
}

func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

func TestClient_Provision_changesNothingTwice(t *testing.T) {
	a := newAccount(t, helpdesktest.ZendeskOptions{RequestsPerMinute: -1})
	first := musttest.New(a.client.Provision(t.Context(), host, "acme", false))
	again := musttest.New(a.client.Provision(t.Context(), host, "acme", false))
	assert.Len(t, changes(a), 4)
	assert.Equal(t, unchanged, changesOf(again))
	assert.Equal(t, first.SigningSecrets, again.SigningSecrets)
	for i, step := range again.Steps {
		assert.Equal(t, zendesk.Step{Object: first.Steps[i].Object, Name: first.Steps[i].Name, ID: first.Steps[i].ID}, step)
	}
	for i := range 120 { // more than a page, of others
		musttest.New(a.client.CreateWebhook(t.Context(), "other", host+strings.Repeat("/x", i+1)))
	}
	other := musttest.New(a.client.Provision(t.Context(), host, "other", false))
	assert.Contains(t, changesOf(other), zendesk.Created)
	again = musttest.New(a.client.Provision(t.Context(), host, "other", false))
	assert.Equal(t, unchanged, changesOf(again), "found on the second page")
}

func TestClient_Provision_movesItsWebhooksAndRemovesThem(t *testing.T) {
	a := newAccount(t, helpdesktest.ZendeskOptions{})
	first := musttest.New(a.client.Provision(t.Context(), host, "acme", false))
	musttest.New(a.client.Provision(t.Context(), host, "other", false))
	const elsewhere = "https://new.example.com"
	for range 2 {
		would := musttest.New(a.client.Provision(t.Context(), elsewhere, "acme", true))
		assert.Equal(t, []zendesk.Change{zendesk.Moved, zendesk.Unchanged, zendesk.Moved, zendesk.Unchanged},
			changesOf(would))
	}
	moved := musttest.New(a.client.Provision(t.Context(), elsewhere, "acme", false))
	assert.Equal(t, first.SigningSecrets, moved.SigningSecrets)
	again := musttest.New(a.client.Provision(t.Context(), elsewhere, "acme", false))
	assert.Equal(t, unchanged, changesOf(again))

	gone := []zendesk.Change{zendesk.Removed, zendesk.Removed, zendesk.Removed, zendesk.Removed}
	for _, dryRun := range []bool{true, false} {
		removed := musttest.New(a.client.Remove(t.Context(), "acme", dryRun))
		assert.Equal(t, gone, changesOf(removed))
	}
	webhooks := musttest.New(a.client.Webhooks(t.Context()))
	assert.Len(t, webhooks, 2, "the other product's stay")
	removed := musttest.New(a.client.Remove(t.Context(), "acme", false))
	assert.Empty(t, removed.Steps)
}

var unchanged = make([]zendesk.Change, 4)

func changesOf(p zendesk.Provisioned) (all []zendesk.Change) {
	for _, step := range p.Steps {
		all = append(all, step.Change)
	}
	return all
}

func TestClient_Provision_listsItsChangesInADryRun(t *testing.T) {
	a := newAccount(t, helpdesktest.ZendeskOptions{})
	would := musttest.New(a.client.Provision(t.Context(), host, "acme", true))
	assert.Contains(t, changesOf(would), zendesk.Created)
	assert.Len(t, would.Steps, 4)
	assert.Empty(t, would.SigningSecrets)
	assert.Empty(t, changes(a))

	musttest.New(a.client.CreateWebhook(t.Context(), "mine", host+"/chatbot-webhook/acme"))
	would = musttest.New(a.client.Provision(t.Context(), host, "acme", true))
	assert.Equal(t, []zendesk.Change{zendesk.Unchanged, zendesk.Created, zendesk.Created, zendesk.Created},
		changesOf(would))
	assert.Len(t, would.SigningSecrets, 1)
	assert.Len(t, changes(a), 1)
}

func TestClient_Provision_goesOnAfterAnInterruption(t *testing.T) {
	a := newAccount(t, helpdesktest.ZendeskOptions{})
	for _, fault := range []helpdesktest.Fault{
		{Method: "POST", Path: "/webhooks", Lose: true, Times: 1}, {Method: "POST", Path: "/triggers", Status: 503, Times: 1},
		{Method: "POST", Path: "/triggers", Lose: true, Times: 1},
		{Path: "signing_secret", Status: 500, Times: 1},
	} {
		a.Fail(fault)
		_, err := a.client.Provision(t.Context(), host, "acme", false)
		require.Error(t, err)
	}
	done := musttest.New(a.client.Provision(t.Context(), host, "acme", false))
	assert.Len(t, done.SigningSecrets, 2)
	webhooks := musttest.New(a.client.Webhooks(t.Context()))
	triggers := musttest.New(a.client.Triggers(t.Context()))
	assert.Len(t, webhooks, 2)
	assert.Len(t, triggers, 2)
}

func TestClient_Provision_pointsOutManualChanges(t *testing.T) {
	const hook, trigger = `{"id":"W","name":"w","endpoint":"https://hooks.acme.example/chatbot-webhook/acme",` +
		`"http_method":"POST","request_format":"json","status":"active","subscriptions":["conditional_ticket_events"]}`,
		`{"id":7,"title":"t","active":true,"conditions":{"all":[{"field":"update_type","operator":"is","value":"Create"}],` +
			`"any":[]},"actions":[{"field":"notification_webhook","value":["W","BODY"]}]}`
	for name, test := range map[string]struct {
		hook, trigger [2]string // what is replaced
		problems      [2]string
	}{
		"as it must be":    {},
		"inactive webhook": {hook: [2]string{`"active"`, `"inactive"`}, problems: [2]string{"not active", ""}},
		"other subscription": {hook: [2]string{"conditional_ticket_events", "zen:event-type:user.created"},
			problems: [2]string{"conditional_ticket_events", ""}},
		"webhook sends XML": {hook: [2]string{`"json"`, `"xml"`}, problems: [2]string{"JSON", ""}},
		"inactive trigger":  {trigger: [2]string{`"active":true`, `"active":false`}, problems: [2]string{"", "not active"}},
		"other condition":   {trigger: [2]string{"Create", "Change"}, problems: [2]string{"", "update_type is Create"}},
		"a brand's tickets": {trigger: [2]string{`"all":[`,
			`"all":[{"field":"brand_id","operator":"is","value":"5"},`}},
		"one more condition": {trigger: [2]string{`"any":[]`, `"any":[{"field":"status","operator":"is","value":"new"}]`},
			problems: [2]string{"", "conditions"}},
		"other body": {trigger: [2]string{`"BODY"`,
			quoted(strings.Replace(zendesk.NewTicketBody, "ticket.id", "ticket.title", 1))}, problems: [2]string{"", "action"}},
	} {
		t.Run(name, func(t *testing.T) {
			webhook := strings.Replace(hook, test.hook[0], test.hook[1], 1)
			found := strings.Replace(strings.Replace(trigger, test.trigger[0], test.trigger[1], 1), `"BODY"`,
				quoted(zendesk.NewTicketBody), 1)
			client := vendor(t, map[string]string{
				"GET /api/v2/webhooks":                  `200 {"webhooks":[` + webhook + `]}`,
				"GET /api/v2/triggers":                  `200 {"triggers":[` + found + `]}`,
				"GET /api/v2/webhooks/W/signing_secret": `200 {"signing_secret":{"secret":"s"}}`,
			})
			would := musttest.New(client.Provision(t.Context(), host, "acme", true))
			for i, want := range test.problems {
				assert.Contains(t, would.Steps[i].Problem, want)
				assert.Equal(t, want == "", would.Steps[i].Problem == "")
				assert.Equal(t, zendesk.Unchanged, would.Steps[i].Change)
			}
		})
	}
}

func TestClient_Provision_needsAnAdministrator(t *testing.T) {
	a := newAccount(t, helpdesktest.ZendeskOptions{Agent: true})
	_, err := a.client.Provision(t.Context(), host, "acme", false)
	assert.Equal(t, 403, apiError(t, err).Status)
	_, err = a.client.Provision(t.Context(), "", "", false)
	require.ErrorAs(t, err, new(*option.Error))
}

// A webhook without an ID has no secret to read, and no trigger could call it.
func TestClient_Provision_endsWithAWebhookThatHasNoID(t *testing.T) {
	client := vendor(t, map[string]string{"GET /api/v2/webhooks": "200 {}", "GET /api/v2/triggers": "200 {}",
		"POST /api/v2/webhooks": "201 {}", "GET /api/v2/webhooks//signing_secret": "404 {}"})
	done, err := client.Provision(t.Context(), host, "acme", false)
	require.Error(t, err)
	require.Len(t, done.Steps, 1)
	assert.Equal(t, "webhook", done.Steps[0].Object)
}

func TestClient_Check_reportsEveryPartInWords(t *testing.T) {
	account := func(opts helpdesktest.ZendeskOptions) *zendesk.Client { return newAccount(t, opts).client }
	answers := func(me, webhooks string) *zendesk.Client {
		return vendor(t, map[string]string{"GET /api/v2/users/me.json": me, "GET /api/v2/webhooks": webhooks})
	}
	user := func(fields string) *zendesk.Client { return answers(`200 {"user":{`+fields+`}}`, "403 {}") }
	for name, test := range map[string]struct {
		client *zendesk.Client
		ok     bool
		words  string
	}{
		"administrator":  {account(helpdesktest.ZendeskOptions{}), true, "an administrator's"},
		"may set up":     {account(helpdesktest.ZendeskOptions{}), true, "may set up webhooks"},
		"agent":          {account(helpdesktest.ZendeskOptions{Agent: true}), true, "an agent's"},
		"may not set up": {account(helpdesktest.ZendeskOptions{Agent: true}), true, "may not set up webhooks"},
		"unsigned":       {account(helpdesktest.ZendeskOptions{}), false, "signing_secret"},
		"private only":   {user(`"id":1,"role":"agent","only_private_comments":true`), false, "private comments only"},
		"suspended":      {user(`"id":1,"role":"agent","suspended":true`), false, "suspended"},
		"end user":       {user(`"id":1,"role":"end-user"`), false, "end user"},
		"anonymous":      {user(`"id":null`), false, "no user"},
		"wrong token":    {answers("401 {}", ""), false, "refuses the credentials"},
		"scope missing":  {answers("403 {}", ""), false, "forbids"},
		"no account":     {answers("404 x", ""), false, "no Zendesk account"},
		"limited":        {answers("429 x", ""), false, "rate limit"},
		"away":           {answers("503 x", ""), false, "Service Unavailable"},
		"not reachable": {newClient(t, zendesk.Config{BaseURL: "http://127.0.0.1:1", OAuthToken: "t"}), false,
			"cannot be reached"},
		"no credentials":   {newClient(t, zendesk.Config{}), false, "no credentials"},
		"no token":         {minted(t, 0), false, "refuses the credentials"},
		"token, 400":       {minted(t, 400), false, "oauth_client_secret"},
		"webhooks are off": {answers(`200 {"user":{"id":1,"role":"admin"}}`, "500 "), false, "could not be read"},
	} {
		t.Run(name, func(t *testing.T) {
			all := test.client.Check(t.Context())
			for _, finding := range all {
				if strings.Contains(finding.Text, test.words) {
					assert.Equal(t, test.ok, finding.OK)
					return
				}
			}
			assert.Fail(t, "not said", "%v", all)
		})
	}
}

// minted returns a client whose client secret is wrong. A status is the answer to it, and 0 for the fake's.
func minted(t *testing.T, status int) *zendesk.Client {
	a := newAccount(t, helpdesktest.ZendeskOptions{})
	if status != 0 {
		a.Fail(helpdesktest.Fault{Path: "/oauth/tokens", Status: status})
	}
	return clientOf(t, a.Zendesk, zendesk.Config{OAuthClientID: "x", OAuthClientSecret: "y"})
}

func TestConfig_reportsEveryMistakeByItsField(t *testing.T) {
	for config, want := range map[string][]string{
		`{"base_url":"https://acme.zendesk.com"}`:                                              nil,
		`{"base_url":"https://acme.zendesk.com/","email":"a@b","api_token":"t"}`:               nil,
		`{"base_url":"https://acme.zendesk.com","oauth_token":"t","signing_secret":["a","b"]}`: nil,
		`{"base_url":"https://acme.zendesk.com","oauth_client_id":"i","oauth_client_secret":"s","signing_secret":"a",` +
			`"signature_tolerance_s":60,"redact":true}`: nil,
		`{}`: {"base_url"},
		`{"base_url":"https://a.example","email":"a b@c","api_token":"t"}`: {"email"},
		`{"base_url":"https://a.example","email":"a:b@c","api_token":"t"}`: {"email"},
		`{"base_url":"https://a.example","email":"a@b","api_token":""}`:    {"api_token"},
		`{"base_url":"https://a.example","signing_secret":""}`:             {"signing_secret"},
		`{"base_url":"https://a.example","signing_secret":"  "}`:           {"signing_secret"},
		`{"base_url":7,"signing_secret":[7],"subdomain":"acme"}`:           {"base_url", "signing_secret[0]", "subdomain"},
		`{"base_url":"https://a.example","oauth_client_id":"i",
			"oauth_client_secret":"s\t"}`: {"oauth_client_secret"},
		`{"base_url":"https://a.example","oauth_token":"t\n",
			"signing_secret":["ok"," s",""]}`: {"oauth_token", "signing_secret[1]", "signing_secret[2]"},
		`{"base_url":"https://a.example","oauth_token":"","api_token":"","oauth_client_secret":"",
			"signing_secret":[]}`: {"api_token", "oauth_token", "oauth_client_secret", "signing_secret"},
		`{"base_url":"https://a.example","api_token":" t","oauth_client_secret":"s",
			"signature_tolerance_s":86401}`: {"oauth_client_id", "api_token", "signature_tolerance_s"},
		`{"base_url":"http://acme.zendesk.com","email":"a@b","oauth_client_id":"i",
			"signature_tolerance_s":-1}`: {"base_url", "api_token", "oauth_client_secret", "signature_tolerance_s"},
		`{"base_url":"http://a.example","emial":"a@b","api_token":"t ",
			"signature_tolerance_s":"1"}`: {"base_url", "emial", "api_token", "signature_tolerance_s"},
		`[]`: {""},
	} {
		desk, err := zendesk.Kind.Open(json.RawMessage(config), nil)
		assert.Equal(t, err == nil, desk != nil)
		if want == nil {
			require.NoError(t, err, config)
			continue
		}
		var got []string
		for _, mistake := range options.Split(err) {
			var one *helpdesk.ConfigError
			require.ErrorAs(t, mistake, &one)
			got = append(got, one.Field)
			assert.NotEmpty(t, one.Problem)
		}
		assert.ElementsMatch(t, want, got, config)
	}
	_, err := zendesk.Kind.Open(json.RawMessage(`{"base_url":"https://a.example","signing_secret":5}`), nil)
	assert.EqualError(t, err, "signing_secret: must be a string or an array")
}
