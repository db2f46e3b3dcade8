package liveactivity_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/helpdesk/helpdesktest"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/redistest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/proactive"
)

// desks are fake help desks of product acme.
type desks struct {
	zendesk  *helpdesktest.Zendesk
	intercom *helpdesktest.Intercom
}

func newDesks() desks { return desks{helpdesktest.NewZendesk(nil), helpdesktest.NewIntercom(nil)} }

// start runs a service whose product acme has the desks. The desks and the connections to them end
// before the service does.
func (d desks) start(t *testing.T, change ...func(*liveactivity.Options)) *service {
	t.Helper()
	s := start(t, append([]func(*liveactivity.Options){d.configure}, change...)...)
	t.Cleanup(d.zendesk.Close)
	t.Cleanup(d.intercom.Close)
	return s
}

// opens has a person open a conversation of Intercom, which links the person's session at the server.
func (d desks) opens(s *service, email, text string) (conversationID string) {
	s.t.Helper()
	id, hook := d.intercom.Created(s.url+"/chatbot-webhook/acme", helpdesktest.IntercomContact{Email: email}, text)
	require.Equal(s.t, "linked", s.send(hook).says(s.t))
	return id
}

// files has a person file a ticket of Zendesk, which links the person's session at the server.
func (d desks) files(s *service, email string) (ticketID string) {
	s.t.Helper()
	id, hook := d.zendesk.NewTicket(s.url+"/chatbot-webhook/acme", email, "Help!")
	require.Equal(s.t, "linked", s.send(hook).says(s.t))
	return id
}

// link links a session to a conversation of Intercom, as a page of the product does.
func (s *service) link(session, conversation string) {
	s.t.Helper()
	s.ok(http.MethodPost, "/sessions/link", `{"product_id":"acme","desk":"intercom","session_id":"`+session+
		`","conversation_id":"`+conversation+`"}`, "Origin: https://app.acme.example")
}

// configure gives acme the desks.
func (d desks) configure(o *liveactivity.Options) {
	o.Products[0].AllowedOrigins = []string{"https://app.acme.example"}
	o.Products[0].IntegrationConfig.Desks = map[string]json.RawMessage{"zendesk": d.zendesk.Config(),
		"intercom": d.intercom.Config()}
	o.Products[0].IntegrationConfig.Notes = promptNotes()
}

// promptNotes are notes that are written at once.
func promptNotes() *liveactivity.Notes {
	return &liveactivity.Notes{DebounceMS: new(0), IntervalS: new(0)}
}

// withModel lets this function answer prompts.
func withModel(answer func(prompt string) string) func(*liveactivity.Options) {
	return func(o *liveactivity.Options) {
		o.Model = func(_ context.Context, prompt string) (string, error) { return answer(prompt), nil }
	}
}

// says returns the status that an answer holds.
func (r reply) says(t *testing.T) string {
	t.Helper()
	require.Equal(t, http.StatusOK, r.status, r.body)
	status, _ := r.json(t)["status"].(string)
	return status
}

const newTicket = `{"ticket_id": "1", "requester_email": "x@acme.example", "trigger_type": "new_ticket"}`

// A request at the doors gets its answer by its content and not by its sender. The connector and the
// desks test how bodies are checked and read.
func TestDesks_answerEveryWebhook(t *testing.T) {
	d := newDesks()
	s := d.start(t)
	const hook, chat = "/chatbot-webhook/acme", "/zendesk/chat/acme"
	_, created := d.intercom.Created(s.url+hook, helpdesktest.IntercomContact{Email: "y@acme.example"}, "Hi")
	_, opened := d.zendesk.NewTicket(s.url+hook, "y@acme.example", "Hi")
	for name, tt := range map[string]struct {
		request *http.Request
		status  int
		says    string
	}{
		"a ticket":                       {opened, 200, "pending"},
		"a conversation":                 {created, 200, "pending"},
		"Intercom's ping":                {d.intercom.Ping(s.url + hook), 200, "ignored"},
		"a new ticket at the wrong door": {d.zendesk.Webhook(s.url+chat, []byte(newTicket)), 200, "ignored"},
		"a product without desks": {d.zendesk.Webhook(s.url+"/chatbot-webhook/globex", []byte(newTicket)),
			404, ""},
		"an unknown desk":                      {d.zendesk.Webhook(s.url+"/freshdesk/chat/acme", []byte(newTicket)), 404, ""},
		"a desk whose messages are for people": {d.zendesk.Webhook(s.url+"/intercom/chat/acme", []byte(newTicket)), 404, ""},
		"the other desk's chat": {d.intercom.Webhook(s.url+chat,
			[]byte(`{"type": "notification_event", "topic": "ping"}`)), 401, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := s.in(t)
			got := s.send(tt.request)
			assert.Equal(t, tt.status, got.status, got.body)
			if tt.status == http.StatusOK {
				assert.Equal(t, tt.says, got.says(t))
			}
		})
	}
}

func TestDesks_namesDisabledFeaturesAtTheStart(t *testing.T) {
	with := func(desk, config string) func(o *liveactivity.Options) {
		return func(o *liveactivity.Options) {
			o.Products[0].IntegrationConfig.Desks = map[string]json.RawMessage{desk: json.RawMessage(config)}
		}
	}
	unsigned := with("zendesk", `{"base_url": "https://acme.zendesk.com", "oauth_token": "x"}`)
	signed := func(o *liveactivity.Options) {
		o.Products[0].IntegrationConfig.Desks = map[string]json.RawMessage{
			"zendesk":  json.RawMessage(`{"base_url": "https://acme.zendesk.com", "oauth_token": "x", "signing_secret": "x"}`),
			"intercom": json.RawMessage(`{"access_token": "x", "client_secret": "x"}`)}
	}
	for name, tt := range map[string]struct {
		change []func(*liveactivity.Options)
		want   string
	}{
		"no signing secret": {[]func(*liveactivity.Options){unsigned, withModel(strings.ToUpper)},
			"without signing_secret every webhook of the desk is accepted, and public replies are off"},
		"no client secret": {[]func(*liveactivity.Options){with("intercom", `{"access_token": "x"}`)},
			"without client_secret the webhooks of Intercom are refused"},
		"offers by Zendesk": {[]func(*liveactivity.Options){unsigned, func(o *liveactivity.Options) {
			o.Products[0].IntegrationConfig.Proactive = &proactive.Config{Enabled: true}
		}}, "none of the product's desks can show an offer"},
		"a desk without chats": {[]func(*liveactivity.Options){with("intercom",
			`{"access_token": "x", "client_secret": "x"}`)}, ""},
		"no model": {[]func(*liveactivity.Options){signed}, "without a language model messages of users are ignored"},
		"claims, with a model": {[]func(*liveactivity.Options){withModel(strings.ToUpper)},
			"made only from signed and reported identities"},
		"nothing": {[]func(*liveactivity.Options){signed, withModel(strings.ToUpper)}, ""},
		"no desk": {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, tt.change...)
			if tt.want != "" {
				waittest.Until(t, "it logs "+tt.want, func() bool { return strings.Contains(s.log.String(), tt.want) })
			}
			s.stop()
			if tt.want == "" {
				assert.NotContains(t, s.log.String(), "without ")
			}
		})
	}
}

// engine sets the storage of a service. It is nil for two servers on one Redis.
type engine func(*liveactivity.Options)

// onEngines runs a test on the engines that keep data. All other tests are in memory.
func onEngines(t *testing.T, test func(t *testing.T, on engine)) {
	t.Helper()
	for name, on := range map[string]engine{"file": withDataDir(t.TempDir()), "two servers on Redis": nil} {
		t.Run(name, func(t *testing.T) { test(t, on) })
	}
}

// start runs one server with the desks, or two where the engine lets them share their storage.
func (on engine) start(t *testing.T, d desks, more ...func(*liveactivity.Options)) (a, b *service) {
	t.Helper()
	if on != nil {
		a = d.start(t, append(more, on)...)
		return a, a
	}
	redis := redistest.Start(t).URL()
	return d.start(t, append(more, withRedis(redis))...), d.start(t, append(more, withRedis(redis))...)
}

// A user's message gets one public answer, from the user's actions. The answer's own echo gets none.
func TestDesks_replyToUsers(t *testing.T) {
	t.Parallel() // it mostly waits
	d := newDesks()
	var asked atomic.Int64
	var last atomic.Value
	s := d.start(t, withModel(func(prompt string) string {
		last.Store(prompt)
		return fmt.Sprintf("Answer %d: <b>see</b> {{ticket.id}}\nand pricing", asked.Add(1))
	}), func(o *liveactivity.Options) { o.Products[0].LinkHosts = []string{"ticket.id"} })
	s.webhook(pageview("u1", "s1", "https://app.example.com/pricing"))
	ticket := d.files(s, mail)
	replies := func() []helpdesktest.Comment {
		return slices.DeleteFunc(d.zendesk.Comments(ticket), func(c helpdesktest.Comment) bool {
			return !c.Public || c.Author != helpdesktest.ZendeskEmail
		})
	}
	message := `Which plan?"}, "public": true, "ticket_id": "1`
	assert.Equal(t, "accepted", s.send(d.zendesk.UserReply(s.url+"/zendesk/chat/acme", ticket, message)).says(t))
	waittest.Until(t, "the ticket is answered", func() bool { return len(replies()) == 1 })
	assert.Equal(t, "Answer 1: <b>see</b> {{ticket.id}}\nand pricing", replies()[0].Text)
	echo := musttest.New(json.Marshal(map[string]string{"ticket_id": ticket, "requester_email": mail,
		"trigger_type": "user_reply", "user_message": replies()[0].HTML}))
	assert.Equal(t, "ignored", s.send(d.zendesk.Webhook(s.url+"/zendesk/chat/acme", echo)).says(t))
	assert.EqualValues(t, 1, asked.Load())
	assert.Contains(t, last.Load(), "<data>\nUser landed on the pricing page\n</data>\n")
}

// offering switches acme's offers on, which expire after two seconds.
func offering(o *liveactivity.Options) {
	timeout := 2
	o.Products[0].IntegrationConfig.Proactive = &proactive.Config{Enabled: true, Body: "Need a hand?",
		ReplyOptionLabels: []string{"Yes, show me"}, InteractionTimeoutS: &timeout}
}

// A user who goes back and forth gets one offer of help in the open conversation, although every page
// is reported many times at once and at every server. The conversation ends when the user ignores
// it. This holds on every storage.
func TestProactive_offersHelpOnce(t *testing.T) {
	onEngines(t, func(t *testing.T, on engine) {
		t.Parallel()
		d := newDesks()
		s, other := on.start(t, d, offering)
		s.webhook(pageview("u0", "s1", "https://app.example.com/home"))
		conversation := d.opens(s, mail, "")
		offers := func() (n int) {
			for _, p := range d.intercom.Parts(conversation) {
				if p.Type == "quick_reply" {
					assert.Equal(t, "Need a hand?", p.Text)
					assert.Equal(t, []string{"Yes, show me"}, p.Labels)
					n++
				}
			}
			return n
		}
		visits := 0
		waittest.Until(t, "the visitor is offered help", func() bool { // a server may need a moment until it follows
			for _, page := range []string{"/pricing", "/docs", "/pricing", fmt.Sprint("/other/x", visits)} {
				var reporting sync.WaitGroup
				for range 8 { // at once, at every server
					visits++
					event := pageview(fmt.Sprint("v", visits), "s1", "https://app.example.com"+page)
					at := []*service{s, other}[visits%2]
					reporting.Go(func() {
						assert.Equal(t, http.StatusOK, at.status(http.MethodPost, "/webhook/acme", event,
							"X-PostHog-Secret: "+acmeSecret))
					})
				}
				reporting.Wait()
			}
			return offers() > 0
		})
		waittest.Until(t, "a note and an offer are counted", func() bool {
			total := other.flow("acme", acmeKey).total()
			return total.Offers == 1 && total.Notes > 0
		})
		waittest.Until(t, "the conversation is gone", func() bool { return !d.intercom.Exists(conversation) })
		requests := 0
		for _, r := range d.intercom.Requests() {
			if strings.Contains(string(r.Body), `"quick_reply"`) {
				requests++
			}
		}
		assert.Equal(t, 1, requests)
	})
}

func TestProactive_suggestsLabels(t *testing.T) {
	const path, body = "/intercom/proactive/acme", `{"session_id":"s1","conversation_id":"c1","action_count":3}`
	labels := func(t *testing.T, s *service) string {
		t.Helper()
		got := s.do(http.MethodPost, path, body, withAdminKey)
		require.Equal(t, http.StatusOK, got.status, got.body)
		return strings.TrimSpace(got.body)
	}
	t.Run("as configured", func(t *testing.T) {
		s := newDesks().start(t, offering)
		assert.JSONEq(t, `{"labels":["Yes, show me"]}`, labels(t, s))
		for request, status := range map[[3]string]int{
			{path, body, "X-Admin-Key: wrong"}:                                             401,
			{path, body, "X-None: x"}:                                                      401,
			{"/intercom/proactive/other", body, withAdminKey}:                              404,
			{"/zendesk/proactive/acme", body, withAdminKey}:                                404,
			{path, `{"session_id":7}`, withAdminKey}:                                       400,
			{path, `{"session_id":"s1"}`, withAdminKey}:                                    400,
			{path, `[]`, withAdminKey}:                                                     400,
			{path, ``, withAdminKey}:                                                       400,
			{path, body + `{}`, withAdminKey}:                                              400,
			{path, strings.Replace(body, "3", "-1", 1), withAdminKey}:                      400,
			{path, strings.Replace(body, "c1", strings.Repeat("c", 300), 1), withAdminKey}: 400,
			{path, `{"x":"` + strings.Repeat("x", 100<<10) + `"}`, withAdminKey}:           413,
		} {
			got := s.do(http.MethodPost, request[0], request[1], request[2])
			assert.Equal(t, status, got.status, "%.100s: %s", request, got.body)
		}
		assert.Equal(t, http.StatusMethodNotAllowed, s.status(http.MethodGet, path, "", withAdminKey))
	})
	t.Run("by the model", func(t *testing.T) {
		var asked string
		s := newDesks().start(t, offering, withModel(func(prompt string) string {
			asked = prompt
			return "1. \"Compare plans\"\n- <b>2 free months</b>?\n\nTalk to sales\nOne too many"
		}))
		s.webhook(pageview("u0", "s1", "https://app.example.com/pricing"))
		assert.JSONEq(t, `{"labels":["Compare plans","b 2 free months /b ?","Talk to sales"]}`, labels(t, s))
		assert.Contains(t, asked, "<data>\nUser landed on the pricing page\n</data>")
	})
	t.Run("by a model that answers in another form", func(t *testing.T) {
		for answer, want := range map[string]string{
			"```json\n[\"Compare plans\",\n \"Talk to sales\"]\n```": `{"labels":["Compare plans","Talk to sales"]}`,
			`{"labels": ["Compare plans", "Talk to sales"]}`:         `{"labels":["Compare plans","Talk to sales"]}`,
			`"Compare plans", "Talk to sales"`:                       `{"labels":["Compare plans","Talk to sales"]}`,
			"Here are two:\n1. **Compare plans**\n- `Talk to sales`": `{"labels":["Compare plans","Talk to sales"]}`,
			"**Here are two:**\n\n* Compare plans\n* Talk to sales":  `{"labels":["Compare plans","Talk to sales"]}`,
			"Sure!\n[\"Compare plans\", \"Talk to sales\"]":          `{"labels":["Compare plans","Talk to sales"]}`,
			`[{"label": "Compare plans"}]`:                           `{"labels":["Yes, show me"]}`,
			`{"labels": []}`:                                         `{"labels":["Yes, show me"]}`,
		} {
			s := newDesks().start(t, offering, withModel(func(string) string { return answer }))
			s.webhook(pageview("u0", "s1", "https://app.example.com/pricing"))
			assert.JSONEq(t, want, labels(t, s), answer)
		}
	})
	t.Run("as configured where the model fails", func(t *testing.T) {
		s := newDesks().start(t, offering, func(o *liveactivity.Options) {
			o.Model = func(context.Context, string) (string, error) { return "", errors.New("away") }
		})
		s.webhook(pageview("u0", "s1", "https://app.example.com/pricing"))
		assert.JSONEq(t, `{"labels":["Yes, show me"]}`, labels(t, s))
	})
}

// helpful offers help on every page under /help, each time, and keeps its conversation.
func helpful(o *liveactivity.Options) {
	timeout := 3600
	o.Triggers = []proactive.Trigger{proactive.Saying(proactive.Result{Cooldown: -1},
		proactive.Predicate("help", func(c proactive.TriggerContext) bool { return proactive.Under(c.Page(), "/help") }))}
	o.Products[0].IntegrationConfig.Proactive = &proactive.Config{Enabled: true,
		ReplyOptionLabels: []string{"Yes, show me"}, InteractionTimeoutS: &timeout, IdleTeardown: proactive.KeepOnIdle}
	o.Guide = func(context.Context, proactive.Guidance) error { return nil }
}

func TestReport_movesTheAssistance(t *testing.T) {
	onEngines(t, func(t *testing.T, on engine) {
		t.Parallel()
		d := newDesks()
		guided := make(chan proactive.Guidance, 10)
		a, b := on.start(t, d, helpful, func(o *liveactivity.Options) {
			o.Guide = func(_ context.Context, g proactive.Guidance) error {
				guided <- g
				return nil
			}
		})
		a.webhook(pageview("u0", "s1", "https://app.example.com/home"))
		conversation := d.opens(a, mail, "Hello")
		views := 0
		visit := func() {
			views++
			a.webhook(pageview(fmt.Sprint("v", views), "s1", fmt.Sprint("https://app.example.com/help/", views)))
		}
		awaits := func(state string) {
			t.Helper()
			waittest.Until(t, state, func() bool { return b.session("acme", acmeMCP, "s1").Session.State == state })
		}
		report := func(o proactive.Outcome) error {
			return b.service.Report(t.Context(), "acme", proactive.Report{SessionID: "s1", Outcome: o})
		}
		refuses := func(o proactive.Outcome, state string) {
			t.Helper()
			var refused *proactive.ReportError
			require.ErrorAs(t, report(o), &refused)
			assert.Equal(t, proactive.ReportError{Outcome: o, State: state}, *refused)
		}
		offered := func() {
			t.Helper()
			waittest.Until(t, "an offer", func() bool {
				visit()
				return b.session("acme", acmeMCP, "s1").Session.State == "proactive_assistance"
			})
		}

		awaits("reactive_assistance") // of the question that opened the conversation
		require.NoError(t, report(proactive.Finished))
		refuses(proactive.Finished, "thinking")
		offered()
		require.Equal(t, "already_linked", a.send(d.intercom.Replied(a.url+"/chatbot-webhook/acme", conversation,
			"yes, show me")).says(t))
		awaits("guidance_execution")
		assert.Equal(t, proactive.Guidance{ProductID: "acme", Desk: "intercom", ConversationID: conversation,
			TriggerID: "help", Label: "Yes, show me"}, waittest.Receive(t, guided))
		require.NoError(t, report(proactive.Progressed))
		require.NoError(t, b.service.Report(t.Context(), "acme",
			proactive.Report{Desk: "intercom", ConversationID: conversation, Outcome: proactive.Finished}))
		awaits("thinking")
		refuses(proactive.Abandoned, "thinking")

		offered()
		refuses(proactive.Progressed, "proactive_assistance")
		refuses("bored", "proactive_assistance")
		require.NoError(t, report(proactive.Dismissed))
		awaits("conservative_assistance")
		refuses(proactive.Dismissed, "conservative_assistance")
		waittest.Until(t, "the next offer is held back", func() bool {
			visit()
			return strings.Contains(a.log.String()+b.log.String(), `"decision":"holding_back"`)
		})
	})
}

func TestReport_needsAConversation(t *testing.T) {
	s := newDesks().start(t, helpful)
	s.webhook(pageview("u0", "s1", "https://app.example.com/home"))
	for name, r := range map[string]struct {
		product string
		report  proactive.Report
	}{
		"a session without one":        {"acme", proactive.Report{SessionID: "s1"}},
		"an unknown session":           {"acme", proactive.Report{SessionID: "s2"}},
		"neither":                      {"acme", proactive.Report{Desk: "intercom"}},
		"an unknown desk":              {"acme", proactive.Report{Desk: "crisp", ConversationID: "1"}},
		"a product without assistance": {"globex", proactive.Report{Desk: "intercom", ConversationID: "1"}},
		"an unknown product":           {"other", proactive.Report{Desk: "intercom", ConversationID: "1"}},
	} {
		r.report.Outcome = proactive.Dismissed
		assert.ErrorIs(t, s.service.Report(t.Context(), r.product, r.report), proactive.ErrNoConversation, name)
	}
}

func TestNew_reportsTriggersThatCannotBe(t *testing.T) {
	_, err := liveactivity.New(&liveactivity.Options{Triggers: []proactive.Trigger{nil, proactive.Predicate("", nil)}})
	require.Error(t, err)
	assert.ErrorContains(t, err, "trigger")
}

// A session in which a user acted may be another user's by now. Nothing of that user gets into the conversation.
func TestLink_byAUserIDLeavesTheSessionOfAnother(t *testing.T) {
	d := newDesks()
	s := d.start(t, withIdentity(""))
	for _, of := range [][2]string{{"ada", "s0"}, {"ada", "s1"}, {"eve", "s2"}} {
		s.happens(false, "$pageview", of[0], of[1], nil)
	}
	for _, id := range []string{"s1", "s2"} {
		s.happens(false, "$identify", "bob", id, map[string]any{"$anon_distinct_id": "anon"})
	}
	for user, want := range map[string]string{"ada": "linked", "eve": "pending"} {
		conversation, hook := d.intercom.Created(s.url+"/chatbot-webhook/acme",
			helpdesktest.IntercomContact{ExternalID: user}, "Hello")
		assert.Equal(t, want, s.send(hook).says(t), user)
		assert.Equal(t, want == "linked", s.context("session_id=s0").ConversationID == conversation, user)
		for _, id := range []string{"s1", "s2"} {
			assert.Empty(t, s.context("session_id="+id).ConversationID, id)
		}
	}
}
