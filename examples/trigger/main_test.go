package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/helpdesk/helpdesktest"
	"github.com/liveactivity/liveactivity/proactive"
	"github.com/liveactivity/liveactivity/proactive/proactivetest"
)

func TestUndecided_matchesAUserWhoReturnsToTheCart(t *testing.T) {
	proactivetest.Run(t, `
		t+0s  /cart
		t+5s  click "Colour"
		t+9s  /shoes
		t+20s /cart
		t+30s /shirts      → no offer
		t+40s /cart        → offer undecided "Shipping costs"
		t+44s says "talk to somebody" → guide "Talk to somebody"
	`, undecided{})
}

func TestUndecided_excludesAUserWhoChecksOut(t *testing.T) {
	proactivetest.Run(t, `
		t+0s  /cart
		t+10s /shoes
		t+20s /cart
		t+30s /checkout/address
		t+40s /cart        → no offer
		t+50s /shoes
		t+60s /cart        → no offer
	`, undecided{})
}

// The whole way, with a fake Intercom: the user is offered help in the
// conversation, chooses a label, and the shop's own code takes over.
func TestService_asksAnUndecidedUser(t *testing.T) {
	desk := helpdesktest.NewIntercom(nil)
	t.Cleanup(desk.Close)
	product, _ := liveactivity.NewProduct("shop")
	product.IntegrationConfig.Desks = map[string]json.RawMessage{"intercom": desk.Config()}
	product.IntegrationConfig.Proactive = &proactive.Config{Enabled: true,
		AssistanceIdleS: new(1), // her question keeps offers away for that long
		Triggers:        []proactive.TriggerConfig{{ID: "undecided"}}}
	guided := make(chan proactive.Guidance, 1)
	service, err := liveactivity.New(&liveactivity.Options{
		Products: []liveactivity.Product{product}, Triggers: []proactive.Trigger{undecided{}},
		Guide: func(_ context.Context, g proactive.Guidance) error {
			select {
			case guided <- g:
			default: // it may be called again for the same answer
			}
			return nil
		}})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- service.Run(ctx) }()
	t.Cleanup(func() { stop(); assert.NoError(t, <-done) })
	web := httptest.NewServer(service.Handler())
	t.Cleanup(web.Close)

	send := func(r *http.Request) string {
		t.Helper()
		response, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer response.Body.Close()
		require.Equal(t, http.StatusOK, response.StatusCode)
		var answer struct{ Status string }
		require.NoError(t, json.NewDecoder(response.Body).Decode(&answer))
		return answer.Status
	}
	views := 0
	view := func(page string) {
		t.Helper()
		views++
		r, err := http.NewRequest(http.MethodPost, web.URL+"/webhook/shop", strings.NewReader(fmt.Sprintf(
			`{"event":"$pageview","uuid":"view `+
				`%d","distinct_id":"ada","properties":{"$session_id":"s1","$current_url":"https://shop.example%s"},`+
				`"$set":{"email":"ada@shop.example"}}`, views, page)))
		require.NoError(t, err)
		r.Header.Set("X-PostHog-Secret", product.WebhookSecret)
		send(r)
	}
	view("/")
	hooks := web.URL + "/chatbot-webhook/shop"
	conversation, hook := desk.Created(hooks, helpdesktest.IntercomContact{Email: "ada@shop.example"}, "Hello")
	require.Equal(t, "linked", send(hook))
	var offer helpdesktest.IntercomPart
	for began := time.Now(); offer.ID == ""; time.Sleep(200 * time.Millisecond) {
		require.Less(t, time.Since(began), time.Minute, "no offer was made")
		view("/cart")
		view("/shoes")
		for _, part := range desk.Parts(conversation) {
			if part.Type == "quick_reply" {
				offer = part
			}
		}
	}
	assert.Equal(t, "Is something missing?", offer.Text)
	send(desk.Replied(hooks, conversation, "shipping costs"))
	assert.Equal(t, proactive.Guidance{ProductID: "shop", Desk: "intercom", ConversationID: conversation,
		TriggerID: "undecided", Label: "Shipping costs"}, <-guided)
}
