// Package proactivetest tests proactive triggers with scripts of what a user does:
//
//	func TestCheckout(t *testing.T) {
//		proactivetest.Run(t, `
//			t+0s  /cart
//			t+5s  /checkout
//			t+20s /cart        → offer back_in_cart
//			t+25s says "Yes"   → state reactive, reply
//		`, backInCart{})
//	}
//
// A script is read line by line; semicolons separate steps as well, and # begins a
// comment. A step has a time since the beginning, what happens then, and after an
// arrow (→ or ->) what is expected of it, separated by commas. Times must not
// decrease.
//
// What happens:
//
//	/pricing                 the user views a page, given as path or URL
//	click "Buy"              clicks, submits a form or changes a field
//	submit "signup"          on the page viewed last
//	change "plan"
//	says "Where is it?"      the user writes a message, or chooses a label
//	dismisses                the user dismisses the offer
//	progresses               a step of the guidance is taken
//	finishes                 the guidance is complete
//	abandons                 the user leaves the guidance
//	joins                    a teammate writes into the conversation
//	desk fails               from now on the desk can show and delete nothing
//	desk works               it can again
//	restart                  the machine is stored and restored
//
// A step without any of these lets time pass. What can be expected:
//
//	offer my_trigger         it is offered, with a label if "…" follows
//	no offer                 whatever matches
//	no offer cooldown        it matches and is not offered, for this reason
//	state thinking           or proactive, reactive, guidance, conservative
//	reply                    the message is answered
//	guide "Yes, show me"     the label that was chosen is followed up
//	removed                  the conversation is deleted
//	refused                  what happens is not possible in this state
//
// What happens at due times between two steps, such as an offer for having stayed on
// a page, belongs to the later one. An offer that is not expected is an error, and so
// is a step that is not possible. There, the offers are shown at once, and nothing
// is engaged with but by the script.
//
// It is the code that the service runs: a core, a window and a machine of package
// [github.com/liveactivity/liveactivity/proactive].
package proactivetest
