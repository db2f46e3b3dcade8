package proactive

import (
	"errors"
	"fmt"
)

// Report is news about the assistance in a conversation that no desk tells, such as a
// click on the close button of a page's own widget. Hand it to the service's Report.
type Report struct {
	Outcome Outcome

	// SessionID names the session whose conversation it is about. A program that knows
	// the conversation itself, such as from a Guidance, leaves it empty and sets the
	// other two.
	SessionID            string
	Desk, ConversationID string
}

// Outcome is the content of a [Report].
type Outcome string

// The outcomes. Each is possible in some states only; see [ReportError].
const (
	// Dismissed says that the user does not want the offer, or the guidance. No offer
	// is made for 10 minutes, and 5 minutes longer each further time; after the third
	// dismissal never again. A message of the user's ends that time.
	Dismissed Outcome = "dismissed"
	// Progressed says that the user took a step of the guidance, or got an answer. It
	// keeps the assistance from ending for another assistance_idle_s.
	Progressed Outcome = "progressed"
	// Finished says that the guidance is complete, or the question is settled.
	Finished Outcome = "finished"
	// Abandoned says that the user left the guidance early. No offer is made for as
	// long as after a dismissal, but it doesn't count as one.
	Abandoned Outcome = "abandoned"
)

// ErrNoConversation says that a report is about a session without a conversation, or a
// product without assistance at that desk.
var ErrNoConversation = errors.New("proactive: no conversation with assistance")

// ReportError says that a report does not fit the state of the assistance, which is
// unchanged. A retry is of no use.
type ReportError struct {
	Outcome Outcome
	State   string // such as "thinking"
}

func (e *ReportError) Error() string {
	return fmt.Sprintf("proactive: %s is not possible in %s", e.Outcome, e.State)
}
