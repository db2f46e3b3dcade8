package redislog

import (
	"context"
	"fmt"
	"time"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// CommitCommand returns the command with which entries are appended, and the
// script that it calls by its digest.
func (l *Log) CommitCommand(ctx context.Context, productID string, entries []eventlog.Entry) (args []string, script string, err error) {
	c := &commit{entries: entries}
	c.addEntries(entries)
	for _, e := range entries {
		if err := c.addActions(e.Batch); err != nil {
			return nil, "", err
		}
	}
	for _, arg := range l.product(productID).command(ctx, c, false).Args() {
		if b, ok := arg.([]byte); ok {
			arg = string(b)
		}
		args = append(args, fmt.Sprint(arg))
	}
	return args, sharedSource + commitSource, nil
}

// MaxCommitWork is how much work commits that share a round trip are.
const MaxCommitWork = maxCommitWork

// Together returns how much work each round trip of commits is that consist of
// so many changes.
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

// TailBytes returns what the newest entries cost that this process has.
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
