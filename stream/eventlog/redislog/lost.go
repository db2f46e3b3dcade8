package redislog

import (
	"slices"
	"strings"

	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// lostRange are the IDs after the first up to the second, whose entries Redis has lost.
type lostRange struct{ from, to eventlog.ID }

// parseRanges reads ranges as lua/lost.lua writes them; nil and "" are none.
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

// memory returns the newest ID that may have been read here, and that of the newest entry in the
// tail, zero without one. Redis is told them, to see whether it has lost something: later entries
// come after them even then.
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
