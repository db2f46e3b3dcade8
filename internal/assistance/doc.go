// Package assistance decides when a product's triggers lead to an offer, and tracks
// offers through to their end. It starts no goroutines, reads no clock and makes no
// requests: its functions depend only on their arguments.
//
// A [Core] holds a product's triggers. For each action it takes the session's [Window] and the
// conversation's [Machine], and returns a [Decision]: an offer, or the [Reason] why there is
// none. The caller then steps the machine, stores it, carries out the effects, and steps it
// again with each result:
//
//	d := core.Act(&window, machine, session, action, now)
//	if d.Reason == assistance.Offered {
//		machine, effects, err = core.Step(machine, now, d.Match)
//	}
//
// Call [Core.Ask] at d.Again, and step the machine with a [Tick] when [Rules.Due] says
// so. A [Replay] does the same with a log instead of a desk; "liveactivity-server
// proactive replay" prints it.
//
// # States
//
// A [Machine] is the memory of one conversation. [Rules.Step] takes an [Event] and
// returns the next machine with the effects to carry out. The moves are:
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
// Outside of proactive, a teammate's reply moves nothing, because the user may still be
// reading. Reactive lasts for 300 s after the user's last message, including the one that
// opened the conversation.
//
// An offer can be made in thinking, and in conservative 600 seconds after the first
// dismissal and 900 after the second; after the third never again. It is made at most
// once: a [Matched] event claims it before it is sent, a restart finds the claim, and if
// the desk's answer is lost the offer is looked for and never sent again. If the user
// ignores an offer, its conversation is removed: the desk deletes it first, and only then
// does the machine forget it; [Rules] can keep it. The labels of an expired offer can
// still be chosen for a while.
package assistance
