package connector

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/activity/tracing"
	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/helpdesk/helpdesktest"
	"github.com/liveactivity/liveactivity/helpdesk/intercom"
	"github.com/liveactivity/liveactivity/internal/assistance"
	"github.com/liveactivity/liveactivity/internal/metricstest"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/internal/watchtest"
	"github.com/liveactivity/liveactivity/proactive"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
)

const (
	acme = "acme"
	jane = "jane@acme.example"
	hook = "http://hooks.example/chatbot-webhook/acme"
)

// world is a product with a fake Intercom, and one or more servers on its log.
type world struct {
	t        *testing.T
	log      eventlog.Log
	desk     *helpdesktest.Intercom
	desks    []Desk
	core     atomic.Pointer[assistance.Core]
	labels   []string
	notes    Notes
	recorder *eventlog.Recorder
	servers  []*server
	sees     func(eventlog.Log) eventlog.Log // what a server sees of the log; nil for the log
	events   int
	asked    atomic.Value // the last prompt

	conversation string
}

// server is a service that follows the log, with its metrics.
type server struct {
	*following
	registry *prometheus.Registry
}

// newWorld returns a world in which the triggers of the configuration are on.
func newWorld(t *testing.T, config *proactive.Config) *world {
	t.Helper()
	log := musttest.New(memorylog.New(nil))
	desk := helpdesktest.NewIntercom(&helpdesktest.IntercomOptions{InMemory: true})
	opened := musttest.New(intercom.Kind.Open(desk.Config(), &helpdesk.Options{HTTP: desk.Client()}))
	core := assistance.NewCore(config, musttest.New(config.Select())...)
	w := &world{t: t, log: log, desk: desk, desks: []Desk{{Name: "intercom", Desk: opened}},
		labels: config.ReplyOptionLabels, notes: promptNotes(), recorder: musttest.New(eventlog.NewRecorder(log, nil))}
	w.core.Store(core)
	return w
}

func (*world) Refresh(string) error { return nil }

// Product implements Products.
func (w *world) Product(productID string) (Product, bool, error) {
	return Product{Desks: w.desks, Notes: w.notes, TakesClaims: true, Assistance: w.core.Load(), Labels: w.labels,
		IdentitySecrets: []string{identitySecret}}, productID == acme, nil
}

// start starts a further server, which runs until the end of the test.
func (w *world) start(opts Options) *server {
	w.t.Helper()
	registry := prometheus.NewRegistry()
	opts.Metrics = registry
	if w.core.Load() != nil {
		opts.Model = func(_ context.Context, prompt string) (string, error) {
			w.asked.Store(prompt)
			return "Here is how.", nil
		}
	}
	log := w.log
	if w.sees != nil {
		log = w.sees(log)
	}
	of := newService(w.t, log, Product{}, &opts)
	of.configure(w)
	s := &server{of.follows(w.t, nil), registry}
	w.servers = append(w.servers, s)
	synctest.Wait()
	return s
}

// visit records a page view of Jane's session now.
func (w *world) visit(page string) { w.visitAs("s1", jane, page) }

func (w *world) visitAs(sessionID, email, page string) {
	w.t.Helper()
	w.events++
	w.record(viewed(page), activity.Event{ID: fmt.Sprint("e", w.events), Time: time.Now(), SessionID: sessionID,
		UserID: "u-" + sessionID, Email: email})
	time.Sleep(100 * time.Millisecond)
	synctest.Wait()
}

func viewed(page string) activity.Action {
	return activity.NewAction(activity.TypePageview, activity.Target{}, "https://app.example.com"+page)
}

// record records an event of an action.
func (w *world) record(a activity.Action, e activity.Event) {
	w.t.Helper()
	e.Action = &a
	_, err := w.recorder.Record(w.t.Context(), acme, []activity.Event{e})
	assert.NoError(w.t, err)
}

// pingPong goes from a page to another and back, to other pages each time.
func (w *world) pingPong() {
	w.toAndFro("s1", jane, fmt.Sprint("/pricing-", w.events))
	time.Sleep(500 * time.Millisecond)
	synctest.Wait()
}

// toAndFro goes from a page to another and back.
func (w *world) toAndFro(sessionID, email, from string) {
	for _, page := range []string{from, "/docs", from} {
		w.visitAs(sessionID, email, page)
	}
}

// take sends a webhook to a server, also once more.
func (s *server) take(webhook *http.Request) *httptest.ResponseRecorder {
	r := webhook.Clone(webhook.Context())
	r.Body, _ = webhook.GetBody()
	r.SetPathValue("product_id", acme)
	answer := httptest.NewRecorder()
	s.ServeWebhook(answer, r)
	return answer
}

// deliver sends a webhook to a server, also once more, and returns the status that it answers.
func (w *world) deliver(s *server, webhook *http.Request) string {
	w.t.Helper()
	answer := s.take(webhook)
	require.Equal(w.t, http.StatusOK, answer.Code, answer.Body)
	var body struct{ Status string }
	require.NoError(w.t, json.Unmarshal(answer.Body.Bytes(), &body))
	time.Sleep(100 * time.Millisecond)
	synctest.Wait()
	return body.Status
}

// chat has Jane open a conversation without a message, which links her session.
func (w *world) chat(s *server) (conversationID string) {
	w.t.Helper()
	return w.chatAs(s, jane, "")
}

// chatAs has a person open a conversation with a text, or without one, which links the person's session.
func (w *world) chatAs(s *server, email, text string) (conversationID string) {
	w.t.Helper()
	id, webhook := w.desk.Created(hook, helpdesktest.IntercomContact{Email: email}, text)
	for range 2 { // the second is a repetition
		require.Equal(w.t, "linked", w.deliver(s, webhook))
	}
	return id
}

// says has the contact write into a conversation.
func (w *world) says(s *server, conversationID, text string) {
	w.t.Helper()
	w.deliver(s, w.desk.Replied(hook, conversationID, text))
}

// offers returns the quick replies in a conversation.
func (w *world) offers(conversationID string) []helpdesktest.IntercomPart {
	return w.parts(conversationID, "quick_reply")
}

func (w *world) parts(conversationID, kind string) (found []helpdesktest.IntercomPart) {
	for _, p := range w.desk.Parts(conversationID) {
		if p.Type == kind {
			found = append(found, p)
		}
	}
	return found
}

// helping offers help to users who go back and forth, keeping also keeps their conversations, and
// dwelling offers help to users who stay.
var (
	helping  = proactive.Config{Enabled: true}
	keeping  = proactive.Config{Enabled: true, IdleTeardown: proactive.KeepOnIdle}
	dwelling = proactive.Config{Enabled: true, Triggers: []proactive.TriggerConfig{{ID: "user_page_dwell"}}}
)

// run runs a test in a bubble, with one server and a linked conversation.
func run(t *testing.T, config proactive.Config, test func(w *world, s *server, conversationID string)) {
	t.Helper()
	runWith(t, config, func(*world, *Options) {}, test)
}

// runWith is run with a world and server options that are prepared before the server starts.
func runWith(t *testing.T, config proactive.Config, prepare func(w *world, opts *Options),
	test func(w *world, s *server, conversationID string)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		if config.ReplyOptionLabels == nil {
			config.ReplyOptionLabels = []string{"Yes, show me"}
		}
		w := newWorld(t, &config)
		var opts Options
		prepare(w, &opts)
		s := w.start(opts)
		w.visit("/home")
		test(w, s, w.chat(s))
	})
}

func TestOffers_reportsTheStateOfConversations(t *testing.T) {
	log := &watchtest.Log{}
	runWith(t, helping, func(w *world, _ *Options) {
		w.sees = func(of eventlog.Log) eventlog.Log { log.Log = of; return log }
	}, func(w *world, s *server, conversation string) {
		here, other := Link{"intercom", conversation}, Link{"intercom", "other"}
		states := func(productID string, of ...Link) []assistance.State {
			states, err := s.States(w.t.Context(), productID, of...)
			require.NoError(w.t, err)
			return states
		}
		const thinking, offered = assistance.Thinking, assistance.Proactive
		assert.Equal(t, []assistance.State{"", thinking, thinking, thinking}, states(acme, Link{}, other, here, here))
		w.pingPong()
		require.Len(t, w.offers(conversation), 1)
		assert.Equal(t, []assistance.State{"", thinking, offered, offered}, states(acme, Link{}, other, here, here))
		assert.Equal(t, make([]assistance.State, 2), states("globex", other, here), "without assistance")

		log.Down.Store(true)
		assert.Equal(t, make([]assistance.State, 2), states(acme, Link{}, Link{}), "no conversation is read")
		_, err := s.States(w.t.Context(), acme, Link{}, here)
		require.ErrorIs(t, err, watchtest.ErrDown)
		log.Down.Store(false)
	})
}

// A deletion that fails is repeated, and nothing is forgotten before it succeeds.
func TestOffers_deletesTheConversationWhenNobodyReacts(t *testing.T) {
	run(t, helping, func(w *world, s *server, conversation string) {
		w.pingPong()
		require.Len(t, w.offers(conversation), 1)
		w.desk.Fail(helpdesktest.Fault{Method: http.MethodDelete, Status: 503})
		deletions := func() int { return requests(w.desk.Requests(), http.MethodDelete, "/conversations/") }
		time.Sleep(9 * time.Second)
		require.Zero(t, deletions())
		assert.Zero(t, count(t, s, "liveactivity_offers_total", "ignored"), "there is time to react")
		time.Sleep(2 * time.Second)
		require.Positive(t, deletions())
		require.NotEmpty(t, s.known(t, "intercom", conversation))
		w.desk.Heal()
		time.Sleep(time.Minute)
		require.False(t, w.desk.Exists(conversation))
		assert.Equal(t, 1.0, count(t, s, "liveactivity_conversations_deleted_total", "intercom"))
		assert.Equal(t, 1.0, count(t, s, "liveactivity_offers_total", "ignored"), "a retry counts no more")
		assert.Empty(t, s.known(t, "intercom", conversation), "its session can be linked again")
		second := w.chat(s)
		w.visit("/docs")
		assert.Empty(t, w.offers(second), "the way to and fro was for the first offer")
	})
}

// The session's next conversation may begin after a restart.
func TestOffers_useUpTheActionsOfADeletedConversation(t *testing.T) {
	run(t, helping, func(w *world, s *server, conversation string) {
		time.Sleep(3 * time.Minute) // the link is older than the actions that triggers see
		w.toAndFro("s1", jane, "/pricing")
		time.Sleep(time.Minute)
		require.False(t, w.desk.Exists(conversation))
		s.stop()
		second := w.chat(w.start(Options{}))
		w.visit("/pricing")
		assert.Empty(t, w.offers(second))
	})
}

// The time of an offer may pass while the product has no offers.
func TestOffers_deletesTheConversationOnceOffersAreOnAgain(t *testing.T) {
	run(t, helping, func(w *world, _ *server, conversation string) {
		w.pingPong()
		w.core.Store(nil)
		time.Sleep(time.Minute)
		require.True(t, w.desk.Exists(conversation))
		w.core.Store(assistance.NewCore(nil))
		w.visitAs("s2", "joe@acme.example", "/home")
		time.Sleep(time.Minute)
		assert.False(t, w.desk.Exists(conversation))
	})
}

// A deletion counts although its answer was lost, even if the server stops right after it.
func TestOffers_countsADeletionWhoseAnswerIsLost(t *testing.T) {
	for name, fault := range map[string]helpdesktest.Fault{"lost": {Lose: true}, "late": {Delay: 6 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			run(t, helping, func(w *world, s *server, conversation string) {
				w.pingPong()
				fault.Method, fault.Times = http.MethodDelete, 1
				w.desk.Fail(fault)
				time.Sleep(time.Minute)
				require.False(t, w.desk.Exists(conversation))
				assert.Equal(t, 1.0, count(t, s, "liveactivity_conversations_deleted_total", "intercom"))
				assert.Equal(t, 1.0, count(t, s, "liveactivity_offers_total", "ignored"))
			})
		})
	}
	t.Run("in doubt at another server", func(t *testing.T) {
		run(t, helping, func(w *world, s *server, conversation string) {
			w.pingPong()
			w.desk.Fail(helpdesktest.Fault{Method: http.MethodDelete, Lose: true})
			time.Sleep(9500 * time.Millisecond) // between the deletion and the next attempt
			s.stop()
			w.core.Store(nil) // and without offers by now
			second := w.start(Options{})
			w.visit("/docs")
			time.Sleep(time.Minute)
			require.False(t, w.desk.Exists(conversation))
			assert.Equal(t, 1.0, count(t, second, "liveactivity_conversations_deleted_total", "intercom"))
		})
	})
	t.Run("of a conversation that somebody else deletes later", func(t *testing.T) {
		run(t, helping, func(w *world, s *server, conversation string) {
			w.pingPong()
			w.desk.Fail(helpdesktest.Fault{Method: http.MethodDelete, Status: 503})
			time.Sleep(time.Minute)
			w.desk.DeleteConversation(conversation)
			w.visit("/docs")
			time.Sleep(time.Minute)
			require.Empty(t, s.known(t, "intercom", conversation))
			assert.Zero(t, count(t, s, "liveactivity_conversations_deleted_total", "intercom"))
		})
	})
}

// An app that may not delete conversations writes its notes in time, and asks once an hour.
func TestOffers_leaveNotesOnTimeWhereDeletingIsForbidden(t *testing.T) {
	run(t, helping, func(w *world, _ *server, conversation string) {
		w.pingPong()
		w.desk.Fail(helpdesktest.Fault{Method: http.MethodDelete, Status: 403})
		for i := range 10 {
			time.Sleep(4 * time.Second)
			notes := len(w.desk.Notes(conversation))
			w.visit(fmt.Sprint("/", i))
			assert.Len(t, w.desk.Notes(conversation), notes+1)
		}
		time.Sleep(3 * time.Hour)
		assert.LessOrEqual(t, requests(w.desk.Requests(), http.MethodDelete, "/conversations/"), 4)
		w.desk.Heal()
		time.Sleep(time.Hour)
		assert.False(t, w.desk.Exists(conversation))
	})
}

// The deletion that was refused is no more due once the user has written.
func TestOffers_goOnAfterAQuestionWhereDeletingIsForbidden(t *testing.T) {
	run(t, helping, func(w *world, s *server, conversation string) {
		w.desk.Fail(helpdesktest.Fault{Method: http.MethodDelete, Status: 403})
		w.pingPong()
		time.Sleep(20 * time.Second)
		w.says(s, conversation, "Hello")
		time.Sleep(5 * time.Minute)
		w.pingPong()
		assert.Len(t, w.offers(conversation), 2)
	})
}

func TestOffers_ofTheActionsInOneRequestAnswerTheLastMatch(t *testing.T) {
	run(t, proactive.Config{Enabled: true, Triggers: []proactive.TriggerConfig{{ID: "canonical_url_ping_pong"},
		{ID: "back_on_pricing", Page: "/a", Body: "Compare?"}}}, func(w *world, _ *server, conversation string) {
		var events []activity.Event
		for i, page := range []string{"/a", "/b", "/a", "/a/x"} {
			action := viewed(page)
			events = append(events, activity.Event{ID: fmt.Sprint("one", i), Time: time.Now(), SessionID: "s1", UserID: "u-s1",
				Action: &action})
		}
		_, err := w.recorder.Record(w.t.Context(), acme, events)
		require.NoError(w.t, err)
		time.Sleep(time.Second)
		offers := w.offers(conversation)
		require.Len(w.t, offers, 1)
		assert.Equal(w.t, "Compare?", offers[0].Text)
	})
}

// People's conversations are never deleted, whenever they were written.
func TestOffers_deletesNoConversationThatAMessageOpened(t *testing.T) {
	run(t, helping, func(w *world, s *server, _ string) {
		w.visitAs("s2", "joe@acme.example", "/home")
		id := w.chatAs(s, "joe@acme.example", "I was charged twice")
		time.Sleep(5 * time.Minute) // until then nobody has answered
		w.toAndFro("s2", "joe@acme.example", "/pricing")
		time.Sleep(500 * time.Millisecond)
		require.Len(t, w.offers(id), 1)
		time.Sleep(time.Minute)
		require.True(t, w.desk.Exists(id))
		assert.Equal(t, 0.0, count(t, s, "liveactivity_conversations_deleted_total", "intercom"))
		assert.Equal(t, 1.0, count(t, s, "liveactivity_offers_total", "ignored"), "the offer has lapsed")
		w.toAndFro("s2", "joe@acme.example", "/team")
		time.Sleep(500 * time.Millisecond)
		assert.Len(t, w.offers(id), 2)
	})
}

func TestOffers_deletesNothingInWhichATeammateWrote(t *testing.T) {
	for when, offers := range map[string]int{"before the offer": 2, "after it, so that people talk": 1} {
		t.Run(when, func(t *testing.T) {
			run(t, helping, func(w *world, _ *server, conversation string) {
				if offers == 2 {
					w.desk.AgentReply(conversation, "I am here")
					time.Sleep(time.Second)
				}
				w.pingPong()
				require.Len(t, w.offers(conversation), 1)
				if offers == 1 {
					w.desk.AgentReply(conversation, "I am here")
				}
				time.Sleep(time.Minute)
				require.True(t, w.desk.Exists(conversation))
				w.pingPong()
				assert.Len(t, w.offers(conversation), offers)
			})
		})
	}
}

func TestOffers_deletesNothingThatItCannotRead(t *testing.T) {
	run(t, helping, func(w *world, _ *server, conversation string) {
		w.desk.AgentReply(conversation, "I am here")
		time.Sleep(time.Second)
		w.pingPong()
		require.Len(t, w.offers(conversation), 1)
		w.desk.Fail(helpdesktest.Fault{Method: http.MethodGet, Status: 400})
		time.Sleep(3 * time.Hour)
		assert.True(t, w.desk.Exists(conversation))
	})
}

// A desk may show a message later than its webhook, or no longer.
func TestOffers_deletesNothingInWhichAWebhookToldOfAMessage(t *testing.T) {
	run(t, helping, func(w *world, s *server, conversation string) {
		w.deliver(s, w.desk.Webhook(hook, []byte(`{"type": "notification_event",
			"id": "notif_1", "topic": "conversation.user.replied", "data": {"item": {"type": "conversation", "id": "`+
			conversation+`", "conversation_parts": {"conversation_parts": [{"part_type": "comment", "body": "Hello",
			"author": {"type": "user", "id": "1", "email": "`+jane+`"}}]}}}}`)))
		time.Sleep(5 * time.Minute)
		w.pingPong()
		require.Len(t, w.offers(conversation), 1)
		time.Sleep(time.Minute)
		assert.True(t, w.desk.Exists(conversation))
	})
}

func TestOffers_answersAMessageAndStartsGuidanceForALabel(t *testing.T) {
	run(t, helping, func(w *world, s *server, conversation string) {
		w.pingPong()
		w.says(s, conversation, " yes, SHOW me ")
		time.Sleep(5 * time.Second)
		require.Len(t, w.replies(conversation), 1, "without a hook the label is answered")
		const offered = "The offer of help that the customer answers:\n<data>\nNeed a hand?\n</data>"
		assert.Contains(t, w.asked.Load(), offered)
		w.says(s, conversation, "And what does it cost?")
		time.Sleep(5 * time.Second)
		require.Len(t, w.replies(conversation), 2)
		assert.NotContains(t, w.asked.Load(), offered)
		time.Sleep(10 * time.Minute)
		assert.True(t, w.desk.Exists(conversation))
		w.says(s, conversation, "Yes, show me")
		time.Sleep(5 * time.Second)
		require.Len(t, w.replies(conversation), 3)
		assert.NotContains(t, w.asked.Load(), offered, "it is an answer to something else by now")
		assert.Equal(t, 1.0, count(t, s, "liveactivity_offers_total", "accepted"))
		assert.Zero(t, count(t, s, "liveactivity_offers_total", "ignored"))
	})
}

func TestOffers_answersNoMessageWithoutWords(t *testing.T) {
	run(t, helping, func(w *world, s *server, conversation string) {
		w.pingPong()
		w.says(s, conversation, "") // an image alone
		time.Sleep(time.Minute)
		assert.Empty(t, w.replies(conversation))
		assert.True(t, w.desk.Exists(conversation), "it is a message all the same")
		w.says(s, conversation, "That is what I see.")
		time.Sleep(5 * time.Second)
		assert.Len(t, w.replies(conversation), 1)
	})
}

// requests counts the requests of a method to paths that contain this one.
func requests(all []helpdesktest.Request, method, path string) (n int) {
	for _, r := range all {
		if r.Method == method && strings.Contains(r.Path, path) {
			n++
		}
	}
	return n
}

// shown returns the times of the offers that the desk showed in a conversation, even if that is gone.
func (w *world) shown(conversationID string) (at []time.Time) {
	for _, r := range w.desk.Requests() {
		if r.Path == "/conversations/"+conversationID+"/reply" && r.Status < 300 &&
			bytes.Contains(r.Body, []byte(`"quick_reply"`)) {
			at = append(at, r.At)
		}
	}
	return at
}

// replies returns the service's answers.
func (w *world) replies(conversationID string) (found []helpdesktest.IntercomPart) {
	for _, p := range w.parts(conversationID, "comment") {
		if p.AuthorID == helpdesktest.IntercomAdminID {
			found = append(found, p)
		}
	}
	return found
}

func TestOffers_callsTheHookForALabelOnce(t *testing.T) {
	var guided []proactive.Guidance
	runWith(t, helping, func(_ *world, opts *Options) {
		opts.Guide = func(_ context.Context, g proactive.Guidance) error {
			guided = append(guided, g)
			return nil
		}
	}, func(w *world, s *server, conversation string) {
		w.pingPong()
		webhook := w.desk.Replied(hook, conversation, "yes, show me")
		w.deliver(s, webhook)
		w.deliver(s, webhook)
		require.Equal(t, []proactive.Guidance{{ProductID: acme, Desk: "intercom", ConversationID: conversation,
			TriggerID: "canonical_url_ping_pong", Label: "Yes, show me"}}, guided)
		assert.Empty(t, w.replies(conversation))
	})
}

// count returns the value of a counter, of the series with a label of that value.
func count(t *testing.T, s *server, name, value string) float64 {
	t.Helper()
	return metricstest.Sum(t, s.registry, name, value)
}

// Another offer can be made when the cool-down of the lost one is over.
func TestOffers_asksADeskOnceForALostOfferThatItRefusesToShow(t *testing.T) {
	run(t, keeping, func(w *world, s *server, conversation string) {
		w.desk.Fail(helpdesktest.Fault{Path: "/reply", Status: 500, Times: 1})
		w.pingPong()
		w.desk.Fail(helpdesktest.Fault{Method: "GET", Path: "/conversations/" + conversation, Status: 400})
		time.Sleep(10 * time.Minute)
		assert.Equal(t, 1, requests(w.desk.Requests(), "GET", "/conversations/"))
		assert.Equal(t, 1.0, count(t, s, "liveactivity_offers_total", "lost"))
		w.pingPong()
		assert.Len(t, w.offers(conversation), 1)
	})
}

func TestOffers_endsTheLinksOfAConversationThatIsGoneWithAnOfferInDoubt(t *testing.T) {
	run(t, keeping, func(w *world, s *server, conversation string) {
		w.desk.Fail(helpdesktest.Fault{Path: "/reply", Status: 500, Times: 1})
		w.pingPong()
		time.Sleep(20 * time.Second) // the notes are written
		w.desk.DeleteConversation(conversation)
		time.Sleep(time.Minute)
		assert.Equal(t, 1.0, count(t, s, "liveactivity_links_total", "ended"))
	})
}

// The clock of Redis may be ahead of the desk's.
func TestOffers_findsALostOfferByAnotherClock(t *testing.T) {
	for _, by := range []time.Duration{0, 5 * time.Second, -5 * time.Second} {
		t.Run(by.String(), func(t *testing.T) {
			runWith(t, keeping, func(w *world, _ *Options) {
				w.sees = func(log eventlog.Log) eventlog.Log { return &watchtest.Log{Log: log, Skew: by} }
			}, func(w *world, s *server, _ string) {
				w.desk.Fail(helpdesktest.Fault{Path: "/reply", Lose: true, Times: 1})
				w.pingPong()
				w.desk.Fail(helpdesktest.Fault{Method: http.MethodGet, Status: 503, Times: 3})
				time.Sleep(time.Minute)
				assert.Equal(t, 1.0, count(t, s, "liveactivity_offers_total", "made"))
				assert.Equal(t, 1.0, count(t, s, "liveactivity_offers_total", "ambiguous"))
				assert.Zero(t, count(t, s, "liveactivity_offers_total", "lost"))
			})
		})
	}
}

func TestOffers_givesAClaimBackWhenTheDeskRefuses(t *testing.T) {
	metered := 0
	runWith(t, helping, func(_ *world, opts *Options) {
		opts.Meter = func(productID string, f tracing.Flow) {
			assert.Equal(t, acme, productID)
			metered += f.Offers
		}
	}, func(w *world, s *server, conversation string) {
		w.desk.Fail(helpdesktest.Fault{Path: "/reply", Status: 422, Times: 1})
		w.pingPong()
		require.Empty(t, w.offers(conversation))
		require.Zero(t, metered)
		w.visit("/docs")
		w.visit("/pricing")
		assert.Len(t, w.offers(conversation), 1, "no cool-down was begun")
		assert.Equal(t, 1, metered)
	})
}

// Nothing else is to be done, so no server holds the lease when the user acts.
func TestOffers_countsAMatchWithoutAnOfferInAQuietProduct(t *testing.T) {
	runWith(t, helping, func(w *world, _ *Options) { w.notes.Debounce = 3 * time.Second },
		func(w *world, s *server, conversation string) {
			w.start(Options{})
			w.says(s, conversation, "Hello")
			for i := range 2 {
				time.Sleep(time.Minute)
				w.pingPong()
				suppressed := 0.0
				for _, s := range w.servers {
					suppressed += count(t, s, "liveactivity_offers_suppressed_total", "state")
				}
				assert.InDelta(t, 1+i, suppressed, 0)
			}
		})
}

// Another server gets the lease seconds after both have decided, when the cooldown is over.
func TestOffers_makesNoneOfAMatchThatCooledDown(t *testing.T) {
	config := keeping
	config.Triggers = []proactive.TriggerConfig{{ID: "error_seen"}}
	run(t, config, func(w *world, _ *server, conversation string) {
		w.start(Options{})
		for i := range 2 {
			w.record(activity.NewError("TypeError", "", "https://app.example.com/home"),
				activity.Event{ID: fmt.Sprint("error", i), Time: time.Now(), SessionID: "s1", UserID: "u-s1", Email: jane})
			time.Sleep(26 * time.Second)
		}
		assert.Len(t, w.offers(conversation), 1)
	})
}

// A step that is retried or delivered twice counts once.
func TestOffers_countsOffersByResult(t *testing.T) {
	var log strings.Builder
	runWith(t, keeping, func(_ *world, opts *Options) {
		opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
	}, func(w *world, s *server, conversation string) {
		offers := func(result string) float64 { return count(t, s, "liveactivity_offers_total", result) }
		w.pingPong()
		time.Sleep(40 * time.Second)
		assert.Equal(t, 1.0, offers("ignored"))
		assert.Equal(t, 2.0, offers(proactive.PingPong{}.ID()), "made and ignored, of its trigger")
		w.desk.Fail(helpdesktest.Fault{Path: "/reply", Status: 500, Times: 1})
		w.pingPong()
		require.Equal(t, 1.0, offers("ambiguous"))
		time.Sleep(40 * time.Second)
		require.Equal(t, 1.0, offers("lost"))
		require.Equal(t, 4.0, offers(proactive.PingPong{}.ID()), "all of its trigger")
		results := strings.Join(regexp.MustCompile(`result=\w+`).FindAllString(log.String(), -1), " ")
		assert.Contains(t, results, "result=made result=ignored result=ambiguous result=lost")
	})
}

// isConversation reports whether a document is a conversation's.
func isConversation(name string) bool { return strings.HasPrefix(name, "conversations/") }

// A server shows an offer or writes a note, and loses its storage before it has recorded that. The
// next server finds the offer or note.
func TestOffers_andNotesAreCountedOnceThoughStorageFails(t *testing.T) {
	for name, write := range map[string]func(w *world){"an offer": (*world).pingPong, "a note": func(w *world) {
		w.visit("/plans")
	}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, &proactive.Config{Enabled: true, ReplyOptionLabels: []string{"Yes"}})
				var metered tracing.Flow
				opts := Options{Meter: func(_ string, f tracing.Flow) { metered = metered.Plus(f) }}
				var fails, dead atomic.Bool
				written := 0
				parts := func() int {
					return len(w.offers(w.conversation)) + len(w.parts(w.conversation, "note"))
				}
				w.sees = func(log eventlog.Log) eventlog.Log {
					return before(log, func(op watchtest.Op) error {
						if op.Name == "write" && fails.Load() && slices.ContainsFunc(op.Documents, isConversation) &&
							parts() > written {
							dead.Store(true)
						}
						if op.Name != "read" && dead.Load() {
							return errAway
						}
						return nil
					})
				}
				first := w.start(opts)
				w.visit("/home")
				w.conversation = w.chat(first)
				if name == "an offer" {
					w.notes.Debounce, w.notes.Interval = time.Hour, time.Hour
				}
				written = parts()
				before := metered
				fails.Store(true)
				write(w)
				require.True(t, dead.Load(), "storage failed")
				require.Equal(t, before, metered, "nothing is recorded")
				w.sees = nil
				w.start(opts)
				time.Sleep(time.Minute)
				synctest.Wait()
				assert.Equal(t, 1, metered.Offers+metered.Notes-before.Notes)
			})
		})
	}
}

func TestOffers_countsAChosenLabelOnceThoughStorageConflicts(t *testing.T) {
	var conflicts atomic.Int32
	runWith(t, helping, func(w *world, _ *Options) {
		w.sees = func(log eventlog.Log) eventlog.Log {
			return before(log, func(op watchtest.Op) error {
				if op.Name == "write" && slices.ContainsFunc(op.Documents, isConversation) && conflicts.Add(-1) >= 0 {
					return &document.ConflictError{Name: op.Documents[0]}
				}
				return nil
			})
		}
	}, func(w *world, s *server, conversation string) {
		w.pingPong()
		require.Len(t, w.offers(conversation), 1)
		conflicts.Store(3)
		w.says(s, conversation, "yes, show me")
		require.LessOrEqual(t, conflicts.Load(), int32(0))
		assert.Equal(t, 1.0, count(t, s, "liveactivity_offers_total", "accepted"))
		assert.Equal(t, 1.0, count(t, s, "liveactivity_assistance_transitions_total", "guidance_execution"))
	})
}

// Due work is found again long after the actions that led to it.
func TestOffers_goesOnAfterALongOutage(t *testing.T) {
	run(t, helping, func(w *world, s *server, conversation string) {
		w.pingPong()
		require.Len(t, w.offers(conversation), 1)
		s.stop()
		time.Sleep(time.Hour)
		w.start(Options{})
		time.Sleep(30 * time.Second)
		assert.False(t, w.desk.Exists(conversation))
	})
}

// An offer and a reply are made at once, while the note of the user's actions waits for a pause.
func TestOffers_offersHelpToAUserWhoStaysWhileNotesWait(t *testing.T) {
	config := dwelling
	config.IdleTeardown = proactive.KeepOnIdle
	runWith(t, config, func(w *world, _ *Options) {
		w.notes.Debounce = 2 * time.Minute
	}, func(w *world, s *server, _ string) {
		w.visitAs("s2", "joe@acme.example", "")
		conversation := w.chatAs(s, "joe@acme.example", "")
		time.Sleep(50 * time.Second)
		require.Empty(t, w.offers(conversation))
		time.Sleep(12 * time.Second)
		require.Len(t, w.offers(conversation), 1, "linked after the last action")
		time.Sleep(9 * time.Minute)
		w.record(activity.Action{Type: activity.TypeClick}, activity.Event{ID: "c", Time: time.Now(), SessionID: "s1"})
		time.Sleep(time.Second)
		w.visitAs("s2", "joe@acme.example", "/pricing")
		time.Sleep(62 * time.Second)
		assert.Len(t, w.offers(conversation), 2)
		notes := len(w.desk.Notes(conversation))
		w.says(s, conversation, "Where is it?")
		assert.Len(t, w.replies(conversation), 1)
		assert.Len(t, w.desk.Notes(conversation), notes)
		time.Sleep(2 * time.Minute)
		assert.Len(t, w.desk.Notes(conversation), notes+1)
	})
}

// The minute is over while no server runs.
func TestOffers_offersHelpToAUserWhoStaysDuringARestart(t *testing.T) {
	run(t, dwelling, func(w *world, s *server, conversation string) {
		time.Sleep(58 * time.Second)
		s.stop()
		time.Sleep(4 * time.Second)
		require.Empty(t, w.offers(conversation))
		w.start(Options{})
		time.Sleep(time.Second)
		assert.Len(t, w.offers(conversation), 1)
	})
}

func TestOffers_offersNoHelpToAUserWhomAnotherOneFollows(t *testing.T) {
	run(t, dwelling, func(w *world, _ *server, conversation string) {
		time.Sleep(30 * time.Second)
		w.identified("s1", "bob", "/team")
		time.Sleep(time.Minute)
		assert.True(t, w.desk.Exists(conversation), "nobody ignored an offer")
		assert.Empty(t, w.offers(conversation))
	})
}

// The user's own conversation is deleted, and the session's earlier one is another user's.
func TestOffers_offersNoHelpInAnEarlierUsersConversation(t *testing.T) {
	config := proactive.Config{Enabled: true, Triggers: []proactive.TriggerConfig{{ID: "back_on_pricing"},
		{ID: "user_page_dwell"}}}
	run(t, config, func(w *world, s *server, conversation string) {
		w.identified("s1", "bob", "/home")
		second := w.chatAs(s, "bob@acme.example", "")
		for _, page := range []string{"/pricing", "/docs", "/pricing"} {
			w.identified("s1", "bob", page)
		}
		time.Sleep(2 * time.Minute)
		assert.False(t, w.desk.Exists(second))
		assert.True(t, w.desk.Exists(conversation))
		assert.Empty(t, w.offers(conversation))
	})
}

// The page's first action is recorded after a later one.
func TestOffers_offersHelpByTheTrueStartOfAStay(t *testing.T) {
	run(t, dwelling, func(w *world, _ *server, conversation string) {
		for range 5 { // too many for a stay
			w.visit("/home")
		}
		time.Sleep(20 * time.Second)
		w.press("late", "Pay", "", time.Now())
		w.press("early", "Pay", "", time.Now().Add(-10*time.Second))
		time.Sleep(49 * time.Second)
		require.Empty(t, w.offers(conversation))
		time.Sleep(2 * time.Second)
		assert.Len(t, w.offers(conversation), 1)
	})
}

// One person's way to and fro does not count as another's, whether or not the session was linked
// to the first.
func TestOffers_offersNoHelpForActionsOfThePreviousUser(t *testing.T) {
	for session, first := range map[string]string{"s1": "jane", "shared": "joe"} {
		t.Run(first, func(t *testing.T) {
			run(t, helping, func(w *world, s *server, conversation string) {
				visit := func(user, page string) { w.identified(session, user, page) }
				visit(first, "/docs")
				visit("bob", "/home")
				second := w.chatAs(s, "bob@acme.example", "")
				visit("bob", "/docs")
				assert.Empty(t, w.offers(conversation))
				assert.Empty(t, w.offers(second))
				visit("bob", "/team")
				visit("bob", "/docs")
				assert.Empty(t, w.offers(conversation))
				assert.Len(t, w.offers(second), 1)
			})
		})
	}
}

// identified records a page view of a user who has signed in.
func (w *world) identified(session, user, page string) {
	w.t.Helper()
	w.events++
	w.record(viewed(page), activity.Event{ID: fmt.Sprint("of ", w.events), Time: time.Now(), SessionID: session,
		UserID: user, Email: user + "@acme.example", Identified: true})
	time.Sleep(time.Second)
}

// The session's link ends when another person signs in. A server that starts then reads the log anew.
func TestOffers_offersNoHelpForActionsOfTheNextUserAfterARestart(t *testing.T) {
	run(t, helping, func(w *world, s *server, conversation string) {
		for _, page := range []string{"/docs", "/team", "/docs"} {
			w.identified("s1", "bob", page)
		}
		s.stop()
		w.start(Options{})
		time.Sleep(time.Second)
		assert.Empty(t, w.offers(conversation))
	})
}

// A page can link any session to any conversation, and a signed user the user's own. Such a session leads to
// no offer there, although the desk vouches for the conversation's own session.
func TestOffers_offersNothingForASessionThatAStrangerAdded(t *testing.T) {
	for name, by := range map[string]linkedBy{"by anybody's page": byStranger, "by another signed user": bySigned} {
		t.Run(name, func(t *testing.T) {
			run(t, helping, func(w *world, s *server, conversation string) {
				w.visitAs("s2", "joe@acme.example", "/home")
				musttest.New(s.link(t.Context(), "intercom", conversation, "s2", by, time.Now()))
				w.toAndFro("s2", "joe@acme.example", "/pricing")
				w.toAndFro("s3", "eve@acme.example", "/team") // who has no conversation
				time.Sleep(time.Second)
				assert.Empty(t, w.offers(conversation))
				assert.InDelta(t, 1, count(t, s, "liveactivity_offers_suppressed_total", "untrusted"), 0)
				w.pingPong()
				assert.Len(t, w.offers(conversation), 1, "the desk's own session")
			})
		})
	}
}

func TestOffers_deletesNothingWhenAMessageComesWhileItLooks(t *testing.T) {
	run(t, helping, func(w *world, s *server, conversation string) {
		w.pingPong()
		require.Len(t, w.offers(conversation), 1)
		w.desk.Fail(helpdesktest.Fault{Method: http.MethodGet, Delay: 2 * time.Second})
		time.Sleep(10 * time.Second) // it has begun to look whether anybody wrote
		w.says(s, conversation, "Wait, I am typing")
		time.Sleep(time.Minute)
		assert.True(t, w.desk.Exists(conversation))
		assert.Len(t, w.replies(conversation), 1)
	})
}

// press records Jane's click at a time, or a mark of it.
func (w *world) press(id, label, mark string, at time.Time) {
	w.t.Helper()
	a := activity.NewAction(activity.TypeClick, activity.Target{Label: label}, "https://app.example.com/checkout")
	if mark != "" {
		a.Marks = []string{mark}
	}
	w.record(a, activity.Event{ID: id, Time: at, SessionID: "s1", UserID: "u-s1", Email: jane, Markable: mark == ""})
}

// A click that comes again with marks has one line in a note that is still to be written,
// and one in the next note after that. Nothing counts as trimmed, and an offer is made.
func TestMarks_reachNotesAndTriggers(t *testing.T) {
	runWith(t, proactive.Config{Enabled: true, IdleTeardown: "keep", Triggers: []proactive.TriggerConfig{{ID: "dead_click",
		Body: "Did it not work?"}}}, func(w *world, _ *Options) {
		w.notes.Debounce, w.notes.Interval = 5*time.Second, 0
	}, func(w *world, s *server, conversation string) {
		time.Sleep(time.Minute)
		before := len(w.desk.Notes(conversation))

		at := time.Now()
		w.press("1", "Pay", "", at)
		time.Sleep(3 * time.Second)
		w.press("2", "Pay", activity.MarkDead, at)
		synctest.Wait()
		offers := w.offers(conversation)
		require.Len(t, offers, 1)
		assert.Contains(t, offers[0].Text, "Did it not work?")
		time.Sleep(time.Minute)
		notes := w.desk.Notes(conversation)[before:]
		require.Len(t, notes, 1)
		assert.Equal(t, 1, strings.Count(notes[0], "User clicked Pay on the checkout page"))
		assert.Contains(t, notes[0], "[1] User clicked Pay on the checkout page, and nothing happened")

		at = time.Now()
		w.press("3", "Help", "", at)
		w.press("3a", "Plan", "", at.Add(time.Second))
		time.Sleep(30 * time.Second)
		w.press("4", "Help", activity.MarkRage, at)
		w.press("5", "Buy", "", time.Now())
		time.Sleep(time.Minute)
		notes = w.desk.Notes(conversation)[before+1:]
		require.Len(t, notes, 2)
		assert.Contains(t, notes[1], "[1] User clicked Help on the checkout page, repeatedly")
		assert.Contains(t, notes[1], "[2] User clicked Buy on the checkout page")
		assert.Zero(t, count(t, s, "liveactivity_notes_lost_total", acme))
	})
}

// A lead, whose address nobody has verified, may take part in a user's conversation.
func TestOffers_answersALeadFromNoUsersActions(t *testing.T) {
	run(t, keeping, func(w *world, s *server, conversation string) {
		w.visit("/salaries")
		w.pingPong()
		body := musttest.New(io.ReadAll(w.desk.Replied(hook, conversation, "What did she do?").Body))
		of := strings.Replace(string(body), `"type":"user"`, `"type":"lead"`, 1) // the author of the part
		w.deliver(s, w.desk.Webhook(hook, []byte(of)))
		time.Sleep(5 * time.Second)
		require.Len(t, w.replies(conversation), 1)
		assert.NotContains(t, w.asked.Load(), "salaries")
		w.says(s, conversation, "And what did I do?")
		time.Sleep(5 * time.Second)
		require.Len(t, w.replies(conversation), 2)
		assert.Contains(t, w.asked.Load(), "salaries")
	})
}

func TestOffers_dropsAnOfferThatCannotBeSentInTime(t *testing.T) {
	run(t, helping, func(w *world, s *server, conversation string) {
		w.desk.Fail(helpdesktest.Fault{Status: 503})
		w.pingPong()
		time.Sleep(11 * time.Second)
		w.desk.Heal()
		time.Sleep(time.Minute)
		assert.Empty(t, w.offers(conversation))
	})
}

// Two sessions that share a conversation have many actions and messages at once, at two servers.
func TestOffers_makesOneOfferWhenEverythingHappensAtOnce(t *testing.T) {
	run(t, helping, func(w *world, s *server, conversation string) {
		second := w.start(Options{})
		w.visitAs("s2", jane, "/home")
		w.says(second, conversation, "Hi")
		require.Len(t, s.known(t, "intercom", conversation), 2)
		time.Sleep(6 * time.Minute) // people talk no longer
		waittest.Together(20, func(i int) {
			for j, page := range []string{"/pricing", "/docs", "/pricing"} {
				w.record(viewed(page), activity.Event{ID: fmt.Sprint("at-once", i, j), Time: time.Now(),
					SessionID: fmt.Sprint("s", 1+i%2), Email: jane})
			}
		})
		time.Sleep(5 * time.Second)
		require.Len(t, w.shown(conversation), 1)
		assert.Zero(t, count(t, s, "liveactivity_offers_total", "ignored"), "the talk before was no offer")
		var answers sync.WaitGroup
		for range 10 {
			webhook := w.desk.Replied(hook, conversation, "yes, show me")
			for _, at := range []*server{s, second} {
				answers.Go(func() { at.take(webhook) })
			}
		}
		answers.Wait()
		time.Sleep(time.Minute)
		assert.Len(t, w.shown(conversation), 1)
		assert.True(t, w.desk.Exists(conversation))
		accepted := count(t, s, "liveactivity_offers_total", "accepted") +
			count(t, second, "liveactivity_offers_total", "accepted")
		assert.LessOrEqual(t, accepted, 10.0, "a delivery counts once")
		assert.Positive(t, accepted)
	})
}
