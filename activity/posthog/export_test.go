package posthog

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/intake"
	"github.com/liveactivity/liveactivity/internal/element"
	"github.com/liveactivity/liveactivity/internal/musttest"
)

// These exports open the package's internals to its tests.

type Element = element.Element

const (
	MaxEvents   = intake.MaxEvents
	MaxElements = maxElements
)

func ParseChain(chain string) []Element { return parseChain(nil, chain) }

// nowhere is a sink and a list of products that no test asks.
type nowhere struct {
	activity.Sink
	intake.Products
}

// Plain returns the JSON inside a body.
func Plain(body []byte, contentEncoding string, limit int64) ([]byte, error) {
	in := musttest.New(intake.New(nowhere{}, nowhere{}, &intake.Options{MaxDecoded: limit}))
	r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
	r.Header.Set("Content-Encoding", contentEncoding)
	b, err := in.Receive(httptest.NewRecorder(), r)
	if err != nil {
		return nil, err
	}
	defer b.Release()
	json, err := b.JSON(r.Context())
	return bytes.Clone(json), err
}

// ReadEvents takes a plain body apart. It returns the meanings of its events without the ignored
// ones, and the number of all events.
func ReadEvents(body []byte) (events []activity.Event, total int, err error) {
	total, err = Source.Decode(body, intake.Request{Arrived: time.Now()}, func(m *intake.Meaning) {
		if m.Reason == "" {
			events = append(events, m.Event)
		}
	})
	return events, total, err
}
