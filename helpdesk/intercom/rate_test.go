package intercom_test

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/helpdesk/intercom"
)

// limited is an Intercom whose answers have a header and nothing else.
type limited struct{ header http.Header }

func (l limited) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: l.header, Body: io.NopCloser(strings.NewReader("{}"))}, nil
}

// pauseAfter returns the pause after an answer with a header.
func pauseAfter(t *testing.T, header http.Header) time.Duration {
	t.Helper()
	client, err := intercom.New(intercom.Config{AccessToken: "t"},
		&helpdesk.Options{HTTP: &http.Client{Transport: limited{header}}})
	require.NoError(t, err)
	_, _ = client.Contact(t.Context(), "c")
	return client.Pause("")
}

// stating returns the headers of an answer that was sent at this time.
func stating(limit, remaining int, sent, reset time.Time) http.Header {
	h := http.Header{}
	h.Set("Date", sent.UTC().Format(http.TimeFormat))
	h.Set("X-RateLimit-Limit", strconv.Itoa(limit))
	h.Set("X-RateLimit-Remaining", strconv.Itoa(remaining))
	h.Set("X-RateLimit-Reset", strconv.FormatInt(reset.Unix(), 10))
	return h
}

func TestPause_lastsUntilTheWindowEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		assert.Zero(t, pauseAfter(t, stating(1666, 84, now, now.Add(7*time.Second))), "there is enough")
		assert.Equal(t, 7*time.Second, pauseAfter(t, stating(1666, 83, now, now.Add(7*time.Second))))
	})
}

func TestPause_goesByTheClockOfTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, skew := range []time.Duration{-time.Hour, time.Hour} {
			sent := time.Now().Add(skew)
			assert.Equal(t, 9*time.Second, pauseAfter(t, stating(100, 5, sent, sent.Add(9*time.Second))))
		}
	})
}

func TestPause_ignoresHeadersThatSayNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		soon := strconv.FormatInt(time.Now().Add(5*time.Second).Unix(), 10)
		for _, h := range []http.Header{{}, {"X-Ratelimit-Remaining": {"0"}}, {"X-Ratelimit-Reset": {soon}},
			{"X-Ratelimit-Remaining": {"x"}, "X-Ratelimit-Reset": {soon}}} {
			assert.Zero(t, pauseAfter(t, h))
		}
		now := time.Now()
		tomorrow := stating(100, 0, now, now.Add(24*time.Hour))
		assert.Equal(t, time.Minute, pauseAfter(t, tomorrow), "a window is never so long")
	})
}
