package liveactivity

import (
	"context"
	"errors"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/intake"
	"github.com/liveactivity/liveactivity/helpdesk/connector"
	"github.com/liveactivity/liveactivity/proactive"
)

// ErrUnknownProduct reports that the service has no product with that ID. Record, Erase and Export return
// it; the other methods find nothing then.
var ErrUnknownProduct = errors.New("liveactivity: the product is unknown")

// Record records events of a product from a source of your own. It implements [activity.Sink].
// Identities have at least the standing Reported. Credentials in URLs are redacted, long texts are
// cut, and events with a missing or invalid ID are ignored. The error is [ErrUnknownProduct] or a
// storage error. After a storage error, record the same events again, unchanged.
func (s *Service) Record(ctx context.Context, productID string, events []activity.Event) (activity.Result, error) {
	if _, err := s.productOf(productID); err != nil {
		return activity.Result{}, err
	}
	events, ignored := intake.Sound(events)
	for i := range events {
		e := &events[i]
		e.Standing, e.EmailStanding = max(e.Standing, activity.Reported), max(e.EmailStanding, activity.Reported)
	}
	result, err := s.recorder.Record(s.withGeneration(ctx, productID), productID, events)
	if err != nil {
		ignored = nil // until the events are recorded again
	}
	for _, n := range ignored {
		result.Ignored += n
	}
	s.intake.Count(productID, result, ignored)
	return result, err
}

// Report records progress of the assistance in a conversation that desks do not report: a dismissal, a
// step or an end. When it returns, the report is stored, and the next offer of any server takes it
// into account. A report with a SessionID applies to the conversation that the session is linked to.
// The error is [proactive.ErrNoConversation], a *[proactive.ReportError] or a storage error, after
// which the report may be repeated.
func (s *Service) Report(ctx context.Context, productID string, r proactive.Report) error {
	ctx = s.withGeneration(ctx, productID)
	of := connector.Link{Desk: r.Desk, ConversationID: r.ConversationID}
	if r.SessionID != "" {
		known, err := s.dir.Sessions(ctx, productID, r.SessionID)
		if err != nil {
			return err
		}
		of = connector.Link{Desk: known[0].Desk, ConversationID: known[0].ConversationID}
	}
	return s.connector.Report(ctx, productID, of, r.Outcome)
}
