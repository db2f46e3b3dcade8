package assistance

import (
	"time"

	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/proactive"
)

// Event is an input of a [Machine]: one of the types below.
type Event interface{ name() string }

// The events.
type (
	// Matched claims an offer before it is sent, so that it is made at most
	// once. It comes from a [Decision].
	Matched struct {
		Result proactive.Result
		SendBy time.Time // when the moment has passed
		used   instant   // time of the pattern's newest action
		since  instant   // up to here all actions were used when the trigger matched
	}
	// Shown reports that the claimed offer is in the conversation: it was sent,
	// or found after it was unclear whether it was sent.
	Shown struct{ OfferID string }
	// Refused reports that the offer is definitely not in the conversation: it
	// was not sent, or the desk refused it. The claim is released.
	Refused struct{}
	// Lost reports that it is unclear whether the offer was sent, and that it
	// was not found. It counts as sent and is not sent again.
	Lost struct{}
	// Message is a message from the user.
	Message struct{ Text string }
	// Engaged reports that the user or a teammate wrote into the conversation
	// after the offer.
	Engaged struct{}
	// Reported is an outcome that a program or a page reports.
	Reported proactive.Outcome
	// Removed reports that the conversation has been deleted.
	Removed struct{}
	// Tick reports that time has passed; see [Rules.Due].
	Tick struct{}
)

func (Matched) name() string    { return "matched" }
func (Shown) name() string      { return "shown" }
func (Refused) name() string    { return "refused" }
func (Lost) name() string       { return "lost" }
func (Message) name() string    { return "message" }
func (Engaged) name() string    { return "engaged" }
func (r Reported) name() string { return string(r) }
func (Removed) name() string    { return "removed" }
func (Tick) name() string       { return "tick" }

// Effect is a request of a step: one of the types below. Carry it out only after the
// machine is stored, so that no two servers carry it out.
type Effect interface{ effect() }

// The effects.
type (
	// Moved requests nothing; it is for logs and metrics.
	Moved struct{ From, To State }
	// Send asks to show an offer, unless that cannot be done in time. Answer
	// with Shown or Refused, or with nothing if the error is ambiguous: then a
	// tick asks to find the offer.
	Send struct {
		TriggerID string
		Offer     helpdesk.Offer
		SendBy    time.Time
	}
	// Find asks to look for an offer that may or may not have been sent. Answer
	// with Shown or Lost, or retry after an error.
	Find struct {
		TriggerID string
		Offer     helpdesk.Offer
		Since     time.Time // time of the claim
		After     time.Time // when the previous offer was shown; zero for none
	}
	// Remove requests that the conversation be deleted, unless somebody wrote
	// in it after the offer. Answer with Removed or Engaged, or retry after an
	// error.
	Remove struct{ OfferID string }
	// Clear asks to forget the conversation, which is gone: the machine, and
	// the sessions that belong to it.
	Clear struct{}
	// Reply requests an answer to a message from the user.
	Reply struct{ Text string }
	// Guide asks to guide the user after a label was chosen.
	Guide struct {
		TriggerID, Label string
		Metadata         map[string]string
	}
)

func (Moved) effect()  {}
func (Send) effect()   {}
func (Find) effect()   {}
func (Remove) effect() {}
func (Clear) effect()  {}
func (Reply) effect()  {}
func (Guide) effect()  {}
