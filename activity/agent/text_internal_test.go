package agent

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{-time.Hour: "0 s", 0: "0 s", 59999 * time.Millisecond: "59 s",
		time.Minute:   "1 min",
		time.Hour - 1: "59 min", time.Hour: "1 h", 25*time.Hour + 5*time.Minute + 59*time.Second: "25 h 5 min"} {
		assert.Equal(t, want, span(d))
	}
}
