package durability_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/liveactivity/liveactivity/activity/recent"
)

// demand asks a server until it answers. A 503 for missing storage is no answer, because a cluster
// takes a while to come back.
func (s *storm) demand(sv *server, path, bearer string) (answer, error) {
	for deadline := time.Now().Add(patience); ; {
		a, err := s.ask(s.ctx, sv, s.timeout, http.MethodGet, path, "", bearer)
		switch {
		case err != nil:
			return a, fmt.Errorf("%s: %s: %w", sv.name, path, err)
		case !a.isAway():
			return a, nil
		case time.Now().After(deadline) || !s.pause(tick):
			return a, fmt.Errorf("%s: %s: %s", sv.name, path, a)
		}
	}
}

func (s *storm) lookup(sv *server, user string) ([]action, error) {
	a, err := s.demand(sv, lookupPath(user), bearer)
	if err != nil {
		return nil, err
	}
	return a.actions(sv.name, user)
}

const bearer = "Authorization: Bearer " + productKey

func lookupPath(user string) string { return "/users/" + product + "/" + user + "/live-activity" }

func (a answer) actions(where, user string) ([]action, error) {
	var live struct{ Actions []action }
	if err := json.Unmarshal(a.body, &live); err != nil || a.status != http.StatusOK {
		return nil, fmt.Errorf("%s: lookup of %s: %s", where, user, a)
	}
	return live.Actions, nil
}

// probe looks users up, and now and then products, one after the other, until the end of the test.
// A lookup must hold everything that was acknowledged before it.
func (s *storm) probe() {
	rng := s.dice.generator()
	s.others.Go(func() {
		for s.pause(upTo(rng, 10*time.Millisecond)) {
			if err := s.probeOne(rng); err != nil {
				s.fail(err)
			}
		}
	})
}

func (s *storm) probeOne(rng *rand.Rand) error {
	users := s.truth.users()
	if len(users) == 0 || rng.IntN(4) == 0 {
		return s.registry.probe(s, rng)
	}
	user := users[rng.IntN(len(users))]
	known := s.truth.of(user)
	a, where, err := s.call(rng, s.timeout, http.MethodGet, lookupPath(user), "", bearer)
	if err != nil || a.isAway() {
		return nil
	}
	actions, err := a.actions(where, user)
	if err != nil {
		return err
	}
	s.lookups.Add(1)
	if err := s.includes(actions, known, user); err != nil {
		return fmt.Errorf("%s: lookup of %s: %w", where, user, err)
	}
	return nil
}

// includes returns an error unless the actions of a lookup are pages of the user, in order and each
// once, and include those known before the lookup.
func (s *storm) includes(actions []action, known []*page, user string) error {
	there := map[string]bool{}
	var last int64
	for i, a := range actions {
		p := s.truth.find(a.RawURL)
		if p == nil || p.user != user || p.at != micros(a.Start) || a.Index != i || p.at <= last {
			return fmt.Errorf("action %d is %+v, after one at %d µs; sent was %s", i, a, last,
				s.truth.describe(cmp.Or(p, &page{})))
		}
		there[p.uuid], last = true, p.at
	}
	for _, p := range known {
		isNewer := len(actions) < recent.DefaultMaxEvents || p.at >= micros(actions[0].Start)
		if isNewer && !there[p.uuid] {
			return fmt.Errorf("of %d actions none is %s", len(actions), s.truth.describe(p))
		}
	}
	return nil
}

// audit compares every server's reports and the readers' logs with the truth. Nothing may be in flight.
func (s *storm) audit() {
	s.t.Helper()
	auditor := &sender{storm: s, rng: s.dice.generator(), client: auditorClient + s.audits}
	s.audits++
	end := auditor.request([]session{auditSession})
	auditor.insist(end)
	s.require(nil)
	var first *ledger
	for _, sv := range s.servers {
		log, err := s.history(sv, end.pages[len(end.pages)-1])
		s.require(err)
		s.require(s.check(sv, log))
		s.require(s.registry.check(s, sv))
		if first == nil {
			first = log
		}
		s.require(first.sameIDs(log))
	}
	for _, r := range s.readers {
		s.require(r.has(first))
	}
}

// auditSession is the session to which audits send a page, to find the end of the log.
var auditSession = session{"audit", "auditor"}

// auditorClient is the number of the first client that audits.
const auditorClient = 1000

// check returns an error unless the log holds everything acknowledged, and the server's lookups agree with the log.
func (s *storm) check(sv *server, log *ledger) error {
	if missing := s.truth.missing(log.seen); len(missing) > 0 {
		return fmt.Errorf("%s: %d acknowledged events are not there:%s", log.name, len(missing), s.truth.describeAll(missing))
	}
	for user := range log.users {
		actions, err := s.lookup(sv, user)
		if err != nil {
			return err
		}
		if err := sameActions(log.recent(user), actions); err != nil {
			return fmt.Errorf("%s: lookup of %s: %w", sv.name, user, err)
		}
	}
	return nil
}

func sameActions(want, got []action) error {
	if len(want) != len(got) {
		return fmt.Errorf("it has %d actions, by the log there are %d", len(got), len(want))
	}
	for i, w := range want {
		g := got[i]
		if g.RawURL != w.RawURL || g.Index != w.Index || micros(g.Start) != micros(w.Start) ||
			micros(g.End) != micros(w.End) {
			return fmt.Errorf("action %d is %+v, by the log it is %+v", i, g, w)
		}
	}
	return nil
}
