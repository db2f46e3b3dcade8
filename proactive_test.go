package liveactivity_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/helpdesk/helpdesktest"
	"github.com/liveactivity/liveactivity/internal/redistest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/proactive"
)

// offering switches acme's offers on, which expire after two seconds.
func offering(o *liveactivity.Options) {
	timeout := 2
	o.Products[0].IntegrationConfig.Proactive = &proactive.Config{Enabled: true, Body: "Need a hand?",
		ReplyOptionLabels: []string{"Yes, show me"}, InteractionTimeoutS: &timeout}
}

// The whole way: who goes to and fro is offered help in the conversation that is
// open, once, although every page is reported many times at once and at every server;
// and the conversation ends when it is ignored. On every storage.
func TestProactive_offersHelpOnce(t *testing.T) {
	for name, engine := range engines(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesks()
			servers := make([]*service, 1, 2)
			if engine.many {
				redis := redistest.Start(t).URL()
				servers[0] = d.start(t, withRedis(t, redis), offering)
				servers = append(servers, d.start(t, withRedis(t, redis), offering))
			} else {
				servers[0] = d.start(t, engine.change, offering)
			}
			s := servers[0]
			s.webhook(pageview("u0", "s1", "https://app.example.com/home"))
			conversation, hook := d.intercom.Created(s.url+"/chatbot-webhook/acme", helpdesktest.IntercomContact{Email: mail}, "Hello")
			require.Equal(t, "linked", s.send(hook).says(t))
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
						at := servers[visits%len(servers)]
						reporting.Go(func() {
							assert.Equal(t, http.StatusOK, at.do(http.MethodPost, "/webhook/acme", event, "X-PostHog-Secret: "+acmeSecret).status)
						})
					}
					reporting.Wait()
				}
				return offers() > 0
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
		assert.Equal(t, http.StatusMethodNotAllowed, s.do(http.MethodGet, path, "", withAdminKey).status)
	})
	t.Run("by the model", func(t *testing.T) {
		var asked string
		s := newDesks().start(t, offering, withModel(func(prompt string) string {
			asked = prompt
			return "1. \"Compare plans\"\n- <b>2 free months</b>?\n\nTalk to sales\nOne too many"
		}))
		s.webhook(pageview("u0", "s1", "https://app.example.com/pricing"))
		assert.JSONEq(t, `{"labels":["Compare plans","b 2 free months /b ?","Talk to sales"]}`, labels(t, s))
		assert.Contains(t, asked, "- User landed on the pricing page")
	})
	t.Run("as configured where the model fails", func(t *testing.T) {
		s := newDesks().start(t, offering, func(o *liveactivity.Options) {
			o.Model = func(context.Context, string) (string, error) { return "", errors.New("away") }
		})
		s.webhook(pageview("u0", "s1", "https://app.example.com/pricing"))
		assert.JSONEq(t, `{"labels":["Yes, show me"]}`, labels(t, s))
	})
}

func TestNew_reportsTriggersThatCannotBe(t *testing.T) {
	_, err := liveactivity.New(&liveactivity.Options{Triggers: []proactive.Trigger{nil, proactive.Predicate("", nil)}})
	require.Error(t, err)
	assert.ErrorContains(t, err, "trigger")
}
