package redislog

import (
	"time"

	"github.com/liveactivity/liveactivity/activity/document"
)

// LostSource is the script of the ranges that Redis has lost.
var LostSource = lostSource

// MaxCommitWork is the most work that commits share in a round trip.
const MaxCommitWork = maxCommitWork

// Together returns the work of each round trip for commits with these numbers of changes.
func Together(changes []int) (work []int) {
	var commits []*commit
	for _, n := range changes {
		c := &commit{}
		c.addDocuments(make([]document.Change, n))
		commits = append(commits, c)
	}
	for len(commits) > 0 {
		n, sum := together(commits), 0
		for _, c := range commits[:n] {
			sum += c.work
		}
		work, commits = append(work, sum), commits[n:]
	}
	return work
}

// TailBytes returns the cost of the newest entries that this process has.
func (l *Log) TailBytes() (total int64) {
	for _, p := range l.all() {
		p.mu.Lock()
		total += p.tail.Bytes()
		p.mu.Unlock()
	}
	return total
}

// SetClock gives the log another clock than the machine's. It is called before
// anything else.
func (l *Log) SetClock(now func() time.Time) { l.clock.local = now }

// Watched returns how many products readers wait for.
func (l *Log) Watched() (n int) {
	for _, p := range l.all() {
		p.mu.Lock()
		if p.watched {
			n++
		}
		p.mu.Unlock()
	}
	return n
}

// Rest makes all products as quiet as they would be after that time.
func (l *Log) Rest(after time.Duration) {
	for _, p := range l.all() {
		p.mu.Lock()
		p.news = p.news.Add(-after)
		p.mu.Unlock()
	}
}
