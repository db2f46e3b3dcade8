package liveactivity

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/sessions"
	"github.com/liveactivity/liveactivity/helpdesk/connector"
	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/presence"
)

// Errors of reads.
var (
	// ErrNotReady reports that Run has not caught up with the log yet, or is not running, or that the
	// context of the call or the service ended first.
	ErrNotReady = presence.ErrNotReady
	// ErrUnknownSession reports that a session has no action within the retention.
	ErrUnknownSession = presence.ErrUnknownSession
)

// Types of the result of [Service.Session].
type (
	// SessionDetail is a Session with its newest 50 actions in Recent, oldest first, the Notes
	// that an agent would see, and the ConversationURL of a linked conversation.
	SessionDetail = presence.Detail
	// SessionNote is a note of a Desk as Text and, if the desk renders, as HTML.
	SessionNote = presence.Note
)

// Sessions returns the live sessions, the most recently active first, like the endpoint of that name. It
// includes everything that was accepted before the call. If Run is not running or has not caught up
// within 4 seconds, it returns [ErrNotReady]. A mistake in the query is a *[activity.QueryError].
func (s *Service) Sessions(ctx context.Context, productID string, q sessions.Query) (sessions.Listing, error) {
	ctx, cancel := context.WithTimeout(ctx, viewPatience)
	defer cancel()
	listing, err := s.presence.List(ctx, productID, q)
	if err == nil {
		_, err = s.complete(ctx, productID, listing.Sessions)
	}
	return listing, err
}

// viewPatience bounds requests that wait for the view of sessions, so that they are answered within 5 seconds.
const viewPatience = 4 * time.Second

// Session returns a live session, with or without a user, like the endpoint of that name. It waits as
// Sessions does. For a session that is not live it returns [ErrUnknownSession].
func (s *Service) Session(ctx context.Context, productID, sessionID string) (SessionDetail, error) {
	ctx, cancel := context.WithTimeout(ctx, viewPatience)
	defer cancel()
	detail, err := s.presence.Session(ctx, productID, sessionID)
	if err != nil {
		return SessionDetail{}, err
	}
	found := []sessions.Session{detail.Session}
	links, err := s.complete(ctx, productID, found)
	if err != nil {
		return SessionDetail{}, err
	}
	product, _, err := s.products.Product(productID)
	if err != nil {
		return SessionDetail{}, err
	}
	known, _, err := s.dir.Session(ctx, productID, sessionID)
	if err != nil {
		return SessionDetail{}, err
	}
	detail.Session = found[0]
	detail.Show(product, links[0], detail.Own(&known))
	return detail, nil
}

// complete fills in the conversation and the state of assistance of each session, in place, and returns
// their links by the same index. It counts erased actions that the log no longer has.
func (s *Service) complete(ctx context.Context, productID string, found []sessions.Session) ([]connector.Link, error) {
	ids := make([]string, len(found))
	for i := range found {
		ids[i] = found[i].SessionID
	}
	known, err := s.dir.Sessions(ctx, productID, ids...)
	if err != nil {
		return nil, err
	}
	links := make([]connector.Link, len(known))
	for i := range known {
		links[i] = connector.Link{Desk: known[i].Desk, ConversationID: known[i].ConversationID}
	}
	states, err := s.connector.States(ctx, productID, links...)
	if err != nil {
		return nil, err
	}
	for i := range found {
		found[i].ConversationID, found[i].State = links[i].ConversationID, string(states[i])
		found[i].Actions = max(found[i].Actions, known[i].Actions)
	}
	return links, nil
}

// serveSessions serves GET /sessions/{product_id}.
func (s *Service) serveSessions(w http.ResponseWriter, r *http.Request) error {
	limit, err := httpx.Limit(r)
	if err != nil {
		return err
	}
	query := r.URL.Query()
	listing, err := s.Sessions(r.Context(), r.PathValue("product_id"),
		sessions.Query{Limit: limit, After: query.Get("after"), Prefix: query.Get("q")})
	if err != nil {
		return queryError(err)
	}
	return httpx.WriteLive(w, listing)
}

// serveSession serves GET /sessions/{product_id}/{session_id}.
func (s *Service) serveSession(w http.ResponseWriter, r *http.Request) error {
	detail, err := s.Session(r.Context(), r.PathValue("product_id"), r.PathValue("session_id"))
	if err != nil {
		return queryError(err)
	}
	return httpx.WriteLive(w, detail)
}

// queryError returns the response to a failed read: 400 for a mistake in the query, 404 for an unknown
// session or product, else 503.
func queryError(err error) error {
	if wrong, ok := errors.AsType[*activity.QueryError](err); ok {
		return httpx.BadRequest("The query parameter %s.", wrong)
	}
	switch {
	case errors.Is(err, ErrUnknownSession):
		return httpx.NotFound("Unknown session.")
	case errors.Is(err, ErrUnknownProduct):
		return httpx.NotFound("Unknown product.")
	}
	return httpx.Unavailable(err)
}
