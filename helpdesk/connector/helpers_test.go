package connector

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// productsFunc is a configuration.
type productsFunc func(productID string) (Product, bool, error)

func (f productsFunc) Product(productID string) (Product, bool, error) { return f(productID) }

// always is the configuration of every product.
func always(p Product) Products {
	return productsFunc(func(string) (Product, bool, error) { return p, true, nil })
}

// service records events in a log that a connector follows.
type service struct {
	*Connector
	recorder *eventlog.Recorder
}

// newService returns a service of the product over a log.
func newService(t testing.TB, log eventlog.Log, p Product, opts *Options) *service {
	t.Helper()
	if opts == nil {
		opts = &Options{Logger: slog.New(slog.DiscardHandler)}
	}
	c, err := New(log, always(p), opts)
	require.NoError(t, err)
	return &service{c, musttest.New(eventlog.NewRecorder(log, nil))}
}

// visit records that the session viewed pages now.
func (s *service) visit(t testing.TB, sessionID string, pages ...string) {
	t.Helper()
	s.visitAs(t, sessionID, "", "", time.Now(), pages...)
}

// visitAs records page views of a user at the time.
func (s *service) visitAs(t testing.TB, sessionID, userID, email string, at time.Time, pages ...string) {
	t.Helper()
	require.NoError(t, s.record(t.Context(), sessionID, userID, email, at, pages...))
}

func (s *service) record(ctx context.Context, sessionID, userID, email string, at time.Time, pages ...string) error {
	var events []activity.Event
	for _, page := range pages {
		a := activity.Action{Type: activity.TypePageview, Description: "User visited " + page}
		events = append(events, activity.Event{ID: uuid.NewString(), Time: at, ServerTime: true, SessionID: sessionID, UserID: userID, Email: email, Action: &a})
	}
	_, err := s.recorder.Record(ctx, "acme", events)
	return err
}
