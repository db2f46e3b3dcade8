package redislog

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// A commit is one call of the script, which Redis executes as a whole. The commits of a product
// go to Redis in order, one round trip at a time:
//
//	commit          waits in the group for the round trip in flight
//	together        as many of the first commits as share a round trip
//	commitTogether  drops the ones that cannot or need not be sent
//	send            a pipeline, with an answer for each
//	committed       in order: extends the tail, if it ends there, and wakes readers
//
// Commits of a round trip are independent: one may be refused, or lost along with its answer,
// and the next one can still happen. A commit without an answer is never sent again; its caller
// gets an error, but the commit may have happened.

// Limits of the commits that share a round trip, during which Redis serves no one else: their
// number, the bytes of their arguments, and their work. A commit that is larger gets a round
// trip of its own.
const (
	maxCommits     = 64
	maxCommitBytes = 1 << 20
	maxCommitWork  = 512
)

// othersTurn is how long a product pauses after a commit of more than
// maxCommitWork. Without the pause, others that make one call after another would
// have to wait for a large commit at each call.
const othersTurn = time.Millisecond

// commit makes the commit and returns its error, or an error if ctx ends first. Then the commit
// no longer belongs to the caller, and may still happen.
func (p *product) commit(ctx context.Context, c *commit) error {
	c.since = time.Now()
	if err := p.commits.Do(ctx, c); err != nil {
		return failed("commit", err) // the commit may still happen
	}
	return c.err
}

// commitAll makes commits, in order and in as few round trips as their size allows. There is
// one call at a time for each product; it owns failedAt, failure and turn. Each commit has its
// outcome when it returns.
func (p *product) commitAll(commits []*commit) {
	for len(commits) > 0 {
		n := together(commits)
		time.Sleep(time.Until(p.turn))
		p.commitTogether(commits[:n])
		if commits[0].work > maxCommitWork {
			p.turn = time.Now().Add(othersTurn)
		}
		commits = commits[n:]
	}
}

// together returns how many of the first commits share a round trip.
func together(commits []*commit) int {
	n, size, work := 1, commits[0].size, commits[0].work
	for n < len(commits) &&
		size+commits[n].size <= maxCommitBytes && work+commits[n].work <= maxCommitWork {
		size += commits[n].size
		work += commits[n].work
		n++
	}
	return n
}

// commitTogether makes commits in one round trip, within callTimeout, whether or not their
// callers still wait. Commits that were waiting while Redis failed to answer earlier ones also
// fail, without being sent: no caller should have to wait twice.
func (p *product) commitTogether(commits []*commit) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	p.setCommitting(true)
	defer p.setCommitting(false)
	began := time.Now()
	var current []*commit
	for _, c := range commits {
		switch {
		case len(c.args) == 0: // it only waits for earlier commits
			c.err = nil
		case c.appends && p.log.closed.Load():
			c.err = eventlog.ErrClosed
		case c.since.Before(p.failedAt):
			c.err = p.failure
		default:
			current = append(current, c)
		}
	}
	if len(current) == 0 {
		return
	}
	for i, cmd := range p.send(ctx, current) {
		c := current[i]
		if c.err = failed("commit", cmd.Err()); c.err == nil {
			c.err = p.committed(c, cmd, began)
		} else if isAway(cmd.Err()) {
			p.failedAt, p.failure = time.Now(), c.err
		}
		p.log.renewAfter(c.err)
	}
	if p.failedAt.After(began) {
		p.log.reloadAfter(p.failure)
	}
}

// send sends commits and returns their answers, one for each, at the same index. If Redis
// does not know the script, a commit has had no effect: it is sent again with the whole
// script, after the others of this round trip. The order of such commits stays.
func (p *product) send(ctx context.Context, commits []*commit) []*redis.Cmd {
	cmds := make([]*redis.Cmd, len(commits))
	client, err := p.log.redis(ctx)
	for _, whole := range []bool{false, true} {
		var pipe redis.Pipeliner
		for i, c := range commits {
			if whole && !redis.HasErrorPrefix(cmds[i].Err(), "NOSCRIPT") {
				continue
			}
			if cmds[i] = p.command(ctx, c, whole); err != nil {
				cmds[i].SetErr(err)
				continue
			}
			if pipe == nil {
				pipe = client.Pipeline()
			}
			_ = pipe.Process(ctx, once{cmds[i]}) // it queues
		}
		if pipe == nil {
			break
		}
		_, _ = pipe.Exec(ctx) // every command has its own error
	}
	return cmds
}

// command returns the call of the script that makes a commit, by the script's digest or with
// the whole script. It does not use [redis.Script], because the client sends such calls
// again. It carries the newest ID and version that this process knows, so that the next ones
// are greater even if Redis has lost them.
func (p *product) command(ctx context.Context, c *commit, whole bool) *redis.Cmd {
	o := p.log.opts
	known, _ := p.memory()
	args := make([]any, 0, 16+len(p.scriptKeys)+len(c.args))
	if whole {
		args = append(args, "eval", commitSource)
	} else {
		args = append(args, "evalsha", commitScript.Hash())
	}
	args = append(args, len(p.scriptKeys))
	for _, key := range p.scriptKeys {
		args = append(args, key)
	}
	args = append(args, p.arguments(o.MaxEvents, channel(o.Prefix), p.id, known.Milli, known.Seq, p.version.Load(),
		c.documents, len(c.entries), c.runs, uint64(c.of))...)
	args = append(args, c.args...)
	cmd := redis.NewCmd(ctx, args...)
	cmd.SetFirstKeyPos(3)
	return cmd
}

// once is a command that the client must not send again when its answer is lost:
// Redis may have executed it.
type once struct{ *redis.Cmd }

// NoRetry implements [redis.Cmder].
func (once) NoRetry() bool { return true }

// Outcomes of the script, the first number of its reply. All but outcomeDone mean that no
// change of the call was made.
const (
	outcomeDone = iota
	outcomeConflict
	outcomeDuplicate
	outcomeDropped
)

// committed records the effect of a commit that Redis has answered, and returns the error for
// its caller. began is a time before the commit was sent. The reply is explained in
// lua/commit.lua; the numbers in n are the outcome, the previous ID, the first ID and the
// version.
func (p *product) committed(c *commit, cmd *redis.Cmd, began time.Time) error {
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
	case outcome == outcomeDropped:
		return document.ErrDropped
	case outcome != outcomeDone || len(reply) != 8:
		return failed("commit", errReply)
	}
	var n [6]uint64
	for i := range n {
		number, _ := reply[i].(int64)
		n[i] = uint64(number)
	}
	c.version = document.Version(n[5])
	p.sawVersion(n[5])
	if len(c.entries) == 0 {
		return nil
	}
	trimmedTo, err := parseID(reply[6])
	lost, errLost := parseRanges(reply[7])
	previous, first := eventlog.ID{Milli: n[1], Seq: n[2]}, eventlog.ID{Milli: n[3], Seq: n[4]}
	p.appended(c.entries, previous, first, trimmedTo, lost, began)
	p.log.balance()
	return errors.Join(err, errLost)
}

// duplicates returns the error for the keys at these positions among the keys of all
// entries, counted from one.
func duplicates(entries []eventlog.Entry, positions []any) error {
	var all []feed.Key
	for _, e := range entries {
		all = append(all, e.Keys...)
	}
	var seen []feed.Key
	for _, position := range positions {
		if i, _ := position.(int64); i > 0 && int(i) <= len(all) {
			seen = append(seen, all[i-1])
		}
	}
	return &eventlog.DuplicateError{Keys: seen}
}
