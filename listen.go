package liveactivity

import (
	"net/http"
	"slices"

	"github.com/liveactivity/liveactivity/activity/mcptool"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// listen streams to an MCP client which of its users act, until the client goes, its key is
// removed or the log is closed.
func (s *Service) listen(w http.ResponseWriter, r *http.Request, l *mcptool.Listening) error {
	return s.streams.ServeForm(w, r, l.ProductID, l.Check, notifications{l})
}

// notifications is the form of the stream of an MCP client.
type notifications struct{ *mcptool.Listening }

// Frame implements [eventlog.Form]: a user acts, or earlier actions turn out to be the user's.
// It has one event for each user of the entry, nil for an entry without any.
func (n notifications) Frame(e *eventlog.Entry) (frame []byte) {
	if who, err := e.DecodeIdentity(); err == nil && who != nil {
		return n.Acted(who.UserID)
	}
	b, err := e.Decode()
	if err != nil || b == nil {
		return nil
	}
	var users []string
	for i := range b.Actions {
		if id := b.Actions[i].UserID; id != "" && !slices.Contains(users, id) {
			users = append(users, id)
			frame = append(frame, n.Acted(id)...)
		}
	}
	return frame
}

// Gap implements [eventlog.Form]: any user may have acted.
func (n notifications) Gap(eventlog.ID) []byte { return n.All() }
