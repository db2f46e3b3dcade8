package main

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/stream"
	"github.com/liveactivity/liveactivity/stream/streamtest"
)

// A handler is a function, so most of its tests need no stream.
func TestWatch_alertsOnce(t *testing.T) {
	cases := []struct {
		name    string
		batches []activity.Batch
		alerts  []string
	}{
		{"too few views", []activity.Batch{views("ada", 1), views("ada", 1)}, nil},
		{"three views, one by one", []activity.Batch{views("ada", 1), views("ada", 1), views("ada", 1)},
			[]string{"ada@example.com"}},
		{"three views at once", []activity.Batch{views("ada", 3)}, []string{"ada@example.com"}},
		{"many views", []activity.Batch{views("ada", 2), views("ada", 2), views("ada", 5)}, []string{"ada@example.com"}},
		{"of two people", []activity.Batch{views("ada", 2), views("bob", 2)}, nil},
		{"of two people, enough of one", []activity.Batch{views("ada", 2), views("bob", 2), views("bob", 1)},
			[]string{"bob@example.com"}},
		{"of another page", []activity.Batch{on("https://app.example.com/account", "ada", 3)}, nil},
		{"with a query", []activity.Batch{on("https://app.example.com/account/cancel/?from=mail", "ada", 3)},
			[]string{"ada@example.com"}},
		{"outside any session", []activity.Batch{views("", 3)}, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var alerts []string
			w := newWatch("/account/cancel", func(_ context.Context, email string) error {
				alerts = append(alerts, email)
				return nil
			})
			for _, b := range c.batches {
				require.NoError(t, w.actions(t.Context(), b))
			}
			require.Equal(t, c.alerts, alerts)
		})
	}
}

// The rest of this file tests the way from the server to the handler. Time in a synctest bubble
// stands still until everybody waits, so back-offs take none.

func TestWatch_countsOnceThroughADisconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.server.Send(views("ada", 1))
		c.settle()
		c.server.Disconnect()
		c.server.Send(views("ada", 1)) // no consumer is connected
		c.settle()
		require.Empty(t, c.alerts, "each view came once")
		c.server.Disconnect()
		c.server.Send(views("ada", 1))
		c.settle()
		require.Equal(t, []string{"ada@example.com"}, c.alerts)
	})
}

func TestWatch_countsATornEventOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.server.Tear(100) // cut the connection after 100 bytes of the next event
		c.server.Send(views("ada", 2))
		c.settle()
		require.Empty(t, c.alerts)
		require.Len(t, c.server.Requests(), 2, "it came back")
		c.server.Send(views("ada", 1))
		c.settle()
		require.Equal(t, []string{"ada@example.com"}, c.alerts)
	})
}

func TestWatch_waitsForAnOverloadedServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.server.Refuse(http.StatusServiceUnavailable, 2)
		c.server.Disconnect()
		c.server.Send(views("ada", 3))
		c.settle()
		require.Equal(t, []string{"ada@example.com"}, c.alerts)

		requests := c.server.Requests()
		require.Len(t, requests, 4)
		for i, status := range []int{http.StatusOK, http.StatusServiceUnavailable, http.StatusServiceUnavailable,
			http.StatusOK} {
			require.Equal(t, status, requests[i].Status)
		}
		require.GreaterOrEqual(t, requests[2].At.Sub(requests[1].At), time.Second, "the server asked for that pause")
	})
}

func TestWatch_endsWhenItsKeyIsTakenAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.server.Refuse(http.StatusUnauthorized, -1)
		c.server.Disconnect()
		c.settle()
		var refused *stream.RefusedError
		require.ErrorAs(t, c.err, &refused)
		require.Equal(t, http.StatusUnauthorized, refused.Status)
	})
}

// A failed alert is tried again, and the views before it are not counted twice.
func TestWatch_repeatsAnAlertThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.failures = 3
		c.server.Send(views("ada", 3), views("bob", 2))
		c.settle()
		require.Zero(t, c.failures, "it was tried three times in vain")
		require.Equal(t, []string{"ada@example.com"}, c.alerts)
	})
}

// A message of no use to this consumer does not stop it.
func TestWatch_passesOverTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.server.SendRaw(`{"type":"something new"}`)
		c.server.SendRaw(`no JSON at all`)
		c.server.SendSummary(stream.Summary{SessionID: "session of ada", Text: "Visited the home page."})
		c.server.Send(views("ada", 3))
		c.settle()
		require.Equal(t, []string{"ada@example.com"}, c.alerts)
	})
}

// The whole program runs over a real connection.
func TestRun(t *testing.T) {
	server, err := streamtest.NewServer(nil)
	require.NoError(t, err)
	defer server.Close()
	ctx, stop := context.WithCancel(t.Context())
	printed, ended := make(writes, 1), make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"--stream-url", server.URL(), "--token", server.Token(), "--page", "/exit"}, printed)
	}()
	require.NoError(t, server.WaitConnected(ctx))
	server.Send(on("https://app.example.com/exit", "ada", 3))
	require.Equal(t, "ada@example.com is about to leave\n", <-printed)
	stop()
	require.ErrorIs(t, <-ended, context.Canceled)
}

// writes is a writer that hands over each written text.
type writes chan string

func (w writes) Write(p []byte) (int, error) {
	w <- string(p)
	return len(p), nil
}

// views returns views of the watched page by somebody in one session.
func views(name string, times int) activity.Batch {
	return on("https://app.example.com/account/cancel", name, times)
}

func on(url, name string, times int) activity.Batch {
	b := activity.Batch{Email: name + "@example.com"}
	if name != "" {
		b.SessionID = "session of " + name
	}
	for range times {
		view := activity.NewAction(activity.TypePageview, activity.Target{}, url)
		b.Actions = append(b.Actions, activity.BatchAction{Action: view})
	}
	return b
}

// consuming is a watch that consumes the stream of a server in memory. A test reads its fields when
// everything has settled.
type consuming struct {
	server   *streamtest.Server
	alerts   []string
	failures int   // how many alerts fail from now on
	err      error // of Run, once it has ended
}

// start returns when the consumer is connected. It runs until the test ends.
func start(t *testing.T) *consuming {
	t.Helper()
	server, err := streamtest.NewServer(&streamtest.ServerOptions{InMemory: true})
	require.NoError(t, err)
	c := &consuming{server: server}
	t.Cleanup(c.server.Close)
	w := newWatch("/account/cancel", c.alert)
	consumer, err := stream.NewConsumer(c.server.URL(), c.server.Token(), stream.Handlers{Actions: w.actions},
		&stream.ConsumerOptions{Client: c.server.Client()})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.err = consumer.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	require.NoError(t, c.server.WaitConnected(ctx))
	return c
}

func (c *consuming) alert(_ context.Context, email string) error {
	if c.failures > 0 {
		c.failures--
		return errors.New("the pager is busy")
	}
	c.alerts = append(c.alerts, email)
	return nil
}

// settle lets a minute pass, which takes no time, and returns when nothing is left to do: back-offs
// are over, and all sent batches have been handled.
func (c *consuming) settle() {
	time.Sleep(time.Minute)
	synctest.Wait()
}
