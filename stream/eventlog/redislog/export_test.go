package redislog

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// packing is put before the script of a commit whose packed arguments are given
// one by one.
const packing = "ARGV[13] = cmsgpack.pack({unpack(ARGV, 13)})\n"

// CommitCommand returns a command with which entries are appended, and the script
// that it calls by its digest. Its arguments are not packed, so that they can be
// those of a program: the script packs them first, and takes a little longer.
func (l *Log) CommitCommand(ctx context.Context, productID string, entries []eventlog.Entry) (args []string, script string, err error) {
	c := &commit{entries: entries}
	c.addEntries(entries)
	for _, e := range entries {
		if err := c.addActions(e.Batch); err != nil {
			return nil, "", err
		}
	}
	command := l.product(productID).command(ctx, c, false).Args()
	for _, arg := range command[:len(command)-1] {
		args = append(args, fmt.Sprint(arg))
	}
	script = packing + sharedSource + commitSource
	args[1] = redis.NewScript(script).Hash()
	const head = 1 + 4 // bytes before a packed text, and before all of them
	for rest := c.args.packed[head:]; len(rest) > 0; {
		end := head + int(binary.BigEndian.Uint32(rest[1:]))
		args, rest = append(args, string(rest[head:end])), rest[end:]
	}
	return args, script, nil
}

// LostSource is the script of the ranges that Redis has lost.
var LostSource = lostSource

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

// Rest makes all products as quiet as after that time.
func (l *Log) Rest(after time.Duration) {
	for _, p := range l.all() {
		p.mu.Lock()
		p.news = p.news.Add(-after)
		p.mu.Unlock()
	}
}
