package posthog

import (
	"io"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/jsonscan"
)

// What this package's tests see of its inside.

type Element = element

const (
	MaxEvents   = maxEvents
	MaxElements = maxElements
)

func ParseChain(chain string) []Element { return parseChain(nil, chain) }

// Plain returns the JSON inside a body.
func Plain(body []byte, contentEncoding string, limit int64) ([]byte, error) {
	u, err := unpack(body, contentEncoding, limit)
	if err != nil {
		return nil, err
	}
	defer u.Close()
	return io.ReadAll(u)
}

// ReadEvents takes a plain body apart and returns what its events mean, those
// that are ignored left out, and how many there were in all.
func ReadEvents(body []byte) (events []activity.Event, total int, err error) {
	req, err := readRequest(jsonscan.New(body), 0)
	for i, d := range req.details {
		if d.reason == "" {
			events = append(events, req.events[i])
		}
	}
	return events, len(req.events), err
}
