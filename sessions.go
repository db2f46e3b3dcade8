package liveactivity

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/activity/sessions"
	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/helpdesk/connector"
	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/options"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// presence is the view of the log that knows who is there now. Every server has its
// own, of all products.
type presence struct {
	*sessions.Memory
	log     eventlog.Log
	version func(productID string) (document.Version, bool) // see [registry.Registry.Version]
	stopped <-chan struct{}                                 // closed when the service begins to stop

	mu       sync.Mutex
	products map[string]*followed
}

// followed is how far a product's log is followed. A product that is registered
// anew is followed from the start.
type followed struct {
	version document.Version
	restart context.CancelFunc
	decoded []sessions.Entry // memory for what take decodes
	cursor  eventlog.ID
	moved   chan struct{} // closed when the cursor moves
}

// newPresence returns a presence over the service's log.
func (s *Service) newPresence(o *Options) (*presence, error) {
	wrong := options.Mistakes{Package: "liveactivity"}
	held, err := sessions.NewMemory(&sessions.MemoryOptions{TTL: o.Retention.TTL, MaxBytes: o.Retention.StateMaxBytes / 8})
	wrong.Add(err)
	return &presence{Memory: held, log: s.engine, version: s.products.Version, stopped: s.stopping, products: map[string]*followed{}}, wrong.Err()
}

// errSuperseded says that a product is followed anew.
var errSuperseded = errors.New("liveactivity: the product is followed anew")

// follow is a [View].
func (p *presence) follow(ctx context.Context, productID string, source *eventlog.Source) error {
	for {
		following, restart := context.WithCancel(ctx)
		f := p.begin(productID, restart)
		err := source.Entries(following, eventlog.ID{}, func(entries []eventlog.Entry) error { return p.take(productID, f, entries) })
		restarted := following.Err() != nil
		restart()
		switch {
		case ctx.Err() != nil:
			p.end(productID, f)
			return ctx.Err()
		case !restarted:
			return err
		}
	}
}

// begin forgets what was known of a product.
func (p *presence) begin(productID string, restart context.CancelFunc) *followed {
	version, _ := p.version(productID)
	f := &followed{version: version, restart: restart, moved: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	if before, ok := p.products[productID]; ok {
		close(before.moved)
	}
	p.products[productID] = f
	p.Drop(productID)
	return f
}

// end forgets a product that is followed no more, unless it is followed anew.
func (p *presence) end(productID string, f *followed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.products[productID] == f {
		delete(p.products, productID)
		close(f.moved)
		p.Drop(productID)
	}
}

// take takes over entries of the log.
func (p *presence) take(productID string, f *followed, entries []eventlog.Entry) error {
	decoded := f.decoded[:0]
	for i := range entries {
		if b, err := entries[i].Decode(); err == nil && b != nil && b.SessionID != "" {
			decoded = append(decoded, sessions.NewEntry(sessions.Position(entries[i].ID), b))
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.products[productID] != f {
		return errSuperseded
	}
	p.Add(productID, decoded...)
	clear(decoded) // it must not keep what is evicted
	f.decoded = decoded
	f.cursor = entries[len(entries)-1].ID
	close(f.moved)
	f.moved = make(chan struct{})
	return nil
}

// passedEvery is how often it is looked at whether entries were trimmed that are
// waited for.
const passedEvery = 100 * time.Millisecond

// await returns when everything is known that the log of a product held at the
// call.
func (p *presence) await(ctx context.Context, productID string) error {
	bounds, err := p.log.Bounds(ctx, productID)
	if err != nil {
		return fmt.Errorf("liveactivity: read sessions: %w", err)
	}
	until := bounds.Newest
	for {
		known, moved := p.knows(productID, until, bounds.TrimmedTo)
		if known {
			return nil
		}
		select {
		case <-ctx.Done():
			return ErrNotReady
		case <-p.stopped:
			return ErrNotReady
		case <-moved: // never when nil
		case <-time.After(passedEvery):
			if bounds, err = p.log.Bounds(ctx, productID); err != nil {
				return fmt.Errorf("liveactivity: read sessions: %w", err)
			}
		}
	}
}

// knows reports whether the log is known up to an ID, or what is not was trimmed
// up to what the log is trimmed to. If not, the channel is closed when that may have changed.
func (p *presence) knows(productID string, until, trimmedTo eventlog.ID) (known bool, moved <-chan struct{}) {
	version, served := p.version(productID)
	p.mu.Lock()
	defer p.mu.Unlock()
	f, ok := p.products[productID]
	switch {
	case !served: // there is nothing to know
		return true, nil
	case !ok:
		return false, nil
	case f.version != version:
		f.restart()
		return false, f.moved
	}
	return f.cursor.Compare(until) >= 0 || trimmedTo.Compare(until) >= 0, f.moved
}

// Sessions returns who is there now, the session seen last first, like the endpoint
// of that name. It knows what was accepted before the call. While Run does not run
// or is behind with its log it returns [ErrNotReady], after 4 seconds at most; a
// mistake in the query is a *[sessions.QueryError].
func (s *Service) Sessions(ctx context.Context, productID string, q sessions.Query) (sessions.Listing, error) {
	ctx, cancel := context.WithTimeout(ctx, sessionsPatience)
	defer cancel()
	if err := s.presence.await(ctx, productID); err != nil {
		return sessions.Listing{}, err
	}
	listing, err := s.presence.List(productID, q, time.Now())
	if err == nil {
		_, err = s.complete(ctx, productID, listing.Sessions)
	}
	return listing, err
}

// sessionsPatience is how long a request for sessions may take, so that it is
// answered within 5 seconds.
const sessionsPatience = 4 * time.Second

// SessionDetail is a session, what it did of late, and what an agent sees of that.
type SessionDetail struct {
	Session sessions.Session  `json:"session"`
	Recent  []activity.Action `json:"recent"` // the newest 50 actions that are kept, oldest first, never nil; the index counts over the session
	// Notes are what would be written of these actions into the linked
	// conversation or, without one, at each desk of the product: several for a
	// desk where they do not fit into one.
	Notes           []SessionNote `json:"notes"`
	ConversationURL string        `json:"conversation_url,omitempty"` // where agents see the linked conversation
}

// SessionNote is a note as a desk renders it.
type SessionNote struct {
	Desk string `json:"desk"` // empty for a product without desks
	Text string `json:"text"`
	HTML string `json:"html,omitempty"` // of a desk that is capable of it
}

// ErrUnknownSession says that a session did nothing within the retention.
var ErrUnknownSession = errors.New("liveactivity: the session is unknown")

// Session returns a session that is there now, like the endpoint of that name, also
// that of a visitor without user id. It waits as Sessions does. Its error is
// [ErrUnknownSession] for a session that is not there.
func (s *Service) Session(ctx context.Context, productID, sessionID string) (SessionDetail, error) {
	ctx, cancel := context.WithTimeout(ctx, sessionsPatience)
	defer cancel()
	if err := s.presence.await(ctx, productID); err != nil {
		return SessionDetail{}, err
	}
	session, at, ok := s.presence.Session(productID, sessionID, time.Now())
	if !ok {
		return SessionDetail{}, ErrUnknownSession
	}
	recent, err := s.presence.read(ctx, productID, at)
	if err != nil {
		return SessionDetail{}, err
	}
	found := []sessions.Session{session}
	links, err := s.complete(ctx, productID, found)
	if err != nil {
		return SessionDetail{}, err
	}
	product, _, err := s.products.Product(productID)
	if err != nil {
		return SessionDetail{}, err
	}
	detail := SessionDetail{Session: found[0], Recent: recent}
	detail.show(product, links[0])
	return detail, nil
}

// show fills in what an agent sees.
func (d *SessionDetail) show(product connector.Product, link connector.Link) {
	desks := product.Desks
	if i := slices.IndexFunc(desks, func(desk connector.Desk) bool { return desk.Name == link.Desk }); i >= 0 {
		desks = desks[i : i+1]
		if addresser := desks[0].Desk.Capabilities().Addresser; addresser != nil {
			if url, ok := addresser.ConversationURL(link.ConversationID); ok {
				d.ConversationURL = url
			}
		}
	}
	d.Notes = []SessionNote{}
	if len(desks) == 0 && len(d.Recent) > 0 {
		d.Notes = append(d.Notes, SessionNote{Text: helpdesk.NoteText(d.Session.SessionID, d.Recent, product.Notes.Bin)})
	}
	for _, desk := range desks {
		for rest := d.Recent; len(rest) > 0; {
			n, text := helpdesk.FirstNote(desk, d.Session.SessionID, rest, product.Notes.Bin)
			rest = rest[n:]
			note := SessionNote{Desk: desk.Name, Text: text}
			if renderer := desk.Desk.Capabilities().Renderer; renderer != nil {
				note.HTML = renderer.Render(text)
			}
			d.Notes = append(d.Notes, note)
		}
	}
}

// read returns the newest actions of a session, from the entries at these positions
// that the log still holds.
func (p *presence) read(ctx context.Context, productID string, at []sessions.Position) ([]activity.Action, error) {
	actions := []activity.Action{}
	var entry [1]eventlog.Entry
	for _, position := range at {
		id := eventlog.ID(position)
		n, err := p.log.Read(ctx, productID, id.Previous(), entry[:])
		var gap *eventlog.GapError
		switch {
		case errors.As(err, &gap), errors.Is(err, eventlog.ErrClosed), err == nil && (n == 0 || entry[0].ID != id):
			continue // it was trimmed
		case err != nil:
			return nil, fmt.Errorf("liveactivity: read session: %w", err)
		}
		batch, err := entry[0].Decode()
		if err != nil {
			return nil, fmt.Errorf("liveactivity: read session: %w", err)
		}
		if batch == nil {
			continue
		}
		for _, a := range batch.Actions {
			actions = append(actions, a.Action)
		}
	}
	return sessions.Recent(actions), nil
}

// complete fills in the conversations of sessions, and what the assistance there is
// doing, and returns their links.
func (s *Service) complete(ctx context.Context, productID string, found []sessions.Session) ([]connector.Link, error) {
	if len(found) == 0 {
		return nil, nil
	}
	ids := make([]string, len(found))
	for i := range found {
		ids[i] = found[i].SessionID
	}
	links, err := s.connector.Links(ctx, productID, ids...)
	if err != nil {
		return nil, err
	}
	states, err := s.assistant.States(ctx, productID, links...)
	if err != nil {
		return nil, err
	}
	for i := range found {
		found[i].ConversationID, found[i].State = links[i].ConversationID, string(states[i])
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
	listing, err := s.Sessions(r.Context(), r.PathValue("product_id"), sessions.Query{Limit: limit, After: query.Get("after"), Prefix: query.Get("q")})
	if err != nil {
		return sessionsError(err)
	}
	w.Header().Set("Cache-Control", "no-store")
	httpx.WriteJSON(w, http.StatusOK, listing)
	return nil
}

// serveSession serves GET /sessions/{product_id}/{session_id}.
func (s *Service) serveSession(w http.ResponseWriter, r *http.Request) error {
	detail, err := s.Session(r.Context(), r.PathValue("product_id"), r.PathValue("session_id"))
	if err != nil {
		return sessionsError(err)
	}
	w.Header().Set("Cache-Control", "no-store")
	httpx.WriteJSON(w, http.StatusOK, detail)
	return nil
}

// sessionsError returns the answer to a request for sessions that failed.
func sessionsError(err error) error {
	var wrong *sessions.QueryError
	switch {
	case errors.As(err, &wrong):
		return httpx.BadRequest("The query parameter %s.", wrong)
	case errors.Is(err, ErrUnknownSession):
		return httpx.NotFound("Unknown session.")
	}
	return httpx.Unavailable(err)
}
