package directory_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/activity"
)

// A fact from a clock that was more than a second ahead gives way to a present one. A fact from up
// to a second ahead stays.
func TestDirectory_doesNotWaitForAClockThatWasAhead(t *testing.T) {
	for _, c := range []struct {
		ahead time.Duration
		wins  bool
	}{{time.Hour, true}, {1001 * time.Millisecond, true}, {time.Second, false}, {time.Millisecond, false}, {0, true}} {
		t.Run(c.ahead.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDirectory(0)
				at := func(e activity.Event, ahead time.Duration) activity.Event {
					e.Time = time.Now().Add(ahead)
					return e
				}
				want := func(old, now string) string {
					if c.wins {
						return now
					}
					return old
				}
				d.learn(t, at(seen(0, "s", "old", "old@x.example"), c.ahead))
				s := d.learn(t, at(seen(0, "s", "now", "now@x.example"), 0))
				assert.Equal(t, want("old", "now"), s.UserID)
				assert.Equal(t, want("old@x.example", "now@x.example"), s.Email)

				d.learn(t, at(seen(0, "t", "ada", "ada@x.example"), c.ahead))
				d.learn(t, at(seen(0, "u", "ada", "lovelace@x.example"), 0))
				d.learn(t, at(seen(0, "v", "eve", "ada@x.example"), 0))
				assert.Equal(t, want("ada@x.example", "lovelace@x.example"), d.learn(t, at(seen(0, "w", "ada", ""), 0)).Email,
					"the user's address")
				assert.Equal(t, want("t", "v"), d.sessionOf(t, "ada@x.example"), "the address's session")
			})
		})
	}
}
