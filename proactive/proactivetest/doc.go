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
// comment. A step consists of a time since the beginning, an action and, after an arrow
// (→ or ->), expectations separated by commas. Times must not decrease.
//
// Actions:
//
//	/pricing                 the user views a page, given as path or URL
//	click "Buy"              clicks, submits a form or changes a field
//	submit "signup"          on the page viewed last
//	change "plan"
//	error "PaymentError"     sees an error of this type
//	event "Invoice Sent"     does a custom event
//	says "Where is it?"      the user writes a message, or chooses a label
//	dismisses                the user dismisses the offer
//	progresses               a step of the guidance is taken
//	finishes                 the guidance is complete
//	abandons                 the user leaves the guidance
//	joins                    a teammate writes into the conversation
//	desk fails               from now on the desk can neither show nor delete
//	desk works               the desk recovers
//	restart                  the machine is saved and restored
//
// A step without an action lets time pass. Expectations:
//
//	offer my_trigger         its offer is shown, with a label if "…" follows
//	no offer                 no offer is shown, even if a trigger matches
//	no offer cooldown        a trigger matches but makes no offer, for this reason
//	state thinking           or proactive, reactive, guidance, conservative
//	reply                    the message is answered
//	guide "Yes, show me"     guidance for the chosen label begins
//	removed                  the conversation is deleted
//	refused                  the action is not possible in this state
//
// An event due between two steps, such as an offer for having stayed on a page, belongs
// to the later step. An unexpected offer is an error, and so is an impossible step.
// Offers are shown immediately, and only the script reacts to them.
//
// The scripts exercise the service's own code.
package proactivetest
