package liveactivity_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/tracing"
	"github.com/liveactivity/liveactivity/helpdesk/helpdesktest"
	"github.com/liveactivity/liveactivity/internal/redistest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// flowFigures is the answer to GET /flow/{product_id}.
type flowFigures struct {
	ProductID string  `json:"product_id"`
	AsOf      float64 `json:"as_of"`
	Minutes   []struct {
		Minute int64
		tracing.Flow
	}
	Readers int
	LagS    float64 `json:"lag_s"`
	Parked  int
	Desks   []deskFigures
	Storage eventlog.Storage
}

type deskFigures struct {
	Desk             string
	Parked, Retrying int
}

// total returns the sum of the last hour's minutes.
func (f flowFigures) total() (total tracing.Flow) {
	for _, m := range f.Minutes {
		total = total.Plus(m.Flow)
	}
	return total
}

func (s *service) flow(product, key string) (f flowFigures) {
	s.t.Helper()
	r := s.ok(http.MethodGet, "/flow/"+product, "", bearer(key))
	require.NoError(s.t, json.Unmarshal([]byte(r.body), &f))
	return f
}

// taken reports three page views that are taken, one of them twice, and two events that are not.
func (s *service) taken(uuid string) {
	s.t.Helper()
	s.webhook(fmt.Sprintf(`{"batch":[%s,%s,%[2]s,%s,{"event":"$feature_flag_called","distinct_id":"ada"},
		{"event":"$pageview","uuid":"%[4]s-old","distinct_id":"ada","timestamp":"2020-01-01T00:00:00Z",
			"properties":{"$current_url":"https://a.example/"}}]}`,
		pageview(uuid+"1", "s1", "https://a.example/1"), pageview(uuid+"2", "s1", "https://a.example/2"),
		pageview(uuid+"3", "s2", "https://a.example/3"), uuid))
}

var takenFlow = tracing.Flow{Accepted: 3, Ignored: 2, Duplicate: 1, Actions: 3}

func TestFlow_isOfOneProduct(t *testing.T) {
	s := start(t, func(o *liveactivity.Options) { o.Retention.StateMaxBytes = 1 << 20 })
	s.taken("u")
	assert.Equal(t, "no-store", s.do(http.MethodGet, "/flow/acme", "", bearer(acmeMCP)).header.Get("Cache-Control"))
	f := s.flow("acme", acmeKey)
	require.Len(t, f.Minutes, 60)
	assert.Equal(t, takenFlow, f.total())
	assert.Equal(t, "acme", f.ProductID)
	assert.InDelta(t, activity.Seconds(time.Now()), f.AsOf, 60)
	last := f.Minutes[59].Minute
	assert.LessOrEqual(t, float64(last), f.AsOf)
	assert.Greater(t, float64(last+60), f.AsOf, "the last minute is the current one")
	assert.Equal(t, eventlog.Storage{Engine: "memory", LogBytes: f.Storage.LogBytes, LogMaxBytes: 1 << 20,
		StateBytes: f.Storage.StateBytes, StateMaxBytes: 1 << 20}, f.Storage)
	assert.Greater(t, f.Storage.LogBytes, int64(500))
	assert.Greater(t, f.Storage.StateBytes, int64(1000))
	assert.Zero(t, f.LagS)
	assert.Zero(t, f.Parked)
	assert.Equal(t, []deskFigures{}, f.Desks, "a list without any, not null")

	other := s.flow("globex", globexKey)
	assert.Zero(t, other.total(), "nothing of it is another product's")
	assert.Zero(t, other.Storage.LogBytes)
}

func TestFlow_keepsItsMinutesWhenSecretsRotate(t *testing.T) {
	onEngines(t, func(t *testing.T, on engine) {
		a, b := on.start(t, newDesks())
		p := a.register(`{"product_id":"initech"}`)
		for i, s := range []*service{a, b} {
			require.Equal(t, http.StatusOK, s.post(p, pageview(fmt.Sprint("u", i), "s1", "https://a.example/")).status)
			p = a.register(`{"product_id":"initech","force":true,"agent":{"prompt":"Hi."}}`)
		}
		for _, s := range []*service{a, b} {
			waittest.Until(t, "it counts both", func() bool { return s.flow("initech", p["key"]).total().Accepted == 2 })
		}
	})
}

func TestFlow_saysWhichDeskIsAway(t *testing.T) {
	t.Parallel() // it mostly waits
	d := newDesks()
	s := d.start(t)
	s.webhook(pageview("u0", "s1", "https://app.example.com/home"))
	d.opens(s, mail, "Hello")
	d.intercom.Fail(helpdesktest.Fault{Status: http.StatusServiceUnavailable})
	s.webhook(pageview("u1", "s1", "https://app.example.com/docs"))
	var f flowFigures
	waittest.Until(t, "the desk's conversation waits", func() bool {
		f = s.flow("acme", acmeKey)
		return f.Parked > 0
	})
	assert.Equal(t, 1, f.Parked)
	assert.Equal(t, []deskFigures{{"intercom", 1, 1}, {"zendesk", 0, 0}}, f.Desks)
	assert.Positive(t, f.LagS)
	d.intercom.Heal()
	waittest.Until(t, "the note is written", func() bool { return s.flow("acme", acmeKey).Parked == 0 })
	assert.Equal(t, []deskFigures{{"intercom", 0, 0}, {"zendesk", 0, 0}}, s.flow("acme", acmeKey).Desks)
}

func TestFlow_sumsTheServersOnOneRedis(t *testing.T) {
	t.Parallel() // it mostly waits
	redis := redistest.Start(t).URL()
	a, b := start(t, withRedis(redis)), start(t, withRedis(redis))
	a.stream("/stream/acme", bearer(acmeKey))
	a.taken("a")
	b.taken("b")
	for _, s := range []*service{a, b} {
		waittest.Equal(t, takenFlow.Plus(takenFlow), func() tracing.Flow { return s.flow("acme", acmeKey).total() })
		waittest.Until(t, "the reader is counted", func() bool { return s.flow("acme", acmeKey).Readers == 1 })
	}
	a.stop()
	assert.Zero(t, b.flow("acme", acmeKey).Readers, "those of a server that has stopped are gone")
	assert.Equal(t, takenFlow.Plus(takenFlow), b.flow("acme", acmeKey).total(), "what it has counted is not")
}

func TestFlow_isNotOfAProductThatThereIsNot(t *testing.T) {
	s := start(t)
	require.NoError(t, s.service.Keys().Add("beside-s3cr3t", "beside"))
	assert.Equal(t, http.StatusNotFound, s.status(http.MethodGet, "/flow/beside", "", bearer("beside-s3cr3t")))
}

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
