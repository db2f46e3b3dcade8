package liveactivity_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/internal/metricstest"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/internal/watchtest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
)

// runService runs a service until stop is called. stop returns the error of Run.
func runService(t *testing.T, opts *liveactivity.Options) (service *liveactivity.Service, stop func() error) {
	t.Helper()
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	if opts.Products == nil {
		opts.Products = []liveactivity.Product{{ProductID: "acme", WebhookSecret: acmeSecret}}
	}
	service = musttest.New(liveactivity.New(opts))
	return service, waittest.Run(t, service.Run)
}

// record records a page view of ada.
func record(t *testing.T, service *liveactivity.Service, productID, id string) {
	t.Helper()
	action := activity.NewAction(activity.TypePageview, activity.Target{}, "https://app.example.com/"+id)
	result, err := service.Record(t.Context(), productID,
		[]activity.Event{{ID: id, Time: time.Now(), UserID: "ada", SessionID: "s", Action: &action}})
	require.NoError(t, err)
	require.Equal(t, 1, result.Accepted)
}

// noted is a view that counts its entries and its ends.
type noted struct {
	entries, gone, closed atomic.Int64
	last                  atomic.Value // the product of the newest entry
}

func (n *noted) view(ctx context.Context, productID string, source *eventlog.Source) error {
	err := source.Follow(ctx, "", time.Unix(1, 0), func(e feed.Event) error {
		if e.Kind == feed.Entry {
			n.entries.Add(1)
			n.last.Store(productID)
		}
		return nil
	})
	switch {
	case errors.Is(err, eventlog.ErrClosed):
		n.closed.Add(1)
	case ctx.Err() != nil:
		n.gone.Add(1)
	}
	return err
}

func TestViews_followEveryProductWhileThereIsOne(t *testing.T) {
	var n noted
	s := start(t, func(o *liveactivity.Options) { o.Views = []liveactivity.View{n.view} })
	follows := func(entries int64, product string) {
		t.Helper()
		waittest.Until(t, "the view has what is expected", func() bool {
			return n.entries.Load() == entries && n.last.Load() == product
		})
	}
	s.webhook(pageview("u1", "s1", "https://app.example.com/a"))
	follows(1, "acme")
	initech := s.register(`{"product_id":"initech"}`)
	post := func(uuid string) {
		require.Equal(t, http.StatusOK, s.post(initech, pageview(uuid, "s1", "https://app.example.com/a")).status)
	}
	post("u1")
	follows(2, "initech")
	require.Zero(t, n.gone.Load())
	require.Equal(t, http.StatusNoContent, s.status(http.MethodDelete, "/admin/products/initech", "", withAdminKey))
	waittest.Until(t, "the view is closed", func() bool { return n.gone.Load() == 1 })
	initech = s.register(`{"product_id":"initech"}`)
	post("u2")
	follows(3, "initech")
	s.stop()
	assert.EqualValues(t, 3, n.closed.Load(), "of acme, globex and initech")
}

// A view that is still at work when its product is removed meets none of the next registration.
func TestViews_ofAProductNeverOverlap(t *testing.T) {
	var began, running, overlaps atomic.Int64
	held, others := make(chan struct{}), make(chan string, 8)
	s := start(t, func(o *liveactivity.Options) {
		o.Views = []liveactivity.View{func(ctx context.Context, productID string, _ *eventlog.Source) error {
			if productID != "initech" {
				others <- productID
				return nil
			}
			if running.Add(1) > 1 {
				overlaps.Add(1)
			}
			defer running.Add(-1)
			if began.Add(1) == 1 {
				<-held
			}
			<-ctx.Done()
			return ctx.Err()
		}}
	})
	remove := func() {
		require.Equal(t, http.StatusNoContent, s.status(http.MethodDelete, "/admin/products/initech", "", withAdminKey))
	}
	s.register(`{"product_id":"initech"}`)
	waittest.Until(t, "the product has its view", func() bool { return began.Load() == 1 })
	for _, next := range []string{"umbrella", "hooli"} { // whose views begin after the removal was noticed
		remove()
		s.register(`{"product_id":"` + next + `"}`)
		for next != <-others {
		}
		s.register(`{"product_id":"initech"}`)
	}
	close(held)
	waittest.Until(t, "the product has a view again", func() bool { return began.Load() > 1 && running.Load() == 1 })
	remove()
	s.stop()
	assert.Zero(t, overlaps.Load())
}

// A slow view gets every accepted entry before it is stopped.
func TestViews_areGivenEverythingAtAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := 0
		service, stop := runService(t, &liveactivity.Options{Views: []liveactivity.View{
			func(ctx context.Context, _ string, source *eventlog.Source) error {
				return source.Follow(ctx, "", time.Unix(1, 0), func(e feed.Event) error {
					if e.Kind == feed.Entry {
						time.Sleep(time.Second)
						seen++
					}
					return nil
				})
			}}})
		for _, id := range []string{"a", "b", "c", "d", "e"} {
			record(t, service, "acme", id)
		}
		require.NoError(t, stop())
		assert.Equal(t, 5, seen)
	})
}

func TestViews_thatDoNotEndAreCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, stop := runService(t, &liveactivity.Options{Views: []liveactivity.View{
			func(ctx context.Context, _ string, _ *eventlog.Source) error {
				<-ctx.Done()
				return ctx.Err()
			}}})
		synctest.Wait()
		began := time.Now()
		require.NoError(t, stop())
		assert.Equal(t, 8*time.Second, time.Since(began))
	})
}

func TestViews_areCalledAgainAfterAFailureOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failed, done int
		_, stop := runService(t, &liveactivity.Options{Views: []liveactivity.View{
			func(context.Context, string, *eventlog.Source) error {
				failed++
				return errors.New("the desk is away")
			},
			func(context.Context, string, *eventlog.Source) error {
				done++
				return nil
			},
		}})
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.InDelta(t, 5+(time.Hour-31*time.Second)/(30*time.Second), failed, 2, "after 1, 2, 4, … and at most 30 seconds")
		assert.Equal(t, 1, done)
		began := time.Now()
		require.NoError(t, stop())
		assert.Zero(t, time.Since(began), "a stop does not wait for the next call")
	})
}

func TestViews_areCalledAgainSoonAfterARunThatWentWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		_, stop := runService(t, &liveactivity.Options{Views: []liveactivity.View{
			func(ctx context.Context, _ string, _ *eventlog.Source) error {
				runs++
				select {
				case <-time.After(time.Minute):
				case <-ctx.Done():
				}
				return errors.New("the desk is away")
			},
		}})
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Equal(t, 60, runs, "a minute each, and a second between two")
		require.NoError(t, stop())
	})
}

// Each stream's key is looked for anew. The views of the new registration begin after that.
func TestStreams_ofARotatedKeyEndTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service, stop := runService(t, &liveactivity.Options{AdminKey: adminKey})
		register := func() (product map[string]string) {
			w := ask(service, http.MethodPost, "/admin/products", `{"product_id":"initech","force":true}`, withAdminKey)
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &product))
			return product
		}
		old := register()
		var streams sync.WaitGroup
		for range 100 {
			streams.Go(func() { ask(service, http.MethodGet, "/stream/initech", "", bearer(old["key"])) })
		}
		synctest.Wait()
		began := time.Now()
		register()
		streams.Wait()
		assert.Less(t, time.Since(began), 200*time.Millisecond)
		require.NoError(t, stop())
	})
}

// onWrite is called by each line of a log.
type onWrite func()

func (f onWrite) Write(p []byte) (int, error) {
	f()
	return len(p), nil
}

// The service warns about the first product while it begins to serve it. Meanwhile, the second one changes.
func TestViews_beginAnewForAProductThatChangesWhileAnotherOneBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var change atomic.Bool
		var register func(body string)
		service, stop := runService(t, &liveactivity.Options{AdminKey: adminKey, Logger: slog.New(slog.NewTextHandler(
			onWrite(func() {
				if change.Swap(false) {
					register(`{"product_id":"second","force":true}`)
				}
			}), &slog.HandlerOptions{Level: slog.LevelWarn}))})
		var key string
		register = func(body string) {
			w := ask(service, http.MethodPost, "/admin/products", body, withAdminKey)
			require.Equal(t, http.StatusCreated, w.Code)
			key = reply{body: w.Body.String()}.json(t)["key"].(string)
		}
		register(`{"product_id":"second"}`)
		synctest.Wait()
		change.Store(true)
		w := ask(service, http.MethodPost, "/admin/products",
			`{"product_id":"first","integration_config":{"proactive":{"enabled":true}}}`, withAdminKey)
		require.Equal(t, http.StatusCreated, w.Code)
		synctest.Wait()
		assert.Equal(t, http.StatusOK, ask(service, http.MethodGet, "/sessions/second", "", bearer(key)).Code)
		require.NoError(t, stop())
	})
}

// ownLog is a memory log with a lifetime of its own.
type ownLog struct {
	*memorylog.Log
	fail    chan error // ends Run
	broken  atomic.Bool
	expired atomic.Int64
	asked   atomic.Int32
}

var errBroken = errors.New("the disk is gone")

func (l *ownLog) Run(ctx context.Context, report func(eventlog.Progress)) error {
	report(eventlog.Progress{Done: true})
	select {
	case err := <-l.fail:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *ownLog) Ping(context.Context) error {
	l.asked.Add(1)
	if l.broken.Load() {
		return errBroken
	}
	return nil
}

func (l *ownLog) Expire(ctx context.Context) error {
	l.expired.Add(1)
	return l.Log.Expire(ctx)
}

func newOwnLog() *ownLog {
	return &ownLog{Log: musttest.New(memorylog.New(nil)), fail: make(chan error, 1)}
}

func TestLog_isRunTidiedAndAskedWhetherItIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newOwnLog()
		service, stop := runService(t, &liveactivity.Options{Log: log})
		synctest.Wait()
		for range 10 {
			assert.Equal(t, http.StatusOK, ask(service, http.MethodGet, "/readyz", "").Code)
		}
		assert.EqualValues(t, 1, log.asked.Load(), "many who ask cost no more than one")
		log.broken.Store(true)
		time.Sleep(time.Second)
		assert.Equal(t, http.StatusServiceUnavailable, ask(service, http.MethodGet, "/readyz", "").Code)
		time.Sleep(10*time.Minute + time.Second)
		assert.EqualValues(t, 10, log.expired.Load())
		require.NoError(t, stop(), "that the log's Run ends with the context is no failure")
		assert.ErrorIs(t, log.Append(t.Context(), "acme", nil), eventlog.ErrClosed)
	})
}

func TestRun_endsWhenTheLogFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newOwnLog()
		service, stop := runService(t, &liveactivity.Options{Log: log})
		log.fail <- errBroken
		synctest.Wait()
		assert.Equal(t, http.StatusServiceUnavailable, ask(service, http.MethodGet, "/readyz", "").Code, "it has stopped")
		require.ErrorIs(t, stop(), errBroken)
	})
}

func TestMetrics_areServedUnlessTheyHaveARegistry(t *testing.T) {
	service := musttest.New(liveactivity.New(&liveactivity.Options{Metrics: prometheus.NewRegistry()}))
	assert.Equal(t, http.StatusNotFound, ask(service, http.MethodGet, "/metrics", "").Code)
}

// The metrics of two services on one registry are summed, and labels keep them apart.
func TestMetrics_ofTwoServicesShareARegistry(t *testing.T) {
	reg := prometheus.NewRegistry()
	for i, name := range []string{"first", "first", "second"} {
		product, key := liveactivity.NewProduct("acme")
		service := musttest.New(liveactivity.New(&liveactivity.Options{Products: []liveactivity.Product{product},
			Keys: []liveactivity.Key{key}, Metrics: prometheus.WrapRegistererWith(prometheus.Labels{"service": name}, reg)}))
		event := pageview(fmt.Sprint("u", i), "s1", "https://app.example.com/a")
		require.Equal(t, http.StatusOK, ask(service, http.MethodPost, "/webhook/acme", event,
			"X-PostHog-Secret: "+product.WebhookSecret).Code)
	}
	for _, name := range []string{"liveactivity_users", "liveactivity_log_entries", "liveactivity_events_total",
		"liveactivity_actions_total"} {
		assert.Equal(t, map[string]float64{"first": 2, "second": 1}, metricstest.By(t, reg, name, "service"), name)
	}
	bytes := metricstest.By(t, reg, "liveactivity_log_bytes", "service")
	assert.Greater(t, bytes["first"], bytes["second"])

	taken := prometheus.NewRegistry()
	require.NoError(t, taken.Register(prometheus.NewCounter(prometheus.CounterOpts{Name: "liveactivity_users"})))
	_, err := liveactivity.New(&liveactivity.Options{Metrics: taken})
	assert.Equal(t, []string{"liveactivity.Metrics"}, musttest.Mistakes(t, err))
}

func TestService_readsNoLogForConversationsOfAProductWithoutDesks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, count := &watchtest.Log{Log: musttest.New(memorylog.New(nil))}, atomic.Int64{}
		log.Before = func(_ context.Context, op watchtest.Op) error {
			if op.Name == "read" {
				count.Add(1)
			}
			return nil
		}
		desk := liveactivity.IntegrationConfig{Desks: map[string]json.RawMessage{
			"intercom": json.RawMessage(`{"base_url":"http://127.0.0.1:1","access_token":"t","admin_id":"1"}`)}}
		service, stop := runService(t, &liveactivity.Options{Log: log, Products: []liveactivity.Product{
			{ProductID: "plain", WebhookSecret: acmeSecret},
			{ProductID: "desk", WebhookSecret: acmeSecret, IntegrationConfig: desk}}})
		reads := map[string]int64{}
		for _, id := range []string{"plain", "desk"} {
			synctest.Wait()
			count.Store(0)
			record(t, service, id, "e1")
			synctest.Wait()
			reads[id] = count.Load()
		}
		require.NoError(t, stop())
		assert.Equal(t, 2*reads["plain"], reads["desk"], "one view reads where another one does nothing")
	})
}
