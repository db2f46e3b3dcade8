package proactive

import (
	"errors"
	"fmt"
)

// Report is news about the assistance in a conversation that no desk reports, such as
// a click on the close button of a page's own widget. Pass it to the service's
// Report.
type Report struct {
	Outcome Outcome

	// SessionID identifies the conversation by its session. A program that knows the
	// conversation itself, such as from a Guidance, leaves it empty and sets the other
	// two.
	SessionID            string
	Desk, ConversationID string
}

// Outcome is the content of a [Report].
type Outcome string

// The outcomes. Abandoned is valid in the state guidance, Progressed and Finished in guidance and reactive,
// Dismissed in thinking, proactive and guidance; else the report is a [ReportError].
const (
	// Dismissed means that the user does not want the offer or the guidance. No offer
	// is made for 10 minutes, and 5 minutes longer each further time; after the third
	// dismissal never again. A message from the user ends that pause.
	Dismissed Outcome = "dismissed"
	// Progressed means that the user took a step of the guidance, or got an answer.
	// It keeps the assistance going for another assistance_idle_s.
	Progressed Outcome = "progressed"
	// Finished means that the guidance is complete, or the question is settled.
	Finished Outcome = "finished"
	// Abandoned means that the user left the guidance early. No offer is made for
	// as long as after a dismissal, but it doesn't count as one.
	Abandoned Outcome = "abandoned"
)

// ErrNoConversation is returned if a report's session has no conversation, or its
// product no assistance at that desk.
var ErrNoConversation = errors.New("proactive: no conversation with assistance")

// ReportError is returned for a report that does not fit the assistance's state,
// which is unchanged. A retry is pointless.
type ReportError struct {
	Outcome Outcome
	State   string // as in the list of sessions, such as "proactive_assistance"
}

func (e *ReportError) Error() string {
	return fmt.Sprintf("proactive: %s is not possible in %s", e.Outcome, e.State)
}
