package posthog

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// clocks remembers by how much to correct the clock of each session's sender.
//
// What a request shows, the time of its arrival less its sent_at, is how far off
// the clock is plus how long the request was under way. A session has one clock,
// so it gets one correction as long as the difference can be that of two
// journeys: a slow request keeps its place among the others. Where the clock is
// as good as right, the shortest journey seen is the best guess. Where it is
// far off, the first guess stays, so that a recording which is replayed faster
// than it was made keeps its order.
type clocks struct {
	mu    sync.Mutex
	known *simplelru.LRU[clockKey, time.Duration]
}

type clockKey struct{ product, session string }

const (
	// maxClocks is how many sessions are remembered, the least recently used go first.
	maxClocks = 100_000
	// maxJourney is the longest that one request can be under way more than another.
	maxJourney = 20 * time.Second
)

func newClocks() *clocks {
	known, _ := simplelru.NewLRU[clockKey, time.Duration](maxClocks, nil) // fails only for a size below one
	return &clocks{known: known}
}

// correction returns what to add to the session's times, given what a request shows.
func (c *clocks) correction(product, session string, shown time.Duration) time.Duration {
	if session == "" {
		return shown
	}
	key := clockKey{product, session}
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.known.Get(key)
	shorter := shown < known && shown.Abs() <= maxJourney
	if ok && !shorter && (shown-known).Abs() <= maxJourney {
		return known
	}
	c.known.Add(key, shown)
	return shown
}
