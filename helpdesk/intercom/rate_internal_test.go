package intercom

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// answer returns the headers of an answer that was sent at this time.
func answer(limit, remaining int, sent, reset time.Time) http.Header {
	h := http.Header{}
	h.Set("Date", sent.UTC().Format(http.TimeFormat))
	h.Set("X-RateLimit-Limit", strconv.Itoa(limit))
	h.Set("X-RateLimit-Remaining", strconv.Itoa(remaining))
	h.Set("X-RateLimit-Reset", strconv.FormatInt(reset.Unix(), 10))
	return h
}

var start = time.Unix(1795314300, 0)

func TestBudget_pausesUntilTheWindowEnds(t *testing.T) {
	var b budget
	assert.Zero(t, b.pause(start), "before the first answer")
	b.observe(start, 200, answer(1666, 34, start, start.Add(7*time.Second)))
	assert.Zero(t, b.pause(start), "there is enough")
	b.observe(start, 200, answer(1666, 33, start, start.Add(7*time.Second)))
	assert.Equal(t, 7*time.Second, b.pause(start))
	assert.Equal(t, time.Second, b.pause(start.Add(6*time.Second)))
	assert.Zero(t, b.pause(start.Add(7*time.Second)))
}

func TestBudget_goesByTheClockOfTheAnswer(t *testing.T) {
	var b budget
	for _, skew := range []time.Duration{-time.Hour, time.Hour} {
		sent := start.Add(skew)
		b.observe(start, 429, answer(100, 5, sent, sent.Add(9*time.Second)))
		assert.Equal(t, 9*time.Second, b.pause(start))
		b = budget{}
	}
}

func TestBudget_ofAnswersInAnotherOrderIsTheLeast(t *testing.T) {
	var b budget
	reset := start.Add(5 * time.Second)
	b.observe(start, 200, answer(100, 0, start, reset))
	b.observe(start, 200, answer(100, 60, start, reset))
	assert.Equal(t, 5*time.Second, b.pause(start))
	b.observe(start, 200, answer(100, 90, start, reset.Add(-10*time.Second)))
	assert.Equal(t, 5*time.Second, b.pause(start), "an answer of the window before")
	b.observe(start, 200, answer(100, 99, start, reset.Add(10*time.Second)))
	assert.Zero(t, b.pause(start), "the next window")
}

func TestBudget_startsAgainWhenTheOtherClockWasSetBack(t *testing.T) {
	var b budget
	b.observe(start, 200, answer(100, 50, start, start.Add(time.Hour)))
	later := start.Add(2 * time.Minute)
	b.observe(later, 200, answer(100, 0, later, later.Add(3*time.Second)))
	assert.Equal(t, 3*time.Second, b.pause(later))
}

func TestBudget_ignoresHeadersThatSayNothing(t *testing.T) {
	var b budget
	for _, h := range []http.Header{{}, {"X-Ratelimit-Remaining": {"0"}}, {"X-Ratelimit-Remaining": {"x"}, "X-Ratelimit-Reset": {"1795314310"}}} {
		b.observe(start, 200, h)
		assert.Zero(t, b.pause(start))
	}
	b.observe(start, 200, answer(100, 0, start, start.Add(24*time.Hour)))
	assert.Equal(t, maxWindow, b.pause(start), "a window is never so long")
}
