package redislog

import (
	"slices"
	"strings"

	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// A failover may lose entries that Redis had acknowledged. Redis cannot know it, but the
// servers and readers that have seen them can: commits and reads tell it the newest ID that
// they know. Where that is beyond the newest one in Redis, or the newest entry in a server's
// memory is not there, the script records a range of IDs without entries, and IDs go on after
// it. The replies have the newest 16 ranges, so that all servers forget the entries in them,
// and readers get a gap.

// lostRange are the IDs after from up to to, whose entries Redis has lost.
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
// the tail, zero without one. Redis is told them, to see whether it has lost something: later
// entries come after them even then. It takes the lock.
func (p *product) memory() (known, held eventlog.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expire()
	if p.tail.Len() > 0 {
		held = p.tail.Bounds().Newest
	}
	return p.known, held
}

// lose makes a tail that goes over one of these ranges begin behind all of them. Readers before that ask Redis, which
// says that there is a gap. It is called with mu held.
func (p *product) lose(ranges []lostRange) {
	tail := p.tail.Bounds()
	if slices.ContainsFunc(ranges, func(r lostRange) bool {
		return tail.TrimmedTo.Compare(r.to) < 0 && r.from.Compare(tail.Newest) < 0
	}) {
		p.restart(ranges[len(ranges)-1].to)
	}
}
