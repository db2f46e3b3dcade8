package presence

import (
	"slices"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/directory"
	"github.com/liveactivity/liveactivity/activity/sessions"
	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/helpdesk/connector"
)

// Detail is a session with its recent actions and the notes an agent would see.
type Detail struct {
	Session sessions.Session `json:"session"`
	// Recent are the newest 50 stored actions, oldest first, never nil. Their indexes
	// count over the whole session.
	Recent []activity.Action `json:"recent"`
	// By has the user ID of each of these actions, if the session had several users: live
	// activity gives each user only their own actions.
	By []string `json:"by,omitempty"`
	// Notes are the notes that these actions, except other people's, would make in the linked
	// conversation or, if there is none, at each of the product's desks. A desk has several if
	// the actions do not fit into one.
	Notes           []Note `json:"notes"`
	ConversationURL string `json:"conversation_url,omitempty"` // where agents see the linked conversation
}

// Note is a note as a desk renders it.
type Note struct {
	Desk string `json:"desk"` // empty for a product without desks
	Text string `json:"text"`
	HTML string `json:"html,omitempty"` // if the desk is a Renderer
}

// Show numbers the recent actions up to the session's last one, and fills in the notes and the
// conversation's address. The link is the session's, or empty; a link to a desk that the product no
// longer has is ignored. It calls no desk's API: notes are rendered as the desk's worker would render
// them, with the own actions.
func (d *Detail) Show(product connector.Product, link connector.Link, own []activity.Action) {
	for i := range d.Recent {
		d.Recent[i].Index = max(0, d.Session.Actions-len(d.Recent)) + i
	}
	desks := product.Desks
	if i := slices.IndexFunc(desks, func(desk connector.Desk) bool { return desk.Name == link.Desk }); i >= 0 {
		desks = desks[i : i+1]
		if addresser := desks[0].Desk.Capabilities().Addresser; addresser != nil {
			if url, ok := addresser.ConversationURL(link.ConversationID); ok {
				d.ConversationURL = url
			}
		}
	}
	d.Notes = []Note{}
	if len(desks) == 0 && len(own) > 0 {
		d.Notes = append(d.Notes, Note{Text: helpdesk.NoteText(d.Session.SessionID, own, product.Notes.Bin)})
	}
	for _, desk := range desks {
		for rest := own; len(rest) > 0; {
			n, text := helpdesk.FirstNote(desk, d.Session.SessionID, rest, product.Notes.Bin)
			rest = rest[n:]
			note := Note{Desk: desk.Name, Text: text}
			if renderer := desk.Desk.Capabilities().Renderer; renderer != nil {
				note.HTML = renderer.Render(text)
			}
			d.Notes = append(d.Notes, note)
		}
	}
}

// Own returns the recent actions, except other people's. These are the session's former users and,
// if somebody vouches for its present user, everyone else.
func (d *Detail) Own(known *directory.Session) (own []activity.Action) {
	users := known.Identified() // the present one is the last
	for i, a := range d.Recent {
		if d.By == nil || d.By[i] == "" || len(users) == 0 || d.By[i] == users[len(users)-1] ||
			known.Standing == activity.Claimed && !slices.Contains(users, d.By[i]) {
			own = append(own, a)
		}
	}
	return own
}
