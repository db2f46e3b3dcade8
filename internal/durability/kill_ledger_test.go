package durability_test

import (
	"fmt"
	"math"
	"slices"

	"github.com/segmentio/encoding/json" // the logs are long, and the race detector is slow

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/internal/ssetest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// ledger is a product's log as one reader has received it, from its beginning. It checks every
// entry against the truth.
type ledger struct {
	name  string
	truth *truth
	ids   []eventlog.ID
	seen  map[string]string // uuid → id of the entry
	next  map[string]int    // session → next index
	order map[lane]int      // the last order number
	mail  map[string]bool   // sessions whose address is known
	users map[string][]*page
}

// lane is one client's data in a session, which arrives in order.
type lane struct {
	client  int
	session string
}

func newLedger(name string, t *truth) *ledger {
	return &ledger{name: name, truth: t, seen: map[string]string{}, next: map[string]int{}, order: map[lane]int{},
		mail: map[string]bool{}, users: map[string][]*page{}}
}

// batch is the part of an "actions" event that the tests read.
type batch struct {
	Type      string   `json:"type"`
	ProductID string   `json:"product_id"`
	SessionID string   `json:"session_id"`
	UserID    string   `json:"user_id"`
	Email     string   `json:"email"`
	Count     int      `json:"count"`
	Actions   []action `json:"actions"`
}

// action is the part of an action that the tests read.
type action struct {
	RawURL    string  `json:"raw_url"`
	Start     float64 `json:"timestamp_start"`
	End       float64 `json:"timestamp_end"`
	Index     int     `json:"index"`
	SessionID string  `json:"session_id"`
	UserID    string  `json:"user_id"`
}

func micros(seconds float64) int64 { return int64(math.Round(seconds * 1e6)) }

// last returns the ID of the entry received last, empty before the first.
func (l *ledger) last() string {
	if len(l.ids) == 0 {
		return ""
	}
	return l.ids[len(l.ids)-1].String()
}

// add takes an entry, or returns an error that says its mistake.
func (l *ledger) add(f ssetest.Frame) error {
	id, err := eventlog.ParseID(f.ID)
	if err != nil {
		return l.wrong(f, "%w", err)
	}
	if n := len(l.ids); n > 0 && id.Compare(l.ids[n-1]) <= 0 {
		return l.wrong(f, "it comes after %s", l.ids[n-1])
	}
	var b batch
	if err := json.Unmarshal([]byte(f.Data), &b); err != nil {
		return l.wrong(f, "%w", err)
	}
	if b.Type != activity.BatchType || b.ProductID != product || b.Count != len(b.Actions) || b.Count == 0 {
		return l.wrong(f, "it is no batch of %s", product)
	}
	for _, a := range b.Actions {
		if err := l.addAction(f, b, a); err != nil {
			return err
		}
	}
	if b.Email == "" && l.mail[b.SessionID] {
		return l.wrong(f, "the address of session %s is forgotten", b.SessionID)
	}
	l.ids = append(l.ids, id)
	return nil
}

func (l *ledger) addAction(f ssetest.Frame, b batch, a action) error {
	p := l.truth.find(a.RawURL)
	if p == nil {
		return l.wrong(f, "nobody has sent %s", a.RawURL)
	}
	wrong := func(format string, args ...any) error {
		return l.wrong(f, "%w; %s", fmt.Errorf(format, args...), l.truth.describe(p))
	}
	if before, ok := l.seen[p.uuid]; ok {
		return wrong("duplicate, first in %s", before)
	}
	if a.SessionID != p.session || b.SessionID != p.session || a.UserID != p.user || b.UserID != p.user ||
		micros(a.Start) != p.at {
		return wrong("it is not what was sent")
	}
	if b.Email != "" && b.Email != emailOf(p.user) {
		return wrong("the address is %s", b.Email)
	}
	if want := l.next[p.session]; a.Index != want {
		return wrong("its index is %d, not %d", a.Index, want)
	}
	at := lane{p.client, p.session}
	if last, ok := l.order[at]; ok && p.order <= last {
		return wrong("it comes after number %d of its client", last)
	}
	l.seen[p.uuid] = f.ID
	l.next[p.session]++
	l.order[at] = p.order
	l.mail[p.session] = l.mail[p.session] || p.email != ""
	l.users[p.user] = append(l.users[p.user], p)
	return nil
}

func (l *ledger) wrong(f ssetest.Frame, format string, args ...any) error {
	return fmt.Errorf("%s: entry %s: %w", l.name, f.ID, fmt.Errorf(format, args...))
}

// recent returns the actions that a lookup of the user must return, in time order and without the
// URL's index: the newest ones, each ending where the session's next one starts.
func (l *ledger) recent(user string) []action {
	pages := slices.Clone(l.users[user])
	slices.SortFunc(pages, func(a, b *page) int { return int(a.at - b.at) })
	actions := make([]action, len(pages))
	next := map[string]int64{}
	for i, p := range slices.Backward(pages) {
		end, ok := next[p.session]
		if !ok {
			end = p.at
		}
		next[p.session] = p.at
		actions[i] = action{RawURL: p.url(), Start: float64(p.at) / 1e6, End: float64(end) / 1e6}
	}
	actions = actions[max(0, len(actions)-recent.DefaultMaxEvents):]
	for i := range actions {
		actions[i].Index = i
	}
	return actions
}
