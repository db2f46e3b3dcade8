package connector

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/internal/assistance"
	"github.com/liveactivity/liveactivity/internal/summary"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// Person identifies a person to the connector. The caller has gathered the lists; an empty list
// means that nothing of the kind is known.
type Person struct {
	UserIDs    []string
	Emails     []string // in lower case
	Address    string   // the one of Emails that named the person, empty if a user ID did
	SessionIDs []string
	Links      map[string][]Link   // made for the person, by session: each of SessionIDs, also one without a link
	Others     map[string][]string // by session: the IDs of its other users
}

// within returns the person as a conversation with that link sees them. If its record of a session that
// others share states no user, the session's link decides whether it is the person's.
func (p Person) within(l Link) Person {
	p.Others = maps.Clone(p.Others)
	for id, theirs := range p.Links {
		if others := p.Others[id]; len(others) > 0 && !slices.Contains(theirs, l) {
			p.Others[id] = append(slices.Clip(others), "")
		}
	}
	return p
}

// owns reports whether a session of a conversation, or a note of it, belongs to the person.
// userID is the user of the session or the note, empty if unknown.
func (p *Person) owns(sessionID, userID string) bool {
	return slices.Contains(p.SessionIDs, sessionID) && !slices.Contains(p.Others[sessionID], userID)
}

// is reports whether a contact is the person.
func (p *Person) is(c helpdesk.Contact) bool {
	return c.Email != "" && slices.Contains(p.Emails, strings.ToLower(c.Email)) ||
		c.UserID != "" && slices.Contains(p.UserIDs, c.UserID)
}

// isNamed reports whether a contact is the person even if the person has only claimed the other
// addresses.
func (p *Person) isNamed(c helpdesk.Contact) bool {
	named := Person{UserIDs: p.UserIDs, Emails: []string{p.Address}}
	return named.is(c)
}

// Kept is the stored data of a person's conversation.
type Kept struct {
	Link
	SessionIDs []string `json:"session_ids"` // the person's, in the order in which they were linked
	// NoteIDs are the person's notes in the conversation, including notes from before another
	// user took the session over. Summaries are the texts of the last summaries, and the digests
	// of actions for the next ones.
	NoteIDs   []string `json:"note_ids"`
	Summaries []string `json:"summaries"`
	// Actions wait for the next summary, Messages of the contact for an answer.
	Actions  []summary.Action `json:"actions"`
	Messages []message        `json:"messages"`
	// Deliveries are requests to the desk that are under way.
	Deliveries []Delivery `json:"deliveries"`
	// Assistance is the state of proactive help with the last offer, null without any.
	Assistance *assistance.Machine `json:"assistance"`
}

// Delivery is a request to a desk that is under way: a note, a summary, a reply, a
// redaction or a look-up.
type Delivery struct {
	Kind  string    `json:"kind"`
	Begun time.Time `json:"begun,omitzero"`
}

// Kept returns the stored data of a person's conversations, and the links that wait for the
// person. Neither is nil. It changes nothing. A conversation may hold the sessions of several
// people: only the person's are returned, but all of the messages.
func (c *Connector) Kept(ctx context.Context, productID string, of Person) ([]Kept, []Waiting, error) {
	records, _, of, err := c.store.conversationsOf(ctx, productID, of)
	if err != nil {
		return nil, nil, err
	}
	all := []Kept{}
	for _, r := range records {
		all = append(all, r.kept(of.within(r.link())))
	}
	links, _, err := c.store.waitingOf(ctx, productID, of)
	return all, append([]Waiting{}, links...), err
}

// Erasure is the part of a person's erasure that concerns conversations: Entries and Changes to
// commit with the rest, and counts of the removed data. Notes are counted as planned.
type Erasure struct {
	Entries                                 []eventlog.Entry
	Changes                                 []document.Change
	Conversations, NotesRedacted, NotesLeft int
}

// Erase plans the erasure of a person: of links, waiting links, material for summaries, replies
// and offers, and writes under way. With redact, the notes of the person's sessions are redacted
// if the desk can redact.
//
// It changes nothing itself. The caller commits the Entries and Changes in one append, with the
// erasure of everything else. If a conversation has changed since, the append fails with a
// *document.ConflictError, and the erasure has to be planned again. The append stores the
// redactions; the holder of the lease makes them, as long as it takes.
func (c *Connector) Erase(ctx context.Context, productID string, of Person, redact bool) (Erasure, error) {
	var plan Erasure
	product, _, err := c.products.Product(productID)
	if err != nil {
		return plan, err
	}
	records, others, of, err := c.store.conversationsOf(ctx, productID, of)
	if err != nil {
		return plan, err
	}
	for i := range others {
		put, _, err := c.store.change(&others[i])
		if err != nil {
			return plan, err
		}
		plan.Changes = append(plan.Changes, put)
	}
	for i := range records {
		desk, _ := product.find(records[i].link().Desk)
		can := desk.capabilities()
		if !redact {
			can.Redactor = nil
		}
		if err := plan.conversation(c.store, &records[i], of.within(records[i].link()), can); err != nil {
			return plan, err
		}
	}
	links, docs, err := c.store.waitingOf(ctx, productID, of)
	for i, w := range links {
		plan.Changes = append(plan.Changes, document.Delete(docs[i]))
		gone := notice{Type: noticeType, Link: linkOf(w.Conversation), Gone: docs[i].Name}
		plan.Entries = append(plan.Entries, gone.entry())
	}
	return plan, err
}

// conversation plans the erasure of a person from a conversation. A note in doubt is counted as
// well: as redacted if the desk can look for it, else as left. Without a Redactor all notes
// stay.
func (plan *Erasure) conversation(s *store, r *record, of Person, can helpdesk.Capabilities) error {
	doubt, redacts := r.doubts(of), can.Redactor != nil
	notes := r.erase(of, redacts)
	if redacts {
		plan.NotesRedacted += notes
	} else {
		plan.NotesLeft += notes
	}
	switch {
	case doubt && redacts && can.Finder != nil:
		plan.NotesRedacted++
	case doubt:
		plan.NotesLeft++
	}
	put, _, err := s.change(r) // the document exists, so there is a change
	if err != nil {
		return err
	}
	plan.Changes = append(plan.Changes, put)
	plan.Conversations++
	plan.Entries = append(plan.Entries, notice{Type: noticeType, Link: r.link()}.entry())
	return nil
}

// doubts reports whether the note in the outbox is the person's and may be at the desk.
func (c *conversation) doubts(of Person) bool {
	w := c.Writing
	return w != nil && !w.Erased && w.Text != "" && of.owns(w.Session, w.UserID)
}

// erase removes a person's sessions and messages from the conversation, and everything else once
// no session is left. It returns how many notes of the person are known to be at the desk. With
// redact these are to be redacted, and so is the person's note in the outbox, once it is found.
// A session that another user has taken over, or had before, stays with that user.
func (c *conversation) erase(of Person, redact bool) (notes int) {
	var ids []string
	var left []session
	for _, s := range c.Sessions {
		ids = append(ids, s.notesOf(of)...)
		if s.erase(of) {
			left = append(left, s)
		}
	}
	c.Sessions = left
	c.forget(of)
	if w := c.Writing; w != nil && !w.Erased && of.owns(w.Session, w.UserID) {
		if c.Writing = nil; redact && w.Text != "" {
			c.Writing = &writing{Session: w.Session, UserID: w.UserID, Text: w.Text, Begun: w.Begun, Erased: true}
		}
	}
	if redact {
		c.Redact = append(slices.Clip(c.Redact), ids...)
	}
	if len(c.Sessions) == 0 {
		*c = conversation{Redact: c.Redact, Writing: c.Writing}
	}
	return len(ids)
}

// notesOf returns the IDs of a person's notes of the session, earlier ones first.
func (s *session) notesOf(of Person) (ids []string) {
	for _, n := range s.Former {
		if of.owns(s.ID, n.UserID) {
			ids = append(ids, n.ID)
		}
	}
	for _, n := range s.Notes {
		if of.owns(s.ID, s.UserID) {
			ids = append(ids, n.ID)
		}
	}
	return ids
}

// erase removes a person from a session. It reports whether the session stays because it is
// another user's, or because the conversation has notes of another user.
func (s *session) erase(of Person) (stays bool) {
	s.Former = slices.DeleteFunc(slices.Clone(s.Former), func(n formerNote) bool { return of.owns(s.ID, n.UserID) })
	s.dropOther(&of)
	if !of.owns(s.ID, s.UserID) {
		return true
	}
	if len(s.Former) == 0 {
		return false
	}
	s.Notes, s.Contact = nil, helpdesk.Contact{}
	s.passTo(s.Former[len(s.Former)-1].UserID)
	return true
}

// dropOther removes a person from the session's other users, and reports whether it was one.
func (s *session) dropOther(of *Person) bool {
	known := len(s.Others)
	s.Others = slices.DeleteFunc(slices.Clone(s.Others), func(id string) bool { return slices.Contains(of.UserIDs, id) })
	return len(s.Others) < known
}

// forget removes a person's messages and look-up. Messages without an author, offers and replies
// belong to the participants whose sessions are linked. If only strangers' sessions are left,
// they belonged to the person and are removed.
func (c *conversation) forget(of Person) {
	owned := c.owned()
	c.Messages = slices.DeleteFunc(slices.Clone(c.Messages), func(m message) bool {
		return of.is(m.Contact) || !owned && m.Contact == (helpdesk.Contact{})
	})
	if c.Contact != nil && of.is(helpdesk.Contact{UserID: c.Contact.UserID}) {
		c.Contact = nil
	}
	if !owned {
		c.Contact, c.Said, c.Machine = nil, nil, nil
	}
}

// conversationsOf reads the conversations of a person's sessions. A conversation is kept for longer
// than its sessions are known, so it reads all conversations of the product, and adds the sessions
// that are the person's by the conversation's own record to the Person that it returns. An address
// leads to these only if it named the person: anybody may have claimed it. Of the conversations of others
// it returns those with a session that the person used before, already without the person.
func (s *store) conversationsOf(ctx context.Context, productID string, of Person) (
	records, others []record, _ Person, err error) {
	known, mayName, links := of.SessionIDs, of.mayName(), slices.Concat(slices.Collect(maps.Values(of.Links))...)
	of.SessionIDs, of.Others = slices.Clip(of.SessionIDs), maps.Collect(maps.All(of.Others))
	err = document.Each(ctx, s.docs, productID, conversationPrefix, func(doc document.Document) {
		linked := slices.ContainsFunc(links, func(l Link) bool { return l.documentName() == doc.Name })
		if !linked && !mayName(doc.Value) {
			return
		}
		switch r := recordOf(doc); {
		case r.adds(&of, known), linked:
			records = append(records, r)
		case r.dropOther(&of):
			others = append(others, r)
		}
	})
	return records, others, of, err
}

// mayName returns a function that reports whether a conversation's document may name the person. That
// takes far less time than decoding it, and a product may have tens of thousands.
func (p *Person) mayName() func(value []byte) bool {
	quote := func(text string) []byte {
		quoted, _ := json.Marshal(text) // as in the document; strings can always be encoded
		return quoted
	}
	address := quote(p.Address)
	return func(value []byte) bool {
		hasID := func(id string) bool { return bytes.Contains(value, quote(id)) }
		return slices.ContainsFunc(p.UserIDs, hasID) || p.Address != "" && bytes.Contains(bytes.ToLower(value), address)
	}
}

// adds adds the person's sessions of a conversation, except the known ones, whose conversations are
// the person's links. It reports whether the conversation itself shows that it has data of the
// person.
func (c *conversation) adds(of *Person, known []string) (found bool) {
	for i := range c.Sessions {
		s := &c.Sessions[i]
		if slices.Contains(known, s.ID) {
			continue
		}
		var others []string
		if !s.isOf(of) {
			others = append(others, s.UserID)
		}
		for _, n := range s.Former {
			if !slices.Contains(of.UserIDs, n.UserID) {
				others = append(others, n.UserID)
			}
		}
		if len(others) > len(s.Former) {
			continue // all of it is other people's
		}
		of.SessionIDs, found = append(of.SessionIDs, s.ID), true
		of.Others[s.ID] = append(slices.Clip(of.Others[s.ID]), others...)
	}
	return found || slices.ContainsFunc(c.Messages, func(m message) bool { return of.isNamed(m.Contact) })
}

// dropOther removes a person from the other users of the sessions, and reports whether it was one.
func (c *conversation) dropOther(of *Person) (wasOne bool) {
	for i := range c.Sessions { // of a conversation that was just read
		wasOne = c.Sessions[i].dropOther(of) || wasOne
	}
	return wasOne
}

// isOf reports whether the session's user is the person. A contact's address shows that only if no
// user ID does.
func (s *session) isOf(p *Person) bool {
	hasID := s.UserID != "" && len(p.UserIDs) > 0
	return slices.Contains(p.UserIDs, s.UserID) || !hasID && s.by() != byStranger && p.isNamed(s.Contact)
}

// waitingOf returns the links that wait for a person, and their documents, in the same order. It
// reads all waiting links of the product, each of which ends after MaxWait.
func (s *store) waitingOf(ctx context.Context, productID string, of Person) (links []Waiting, docs []document.Document,
	err error) {
	err = document.Each(ctx, s.docs, productID, waitingPrefix, func(doc document.Document) {
		if w, _ := decodeWaiting(doc.Value); of.is(helpdesk.Contact{Email: w.Email, UserID: w.UserID}) {
			links, docs = append(links, w), append(docs, doc)
		}
	})
	return links, docs, err
}

// kept returns a person's data in the conversation.
func (r *record) kept(of Person) Kept {
	k := Kept{Link: r.link(), SessionIDs: []string{}, NoteIDs: []string{}, Summaries: []string{},
		Actions: []summary.Action{}, Messages: append([]message{}, r.Messages...), Deliveries: []Delivery{},
		Assistance: r.Machine}
	for i := range r.Sessions {
		s := &r.Sessions[i]
		if !slices.Contains(of.SessionIDs, s.ID) {
			continue
		}
		k.SessionIDs, k.NoteIDs = append(k.SessionIDs, s.ID), append(k.NoteIDs, s.notesOf(of)...)
		if !of.owns(s.ID, s.UserID) {
			continue
		}
		k.Actions = append(k.Actions, s.Recent...)
		last := s.lastSummary()
		if last != "" {
			k.Summaries = append(k.Summaries, last)
		}
		if digest := s.Digest.Clone().String(); digest != "" && digest != last {
			k.Summaries = append(k.Summaries, digest)
		}
	}
	switch w := r.Writing; {
	case w != nil && w.Summary != nil:
		k.Deliveries = append(k.Deliveries, Delivery{"summary", w.Begun})
	case w != nil:
		k.Deliveries = append(k.Deliveries, Delivery{"note", w.Begun})
	}
	for _, m := range r.Messages {
		if m.Reply != "" {
			k.Deliveries = append(k.Deliveries, Delivery{"reply", m.Begun})
		}
	}
	for range r.Redact {
		k.Deliveries = append(k.Deliveries, Delivery{Kind: "redaction"})
	}
	if r.Contact != nil {
		k.Deliveries = append(k.Deliveries, Delivery{"contact", r.Contact.At})
	}
	return k
}
