// Package proactive offers help at the moment when a user seems to need it: a
// quick reply in the conversation that the user's session is linked to, such as
// "Need a hand?" for a user going back and forth between two pages.
//
// A [Trigger] recognizes the moment. Pass yours to the service:
//
//	stuck := proactive.Predicate("stuck_at_checkout", func(c proactive.TriggerContext) bool {
//		return len(c.Actions) > 20 && proactive.Under(c.Page(), "/checkout")
//	})
//	service, err := liveactivity.New(&liveactivity.Options{
//		Products: products, // with "proactive": {"enabled": true}
//		Triggers: []proactive.Trigger{stuck},
//	})
//
// # Triggers
//
// A trigger is evaluated after each action and sees the session's last two minutes. It has
// two methods, or is a [Predicate]. [Within] limits it to some pages and [Saying] changes its
// text; a [Timed] trigger may also match while nothing happens. The triggers of this package
// are [PingPong], which is on by default, [Dwell], [RageClicks], [RepeatedSubmits],
// [BackOnPricing], [DeadEnd], [ErrorSeen] and [DeadClick]; the product's [Config] lists the
// ones to use. Package [github.com/liveactivity/liveactivity/proactive/proactivetest] tests
// triggers with scripts:
//
//	proactivetest.Run(t, `
//		t+0s /pricing; t+4s /docs
//		t+7s /pricing → offer canonical_url_ping_pong`, proactive.PingPong{})
//
// # Offers
//
// An offer is made at most once, within ten seconds of the action that triggered it. The
// actions that triggered it are consumed, and the trigger cools down in that
// conversation. Choosing one of the labels leads to guidance; any other message is
// answered. An ignored offer is deleted together with its conversation if nobody ever wrote
// there, unless [KeepOnIdle] is set. After the first dismissal no offer is made for ten
// minutes, after the second for fifteen, or until a message of the user is dealt with; after
// the third no offer is ever made again.
//
// The command "liveactivity-server proactive replay" runs the triggers over a log, so you
// can tune them before any user sees an offer.
package proactive
