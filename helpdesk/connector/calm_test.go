package connector_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/directory"
	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/helpdesk/connector"
	"github.com/liveactivity/liveactivity/helpdesk/helpdesktest"
	"github.com/liveactivity/liveactivity/helpdesk/zendesk"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/proactive"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
)

// flooded returns the numbers of notes of actions, of summaries and of redactions in a conversation
// of 46 page views in 18 seconds.
func flooded(t *testing.T, desk string, notes connector.Notes) (written, summaries, redactions int) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &proactive.Config{})
		w.core, w.notes = nil, notes
		var webhook *http.Request
		conversation := ""
		z := helpdesktest.NewZendesk(&helpdesktest.ZendeskOptions{InMemory: true})
		if desk == "zendesk" {
			opened, err := zendesk.Kind.Open(z.Config(), &helpdesk.Options{HTTP: z.Client()})
			require.NoError(t, err)
			w.desks = []connector.Desk{{Name: "zendesk", Desk: opened}}
			conversation, webhook = z.NewTicket(hook, jane, "Hello")
		} else {
			conversation, webhook = w.desk.Created(hook, helpdesktest.IntercomContact{Email: jane}, "")
		}
		defer w.close()
		s := w.start(connector.Options{})
		w.visit("/home")
		require.Equal(t, "linked", w.deliver(s, webhook))
		time.Sleep(time.Minute)
		for i := range 46 {
			w.visit(fmt.Sprint("/", []string{"pricing", "docs", "plans"}[i%3]))
			time.Sleep(18*time.Second/46 - 100*time.Millisecond)
		}
		time.Sleep(5 * time.Minute)
		texts := z.Notes
		if desk == "intercom" {
			texts = w.desk.Notes
		}
		for _, r := range append(w.desk.Requests(), z.Requests()...) {
			if strings.Contains(r.Path, "redact") {
				redactions++
			}
		}
		for _, text := range texts(conversation) {
			if strings.Contains(text, "[1]") {
				written++
			} else {
				summaries++
			}
		}
	})
	return written + redactions, summaries, redactions
}

// An app that may not redact writes its notes in time, and tries each redaction once.
func TestNotes_areOnTimeWhereRedactingIsForbidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &proactive.Config{})
		w.core, w.notes = nil, prompt()
		w.desk.Fail(helpdesktest.Fault{Path: "/conversations/redact", Status: http.StatusForbidden})
		defer w.close()
		s := w.start(connector.Options{})
		w.visit("/home")
		conversation := w.chat(s)
		for i := range 30 {
			w.visit(fmt.Sprint("/", []string{"pricing", "docs", "plans"}[i%3]))
			time.Sleep(time.Second)
			assert.GreaterOrEqual(t, len(w.desk.Notes(conversation)), i+1)
		}
		time.Sleep(time.Hour)
		tries := 0
		for _, r := range w.desk.Requests() {
			if strings.Contains(r.Path, "redact") {
				tries++
			}
		}
		assert.Equal(t, 20, tries)
	})
}

// By default, an agent finds a few notes, and a summary in their place where the desk
// can redact. Written at once, there are as many notes as page views.
func TestNotes_leaveAnAgentCalm(t *testing.T) {
	written, summaries, redactions := flooded(t, "intercom", connector.DefaultNotes())
	assert.Equal(t, []int{3, 1, 2}, []int{written, summaries, redactions})
	written, summaries, redactions = flooded(t, "zendesk", connector.DefaultNotes())
	assert.Equal(t, []int{3, 1, 0}, []int{written, summaries, redactions})
	written, summaries, redactions = flooded(t, "intercom", prompt())
	assert.Equal(t, []int{47, 1, 20}, []int{written, summaries, redactions})
}

// An offer and a reply are made at once. The note of the user's actions waits for a pause.
func TestNotes_waitForAPauseWhileOtherWorkIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &proactive.Config{Enabled: true})
		defer w.close()
		w.notes.Debounce = 3 * time.Second
		s := w.start(connector.Options{})
		w.visit("/home")
		conversation := w.chat(s)
		require.Len(t, w.desk.Notes(conversation), 1, "at the link")
		w.pingPong()
		require.Len(t, w.offers(conversation), 1)
		w.deliver(s, w.desk.Replied("http://hooks.example/chatbot-webhook/acme", conversation, "Where is it?"))
		require.Len(t, w.replies(conversation), 1)
		assert.Len(t, w.desk.Notes(conversation), 1)
		time.Sleep(3 * time.Second)
		assert.Len(t, w.desk.Notes(conversation), 2)
	})
}

// opened has Jane open a conversation with a text.
func (w *world) opened(s *server, text string) (conversationID string) {
	w.t.Helper()
	id, webhook := w.desk.Created(hook, helpdesktest.IntercomContact{Email: jane}, text)
	for range 2 { // the second is a repetition
		require.Equal(w.t, "linked", w.deliver(s, webhook))
	}
	return id
}

// A contact who waits for an answer gets no offer for assistance_idle_s, whether the question
// opened the conversation or came later.
func TestOffers_areNotMadeWhileTheContactWaitsForAnAnswer(t *testing.T) {
	for name, ask := range map[string]func(w *world, s *server) (conversationID string){
		"the opening message": func(w *world, s *server) string { return w.opened(s, "My invoice is wrong") },
		"a later message": func(w *world, s *server) string {
			id := w.chat(s)
			w.says(s, id, "My invoice is wrong")
			return id
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, &proactive.Config{Enabled: true, AssistanceIdleS: new(60)})
				defer w.close()
				s := w.start(connector.Options{})
				w.visit("/home")
				conversation := ask(w, s)
				w.desk.AgentReply(conversation, "Let me see")
				time.Sleep(20 * time.Second)
				w.pingPong()
				assert.Empty(t, w.offers(conversation))
				assert.Empty(t, w.replies(conversation), "people answer")
				assert.Equal(t, 1.0, count(t, s, "liveactivity_assistance_transitions_total", "reactive_assistance"), "once")
				time.Sleep(40 * time.Second)
				w.pingPong()
				assert.Len(t, w.offers(conversation), 1, "for assistance_idle_s at most")
			})
		})
	}
}

// Anybody can send sessions. A flood of them displaces neither a conversation's link nor its
// document, and a quiet customer's next action is noted.
func TestNotes_surviveAFloodOfSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &proactive.Config{})
		w.log = musttest.New(memorylog.New(&memorylog.Options{Retention: eventlog.Retention{StateMaxBytes: 1 << 20}}))
		w.recorder = musttest.New(eventlog.NewRecorder(w.log, nil))
		defer w.close()
		s := w.start(connector.Options{})
		w.visit("/home")
		conversation := w.chat(s)
		for n := range 2000 {
			w.visitAs(fmt.Sprint("flood", n), fmt.Sprintf("flood%d@example.com", n), "/home")
		}
		_, known, err := musttest.New(directory.New(w.log.Documents(), time.Hour)).Session(t.Context(), acme, "flood0")
		require.NoError(t, err)
		require.False(t, known, "the flood must not fit")
		w.visit("/checkout")
		time.Sleep(time.Minute)
		notes := w.desk.Notes(conversation)
		require.Len(t, notes, 2)
		require.Contains(t, notes[1], "checkout")
	})
}
