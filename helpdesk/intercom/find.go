package intercom

import (
	"context"
	"slices"
	"time"

	"github.com/liveactivity/liveactivity/helpdesk"
)

// FindNote implements [helpdesk.Finder]. It looks through the latest 500 parts.
func (c *Client) FindNote(ctx context.Context, conversationID, text, after string,
	since time.Time) (noteID string, found bool, err error) {
	return c.find(ctx, "look for note", conversationID, after, since, func(p part) bool {
		return p.Type == partNote && shows(p.Body, text)
	})
}

// FindReply implements [helpdesk.Replier]. It looks through the latest 500 parts of all types
// except notes and offers, since a comment that reopened the conversation may have a different type.
func (c *Client) FindReply(ctx context.Context, conversationID, text string, since time.Time) (found bool, err error) {
	_, found, err = c.find(ctx, "look for reply", conversationID, "", since, func(p part) bool {
		return p.Type != partNote && p.Type != partOffer && shows(p.Body, text)
	})
	return found, err
}

// FindOffer implements [helpdesk.Offerer]. It looks through the latest 500 parts.
// Intercom may not keep an offer's body: an offer without one always matches.
func (c *Client) FindOffer(ctx context.Context, conversationID string, o helpdesk.Offer,
	since time.Time) (offerID string, found bool, err error) {
	return c.find(ctx, "look for offer", conversationID, "", since, func(p part) bool {
		return p.Type != partNote && shows(p.Body, o.Body) || p.Type == partOffer && p.Body == ""
	})
}

// find returns the first of the admin's parts for which is returns true, after the one with the
// ID after or made at since or later. The parts are in Intercom's order; any match will do. If the app
// lacks the right to read, the error concerns this conversation only.
func (c *Client) find(ctx context.Context, op, conversationID, after string, since time.Time,
	is func(part) bool) (partID string, found bool, err error) {
	adminID, err := c.adminID(ctx)
	if err != nil {
		return "", false, err
	}
	read, err := c.conversation(ctx, op, conversationID)
	if err != nil {
		return "", false, lacksRight(err)
	}
	for _, p := range read.after(after, c.theirs(since)) {
		if p.by(adminID) && is(p) {
			return string(p.ID), true, nil
		}
	}
	return "", false, nil
}

// IsRequesters implements [helpdesk.Replier]. Intercom's message webhooks concern
// contacts' messages only, so it is true unless the conversation shows the message
// with another author.
func (c *Client) IsRequesters(ctx context.Context, conversationID, message string) (bool, error) {
	read, err := c.conversation(ctx, "look for message", conversationID)
	if err != nil {
		return false, lacksRight(err)
	}
	parts := append(read.Parts.Parts, part{Body: read.Source.Body, Author: read.Source.Author})
	foreign := false
	for _, p := range parts {
		if p.Body == "" || !shows(p.Body, message) {
			continue
		}
		if p.Author.isContact() {
			return true, nil
		}
		foreign = foreign || p.Type != partNote
	}
	return !foreign, nil
}

// Engaged implements [helpdesk.Remover]. It is true for anything by a contact or another
// teammate, and for any text that is not the service's own, including texts by the admin and by
// bots. It is also true if the conversation has a ticket, or if Intercom does not return it with
// all its parts, of which the offer is one: a deletion cannot be undone.
func (c *Client) Engaged(ctx context.Context, conversationID, after, offered string) (bool, error) {
	adminID, err := c.adminID(ctx)
	if err != nil {
		return false, err
	}
	read, err := c.conversation(ctx, "look for messages", conversationID)
	if err != nil {
		return false, lacksRight(err)
	}
	shown := len(read.Parts.Parts)
	hidden := string(read.ID) != conversationID || shown == 0 || shown >= maxParts || shown < read.Parts.Total
	if after == "" && (hidden || read.isOpened() || read.isLinked() || read.Rating.Remark != "") {
		return true, nil
	}
	return slices.ContainsFunc(read.after(after, time.Time{}), func(p part) bool {
		return !p.isOurs(adminID, offered)
	}), nil
}
