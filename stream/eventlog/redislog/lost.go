package redislog

import (
	"slices"
	"strings"

	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// A failover may lose entries that Redis had acknowledged. Redis cannot know this, but the
// servers and readers that have seen the entries can: commits and reads pass the newest ID
// that they know. If that is beyond the newest one in Redis, or if Redis lacks the newest
// entry in a server's memory, the script records a range of IDs without entries, and IDs
// continue after it. Replies have the newest 16 ranges, so that all servers forget the
// entries in them, and readers get a gap.

// lostRange is the range of IDs after from, up to and including to, whose entries
// Redis has lost.
type lostRange struct{ from, to eventlog.ID }

// parseRanges reads ranges as lua/lost.lua writes them, in order; nil and "" are none.
func parseRanges(value any) ([]lostRange, error) {
	text, _ := value.(string)
	var ranges []lostRange
	for pair := range slices.Chunk(strings.Fields(text), 2) {
		from, err := parseID(pair[0])
		if err != nil {
			return nil, err
		}
		to, err := parseID(pair[len(pair)-1])
		if err != nil {
			return nil, err
		}
		ranges = append(ranges, lostRange{from, to})
	}
	return ranges, nil
}

// memory returns the newest ID that may have been read here, and the ID of the newest entry in
// the tail, zero without one. Redis gets both, to find out whether it has lost entries, and to
// place later entries after them even then. memory takes the lock.
func (p *product) memory() (known, held eventlog.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expire()
	if p.tail.Len() > 0 {
		held = p.tail.Bounds().Newest
	}
	return p.known, held
}

// lose restarts a tail that extends over one of these ranges after all of them. Readers before
// that ask Redis, which reports a gap. It is called with mu held.
func (p *product) lose(ranges []lostRange) {
	tail := p.tail.Bounds()
	if slices.ContainsFunc(ranges, func(r lostRange) bool {
		return tail.TrimmedTo.Compare(r.to) < 0 && r.from.Compare(tail.Newest) < 0
	}) {
		p.restart(ranges[len(ranges)-1].to)
	}
}
