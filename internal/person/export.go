package person

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/helpdesk/connector"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// Export is all data about a person. Its lists are never nil.
type Export struct {
	ProductID string    `json:"product_id"`
	UserIDs   []string  `json:"user_ids"`
	Emails    []string  `json:"emails"` // in lower case
	AsOf      float64   `json:"as_of"`  // epoch seconds
	Sessions  []Session `json:"sessions"`
	// Actions are the actions outside any session.
	Actions       []activity.Action   `json:"actions"`
	Conversations []connector.Kept    `json:"conversations"`
	WaitingLinks  []connector.Waiting `json:"waiting_links"`
	// Log holds the entries of the stream, oldest first, without others' actions.
	Log []json.RawMessage `json:"log"`
	// LogTruncated means that newer entries are left out: Log holds at most 24
	// MiB.
	LogTruncated bool `json:"log_truncated,omitempty"`

	// logBytes is the size of Log so far.
	logBytes int
}

const maxLog = 24 << 20 // bytes of the log in an export

// Session is a session in an [Export]. The identity applies to the whole
// session.
type Session struct {
	SessionID      string            `json:"session_id"`
	UserID         string            `json:"user_id"`
	Identity       string            `json:"identity"` // the standing of the user ID
	Email          string            `json:"email"`
	EmailIdentity  string            `json:"email_identity"` // the standing of the address
	Desk           string            `json:"desk,omitempty"`
	ConversationID string            `json:"conversation_id,omitempty"`
	Shared         bool              `json:"shared,omitempty"` // others also acted in it; their actions are left out
	Actions        []activity.Action `json:"actions"`          // oldest first
}

// Export returns a person's data, which may or may not include data that arrives during the
// call. After an error the export is incomplete.
func (p *People) Export(ctx context.Context, productID string, q Query) (*Export, error) {
	f, err := p.find(ctx, productID, q)
	if err != nil {
		return nil, err
	}
	e := &Export{ProductID: productID, UserIDs: append([]string{}, f.userIDs...), Emails: append([]string{}, f.emails...),
		AsOf: activity.Seconds(time.Now()), Sessions: []Session{}, Log: []json.RawMessage{}}
	if e.Actions, err = f.outside.Actions(); err != nil {
		return nil, fmt.Errorf("person: %w", err)
	}
	for i := range f.sessions {
		s, err := f.sessions[i].export(f)
		if err != nil {
			return nil, fmt.Errorf("person: %w", err)
		}
		e.Sessions = append(e.Sessions, s)
	}
	if e.Conversations, e.WaitingLinks, err = p.Desks.Kept(ctx, productID, f.links()); err != nil {
		return nil, fmt.Errorf("person: %w", err)
	}
	return e, p.readLog(ctx, productID, f.erasures(productID), e)
}

// export omits the identity if the session's user is somebody else.
func (s *session) export(f *found) (out Session, err error) {
	out = Session{SessionID: s.id, Shared: s.isShared()}
	if k := &s.known; f.hasUser(k.UserID) || !s.isShared() {
		out.UserID, out.Identity = k.UserID, k.Standing.String()
		out.Email, out.EmailIdentity = k.Email, k.EmailStanding.String()
		out.Desk, out.ConversationID = k.Desk, k.ConversationID
	}
	out.Actions, err = f.own(s).Actions()
	return out, err
}

// readLog adds the person's entries of the log to an export, oldest first. Reading gigabytes takes longer
// than a request, so it ignores the end of ctx.
func (p *People) readLog(ctx context.Context, productID string, erasures []*feed.Erasure, e *Export) error {
	for page, err := range eventlog.Pages(context.WithoutCancel(ctx), p.Log, productID) {
		if err != nil {
			return fmt.Errorf("person: read the log: %w", err)
		}
		for i := range page {
			if err := e.addEntry(&page[i], erasures); err != nil {
				return fmt.Errorf("person: %w", err)
			}
		}
		if e.LogTruncated {
			break
		}
	}
	return nil
}

// addEntry adds the person's part of an entry. Once maxLog is exceeded it adds nothing
// and sets LogTruncated.
func (e *Export) addEntry(entry *eventlog.Entry, erasures []*feed.Erasure) error {
	b, err := entry.Decode()
	if err != nil || b == nil {
		return err
	}
	part := feed.PartOf(b, erasures...)
	if part == nil {
		return nil
	}
	data, err := part.AppendJSON(nil)
	if err != nil {
		return err
	}
	if e.logBytes += len(data); e.logBytes > maxLog {
		e.LogTruncated = true
		return nil
	}
	e.Log = append(e.Log, data)
	return nil
}
