package redislog

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/stream"
)

// commit is what one call changes. Commits of a product share round trips.
type commit struct {
	entries []stream.Entry // the caller's; they get their IDs
	args    []any          // of the script, after those that all calls share
	counts  [3]int         // of documents, entries and runs of actions
	actions int            // in the runs
	size    int            // about how many bytes the arguments have
	since   time.Time      // when it was ready

	err     error
	version document.Version // of the documents put
}

// errUnfinished is the outcome of a commit that was given up half-way.
var errUnfinished = errors.New("redislog: commit: it is unknown whether it happened")

// Append implements [stream.Log]. It files the actions of the entries' batches,
// too.
func (l *Log) Append(_ context.Context, productID string, entries []stream.Entry, changes ...document.Change) error {
	if err := document.Validate(changes); err != nil {
		return err
	}
	l.appending.RLock()
	defer l.appending.RUnlock()
	switch repeated := repeatedKeys(entries); {
	case l.closed.Load():
		return stream.ErrClosed
	case len(entries) == 0 && len(changes) == 0:
		return nil
	case repeated != nil:
		return &stream.DuplicateError{Keys: repeated}
	}
	c := &commit{entries: entries}
	c.addDocuments(changes)
	c.addEntries(entries)
	for _, e := range entries {
		if e.Batch == nil {
			continue
		}
		if err := c.addActions(e.Batch); err != nil {
			return err
		}
	}
	return l.product(productID).commit(c)
}

// repeatedKeys returns the keys that are there more than once.
func repeatedKeys(entries []stream.Entry) (repeated []activity.Key) {
	n := 0
	for _, e := range entries {
		n += len(e.Keys)
	}
	seen := make(map[activity.Key]struct{}, n)
	for _, e := range entries {
		for _, key := range e.Keys {
			if _, ok := seen[key]; ok {
				repeated = append(repeated, key)
			}
			seen[key] = struct{}{}
		}
	}
	return repeated
}

func (c *commit) add(values ...any) { c.args = append(c.args, values...) }

func (c *commit) addDocuments(changes []document.Change) {
	for _, change := range changes {
		c.add(int(change.Op), change.Name, strconv.FormatUint(uint64(change.Prev), 10), milliseconds(change.TTL), change.Value)
		c.size += len(change.Name) + len(change.Value)
	}
	c.counts[0] = len(changes)
}

// milliseconds returns a time to live, rounded up.
func milliseconds(ttl time.Duration) int64 {
	return int64((ttl + time.Millisecond - 1) / time.Millisecond)
}

func (c *commit) addEntries(entries []stream.Entry) {
	for _, e := range entries {
		c.add(e.SessionID, e.Data, packKeys(e.Keys))
		c.size += len(e.SessionID) + len(e.Data) + len(activity.Key{})*len(e.Keys)
	}
	c.counts[1] = len(entries)
}

func packKeys(keys []activity.Key) []byte {
	packed := make([]byte, 0, len(activity.Key{})*len(keys))
	for _, key := range keys {
		packed = append(packed, key[:]...)
	}
	return packed
}

func unpackKeys(packed string) []activity.Key {
	const size = len(activity.Key{})
	keys := make([]activity.Key, len(packed)/size)
	for i := range keys {
		copy(keys[i][:], packed[size*i:])
	}
	return keys
}

// Limits of what commits share a round trip. One that is larger has it for
// itself.
const (
	maxCommits     = 64
	maxCommitBytes = 1 << 20
)

// commit makes the commit and returns what became of it.
func (p *product) commit(c *commit) error {
	c.err, c.since = errUnfinished, time.Now()
	p.commits.Do(c)
	return c.err
}

// commitAll makes commits, in order and in as few round trips as their size
// allows. There is one call at a time for each product.
func (p *product) commitAll(commits []*commit) {
	for len(commits) > 0 {
		n, size := 1, commits[0].size
		for n < len(commits) && size+commits[n].size <= maxCommitBytes {
			size += commits[n].size
			n++
		}
		p.commitTogether(commits[:n])
		commits = commits[n:]
	}
}

// commitTogether makes commits in one round trip. Those that were waiting
// while Redis failed to answer the ones before them fail, too: nobody should
// have to wait twice.
func (p *product) commitTogether(commits []*commit) {
	began := time.Now()
	var current []*commit
	for _, c := range commits {
		if c.since.Before(p.failedAt) {
			c.err = p.failure
			continue
		}
		current = append(current, c)
	}
	if len(current) == 0 {
		return
	}
	subscription := p.log.subscription.Load()
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	cmds := p.send(ctx, current)
	for i, c := range current {
		err := cmds[i].Err()
		if err == nil {
			err = p.committed(c, cmds[i], began, subscription)
		} else {
			err = failed("commit", err)
		}
		if c.err = err; isAway(cmds[i].Err()) {
			p.failedAt, p.failure = time.Now(), err
		}
	}
	if p.failedAt.After(began) {
		p.log.lost(p.failure)
	}
}

// send sends commits and returns their answers. Those that Redis does not know
// the script of are sent again, which is safe: they did nothing. The first of
// them brings the script, and when that was forgotten at once each does.
func (p *product) send(ctx context.Context, commits []*commit) []*redis.Cmd {
	cmds := make([]*redis.Cmd, len(commits))
	unknown := make([]int, len(commits))
	for i := range commits {
		unknown[i] = i
	}
	for _, wholes := range []int{0, 1, len(commits)} {
		pipe := p.log.client.Pipeline()
		for n, i := range unknown {
			cmds[i] = p.command(ctx, commits[i], n < wholes)
			_ = pipe.Process(ctx, once{cmds[i]}) // it queues
		}
		_, _ = pipe.Exec(ctx) // every command has its own error
		unknown = unknown[:0]
		for i, cmd := range cmds {
			if isUnknown(cmd.Err()) {
				unknown = append(unknown, i)
			}
		}
		if len(unknown) == 0 {
			break
		}
	}
	return cmds
}

// command returns the call of the script that makes a commit.
func (p *product) command(ctx context.Context, c *commit, whole bool) *redis.Cmd {
	o, known := p.log.opts, p.seen()
	args := append(make([]any, 0, 10+len(c.args)),
		milliseconds(o.Retention.TTL), o.Retention.MaxBytes, o.MaxEvents, channel(o.Prefix), p.id,
		known.Milli, known.Seq, c.counts[0], c.counts[1], c.counts[2])
	return commitScript.command(ctx, whole, p.commitKeys, append(args, c.args...))
}

// Outcomes of the script.
const (
	outcomeDone = iota
	outcomeConflict
	outcomeDuplicate
)

// committed takes note of what a commit did.
func (p *product) committed(c *commit, cmd *redis.Cmd, began time.Time, subscription uint64) error {
	reply, _ := cmd.Slice()
	if len(reply) < 2 {
		return failed("commit", errReply)
	}
	switch outcome, _ := reply[0].(int64); {
	case outcome == outcomeConflict:
		name, _ := reply[1].(string)
		return &document.ConflictError{Name: name}
	case outcome == outcomeDuplicate:
		return duplicates(c.entries, reply[1:])
	case outcome != outcomeDone || len(reply) != 7:
		return failed("commit", errReply)
	}
	var n [6]uint64
	for i := range n {
		number, _ := reply[i].(int64)
		n[i] = uint64(number)
	}
	c.version = document.Version(n[5])
	if len(c.entries) == 0 {
		return nil
	}
	floor, err := parseID(reply[6])
	previous, first := stream.ID{Milli: n[1], Seq: n[2]}, stream.ID{Milli: n[3], Seq: n[4]}
	p.appended(c.entries, previous, first, floor, began, subscription)
	return err
}

// duplicates tells the keys at these positions, counted from one.
func duplicates(entries []stream.Entry, positions []any) error {
	var all []activity.Key
	for _, e := range entries {
		all = append(all, e.Keys...)
	}
	var seen []activity.Key
	for _, position := range positions {
		if i, _ := position.(int64); i > 0 && int(i) <= len(all) {
			seen = append(seen, all[i-1])
		}
	}
	return &stream.DuplicateError{Keys: seen}
}
