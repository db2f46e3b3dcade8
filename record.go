package liveactivity

import (
	"context"
	"errors"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/intake"
	"github.com/liveactivity/liveactivity/helpdesk/connector"
	"github.com/liveactivity/liveactivity/proactive"
)

// ErrUnknownProduct says that the service has no product of an ID.
var ErrUnknownProduct = errors.New("liveactivity: the product is unknown")

// Record takes events of a product as it takes PostHog's: it implements
// [activity.Sink], for a source of one's own, whose word makes identities at least
// Reported. Credentials in URLs are redacted, long texts are cut, and events with an ID that
// is missing or cannot be kept are ignored. Its error is [ErrUnknownProduct], or storage's, after
// which the same events are to be recorded again, unchanged.
func (s *Service) Record(ctx context.Context, productID string, events []activity.Event) (activity.Result, error) {
	if !s.products.Has(productID) {
		return activity.Result{}, ErrUnknownProduct
	}
	events, ignored := intake.Sound(events)
	for i := range events {
		e := &events[i]
		e.Standing, e.EmailStanding = max(e.Standing, activity.Reported), max(e.EmailStanding, activity.Reported)
	}
	result, err := s.recorder.Record(s.generation(ctx, productID), productID, events)
	if err == nil {
		result.Ignored = ignored
	}
	return result, err
}

// Report takes news of the assistance in a conversation that no desk tells: a dismissal, a
// step, an end. On return it is stored, and every server's next offer takes it into account. A
// report with a SessionID is of the conversation that the session is linked to. The error is
// [proactive.ErrNoConversation], a *[proactive.ReportError], or one of the storage, after which
// the report may be repeated.
func (s *Service) Report(ctx context.Context, productID string, r proactive.Report) error {
	ctx = s.generation(ctx, productID)
	of := connector.Link{Desk: r.Desk, ConversationID: r.ConversationID}
	if r.SessionID != "" {
		links, err := s.connector.Links(ctx, productID, r.SessionID)
		if err != nil {
			return err
		}
		of = links[0]
	}
	return s.connector.Report(ctx, productID, of, r.Outcome)
}
