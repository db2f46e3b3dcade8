package recent

import (
	"cmp"
	"hash/maphash"
	"slices"
	"sort"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/feed"
)

// Held is a session in an engine: its newest actions with the user IDs with which they were appended,
// and the identities that apply to these. The owner and the end of an action are determined on
// reading; see [Held.Records].
type Held struct {
	Session    string         // empty for an action outside any session
	Actions    []HeldAction   // ordered by start, then by arrival
	Identities []HeldIdentity // ordered by arrival
}

// HeldAction is an action of a [Held]. Times are in microseconds since the epoch.
type HeldAction struct {
	User    string // as it was appended; empty for none
	Start   int64
	JSON    string // see Record
	Arrived Position

	id     uint64 // hash of the event's key
	packed bool   // see memorySession
}

// HeldIdentity is a [feed.Identity] in a [Held]. If its user equals the visitor, no other user
// can own the visitor's actions.
type HeldIdentity struct {
	At                int64
	Anonymous, UserID string
	Standing          activity.Standing
	Arrived           Position
}

// precedes reports whether the identity has priority over the other one.
func (h *HeldIdentity) precedes(other *HeldIdentity) bool {
	return cmp.Or(cmp.Compare(other.Standing, h.Standing), cmp.Compare(h.At, other.At),
		h.Arrived.Compare(other.Arrived)) < 0
}

// isSame reports whether both are equal except for their arrival.
func (h HeldIdentity) isSame(other HeldIdentity) bool {
	h.Arrived = other.Arrived
	return h == other
}

// Position is the place of an entry in the order of a product's arrivals. Entries of one append may
// share a position; later entries have higher ones, on every server and across restarts. The zero
// Position precedes all others. Engines with an
// [github.com/liveactivity/liveactivity/stream/eventlog.ID] for each entry use that.
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

// leastHeld is the minimum result of MaxHeld.
const leastHeld = 200

// MaxHeld returns the number of actions that an engine keeps of a session with many users, given the
// number that it keeps of each user.
func MaxHeld(maxEvents int) int { return max(leastHeld, 8*maxEvents) }

// MaxIdentities is the number of identities that an engine keeps of a session. Dropping others never
// gives a user another user's actions.
const MaxIdentities = 8

// dropIdentity drops the least informative identity, and among equals the oldest of the lowest
// standing. If the next one of the same visitor and standing names another user, the actions of
// both return to the visitor.
//
// The function drop_identities of redislog's activity.lua follows the same rule.
func (h *Held) dropIdentity() {
	said := make([]*HeldIdentity, len(h.Identities))
	for i := range said {
		said[i] = &h.Identities[i]
	}
	slices.SortStableFunc(said, func(a, b *HeldIdentity) int {
		return cmp.Or(cmp.Compare(a.Standing, b.Standing), cmp.Compare(a.At, b.At))
	})
	var gone HeldIdentity
	var heir *HeldIdentity
	least := 4
	for i, one := range said {
		before, after := neighbours(said, i)
		if tells := one.tells(before, after); tells < least {
			gone, heir, least = *one, after, tells
		}
	}
	if heir != nil && heir.UserID != gone.UserID {
		heir.UserID = heir.Anonymous
	}
	h.Identities = slices.DeleteFunc(h.Identities, func(said HeldIdentity) bool { return said == gone })
}

// neighbours returns the previous and the next identity of the same visitor and standing, or nil.
func neighbours(said []*HeldIdentity, at int) (before, after *HeldIdentity) {
	for i, other := range said {
		switch {
		case i == at || other.Anonymous != said[at].Anonymous || other.Standing != said[at].Standing:
		case i < at:
			before = other
		case after == nil:
			after = other
		}
	}
	return before, after
}

// tells rates the information that would be lost with an identity between its neighbours. Least is
// lost between two with the same user: only the time from which actions belong to that user.
func (h *HeldIdentity) tells(before, after *HeldIdentity) int {
	switch {
	case after == nil:
		return 3 // the owner of its actions
	case after.UserID != h.UserID:
		return 2 // the owner of its actions and those of the next one
	case before == nil || before.UserID != h.UserID:
		return 1 // the time from which the user owns them
	}
	return 0
}

// owner returns the owner of an action and the position from which the user owns it. The first
// identity of the highest standing that is not earlier than the action decides. An identity for the
// present owner changes nothing.
func (h *Held) owner(a *HeldAction) (userID string, since Position) {
	userID, since = a.User, a.Arrived
	var first *HeldIdentity
	for i := range h.Identities {
		said := &h.Identities[i]
		if said.Anonymous != a.User || said.At < a.Start || first != nil && !said.precedes(first) {
			continue
		}
		if first = said; said.UserID != userID {
			userID, since = said.UserID, later(said.Arrived, a.Arrived)
		}
	}
	return userID, since
}

// appendRecords appends the actions that did not start before oldest, each once, with its owner, its
// end and its marks.
func (h *Held) appendRecords(dst []Record, oldest int64) []Record {
	from := sort.Search(len(h.Actions), func(i int) bool { return h.Actions[i].Start >= oldest })
	first := len(dst)
	for i := from; i < len(h.Actions); i++ {
		a := &h.Actions[i]
		user, since := h.owner(a)
		r := Record{Session: h.Session, User: user, As: a.User, Start: a.Start, End: a.Start, JSON: a.JSON,
			Arrived: a.Arrived, Since: since}
		click := len(dst) - 1
		if click >= first && dst[click].Start == r.Start && !r.isMarked() { // one search for all at this time
			click = first - 1
		}
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

// Records returns at most limit of the session's newest actions, ordered by start, and none that
// started before oldest, in microseconds since the epoch. The result shares only strings with the
// session.
func (h *Held) Records(oldest int64, limit int) Records {
	if limit <= 0 {
		return nil
	}
	return newest(h.appendRecords(make(Records, 0, len(h.Actions)), oldest), limit)
}

// RecordsOf returns at most limit of a user's newest actions in the sessions, ordered by start, and
// none that started before oldest. It does not modify the sessions.
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
	return newest(all, limit)
}

// newest returns the last records, at most limit.
func newest(all Records, limit int) Records { return slices.Delete(all, 0, max(0, len(all)-limit)) }

// Filing holds the actions of a batch, an identity or an erasure, validated and encoded, so that
// filing it cannot fail. An empty Filing changes nothing. A Filing may be filed only once, since the
// store then owns its memory.
type Filing struct {
	// Arrived is the position of the filing, which must exceed all earlier ones of the
	// product. Zero means the next position.
	Arrived Position

	session  string
	actions  []HeldAction
	identity *feed.Identity
	erasure  *feed.Erasure
}

// seed is of the hashes of events' keys.
var seed = maphash.MakeSeed()

// NewFiling encodes the actions of a batch. It retains their strings, which should not be substrings
// of larger ones. It fails only for an invalid timestamp.
func NewFiling(b *activity.Batch) (f Filing, err error) {
	f.session, f.actions = b.SessionID, make([]HeldAction, len(b.Actions))
	for i := range b.Actions {
		a := &b.Actions[i]
		r, err := NewRecord(b.SessionID, a.Action)
		if err != nil {
			return Filing{}, err
		}
		key := feed.KeyOf(a.ID)
		f.actions[i] = HeldAction{User: a.UserID, Start: r.Start, JSON: r.JSON, id: maphash.Bytes(seed, key[:])}
	}
	return f, nil
}

// NewIdentityFiling returns the filing of an identity, empty for nil. It retains who.
func NewIdentityFiling(who *feed.Identity) Filing { return Filing{identity: who} }

// NewErasureFiling returns the filing of an erasure, empty for nil. It retains e.
func NewErasureFiling(e *feed.Erasure) Filing { return Filing{erasure: e} }
