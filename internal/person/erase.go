package person

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/liveactivity/liveactivity/activity/directory"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// Erased counts the data that an erasure has removed. The count is made before the commit, so
// it matches the data that the erasure found. Notes are counted as planned, since a desk may be
// down.
type Erased struct {
	Actions       int `json:"actions"`
	Sessions      int `json:"sessions"` // including those in which others also acted
	Conversations int `json:"conversations"`
	NotesRedacted int `json:"notes_redacted"`
	NotesLeft     int `json:"notes_left"`
}

// Erase removes all data about a person up to now: it appends an "erase" entry to the log,
// committed with the documents that it removes, and every view applies it. With redact it also
// blanks the notes written, if the desk can; the entry schedules that work for later. The
// commit is atomic. Erase may be repeated, and then removes the data that arrived since.
func (p *People) Erase(ctx context.Context, productID string, q Query, redact bool) (erased Erased, err error) {
	err = document.Retry(ctx, func() (err error) { // the person may act in the meantime
		erased, err = p.tryErase(ctx, productID, q, redact)
		return err
	})
	return erased, err
}

// nothing is the name of a document that never exists.
const nothing = "nothing"

// tryErase is one attempt of Erase. A *[document.ConflictError] means that a document has
// changed since the search, so the search may have missed something.
func (p *People) tryErase(ctx context.Context, productID string, q Query, redact bool) (Erased, error) {
	f, err := p.find(ctx, productID, q)
	if err != nil {
		return Erased{}, err
	}
	links := f.links()
	changes, err := p.Directory.Forget(ctx, productID, directory.Person{UserIDs: f.userIDs, Visitors: f.visitors(),
		Emails: f.emails, Address: f.address, SessionIDs: links.SessionIDs, Others: links.Others})
	if err != nil {
		return Erased{}, fmt.Errorf("person: %w", err)
	}
	plan, err := p.Desks.Erase(ctx, productID, links, redact)
	if err != nil {
		return Erased{}, fmt.Errorf("person: %w", err)
	}
	var entries []eventlog.Entry
	for _, e := range f.erasures(productID) {
		data, _ := json.Marshal(e) // of texts: it never fails
		entries = append(entries, eventlog.Entry{Data: data})
	}
	if err := p.Log.Append(ctx, productID, append(entries, plan.Entries...),
		append(changes, plan.Changes...)...); err != nil {
		return Erased{}, fmt.Errorf("person: erase: %w", err)
	}
	// An engine that can take back its last commit has the removed data until the next one.
	if _, err := p.Log.Documents().Write(ctx, productID, document.Check(document.Document{Name: nothing})); err != nil {
		return Erased{}, fmt.Errorf("person: erase: %w", err)
	}
	return Erased{Actions: f.actions(), Sessions: len(f.sessions), Conversations: plan.Conversations,
		NotesRedacted: plan.NotesRedacted, NotesLeft: plan.NotesLeft}, nil
}

// actions counts the person's actions, including those in the person's own sessions that only
// the log still has. In a shared session those cannot be attributed and are not counted.
func (f *found) actions() int {
	n := len(f.outside)
	for i := range f.sessions {
		s := &f.sessions[i]
		own := len(f.own(s))
		if !s.isShared() {
			own = max(own, s.known.Actions)
		}
		n += own
	}
	return n
}
