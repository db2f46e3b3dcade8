package recent

import (
	"cmp"
	"slices"
	"sort"

	"github.com/liveactivity/liveactivity/activity"
)

// Held is a session in an engine: its newest actions under the user ids that they
// were appended with, and the session's identities for these. The owner and the end
// of an action are decided when it is read: see [Held.Records].
type Held struct {
	Session    string       // empty for what a user did outside any session
	Actions    []HeldAction // in order of their start and, at one instant, of their arrival
	Identities []HeldIdentity
}

// HeldAction is an action of a [Held]. Times are in microseconds since the epoch.
type HeldAction struct {
	User    string // as it was appended; empty for none
	Start   int64
	JSON    string // see Record
	Arrived Position

	id uint64 // hash of the event's key
}

// HeldIdentity is an [activity.Identity] of a [Held].
type HeldIdentity struct {
	At                int64
	Anonymous, UserID string
	Standing          activity.Standing
	Arrived           Position
}

// precedes reports whether the identity counts, and not the other one.
func (h *HeldIdentity) precedes(other *HeldIdentity) bool {
	return cmp.Or(cmp.Compare(other.Standing, h.Standing), cmp.Compare(h.At, other.At),
		h.Arrived.Compare(other.Arrived)) < 0
}

// isSame reports whether both say the same, whenever they arrived.
func (h HeldIdentity) isSame(other HeldIdentity) bool {
	h.Arrived = other.Arrived
	return h == other
}

// Position orders a product's arrivals: entries of one append may share theirs, later
// ones have a higher one, on every server and across restarts. The zero Position is before
// everything. Engines with an [github.com/liveactivity/liveactivity/stream/eventlog.ID] for
// each entry use that.
type Position struct {
	Milli uint64
	Seq   uint64
}

// Compare returns -1, 0 or 1 if p comes before, equals, or comes after other.
func (p Position) Compare(other Position) int {
	return cmp.Or(cmp.Compare(p.Milli, other.Milli), cmp.Compare(p.Seq, other.Seq))
}

// later returns the later of two positions.
func later(a, b Position) Position {
	if a.Compare(b) < 0 {
		return b
	}
	return a
}

// leastHeld is the least that MaxHeld returns.
const leastHeld = 200

// MaxHeld returns how many actions an engine keeps of a session that has many users,
// the newest, with so many of each user.
func MaxHeld(maxEvents int) int { return max(leastHeld, 8*maxEvents) }

// MaxIdentities is how many identities an engine keeps of a session, the newest.
const MaxIdentities = 8

// owner returns whose an action is, and since when: the user that the session named first
// for its visitor, at the highest standing, of those times that are not before the action.
func (h *Held) owner(a *HeldAction) (userID string, since Position) {
	var first *HeldIdentity
	for i := range h.Identities {
		said := &h.Identities[i]
		if said.Anonymous == a.User && said.At >= a.Start && (first == nil || said.precedes(first)) {
			first = said
		}
	}
	if first == nil {
		return a.User, a.Arrived
	}
	return first.UserID, later(first.Arrived, a.Arrived)
}

// appendRecords appends the actions that did not start before oldest, each with its
// user and its end, and each once: with its marks.
func (h *Held) appendRecords(dst []Record, oldest int64) []Record {
	from := sort.Search(len(h.Actions), func(i int) bool { return h.Actions[i].Start >= oldest })
	first := len(dst)
	for i := from; i < len(h.Actions); i++ {
		a := &h.Actions[i]
		user, since := h.owner(a)
		r := Record{Session: h.Session, User: user, As: a.User, Start: a.Start, End: a.Start, JSON: a.JSON,
			Arrived: a.Arrived, Since: since}
		click := len(dst) - 1
		for click >= first && dst[click].Start == r.Start && !r.takesPlace(&dst[click]) {
			click--
		}
		if click >= first && dst[click].Start == r.Start {
			dst[click] = r
			continue
		}
		if before := len(dst) - 1; before >= first && dst[before].User == r.User {
			dst[before].End = r.Start
		}
		dst = append(dst, r)
	}
	return dst
}

// Records returns the newest actions of the session, at most limit, and none that started
// before oldest, in microseconds since the epoch. They are in order of their start, and share
// no memory with the session but texts.
func (h *Held) Records(oldest int64, limit int) Records {
	if limit <= 0 {
		return nil
	}
	all := h.appendRecords(make(Records, 0, len(h.Actions)), oldest)
	return all[max(0, len(all)-limit):]
}

// RecordsOf returns the newest actions of a user in these sessions, at most limit, and none
// that started before oldest, in order of their start. It does not change the sessions.
func RecordsOf(userID string, sessions []*Held, oldest int64, limit int) Records {
	if limit <= 0 || userID == "" {
		return nil
	}
	held := 0
	for _, h := range sessions {
		held += len(h.Actions)
	}
	all := make(Records, 0, held)
	for _, h := range sessions {
		from := len(all)
		all = h.appendRecords(all, oldest)
		kept := slices.DeleteFunc(all[from:], func(r Record) bool { return r.User != userID })
		all = all[:from+len(kept)]
	}
	if len(sessions) > 1 {
		slices.SortStableFunc(all, func(a, b Record) int {
			return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Session, b.Session))
		})
	}
	return all[max(0, len(all)-limit):]
}
