package activitytest_test

import (
	"context"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/activitytest"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/suitetest"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

func TestMemory_conforms(t *testing.T) {
	mistake, broken := mistakes[suitetest.Mistake()]
	if broken {
		waittest.Patience = time.Second
	}
	activitytest.TestStore(t, func(_ *testing.T, o activitytest.Options) activitytest.Engine {
		if mistake.options != nil {
			mistake.options(&o)
		}
		store := activitytest.Engine(musttest.New(recent.NewMemory(&recent.MemoryOptions{TTL: o.TTL, MaxEvents: o.MaxEvents})))
		if mistake.wrap != nil {
			store = mistake.wrap(store)
		}
		return store
	})
}

// TestStore_failsABrokenEngine runs the suite against engines with one mistake
// each, in a separate process, and requires that the mistake is found.
func TestStore_failsABrokenEngine(t *testing.T) {
	found := map[string]string{}
	for name, m := range mistakes {
		found[name] = m.found
	}
	suitetest.FindsEach(t, "TestMemory_conforms", found)
}

// mistake is one way to get an engine wrong, and the subtest that finds it.
type mistake struct {
	found   string
	options func(o *activitytest.Options)
	wrap    func(s activitytest.Engine) activitytest.Engine
}

var mistakes = map[string]mistake{
	"newest first": {found: "Order", wrap: onRecent(func(r recent.Records) recent.Records {
		slices.Reverse(r)
		return r
	})},
	"order of arrival": {found: "Order", wrap: onAdd(func(a *activity.BatchAction, n int) {
		a.TimestampStart = activity.Seconds(time.Now().Add(time.Duration(n) * time.Millisecond))
	})},
	"never trimmed":    {found: "Trim", options: func(o *activitytest.Options) { o.MaxEvents *= 10 }},
	"trimmed too soon": {found: "Trim", options: func(o *activitytest.Options) { o.MaxEvents-- }},
	"limit ignored": {found: "Limit", wrap: func(s activitytest.Engine) activitytest.Engine {
		return broken{Engine: s, limit: func(int) int { return 1 << 20 }}
	}},
	"duplicates kept": {found: "Duplicates", wrap: onAdd(func(a *activity.BatchAction, n int) {
		a.ID += strconv.Itoa(n)
	})},
	"products mixed":     {found: "Isolation", wrap: onProduct(func(string) string { return "any" })},
	"users mixed":        {found: "Isolation", wrap: onUser(func(string) string { return "any" })},
	"users truncated":    {found: "Isolation", wrap: onUser(func(u string) string { return u[:min(3, len(u))] })},
	"empty id is a user": {found: "Isolation", wrap: onUser(func(u string) string { return "user " + u })},
	"no ends": {found: "End", wrap: onRecent(func(r recent.Records) recent.Records {
		for i := range r {
			r[i].End = r[i].Start
		}
		return r
	})},
	"ends over all sessions": {found: "End", wrap: onAdd(func(a *activity.BatchAction, _ int) { a.SessionID = "s" })},
	"ends over own actions": {found: "End", wrap: onRecent(func(r recent.Records) recent.Records {
		for i := range r {
			r[i].End = r[i].Start
			for _, next := range r[i+1:] {
				if next.Session == r[i].Session {
					r[i].End = next.Start
					break
				}
			}
		}
		return r
	})},
	"never expires":    {found: "Retention/expired", options: func(o *activitytest.Options) { o.TTL *= 1000 }},
	"expires too soon": {found: "Retention", options: func(o *activitytest.Options) { o.TTL /= 2 }},
	"expires by arrival": {found: "Retention", wrap: onAdd(func(a *activity.BatchAction, _ int) {
		a.TimestampStart = activity.Seconds(time.Now())
	})},
	"raw text in JSON": {found: "JSON", wrap: onRecent(func(r recent.Records) recent.Records {
		for i := range r {
			r[i].JSON = `{"type":"click","timestamp_start":1,"timestamp_end":`
		}
		return r
	})},
	"identities ignored": {found: "Identity", wrap: func(s activitytest.Engine) activitytest.Engine {
		return identifying{s, func(activity.Identity) []activity.Identity { return nil }}
	}},
	"identities of any session": {found: "Identity", wrap: func(s activitytest.Engine) activitytest.Engine {
		return identifying{s, func(who activity.Identity) []activity.Identity {
			all := []activity.Identity{}
			for _, session := range []string{"s", "s1", "s2"} {
				who.SessionID = session
				all = append(all, who)
			}
			return all
		}}
	}},
	"identities for ever": {found: "Identity", wrap: func(s activitytest.Engine) activitytest.Engine {
		return identifying{s, func(who activity.Identity) []activity.Identity {
			who.At = time.Now().UnixMicro()
			return []activity.Identity{who}
		}}
	}},
	"arrival by start": {found: "Arrival", wrap: onSnapshot(func(s *recent.Snapshot) {
		for i := range s.Records {
			s.Records[i].Since = recent.Position{Milli: uint64(s.Records[i].Start)}
			s.Upto.Milli = max(s.Upto.Milli, uint64(s.Records[i].Start))
		}
	})},
	"named unheard": {found: "Arrival", wrap: onSnapshot(func(s *recent.Snapshot) {
		for i := range s.Records {
			s.Records[i].Since = s.Records[i].Arrived
		}
	})},
	"batch kept":        {found: "Ownership", wrap: func(s activitytest.Engine) activitytest.Engine { return &lazy{Engine: s} }},
	"session forgotten": {found: "Order", wrap: onEach(func(r *recent.Record) { r.Session = "" })},
	"unsynchronised":    {found: "Concurrency", wrap: func(s activitytest.Engine) activitytest.Engine { return &lossy{Engine: s} }},
}

// identifying is a store that alters identities.
type identifying struct {
	activitytest.Engine
	change func(activity.Identity) []activity.Identity
}

func (s identifying) Identify(ctx context.Context, who activity.Identity) error {
	for _, who := range s.change(who) {
		if err := s.Engine.Identify(ctx, who); err != nil {
			return err
		}
	}
	return nil
}

// broken is a store that alters what goes in and what comes out.
type broken struct {
	activitytest.Engine
	product, user func(string) string
	limit         func(int) int
	action        func(a *activity.BatchAction, n int)
	result        func(recent.Records) recent.Records
	added         *int
}

func onRecent(change func(recent.Records) recent.Records) func(activitytest.Engine) activitytest.Engine {
	return func(s activitytest.Engine) activitytest.Engine { return broken{Engine: s, result: change} }
}

func onSnapshot(change func(*recent.Snapshot)) func(activitytest.Engine) activitytest.Engine {
	return func(s activitytest.Engine) activitytest.Engine { return snapping{s, change} }
}

// snapping is a store that alters snapshots.
type snapping struct {
	activitytest.Engine
	change func(*recent.Snapshot)
}

func (s snapping) Snapshot(ctx context.Context, product string, of recent.Subject) (recent.Snapshot, error) {
	found, err := s.Engine.Snapshot(ctx, product, of)
	s.change(&found)
	return found, err
}

func onEach(change func(*recent.Record)) func(activitytest.Engine) activitytest.Engine {
	return onRecent(func(r recent.Records) recent.Records {
		for i := range r {
			change(&r[i])
		}
		return r
	})
}

func onAdd(change func(a *activity.BatchAction, n int)) func(activitytest.Engine) activitytest.Engine {
	return func(s activitytest.Engine) activitytest.Engine {
		return broken{Engine: s, action: change, added: new(int)}
	}
}

func onProduct(change func(string) string) func(activitytest.Engine) activitytest.Engine {
	return func(s activitytest.Engine) activitytest.Engine { return broken{Engine: s, product: change} }
}

func onUser(change func(string) string) func(activitytest.Engine) activitytest.Engine {
	return func(s activitytest.Engine) activitytest.Engine { return broken{Engine: s, user: change} }
}

func (s broken) Add(ctx context.Context, b activity.Batch) error {
	b.Actions = slices.Clone(b.Actions)
	if s.product != nil {
		b.ProductID = s.product(b.ProductID)
	}
	for i := range b.Actions {
		a := &b.Actions[i]
		if s.user != nil {
			a.UserID = s.user(a.UserID)
		}
		if s.action != nil {
			*s.added++
			s.action(a, *s.added)
			b.SessionID = a.SessionID
		}
	}
	return s.Engine.Add(ctx, b)
}

func (s broken) Recent(ctx context.Context, product, user string, limit int) (recent.Records, error) {
	if s.product != nil {
		product = s.product(product)
	}
	if s.user != nil {
		user = s.user(user)
	}
	if s.limit != nil {
		limit = s.limit(limit)
	}
	found, err := s.Engine.Recent(ctx, product, user, limit)
	if s.result != nil {
		found = s.result(found)
	}
	return found, err
}

// lazy retains its callers' batches until a read.
type lazy struct {
	activitytest.Engine
	mu      sync.Mutex
	pending []activity.Batch
}

func (s *lazy) Add(_ context.Context, b activity.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = append(s.pending, b)
	return nil
}

func (s *lazy) Recent(ctx context.Context, product, user string, limit int) (recent.Records, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.pending {
		if err := s.Engine.Add(ctx, b); err != nil {
			return nil, err
		}
	}
	s.pending = nil
	return s.Engine.Recent(ctx, product, user, limit)
}

// lossy loses an action when two calls overlap.
type lossy struct {
	activitytest.Engine
	busy sync.Mutex
}

func (s *lossy) Add(ctx context.Context, b activity.Batch) error {
	if !s.busy.TryLock() {
		return nil
	}
	defer s.busy.Unlock()
	for range 100 {
		runtime.Gosched() // lets another call run
	}
	return s.Engine.Add(ctx, b)
}
