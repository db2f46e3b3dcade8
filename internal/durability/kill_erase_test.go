package durability_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/liveactivity/liveactivity/internal/redistest"
)

// The number of rounds, each of which kills a server or Redis, and of people in a round.
const (
	erasures       = 6  // rounds
	peopleOfARound = 10 // every other one is erased
)

// People are erased while a server or Redis is killed at any moment. Once the erasure is
// acknowledged, nothing brings them back, at no server and after no restart. Everybody else stays.
func TestKill_erasures(t *testing.T) {
	t.Parallel()
	for name, servers := range map[string]int{"file": 1, "redis": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, storage := &eraser{}, "--data-dir="+t.TempDir()
			if name == "redis" {
				e.redis = redistest.Start(t, "--appendfsync", "always")
				storage = "--redis-url=" + e.redis.URL()
			}
			e.killer = newKiller(newStorm(t, servers, storage))
			e.startAll()
			e.awaitAll()
			for round := range erasures {
				e.round(round)
				e.check()
			}
			e.terminateAll()
			e.startAll()
			e.awaitAll()
			e.check()
		})
	}
}

type eraser struct {
	*killer
	redis        *redistest.Server // nil for a file
	erased, kept []string
}

func (e *eraser) awaitAll() {
	for i := range e.servers {
		e.ready(i)
		e.require(e.isReady(e.servers[i]))
	}
}

// round has people act, and erases every other one while something is killed.
func (e *eraser) round(round int) {
	rng := e.dice.generator()
	var leaving []string
	for i := range peopleOfARound {
		user := fmt.Sprintf("person-%d-%d", round, i)
		body := fmt.Sprintf(`{"event":"$pageview","uuid":"%[1]s","distinct_id":%[1]q,"$set":{"email":"%[1]s@example.com"},`+
			`"properties":{"$session_id":"of-%[1]s","$current_url":"https://app.acme.example/%[1]s"}}`, user)
		e.insist(rng, http.StatusOK, http.MethodPost, "/webhook/"+product, body, "X-PostHog-Secret: "+webhookSecret)
		if i%2 == 0 {
			leaving = append(leaving, user)
		} else {
			e.kept = append(e.kept, user)
		}
	}
	var erasing sync.WaitGroup
	for i, user := range leaving {
		path := "/users/" + product + "/" + user
		if i%2 == 0 {
			path = "/users/" + product + "?email=" + user + "@example.com"
		}
		rng := e.dice.generator()
		erasing.Go(func() { e.insist(rng, http.StatusOK, http.MethodDelete, path, "", "X-Admin-Key: "+adminKey) })
	}
	e.pause(upTo(rng, 60*time.Millisecond))
	if e.redis != nil && round%2 == 1 {
		e.redis.Kill()
		e.redis.Restart()
	} else {
		victim := rng.IntN(len(e.servers))
		e.kill(victim)
		e.restart(victim)
	}
	erasing.Wait()
	e.require(nil)
	e.erased = append(e.erased, leaving...)
	e.awaitAll()
}

// check asks every server, at every door, for everybody.
func (e *eraser) check() {
	for _, sv := range e.servers {
		for _, user := range e.kept {
			actions, err := e.lookup(sv, user)
			if err == nil && len(actions) != 1 {
				err = fmt.Errorf("%s: %s was not erased and has %d actions", sv.name, user, len(actions))
			}
			e.require(err)
		}
		for _, user := range e.erased {
			actions, err := e.lookup(sv, user)
			if err == nil && len(actions) != 0 {
				err = fmt.Errorf("%s: %s was erased and has %d actions", sv.name, user, len(actions))
			}
			e.require(err)
			export, err := e.ask(e.ctx, sv, e.timeout, http.MethodGet, "/users/"+product+"/export?email="+user+"@example.com",
				"", "X-Admin-Key: "+adminKey)
			e.require(err)
			if strings.Contains(string(export.body), "/"+user) || strings.Contains(string(export.body), "of-"+user) {
				e.require(fmt.Errorf("%s: the export of %s, who was erased, is %s", sv.name, user, export))
			}
		}
		e.require(e.checkSessions(sv))
	}
}

// checkSessions asks a server for its sessions, page by page.
func (e *eraser) checkSessions(sv *server) error {
	found, after := 0, ""
	for {
		a, err := e.demand(sv, "/sessions/"+product+"?limit=200&after="+after, bearer)
		if err != nil {
			return err
		}
		var list struct {
			Sessions []struct {
				UserID string `json:"user_id"`
			}
			Next *string
		}
		if err := json.Unmarshal(a.body, &list); err != nil {
			return fmt.Errorf("%s: sessions: %s", sv.name, a)
		}
		found += len(list.Sessions)
		if list.Next == nil {
			break
		}
		after = *list.Next
	}
	if found != len(e.kept) {
		return fmt.Errorf("%s: %d sessions for %d people who are there", sv.name, found, len(e.kept))
	}
	return nil
}
