package waittest_test

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/internal/waittest"
)

// failing is a test that is expected to fail.
type failing struct {
	testing.TB
	said string
}

func (f *failing) Helper() {}

func (f *failing) Name() string { return "failing" }

func (f *failing) Errorf(format string, args ...any) { f.said += fmt.Sprintf(format, args...) }

func (f *failing) Fatalf(format string, args ...any) {
	f.Errorf(format, args...)
	f.FailNow()
}

func (f *failing) FailNow() { runtime.Goexit() }

// says runs a failing test and returns its message and the time it took.
func says(test func(t testing.TB)) (string, time.Duration) {
	began := time.Now()
	f := &failing{}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		test(f)
	}()
	<-ended
	return f.said, time.Since(began)
}

func TestUntil_endsWhenTheConditionHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		said, took := says(func(t testing.TB) {
			waittest.Until(t, "it is late", func() bool { return time.Since(began) > time.Second })
		})
		assert.Empty(t, said)
		assert.InDelta(t, time.Second, took, float64(25*time.Millisecond))
	})
}

func TestUntil_failsTheTestThatWaitsInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said, took := says(func(t testing.TB) {
			waittest.Until(t, "pigs fly", func() bool { return false })
		})
		assert.Contains(t, said, "pigs fly")
		assert.InDelta(t, waittest.Patience, took, float64(time.Second))
	})
}

func TestUntil_letsTheConditionEndTheTest(t *testing.T) {
	said, _ := says(func(t testing.TB) {
		waittest.Until(t, "it is well", func() bool { t.Fatalf("it is not"); return false })
	})
	assert.Equal(t, "it is not", said)
}

func TestEqual_reportsTheLastValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		count := func() int { n++; return n }
		said, _ := says(func(t testing.TB) { waittest.Equal(t, 3, count) })
		assert.Empty(t, said)
		assert.Equal(t, 3, n)
		said, took := says(func(t testing.TB) { waittest.Equal(t, 3, count) })
		assert.Contains(t, said, fmt.Sprint("actual  : ", n))
		assert.InDelta(t, waittest.Patience, took, float64(time.Second))
	})
}
