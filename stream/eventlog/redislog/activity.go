package redislog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/activity/recent"
)

// users is the [recent.Store] of a log. Memory holds no actions: each read is one script,
// which sees one instant, and does not need Run.
type users struct{ log *Log }

// Activity implements [eventlog.Log]. It has the actions of all servers.
func (l *Log) Activity() recent.Store { return users{l} }

// maxRun is the most actions that the script files in one call of HSET.
const maxRun = 200

// addActions adds the batch's actions in runs of one user in one session. An error means that
// an action cannot be encoded; the commit must then not be made.
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

// addRun adds actions of a user in a session, either of which may be empty. Actions with
// neither have no owner, and are left out.
func (c *commit) addRun(user, session string, actions []activity.BatchAction) error {
	if user == "" && session == "" {
		return nil
	}
	c.beginRun(user, session, len(actions))
	for i := range actions {
		a := &actions[i]
		r, err := recent.NewRecord(session, a.Action)
		if err != nil {
			return err
		}
		c.addRecord(feed.KeyOf(a.ID), r.Start, user, r.JSON)
	}
	return nil
}

// addIdentity adds an identity, by the key of its entry, as a run of one record. None is added
// for nil, or without a session or a key.
func (c *commit) addIdentity(who *feed.Identity, keys []feed.Key) {
	if who == nil || who.SessionID == "" || len(keys) == 0 {
		return
	}
	c.beginRun(who.UserID, who.SessionID, 1)
	c.addRecord(keys[0], who.At, who.UserID, identityMark+string([]byte{byte(who.Standing)})+who.AnonymousID)
}

// identityMark begins an identity, as a brace begins the JSON of an action. A byte of the
// standing and the anonymous id follow.
const identityMark = "i\x00"

// beginRun adds the head of a run. The caller must add its n records next.
func (c *commit) beginRun(user, session string, n int) {
	c.args = append(c.args, user, heldName(session, user), n)
	c.runs++
	c.work += 2 + n
}

// heldName returns the name that a session has in Redis. A user's actions outside
// any session are stored as a session of that user.
func heldName(session, user string) string {
	if session == "" {
		return "u:" + user
	}
	return "s:" + session
}

// addRecord adds three arguments: the seven-digit number of the commit's next action followed by
// its key, the action's start in microseconds since the epoch, and the record, which is the
// length of the user, the user and the text.
func (c *commit) addRecord(key feed.Key, start int64, user, text string) {
	c.actions++
	record := strconv.Itoa(len(user)) + " " + user + text
	c.args = append(c.args, fmt.Sprintf("%07d%s", c.actions, key[:]), start, record)
	c.size += len(record)
}

// errRecord is the error for a stored action or identity that no script can have
// written.
var errRecord = errors.New("redislog: activity: strange record")

// position returns the position of the commit with that version, which is a time in
// microseconds. It is zero if the text is not a number.
func position(version string) recent.Position {
	v, _ := strconv.ParseUint(version, 10, 64)
	return recent.Position{Milli: v / 1000, Seq: v % 1000}
}

// numberDigits is the number of digits in an action's number, which follows the version
// of its commit.
const numberDigits = 7

// unpackHeld parses the values that the script returns for a session, in any order. A
// value is one text:
//
//	version, number of 7 digits, " ", start, " ", length of the user, " ", user, record
//
// The version of its commit and the number give the order of arrival. The record is the JSON
// of an action, or an identity, see identityMark. The session's size is also a value, without
// a space. Actions are returned in the order of their start, and of arrival if they start
// together; identities are returned in the order of arrival.
func unpackHeld(name string, values []any) (*recent.Held, error) {
	h := &recent.Held{}
	if session, ok := strings.CutPrefix(name, "s:"); ok {
		h.Session = session
	}
	for _, text := range inOrder(values) {
		number, rest, _ := strings.Cut(text, " ")
		start, rest, _ := strings.Cut(rest, " ")
		length, rest, _ := strings.Cut(rest, " ")
		n, err := strconv.Atoi(length)
		at, startErr := strconv.ParseInt(start, 10, 64)
		if err != nil || startErr != nil || n < 0 || n >= len(rest) {
			return nil, errRecord
		}
		user, record := rest[:n], rest[n:]
		came := position(number[:max(0, len(number)-numberDigits)])
		if said, ok := strings.CutPrefix(record, identityMark); ok && said != "" {
			h.Identities = append(h.Identities, recent.HeldIdentity{At: at, Anonymous: said[1:], UserID: user,
				Standing: activity.Standing(said[0]), Arrived: came})
			continue
		}
		h.Actions = append(h.Actions, recent.HeldAction{User: user, Start: at, JSON: record, Arrived: came})
	}
	slices.SortStableFunc(h.Actions, func(a, b recent.HeldAction) int { return cmp.Compare(a.Start, b.Start) })
	return h, nil
}

// inOrder returns the values of actions and identities in the order of arrival.
func inOrder(values []any) []string {
	texts := make([]string, 0, len(values))
	for _, value := range values {
		if text, _ := value.(string); strings.Contains(text, " ") { // the size has none
			texts = append(texts, text)
		}
	}
	slices.SortFunc(texts, func(a, b string) int { // by the numbers that they begin with
		return cmp.Or(cmp.Compare(strings.IndexByte(a, ' '), strings.IndexByte(b, ' ')), cmp.Compare(a, b))
	})
	return texts
}

// found is an atomic read of activity.
type found struct {
	held   []*recent.Held
	oldest int64 // microseconds since the epoch: earlier actions have expired
	upto   recent.Position
}

// look reads a user's sessions without the first n or, if userID is empty, only the named session, from
// the primary. Once the values exceed 1 MiB, it leaves out the sessions with older actions.
func (u users) look(ctx context.Context, productID, userID, name string, n int) (v found, err error) {
	k, ttl := keysOf(u.log.opts.Prefix, productID), u.log.opts.Retention.TTL
	key := k.of("user:" + userID)
	if name != "" {
		key = k.of("held:" + name)
	}
	reply, err := u.log.product(productID).ask(ctx, recentScript,
		[]string{key}, milliseconds(ttl), u.log.opts.MaxEvents, k.of("held:"), name, n)
	if err != nil {
		return found{}, failed("activity", err)
	}
	version, _ := reply[0].(string)
	v = found{oldest: u.log.Now().Add(-ttl).UnixMicro(), upto: position(version)}
	for i := 1; i+1 < len(reply); i += 2 {
		name, _ := reply[i].(string)
		values, _ := reply[i+1].([]any)
		h, err := unpackHeld(name, values)
		if err != nil {
			return found{}, err
		}
		v.held = append(v.held, h)
	}
	return v, nil
}

// Recent implements [recent.Store].
func (u users) Recent(ctx context.Context, productID string, of recent.Subject, limit int) (recent.Snapshot, error) {
	if of.UserID == "" {
		v, err := u.look(ctx, productID, "", heldName(of.SessionID, ""), 0)
		return recent.Snapshot{Records: v.session(limit), Upto: v.upto}, err
	}
	v, err := u.look(ctx, productID, of.UserID, "", 0)
	return recent.Snapshot{Records: recent.RecordsOf(of.UserID, v.held, v.oldest, min(limit, u.log.opts.MaxEvents)),
		Upto: v.upto}, err
}

// Sessions implements [recent.Store]. If the user returns to a session between two reads, it
// moves to the front, and others are read again.
func (u users) Sessions(
	ctx context.Context, productID, userID string) (ids []string, outside recent.Records, err error,
) {
	if userID == "" {
		return nil, nil, nil
	}
	for n := 0; ; {
		v, err := u.look(ctx, productID, userID, "", n)
		if err != nil {
			return nil, nil, err
		}
		if len(v.held) == 0 {
			break
		}
		n += len(v.held)
		for _, h := range v.held {
			as := func(a recent.HeldAction) bool { return a.User == userID }
			said := func(i recent.HeldIdentity) bool { return i.UserID == userID }
			if h.Session != "" && (slices.ContainsFunc(h.Actions, as) || slices.ContainsFunc(h.Identities, said) ||
				len(recent.RecordsOf(userID, []*recent.Held{h}, v.oldest, 1)) > 0) {
				ids = append(ids, h.Session)
			}
		}
	}
	slices.Sort(ids)
	v, err := u.look(ctx, productID, "", heldName("", userID), 0)
	return slices.Compact(ids), v.session(u.log.opts.MaxEvents), err
}

// session returns the newest actions of the session that was read, or none if there
// was no session.
func (v found) session(limit int) recent.Records {
	if len(v.held) == 0 {
		return nil
	}
	return v.held[0].Records(v.oldest, limit)
}
