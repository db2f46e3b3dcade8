package redislog

import (
	"context"
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/liveactivity/liveactivity/activity"
)

// users is the [activity.Store] of a log.
type users struct{ log *Log }

// Activity implements [eventlog.Log]. It has the actions of all servers.
func (l *Log) Activity() activity.Store { return users{l} }

// maxRun is how many actions the script files at once.
const maxRun = 200

// addActions adds the batch's actions in runs of one user in one session.
func (c *commit) addActions(b *activity.Batch) error {
	for i := 0; i < len(b.Actions); {
		user, session := b.Actions[i].UserID, b.Actions[i].SessionID
		n := 1
		for i+n < len(b.Actions) && n < maxRun && b.Actions[i+n].UserID == user && b.Actions[i+n].SessionID == session {
			n++
		}
		if err := c.addRun(user, session, b.Actions[i:i+n]); err != nil {
			return err
		}
		i += n
	}
	return nil
}

// addRun adds actions of a user in a session. An action without a user
// outside any session is no user's next action.
func (c *commit) addRun(user, session string, actions []activity.BatchAction) error {
	if user == "" && session == "" {
		return nil
	}
	c.args.text(user)
	c.addTimeline(session, user)
	c.args.number(int64(len(actions)))
	for i := range actions {
		a := &actions[i]
		start := a.Start().UnixMicro()
		c.addNumber(activity.EventKey(a.ID))
		c.args.number(start)
		if err := c.addRecord(session, start, &a.Action); err != nil {
			return err
		}
	}
	c.counts[2]++
	c.work += 2 + len(actions)
	return nil
}

// addTimeline adds the name of the timeline of a session. The actions of a user
// outside any session is a timeline of that user.
func (c *commit) addTimeline(session, user string) {
	if session == "" {
		c.args.text("u:", user)
	} else {
		c.args.text("s:", session)
	}
}

// addNumber adds the key of the commit's next action after its number, of seven
// digits.
func (c *commit) addNumber(key activity.Key) {
	c.actions++
	start := c.args.begin()
	for unit := 1_000_000; unit > 0; unit /= 10 {
		c.args.packed = append(c.args.packed, byte('0'+c.actions/unit%10))
	}
	c.args.packed = append(c.args.packed, key[:]...)
	c.args.end(start)
}

// addRecord adds an action's record as it is kept: start, length of the session and
// session, separated by spaces, and then the JSON.
func (c *commit) addRecord(session string, start int64, a *activity.Action) error {
	at := c.args.begin()
	packed := strconv.AppendInt(c.args.packed, start, 10)
	packed = append(packed, ' ')
	packed = strconv.AppendInt(packed, int64(len(session)), 10)
	packed = append(packed, ' ')
	packed, err := activity.AppendRecord(append(packed, session...), a)
	c.args.packed = packed
	c.args.end(at)
	return err
}

var errRecord = errors.New("redislog: recent: strange record")

// unpackRecord reads what addRecord wrote, and an end in microseconds; nil
// means that the action ends as it starts.
func unpackRecord(packed string, end any) (activity.Record, error) {
	start, rest, _ := strings.Cut(packed, " ")
	length, rest, _ := strings.Cut(rest, " ")
	n, err := strconv.Atoi(length)
	if err != nil || n < 0 || n > len(rest) {
		return activity.Record{}, errRecord
	}
	r := activity.Record{Session: rest[:n], JSON: rest[n:]}
	if r.Start, err = strconv.ParseInt(start, 10, 64); err != nil {
		return activity.Record{}, errRecord
	}
	r.End = r.Start
	if text, ok := end.(string); ok {
		// Times after the year 2255 come back rounded.
		number, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(number) {
			return activity.Record{}, errRecord
		}
		r.End = max(r.Start, int64(number))
	}
	return r, nil
}

// Recent implements [activity.Store].
func (u users) Recent(ctx context.Context, productID, userID string, limit int) (activity.Recent, error) {
	limit = min(limit, u.log.opts.MaxEvents)
	if limit <= 0 {
		return nil, nil
	}
	k := keysOf(u.log.opts.Prefix, productID)
	values, err := u.log.eval(ctx, recentScript, []string{k.user(userID), k.actions(userID)},
		milliseconds(u.log.opts.Retention.TTL), limit)
	if err != nil {
		return nil, failed("recent", err)
	}
	recent := make(activity.Recent, 0, len(values)/2)
	for i := len(values) - 2; i >= 0; i -= 2 {
		packed, ok := values[i].(string)
		if !ok {
			continue
		}
		r, err := unpackRecord(packed, values[i+1])
		if err != nil {
			return nil, err
		}
		recent = append(recent, r)
	}
	return recent, nil
}
