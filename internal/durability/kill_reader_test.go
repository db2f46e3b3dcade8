package durability_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/liveactivity/liveactivity/internal/ssetest"
)

const (
	silence = 15 * time.Second // of a stream, at most; heartbeats come each second
	hops    = 2000             // events, on average, after which a reader goes to another server
)

// stream opens the product's stream and calls each with its events until that or the stream ends. The cursor is the
// ID of the event received last, empty for the beginning of the log.
func (s *storm) stream(ctx context.Context, sv *server, cursor string, each func(ssetest.Frame) error) error {
	url, ok := sv.url()
	if !ok {
		return errDown
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watchdog := time.AfterFunc(silence, cancel)
	defer watchdog.Stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/stream/"+product+"?since=0", nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+productKey)
	if cursor != "" {
		req.Header.Set("Last-Event-ID", cursor)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	a := answer{status: resp.StatusCode, retryAfter: resp.Header.Get("Retry-After")}
	if a.status != http.StatusOK {
		if !a.isAway() {
			s.fail(fmt.Errorf("%s: the stream is answered %s", sv.name, a))
		}
		return errDown
	}
	events := ssetest.NewReader(resp.Body)
	for {
		f, err := events.Next()
		if err != nil {
			return err
		}
		watchdog.Reset(silence)
		if err := each(f); err != nil {
			return err
		}
	}
}

// take adds an event of a stream to a ledger, if it is an entry of the log.
func (l *ledger) take(f ssetest.Frame) error {
	switch f.Event {
	case "":
		return l.add(f)
	case "heartbeat":
		return nil
	}
	return fmt.Errorf("%s: after %q: event %s with %s", l.name, l.last(), f.Event, f.Data)
}

// reader follows the stream, and resumes where it was after every cut.
type reader struct {
	storm *storm
	name  string
	rng   *rand.Rand

	mu      sync.Mutex
	ledger  *ledger
	resumed int
}

// follow starts n readers, which follow until the end of the test.
func (s *storm) follow(n int) {
	for i := range n {
		name := fmt.Sprintf("reader %d", i+1)
		r := &reader{storm: s, name: name, rng: s.dice.generator(), ledger: newLedger(name, s.truth)}
		s.readers = append(s.readers, r)
		s.others.Go(r.run)
	}
}

func (r *reader) run() {
	for r.storm.ctx.Err() == nil {
		err := r.storm.stream(r.storm.ctx, r.storm.any(r.rng), r.cursor(), r.take)
		if errors.Is(err, errWrong) {
			r.storm.fail(err)
		}
		r.storm.pause(backoff(r.rng))
	}
}

var (
	errWrong  = errors.New("the stream is wrong") // it broke a promise
	errHop    = errors.New("going to another server")
	errEnough = errors.New("read enough")
)

func (r *reader) take(f ssetest.Frame) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.ledger.take(f); err != nil {
		return fmt.Errorf("%w: %w", errWrong, err)
	}
	if r.rng.IntN(hops) == 0 {
		return errHop
	}
	return nil
}

func (r *reader) cursor() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ledger.last() != "" {
		r.resumed++
	}
	return r.ledger.last()
}

// has returns an error unless the reader receives exactly the log's entries within patience.
func (r *reader) has(log *ledger) error {
	deadline := time.Now().Add(patience)
	for {
		r.mu.Lock()
		got := r.ledger.ids
		r.mu.Unlock()
		n := min(len(got), len(log.ids))
		for i := range n {
			if got[i] != log.ids[i] {
				return fmt.Errorf("%s: entry %d it received is %s, in the log it is %s", r.name, i, got[i], log.ids[i])
			}
		}
		if n == len(log.ids) {
			return nil
		}
		if time.Now().After(deadline) || !r.storm.pause(5*time.Millisecond) {
			return fmt.Errorf("%s: entry %s does not come, the last it received is %q", r.name, log.ids[n], r.ledger.last())
		}
	}
}

// history returns a server's log up to the page.
func (s *storm) history(sv *server, end *page) (*ledger, error) {
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	log := newLedger("the log of "+sv.name, s.truth)
	for {
		err := s.stream(ctx, sv, log.last(), func(f ssetest.Frame) error {
			if err := log.take(f); err != nil {
				return fmt.Errorf("%w: %w", errWrong, err)
			}
			if _, ok := log.seen[end.uuid]; ok {
				return errEnough
			}
			return nil
		})
		switch {
		case errors.Is(err, errEnough):
			return log, nil
		case errors.Is(err, errWrong):
			return nil, err
		case ctx.Err() != nil || !s.pause(tick):
			return nil, fmt.Errorf("%s: it does not get to %s; the last error is %w; acknowledged and not there:%s",
				log.name, s.truth.describe(end), err, s.truth.describeAll(s.truth.missing(log.seen)))
		}
	}
}

// sameIDs returns an error unless two logs hold the same entries.
func (l *ledger) sameIDs(other *ledger) error {
	if slices.Equal(l.ids, other.ids) {
		return nil
	}
	return fmt.Errorf("%s and %s hold different entries", l.name, other.name)
}
