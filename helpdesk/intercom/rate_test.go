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

func TestPause_lastsUntilTheWindowEndsByTheClockOfTheAnswer(t *testing.T) {
	for name, tt := range map[string]struct {
		limit, remaining   int
		skew, resets, want time.Duration
	}{
		"there is enough":        {1666, 84, 0, 7 * time.Second, 0},
		"a twentieth is left":    {1666, 83, 0, 7 * time.Second, 7 * time.Second},
		"their clock is behind":  {100, 5, -time.Hour, 9 * time.Second, 9 * time.Second},
		"their clock is ahead":   {100, 5, time.Hour, 9 * time.Second, 9 * time.Second},
		"a window never so long": {100, 0, 0, 24 * time.Hour, time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			sent := time.Now().Add(tt.skew)
			assert.Equal(t, tt.want, pauseAfter(t, stating(tt.limit, tt.remaining, sent, sent.Add(tt.resets))), name)
		})
	}
}

func TestPause_ignoresHeadersThatSayNothing(t *testing.T) {
	soon := strconv.FormatInt(time.Now().Add(5*time.Second).Unix(), 10)
	for _, h := range []http.Header{{}, {"X-Ratelimit-Remaining": {"0"}}, {"X-Ratelimit-Reset": {soon}},
		{"X-Ratelimit-Remaining": {"x"}, "X-Ratelimit-Reset": {soon}}} {
		assert.Zero(t, pauseAfter(t, h))
	}
}
