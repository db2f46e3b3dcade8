package redislog

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// A product with much to commit leaves Redis to others now and then; a product with little to
// commit waits for nothing.
func TestCommit_leavesRedisToOthersAfterALargeOne(t *testing.T) {
	log := opened(t, "redis://localhost", nil)
	for _, c := range []struct {
		name string
		work int
		want time.Duration
	}{
		{"small", maxCommitWork, 0},
		{"large", maxCommitWork + 1, 2 * othersTurn},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				commits := make([]*commit, 3)
				for i := range commits {
					commits[i] = &commit{work: c.work, args: []any{""}}
				}
				p, began := log.product(c.name), time.Now()
				p.failedAt, p.failure = began, assert.AnError // which fails them, too: they need no Redis
				p.commitAll(commits[:1])
				p.commitAll(commits[1:])
				require.Equal(t, c.want, time.Since(began))
				time.Sleep(othersTurn)
				began = time.Now()
				p.commitAll(commits[:1])
				require.Zero(t, time.Since(began), "what comes later is not delayed")
			})
		})
	}
}

// A shared commit keeps Redis from others for a bounded time.
func TestCommit_sharesABoundedAmountOfWork(t *testing.T) {
	var commits []*commit
	for i := range 64 {
		c := &commit{}
		c.addDocuments(make([]document.Change, 200))
		if i == 5 {
			c.addDocuments(make([]document.Change, 2800)) // for itself
		}
		commits = append(commits, c)
	}
	for len(commits) > 0 {
		n, work := together(commits), 0
		for _, c := range commits[:n] {
			work += c.work
		}
		if work > maxCommitWork {
			require.Equal(t, 3000, work)
		}
		commits = commits[n:]
	}
	require.Equal(t, 64, together(slices.Repeat([]*commit{{}}, 64)))
}

// An announcement during a commit is heard at the end of the commit. It is not heard again at the
// end of the next one if Redis has lost it.
func TestAnnounce_isHeardOnceAfterTheCommit(t *testing.T) {
	log := opened(t, "redis://localhost", nil)
	p, id := log.product("acme"), eventlog.ID{Milli: 1}
	p.setCommitting(true)
	p.announce(id, eventlog.ID{})
	require.Zero(t, p.known)
	changed := log.Changed("acme")
	p.setCommitting(false)
	require.Equal(t, id, p.known)
	<-changed
	p.known = eventlog.ID{} // a reader has asked
	p.setCommitting(true)
	p.setCommitting(false)
	require.Zero(t, p.known)
}

// The latency of the answer is not a difference of clocks.
func TestAhead_isTheLeastDifferenceThereCanBe(t *testing.T) {
	before := time.Now()
	after := before.Add(time.Second)
	for there, want := range map[time.Duration]time.Duration{
		-time.Hour: time.Hour, -1: 1, 0: 0, time.Second / 2: 0, time.Second: 0, time.Second + 1: -1,
		time.Hour: time.Second - time.Hour,
	} {
		assert.Equal(t, want, ahead(before, after, before.Add(there)), there)
	}
}
