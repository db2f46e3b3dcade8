// Command trigger is the service with a custom trigger: a user visiting the
// cart for the third time without going to the checkout is asked in the
// Messenger whether something is missing, and gets advice on request.
//
// It has the flags of liveactivity-server, and needs a product file whose product has
// a desk and has proactive enabled:
//
//	"intercom": {"access_token": "${INTERCOM_ACCESS_TOKEN}", "client_secret": "${INTERCOM_CLIENT_SECRET}"},
//	"proactive": {"enabled": true, "triggers": [{"id": "undecided"}, {"id": "canonical_url_ping_pong", "page": "/help"}]}
//
//	go run ./examples/trigger --config products.json
//
// Without a list of triggers, undecided comes first, followed by the default
// triggers. See main_test.go for how to test such a trigger.
package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/cmd/liveactivity-server/servercmd"
	"github.com/liveactivity/liveactivity/proactive"
)

// undecided matches at the third visit to the cart without a visit to the
// checkout.
type undecided struct{}

func (undecided) ID() string { return "undecided" }

func (undecided) Evaluate(c proactive.TriggerContext) (proactive.Result, bool) {
	visits, inCart := 0, false
	for _, url := range c.CanonicalURLs {
		switch {
		case url == "": // unknown
		case proactive.Under(url, "/checkout"):
			visits, inCart = 0, false
		case !proactive.Under(url, "/cart"):
			inCart = false
		case !inCart:
			visits, inCart = visits+1, true
		}
	}
	return proactive.Result{
		Body:              "Is something missing?",
		ReplyOptionLabels: []string{"Shipping costs", "Talk to somebody"},
		Cooldown:          10 * time.Minute,
	}, inCart && visits >= 3
}

// guide starts the help that a user chose: ask your people here, or your agent.
func guide(_ context.Context, g proactive.Guidance) error {
	slog.Info("advice is wanted", "conversation_id", g.ConversationID, "label", g.Label)
	return nil
}

func main() {
	servercmd.Main(&liveactivity.Options{Triggers: []proactive.Trigger{undecided{}}, Guide: guide})
}
