package liveactivity_test

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/activity/tracing"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

// steps keeps the steps of a tracer.
type steps struct {
	mu  sync.Mutex
	all []tracing.Step
}

func (s *steps) trace(step tracing.Step) {
	step.Actions = slices.Clone(step.Actions)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, step)
}

// actions returns the actions of the steps with that name and way, each once.
func (s *steps) actions(name, via string) (all []tracing.Action) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, step := range s.all {
		if step.Name == name && step.Via == via && step.Err == nil {
			all = append(all, step.Actions...)
		}
	}
	slices.SortFunc(all, func(a, b tracing.Action) int {
		return cmp.Or(cmp.Compare(a.SessionID, b.SessionID), cmp.Compare(a.Start, b.Start))
	})
	return slices.Compact(all)
}

// A note, an offer and an answer name the same actions as the requests that brought them, on every
// engine and from every server.
func TestTracer_followsActions(t *testing.T) {
	onEngines(t, func(t *testing.T, on engine) {
		t.Parallel()
		var taken steps
		traced := func(o *liveactivity.Options) { o.Tracer = taken.trace }
		d := newDesks()
		first, second := on.start(t, d, offering, traced)
		first.webhook(pageview("u0", "s1", "https://app.example.com/home"))
		conversation := d.opens(second, mail, "")
		waittest.Until(t, "there is a note", func() bool { return len(taken.actions(tracing.Note, "intercom")) > 0 })
		noted := taken.actions(tracing.Ingest, "")
		require.Len(t, noted, 1)
		assert.Equal(t, noted, taken.actions(tracing.Append, ""))
		assert.Equal(t, noted, taken.actions(tracing.Note, "intercom"))
		second.lookup("ada")
		assert.Equal(t, noted, taken.actions(tracing.Lookup, ""))
		assert.Contains(t, d.intercom.Notes(conversation)[0], "home")

		visits := 0
		waittest.Until(t, "the visitor is offered help", func() bool {
			for _, page := range []string{"/pricing", "/docs", "/pricing", fmt.Sprint("/other/", visits)} {
				visits++
				first.webhook(pageview(fmt.Sprint("v", visits), "s1", "https://app.example.com"+page))
			}
			return len(taken.actions(tracing.Offer, "intercom")) > 0
		})
		assert.Subset(t, taken.actions(tracing.Ingest, ""), taken.actions(tracing.Offer, "intercom"))
		waittest.Until(t, "they are counted", func() bool {
			total := second.flow("acme", acmeKey).total()
			return total.Offers == 1 && total.Notes > 0
		})
		second.callTool("ada")
		answered := taken.actions(tracing.Lookup, "get_live_user_activity")
		assert.Len(t, answered, min(1+visits, 50))
		assert.Subset(t, taken.actions(tracing.Ingest, ""), answered)
	})
}
