package posthog

import "github.com/liveactivity/liveactivity/activity"

// What this package's tests see of its inside.

type (
	Element   = element
	WireEvent = wireEvent
)

const (
	MaxEvents   = maxEvents
	MaxElements = maxElements
)

var (
	ParseChain = parseChain
	Plain      = plain
)

// ReadEvents takes a plain body apart and returns what its events mean, those
// that are ignored left out, and how many there were in all.
func ReadEvents(body []byte) (events []activity.Event, total int, err error) {
	req, err := readRequest(body)
	for _, p := range req.events {
		if p.reason == "" {
			events = append(events, p.Event)
		}
	}
	return events, len(req.events), err
}
