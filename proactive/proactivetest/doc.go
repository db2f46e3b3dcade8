// Package proactivetest tests proactive triggers with scripts of a user's actions:
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
// comment. A step has a time since the beginning, an action, and after an arrow (→ or ->)
// its expectations, separated by commas. Times must not decrease.
//
// Actions:
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
// A step without an action lets time pass. Expectations:
//
//	offer my_trigger         it is offered, with a label if "…" follows
//	no offer                 no trigger is offered, even if one matches
//	no offer cooldown        it matches and is not offered, for this reason
//	state thinking           or proactive, reactive, guidance, conservative
//	reply                    the message is answered
//	guide "Yes, show me"     the label that was chosen is followed up
//	removed                  the conversation is deleted
//	refused                  the action is not possible in this state
//
// An event at a due time between two steps, such as an offer for having stayed on a page,
// belongs to the later one. An offer that is not expected is an error, and so
// is a step that is not possible. Offers are shown at once, and only the script
// engages with them.
//
// The scripts run the service's own code.
package proactivetest
