// Package proactive offers help at the moment when a user seems to need it: a
// quick reply in the conversation that the user's session is linked to, such as
// "Need a hand?" for a user who goes back and forth between two pages.
//
// Everything in it decides and does nothing: it has no goroutine, reads no clock
// and makes no request. What it decides depends on its arguments only.
//
// # Triggers
//
// A [Trigger] recognizes a moment. It is asked after each action and sees the
// session's last two minutes. [PingPong] is on by default; [Dwell], [RageClicks],
// [RepeatedSubmits], [BackOnPricing] and [DeadEnd] can be switched on in the
// product's [Config]. One of your own has two methods, or is a function:
//
//	stuck := proactive.Predicate("stuck_at_checkout", func(c proactive.TriggerContext) bool {
//		return c.ActionCount > 40 && proactive.Under(c.Page(), "/checkout")
//	})
//	registry, err := config.Registry(stuck)
//
// [Within] limits a trigger to some pages, [Saying] gives it a text of its own, and
// one that is also [Timed] may match when nothing happens. Package
// [github.com/liveactivity/liveactivity/proactive/proactivetest] tests triggers with
// scripts:
//
//	proactivetest.Run(t, `t+0s /pricing; t+4s /docs; t+7s /pricing → offer canonical_url_ping_pong`, proactive.PingPong{})
//
// # Decisions
//
// A [Core] holds the triggers of a product. For an action it takes the [Window] of
// the session and the [Machine] of the conversation, and returns a [Decision]: an
// offer, or the [Reason] why there is none. A pattern for which an offer was made is
// used up, and each trigger has a cool-down in the conversation.
//
// # States
//
// A [Machine] is what is remembered of a conversation. [Rules.Step] takes an [Event] and
// returns the machine that follows and the effects to carry out:
//
//	              offer shown                 label chosen
//	┌──────────┐ ────────────▶ ┌───────────┐ ────────────▶ ┌──────────┐
//	│ thinking │               │ proactive │               │ guidance │
//	└──────────┘ ◀──────────── └───────────┘               └──────────┘
//	                ignored      │       │
//	                   dismissed │       │ any other message
//	                             ▼       ▼
//	              ┌──────────────┐       ┌──────────┐
//	              │ conservative │       │ reactive │
//	              └──────────────┘       └──────────┘
//
// These are all the moves:
//
//	thinking      → proactive      an offer is shown
//	              → reactive       the user writes
//	              → conservative   the user dismisses an offer that has expired
//	proactive     → guidance       the user chooses a label
//	              → reactive       the user writes anything else, or a teammate writes
//	              → conservative   the user dismisses the offer
//	              → thinking       the user ignores the offer
//	guidance      → thinking       it is complete, or nothing has happened for 300 s
//	              → reactive       the user writes
//	              → conservative   the user dismisses or abandons it
//	reactive      → thinking       the question is settled, or nothing has happened for 300 s
//	              → guidance       the user chooses a label after all
//	conservative  → thinking       its cool-down is over and an offer is shown again
//	              → reactive       the user writes
//
// An offer can be made in thinking, and in conservative 600 seconds after the
// first dismissal and 900 after the second; after the third never again. It is
// made at most once: a [Matched] event claims it before it is sent, a restart finds
// the claim, and what may have been sent is looked for and never sent again. An
// offer that is ignored ends with its conversation: that is deleted first, and
// forgotten only when this has succeeded; [Rules] can keep it. Its labels can still
// be chosen for a while.
//
// # Around it
//
// Package [github.com/liveactivity/liveactivity/proactive/assist] makes the offers. It
// keeps a window for each session in memory and a machine for each conversation in
// storage, and does in this order: decide, step, store the machine by compare-and-set,
// carry out the effects, step with what came of them.
//
//	d := core.Act(&window, machine, session, action, now)
//	if d.Reason == proactive.Offered {
//		machine, effects, err = core.Step(machine, now, d.Match)
//	}
//
// [Core.Ask] is due at d.Again, and a [Tick] when [Rules.Due] says. A [Replay] does the
// same with a log instead of time, so that triggers can be tuned on what users did
// before any of them sees an offer; the command "liveactivity-server proactive replay"
// prints it.
package proactive
