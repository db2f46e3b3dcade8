package redislog

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// The latency of the answer is not a difference of clocks.
func TestAhead_isTheLeastDifferenceThereCanBe(t *testing.T) {
	before := time.Now()
	after := before.Add(time.Second)
	for there, want := range map[time.Duration]time.Duration{
		-time.Hour: time.Hour, -1: 1, 0: 0, time.Second / 2: 0, time.Second: 0, time.Second + 1: -1, time.Hour: time.Second - time.Hour,
	} {
		assert.Equal(t, want, ahead(before, after, before.Add(there)), there)
	}
}
