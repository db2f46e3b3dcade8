package agentview

import (
	"slices"
	"strings"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/agent"
	"github.com/liveactivity/liveactivity/activity/directory"
	"github.com/liveactivity/liveactivity/activity/recent"
)

// buildAnswer builds the answer from everything read so far. It reads nothing more, and the clock only
// once.
func (r *reading) buildAnswer(after recent.Position) (err error) {
	now := r.view.Now()
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
	var last string
	found, earlier := r.requested(after)
	if c.Actions, err = found.Actions(); err != nil {
		return err
	}
	c.Count = len(found)
	if len(r.seen) > 0 {
		last, err = r.setPage(now)
	}
	c.Render(found, earlier, r.query.MaxChars, r.view.TTL, last, r.unverified(standing))
	return err
}

// unverified returns the sessions whose actions have a lower standing than the person's, which the
// text must mark; "" stands for the actions outside any session, for which nobody vouches.
func (r *reading) unverified(standing activity.Standing) (ids []string) {
	for _, id := range append([]string{""}, r.ids...) {
		if r.standingIn(id) < standing {
			ids = append(ids, id)
		}
	}
	return ids
}

// requested returns the newest requested actions, at most the limit. A cursor compares arrivals, so
// it misses nothing that arrives late; a time compares the actions' start. earlier is the number of
// actions since then that exceed the limit: a later cursor never returns them. seen does not change.
func (r *reading) requested(after recent.Position) (found recent.Records, earlier int) {
	found = r.seen
	q := &r.query
	isSince := q.Cursor != "" || !q.Since.IsZero()
	if isSince {
		since := q.Since.UnixMicro()
		found = slices.DeleteFunc(slices.Clone(found), func(a recent.Record) bool {
			return q.Cursor != "" && a.Since.Compare(after) <= 0 || q.Cursor == "" && a.Start < since
		})
	}
	limit := r.query.Limit
	if limit < 1 || limit > r.view.MaxEvents {
		limit = r.view.MaxEvents
	}
	excess := max(0, len(found)-limit)
	if isSince {
		earlier = excess
	}
	return found[excess:], earlier
}

// setPage sets the person's current page and since when, and returns its session. A time in the
// future, from a clock that is ahead, counts as now.
func (r *reading) setPage(now time.Time) (sessionID string, err error) {
	on, came, first := r.seen.Stay()
	actions, err := recent.Records{*on, r.seen[len(r.seen)-1]}.Actions()
	if err != nil {
		return "", err
	}
	c := &r.answer
	c.CanonicalURL = actions[0].CanonicalURL
	c.Page = activity.PageName(c.CanonicalURL)
	if at := r.view.First(r.productID, on.Session); at > 0 && len(r.seen) >= r.view.MaxEvents {
		first = min(first, int64(at*1e6)) // earlier actions are no longer kept
	}
	ago := func(micros int64) float64 { return max(0, now.Sub(time.UnixMicro(micros)).Seconds()) }
	c.OnPageS, c.HereS, c.LastSeen = ago(came), ago(first), actions[1].TimestampStart
	return on.Session, nil
}

// standing returns the standing of the person's identity, the highest over all sessions: the
// address's if that was requested, else the user ID's, which is no higher than the conversation's
// link and the ID's standing in the linked sessions. It returns false for an unidentified visitor.
func (r *reading) standing() (standing activity.Standing, isKnown bool) {
	isNamed := r.userID != "" && !r.isVisitor()
	standing = r.stated
	for _, s := range r.sessions {
		switch {
		case r.query.Email != "": // the address was asked for
			if strings.EqualFold(s.Email, r.query.Email) {
				standing, isKnown = max(standing, s.EmailStanding), true
			}
		case isNamed && s.UserID == r.userID: // a session of the user
			standing, isKnown = max(standing, min(s.Standing, r.sure)), true
		case !isNamed && r.query.UserID == "" && s.Email != "": // an address that a visitor stated
			standing, isKnown = max(standing, s.EmailStanding), true
		}
	}
	if r.unproven {
		standing = activity.Claimed
	}
	return standing, isKnown || len(r.seen)+len(r.ids) > 0 && (isNamed || r.query.Email != "")
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
		standing = min(s.Standing, r.sure)
	}
	if s.Email != "" && strings.EqualFold(s.Email, r.answer.Email) {
		standing = max(standing, s.EmailStanding)
	}
	return standing
}
