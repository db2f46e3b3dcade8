package activitytest_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/activitytest"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/suitetest"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

func TestMemory_conforms(t *testing.T) {
	mistake, wrong := mistakes[suitetest.Mistake()]
	if wrong {
		waittest.Patience = time.Second
	}
	activitytest.TestStore(t, func(_ *testing.T, o activitytest.Options) activitytest.Engine {
		if mistake.options != nil {
			mistake.options(&o)
		}
		memory := &recent.MemoryOptions{TTL: o.TTL, MaxEvents: o.MaxEvents}
		store := activitytest.Engine(musttest.New(recent.NewMemory(memory)))
		if mistake.build != nil {
			b := broken{store, store.Add, store.Identify, store.Recent, store.Sessions}
			mistake.build(&b, store)
			store = b
		}
		return store
	})
}

// TestStore_failsABrokenEngine runs a chapter of the suite against an engine with
// one mistake, in a separate process, and requires that the mistake is found.
func TestStore_failsABrokenEngine(t *testing.T) {
	found := map[string]string{}
	for name, m := range mistakes {
		found[name] = m.found
	}
	suitetest.FindsEach(t, "TestMemory_conforms", found)
}

// mistake is one way to get an engine wrong, and the chapter that finds it.
type mistake struct {
	found   string
	options func(o *activitytest.Options)
	build   func(b *broken, s activitytest.Engine) // over an engine that is right
}

// broken is an engine some of whose methods are wrong.
type broken struct {
	activitytest.Engine
	add      func(ctx context.Context, b activity.Batch) error
	identify func(ctx context.Context, who feed.Identity) error
	recent   func(ctx context.Context, product string, of recent.Subject, limit int) (recent.Snapshot, error)
	sessions func(ctx context.Context, product, user string) ([]string, recent.Records, error)
}

func (b broken) Add(ctx context.Context, batch activity.Batch) error { return b.add(ctx, batch) }

func (b broken) Identify(ctx context.Context, who feed.Identity) error {
	return b.identify(ctx, who)
}

func (b broken) Recent(ctx context.Context, product string, of recent.Subject, limit int) (recent.Snapshot, error) {
	return b.recent(ctx, product, of, limit)
}

func (b broken) Sessions(ctx context.Context, product, user string) ([]string, recent.Records, error) {
	return b.sessions(ctx, product, user)
}

// onAdd alters each action before it is filed. It is given how many were added before.
func onAdd(change func(a *activity.BatchAction, n int)) func(b *broken, s activitytest.Engine) {
	return func(b *broken, s activitytest.Engine) {
		added := 0
		b.add = func(ctx context.Context, batch activity.Batch) error {
			batch.Actions = slices.Clone(batch.Actions)
			for i := range batch.Actions {
				change(&batch.Actions[i], added)
				added++
			}
			return s.Add(ctx, batch)
		}
	}
}

// onRecent alters the records that Recent finds.
func onRecent(change func(recent.Records)) func(b *broken, s activitytest.Engine) {
	return func(b *broken, s activitytest.Engine) {
		b.recent = func(ctx context.Context, product string, of recent.Subject, limit int) (recent.Snapshot, error) {
			found, err := s.Recent(ctx, product, of, limit)
			change(found.Records)
			return found, err
		}
	}
}

var mistakes = map[string]mistake{
	"order of arrival": {found: "Order", build: onAdd(func(a *activity.BatchAction, n int) {
		a.TimestampStart = activity.Seconds(time.Now().Add(time.Duration(n) * time.Millisecond))
	})},
	"trimmed too soon": {found: "Trim", options: func(o *activitytest.Options) { o.MaxEvents-- }},
	"limit ignored": {found: "Limit", build: func(b *broken, s activitytest.Engine) {
		b.recent = func(ctx context.Context, product string, of recent.Subject, _ int) (recent.Snapshot, error) {
			return s.Recent(ctx, product, of, 1<<20)
		}
	}},
	"duplicates kept": {found: "Duplicates", build: onAdd(func(a *activity.BatchAction, n int) {
		a.ID += strconv.Itoa(n)
	})},
	"users folded": {found: "Isolation", build: func(b *broken, s activitytest.Engine) {
		onAdd(func(a *activity.BatchAction, _ int) { a.UserID = strings.ToLower(a.UserID) })(b, s)
		b.recent = func(ctx context.Context, product string, of recent.Subject, limit int) (recent.Snapshot, error) {
			return s.Recent(ctx, product, recent.Subject{UserID: strings.ToLower(of.UserID)}, limit)
		}
	}},
	"ends over own actions": {found: "End", build: onRecent(func(r recent.Records) {
		for i := range r {
			r[i].End = r[i].Start
			for _, next := range r[i+1:] {
				if next.Session == r[i].Session {
					r[i].End = next.Start
					break
				}
			}
		}
	})},
	"identities of any session": {found: "Identity", build: func(b *broken, s activitytest.Engine) {
		b.identify = func(ctx context.Context, who feed.Identity) (err error) {
			for _, session := range []string{"s", "s1", "s2"} {
				who.SessionID = session
				err = errors.Join(err, s.Identify(ctx, who))
			}
			return err
		}
	}},
	"named unheard": {found: "Arrival", build: onRecent(func(r recent.Records) {
		for i := range r {
			r[i].Since = r[i].Arrived
		}
	})},
	"sessions of the newest actions": {found: "Sessions", build: func(b *broken, s activitytest.Engine) {
		b.sessions = func(ctx context.Context, product, user string) (ids []string, outside recent.Records, err error) {
			found, err := s.Recent(ctx, product, recent.Subject{UserID: user}, 1<<20)
			for _, r := range found.Records {
				if !slices.Contains(ids, r.Session) {
					ids = append(ids, r.Session)
				}
			}
			return ids, nil, err
		}
	}},
	"never expires": {found: "Retention/kept", options: func(o *activitytest.Options) { o.TTL *= 1000 }},
	"raw text in JSON": {found: "JSON", build: onRecent(func(r recent.Records) {
		for i := range r {
			r[i].JSON = `{"type":"click","timestamp_start":1,"timestamp_end":`
		}
	})},
	"batch kept": {found: "Ownership", build: func(b *broken, s activitytest.Engine) {
		var kept []activity.Batch // until a read
		b.add = func(_ context.Context, batch activity.Batch) error {
			kept = append(kept, batch)
			return nil
		}
		b.recent = func(ctx context.Context, product string, of recent.Subject, limit int) (recent.Snapshot, error) {
			for _, batch := range kept {
				if err := s.Add(ctx, batch); err != nil {
					return recent.Snapshot{}, err
				}
			}
			kept = nil
			return s.Recent(ctx, product, of, limit)
		}
	}},
	"loses an action when two calls overlap": {found: "Concurrency", build: func(b *broken, s activitytest.Engine) {
		var busy sync.Mutex
		b.add = func(ctx context.Context, batch activity.Batch) error {
			if !busy.TryLock() {
				return nil
			}
			defer busy.Unlock()
			time.Sleep(time.Millisecond) // lets another call run
			return s.Add(ctx, batch)
		}
	}},
}
