package agentview

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/agent"
	"github.com/liveactivity/liveactivity/activity/directory"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/helpdesk/connector"
)

// know reads the person's sessions: the sessions in the query, the conversation and the
// actions. It removes others' actions.
func (r *reading) know() error {
	ids := r.ids
	if id := r.query.SessionID; id != "" {
		ids = []string{id}
	}
	for i := range slices.Backward(r.seen) {
		if id := r.seen[i].Session; id != "" && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	known, err := r.view.dir.Sessions(r.ctx, r.productID, ids...)
	if err != nil {
		return err
	}
	r.sessions = make(map[string]directory.Session, len(ids))
	for i, id := range ids {
		r.sessions[id] = known[i]
	}
	// Do this before ordering the sessions, which depends on the remaining
	// actions.
	if r.query.SessionID != "" {
		r.keepOwn(r.sessions[r.query.SessionID])
	}
	r.ids = r.ordered(ids)
	return r.address()
}

// keepOwn removes the actions of a session's other users: the person is the session's current
// user. In a session whose standing is above claimed, any other user except a mere visitor only
// claims to be there. This call owns seen and may modify it.
func (r *reading) keepOwn(s directory.Session) {
	r.userID = s.UserID
	identified := s.Identified()
	r.seen = slices.DeleteFunc(r.seen, func(a recent.Record) bool {
		return a.User != s.UserID && (slices.Contains(identified, a.User) ||
			s.Standing > activity.Claimed && a.User != "" && !directory.IsVisitor(a.User))
	})
}

// ordered returns the sessions about which anything is known, the one seen last at the
// end. Sessions without actions come first, by ID.
func (r *reading) ordered(ids []string) []string {
	last := make(map[string]int64, len(ids))
	for i := range r.seen {
		// A session's actions form runs: only the end of each run matters, and the last
		// run counts.
		if a := &r.seen[i]; i+1 == len(r.seen) || r.seen[i+1].Session != a.Session {
			last[a.Session] = a.Start
		}
	}
	ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
		s := r.sessions[id]
		return last[id] == 0 && s.UserID == "" && s.StatedEmail() == "" && s.Actions == 0
	})
	slices.SortFunc(ids, func(a, b string) int { return cmp.Or(cmp.Compare(last[a], last[b]), cmp.Compare(a, b)) })
	return ids
}

// address finds the person's address: the requested one, else the one in the user's newest
// session with an address, else the one recorded for the user.
func (r *reading) address() error {
	c := &r.answer
	c.Email = r.query.Email
	for _, id := range slices.Backward(r.ids) {
		if s := r.sessions[id]; c.Email == "" && s.UserID == r.userID {
			c.Email = s.Email
		}
	}
	if c.Email != "" || r.userID == "" {
		return nil
	}
	emails, err := r.view.dir.EmailsOf(r.ctx, r.productID, r.userID)
	if err == nil {
		c.Email = emails[0]
	}
	return err
}

// converse finds the person's conversation, unless the query named it: the newest
// session's with a link, if the link is the person's. The summary comes from the newest
// session that has one.
func (r *reading) converse() error {
	for _, id := range slices.Backward(r.ids) {
		s := r.sessions[id]
		if r.link.ConversationID != "" || s.ConversationID == "" {
			continue
		}
		if r.isTheirs(&s) {
			r.link = connector.Link{Desk: s.Desk, ConversationID: s.ConversationID}
		}
	}
	r.answer.ConversationID = r.link.ConversationID
	if r.link.Desk == "" {
		return nil
	}
	sessions, err := r.view.desks.Conversation(r.ctx, r.productID, r.link)
	newest := -1
	for _, l := range sessions {
		if at := slices.Index(r.ids, l.SessionID); at > newest && l.Summary != "" {
			r.answer.Summary, newest = l.Summary, at
		}
	}
	return err
}

// isTheirs reports whether a session's link is the person's. If the person is unknown, a link
// without a user is also the person's.
func (r *reading) isTheirs(s *directory.Session) bool {
	user, _, _ := s.LinkedUser(s.Desk, s.ConversationID)
	if r.userID == "" {
		return user == ""
	}
	emails := []string{strings.ToLower(r.answer.Email)}
	return slices.Contains(s.ConversationsOf([]string{r.userID}, emails),
		directory.Conversation{Desk: s.Desk, ID: s.ConversationID, UserID: user})
}

// say builds the answer from everything read so far. It reads nothing more, and the clock only
// once.
func (r *reading) say(after recent.Position) (err error) {
	now := time.Now()
	c := &r.answer
	c.ProductID, c.UserID, c.AsOf = r.productID, r.userID, activity.Seconds(now)
	c.SessionIDs = append([]string{}, r.ids...)
	standing, isKnown := r.standing()
	if c.Identity = agent.Anonymous; isKnown {
		c.Identity = standing.String()
	}
	if r.upto.Compare(after) < 0 { // everything seen by then has expired
		r.upto = after
	}
	c.Cursor = agent.NewCursor(r.productID, r.upto)
	found, last := r.asked(after), ""
	if c.Actions, err = found.Actions(); err != nil {
		return err
	}
	c.Count = len(found)
	if n := len(r.seen); n > 0 {
		last = r.seen[n-1].Session
		err = r.place(now)
	}
	c.Render(found, r.query.MaxChars, r.view.ttl, last, r.lower(standing, isKnown))
	return err
}

// lower returns the sessions whose actions have a lower standing than the person's, which the
// text must mark; "" stands for the actions outside any session, for which nobody vouches.
func (r *reading) lower(standing activity.Standing, isKnown bool) (ids []string) {
	if isKnown && standing > activity.Claimed {
		ids = append(ids, "")
	}
	for _, id := range r.ids {
		if isKnown && r.standingIn(id) < standing {
			ids = append(ids, id)
		}
	}
	return ids
}

// asked returns the newest requested actions, at most the limit. A cursor compares arrivals, so
// it misses nothing that arrives late; a time compares the actions' start. seen does not
// change.
func (r *reading) asked(after recent.Position) recent.Records {
	found := r.seen
	if q := &r.query; q.Cursor != "" || !q.Since.IsZero() {
		since := q.Since.UnixMicro()
		found = slices.DeleteFunc(slices.Clone(found), func(a recent.Record) bool {
			return q.Cursor != "" && a.Since.Compare(after) <= 0 || q.Cursor == "" && a.Start < since
		})
	}
	limit := r.query.Limit
	if limit < 1 || limit > r.view.max {
		limit = r.view.max
	}
	return found[max(0, len(found)-limit):]
}

// place sets the person's current page: the newest action's, and since when. A time in the
// future, from a clock that is ahead, counts as now.
func (r *reading) place(now time.Time) error {
	newest, err := r.seen[len(r.seen)-1:].Actions()
	if err != nil {
		return err
	}
	c := &r.answer
	c.CanonicalURL = newest[0].CanonicalURL
	c.Page = activity.PageName(c.CanonicalURL)
	came, first := r.seen.Stay()
	ago := func(micros int64) float64 { return max(0, now.Sub(time.UnixMicro(micros)).Seconds()) }
	c.OnPageS, c.HereS, c.LastSeen = ago(came), ago(first), newest[0].TimestampStart
	return nil
}

// standing returns the standing of the person's identity, the highest over all sessions: the
// address's if that was requested, else the user ID's. It returns false for an unidentified
// visitor.
func (r *reading) standing() (standing activity.Standing, isKnown bool) {
	isNamed := r.userID != "" && !r.isVisitor()
	for _, s := range r.sessions {
		switch {
		case r.query.Email != "": // the address was asked for
			if strings.EqualFold(s.Email, r.query.Email) {
				standing, isKnown = max(standing, s.EmailStanding), true
			}
		case isNamed && s.UserID == r.userID: // a session of the user
			standing, isKnown = max(standing, s.Standing), true
		case !isNamed && r.query.UserID == "" && s.Email != "": // an address that a visitor stated
			standing, isKnown = max(standing, s.EmailStanding), true
		}
	}
	found := len(r.seen) > 0 || len(r.ids) > 0
	return standing, isKnown || found && (isNamed || r.query.Email != "")
}

// isVisitor reports whether an SDK generated the user ID for a visitor: it is a UUID under
// which no session has identified its user.
func (r *reading) isVisitor() bool {
	for _, s := range r.sessions {
		if slices.Contains(s.Identified(), r.userID) {
			return false
		}
	}
	return directory.IsVisitor(r.userID)
}

// standingIn returns the person's standing in a session, the higher of user ID and
// address. It is the lowest standing if the session is not known to be the person's.
func (r *reading) standingIn(sessionID string) (standing activity.Standing) {
	s := r.sessions[sessionID]
	if r.userID != "" && s.UserID == r.userID {
		standing = s.Standing
	}
	if s.Email != "" && strings.EqualFold(s.Email, r.answer.Email) {
		standing = max(standing, s.EmailStanding)
	}
	return standing
}
