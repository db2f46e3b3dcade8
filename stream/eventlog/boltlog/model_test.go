package boltlog

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// model is a log's contents as they should be.
type model struct {
	*testing.T
	log    *Log
	dir    string
	opts   *Options
	random *rand.Rand

	number   int // of the entries and documents made
	ids      []string
	products map[string]*modelProduct
}

// oddProducts are IDs that a careless naming of buckets would mix up.
var oddProducts = []string{"", "a", "A", "p/", "p/a", "a/log", "log", "\x00", "a\x00", "\xff", "ä", "a b", "format",
	"liveactivity", strings.Repeat("long ", 200), "dropped"}

type modelProduct struct {
	entries []eventlog.Entry // all that were appended; the log holds the newest of them
	docs    map[string]modelDocument
	version document.Version // the newest
}

type modelDocument struct {
	document.Document
	until time.Time // zero means no expiry
}

func (d modelDocument) alive(now time.Time) bool { return d.until.IsZero() || d.until.After(now) }

// Through thousands of random calls of every kind, some of which fail, the log's memory and its
// file agree with the model at all times.
func TestLog_isAsTheModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				opts := &Options{Retention: eventlog.Retention{TTL: time.Hour, MaxBytes: 10_000}, TailBytes: 1 << (8 + seed),
					Logger: slog.New(slog.DiscardHandler)}
				m := &model{T: t, log: openLog(t, dir, opts), dir: dir, opts: opts, random: rand.New(rand.NewPCG(seed, 0)),
					ids: oddProducts[2*seed : 2*seed+2], products: map[string]*modelProduct{}}
				for _, id := range m.ids {
					m.products[id] = &modelProduct{docs: map[string]modelDocument{}}
				}
				for range 120 {
					m.step()
				}
				m.log.finish = (*bolt.Tx).Commit
				m.checkAll()
			})
		})
	}
}

func (m *model) step() {
	id := m.ids[m.random.IntN(2)]
	m.log.finish = m.ending()
	switch m.random.IntN(13) {
	case 0:
		time.Sleep(time.Duration(m.random.Int64N(int64(25 * time.Minute))))
	case 1:
		_ = m.log.Expire(m.Context())
	case 2:
		m.log.finish = (*bolt.Tx).Commit
		stats := m.log.Stats()
		require.NoError(m, m.log.Release())
		m.log = openLog(m.T, m.dir, m.opts)
		m.sameStats(stats)
		require.NoError(m, m.log.Release())
		time.Sleep(time.Duration(m.random.Int64N(int64(25 * time.Minute)))) // nobody has the file open
		m.log = openLog(m.T, m.dir, m.opts)
	case 3:
		time.Sleep(time.Duration(m.random.IntN(5)) * time.Millisecond)
	case 4:
		if m.random.IntN(3) == 0 {
			m.drop(id)
		}
	default:
		m.write(id)
	}
	if m.log.broken != nil {
		require.ErrorIs(m, m.log.broken, ErrUncertain)
		require.NoError(m, m.log.Release())
		m.log = openLog(m.T, m.dir, m.opts)
	}
	m.check(id)
}

func (m *model) sameStats(want map[string]eventlog.Stats) {
	for id, s := range m.log.Stats() {
		s.Dropped = want[id].Dropped // is not kept
		require.Equal(m, want[id], s)
	}
}

// ending returns how the next commit ends.
func (m *model) ending() func(*bolt.Tx) error {
	switch m.random.IntN(8) {
	case 0:
		return func(*bolt.Tx) error { return errDisk }
	case 1:
		return func(tx *bolt.Tx) error { return errors.Join(tx.Commit(), errDisk) }
	}
	return (*bolt.Tx).Commit
}

// write appends some entries with some changes, of which some are refused.
func (m *model) write(id string) {
	p := m.products[id]
	entries := m.entries(p)
	changes, stale := m.changes(p)
	happened := false
	ending := m.log.finish
	m.log.finish = func(tx *bolt.Tx) error {
		before := m.log.lastCommit()
		err := ending(tx)
		happened = m.log.lastCommit() > before
		return err
	}
	now := time.Now()
	held := m.keysHeld(id)
	// Not Append, which leaves the entries as they are when it fails.
	a := newAddition(entries, changes)
	a.filings = make([]recent.Filing, len(entries))
	err := m.log.write(m.Context(), id, a)
	entries = a.entries
	var duplicate *eventlog.DuplicateError
	var conflict *document.ConflictError
	switch {
	case errors.Is(err, errDisk):
		if !happened || stale || clash(held, entries) {
			return
		}
	case errors.As(err, &duplicate):
		require.True(m, clash(held, entries), "what is a duplicate?")
		return
	case errors.As(err, &conflict):
		require.True(m, stale, "what is in conflict?")
		return
	default:
		require.NoError(m, err)
		require.False(m, stale)
	}
	p.entries = append(p.entries, entries...)
	p.apply(m, id, changes, now)
}

// drop drops a product, which may fail, or be cut short.
func (m *model) drop(id string) {
	ending, commits, happened := m.log.finish, 0, false
	m.log.finish = func(tx *bolt.Tx) error {
		before := m.log.lastCommit()
		err := ending(tx)
		if commits++; commits == 1 {
			happened = m.log.lastCommit() > before
		}
		return err
	}
	if err := m.log.Drop(m.Context(), id, 0); err != nil {
		require.ErrorIs(m, err, errDisk)
	}
	if happened {
		clear(m.products[id].docs)
	}
}

func (m *model) entries(p *modelProduct) []eventlog.Entry {
	var entries []eventlog.Entry
	for range m.random.IntN(5) {
		e := eventlog.Entry{SessionID: strings.Repeat("s", m.random.IntN(200)), Data: m.bytes(1500)}
		for k := range m.random.IntN(4) {
			e.Keys = append(e.Keys, feed.KeyOf(fmt.Sprint(m.number, "/", k)))
		}
		if len(p.entries) > 0 && m.random.IntN(15) == 0 { // again, of one held or dropped
			e.Keys = p.entries[m.random.IntN(len(p.entries))].Keys
		}
		entries = append(entries, e)
	}
	return entries
}

// bytes returns fewer bytes than that, which end with the next number if there is room.
func (m *model) bytes(limit int) []byte {
	m.number++
	all := fmt.Appendf(nil, "%0*d", limit, m.number)
	return all[1+m.random.IntN(limit):]
}

// keysHeld returns the keys in the file, of which the next append forgets some that have expired.
func (m *model) keysHeld(id string) map[feed.Key]struct{} {
	if p := m.log.products.Known(id); p != nil {
		return maps.Clone(p.keys)
	}
	return nil
}

// clash reports whether an entry has a key that is held, or one of another.
func clash(held map[feed.Key]struct{}, entries []eventlog.Entry) bool {
	held = maps.Clone(held)
	if held == nil {
		held = map[feed.Key]struct{}{}
	}
	for _, e := range entries {
		for _, key := range e.Keys {
			if _, ok := held[key]; ok {
				return true
			}
			held[key] = struct{}{}
		}
	}
	return false
}

// changes returns changes of some documents, and whether one of them is stale.
func (m *model) changes(p *modelProduct) (changes []document.Change, stale bool) {
	for _, n := range m.random.Perm(8)[:m.random.IntN(4)] {
		d := p.docs[fmt.Sprint("document ", n)].Document
		d.Name = fmt.Sprint("document ", n)
		if !p.docs[d.Name].alive(time.Now()) {
			d.Version = 0
		}
		if m.random.IntN(15) == 0 {
			d.Version++
			stale = true
		}
		ttls := []time.Duration{0, 1, time.Millisecond, time.Minute, 30 * time.Minute, 5 * time.Hour,
			100 * 365 * 24 * time.Hour, math.MaxInt64}
		ttl := ttls[m.random.IntN(len(ttls))]
		switch op := m.random.IntN(6); {
		case op == 0 && d.Exists():
			changes = append(changes, document.Delete(d))
		case op == 1:
			changes = append(changes, document.Check(d))
		case op < 4 && d.Exists():
			changes = append(changes, document.Touch(d, ttl))
		default:
			changes = append(changes, document.Put(d, m.bytes(400), ttl))
		}
	}
	return changes, stale
}

// apply makes the changes in the model, and takes over the versions given.
func (p *modelProduct) apply(m *model, id string, changes []document.Change, now time.Time) {
	given := p.version
	for _, c := range changes {
		d := p.docs[c.Name]
		if c.TTL > 0 { // of whole milliseconds
			d.until = now.Add(c.TTL).Add(time.Millisecond - 1).Truncate(time.Millisecond)
		} else {
			d.until = time.Time{}
		}
		switch c.Op {
		case document.OpDelete:
			delete(p.docs, c.Name)
		case document.OpTouch:
			p.docs[c.Name] = d
		case document.OpPut:
			d.Document = document.Document{Name: c.Name, Value: c.Value, Version: m.versionOf(id)}
			require.Greater(m, d.Version, p.version)
			given = d.Version
			p.docs[c.Name] = d
		}
	}
	p.version = given
}

// versionOf returns the newest version that the file has of a product.
func (m *model) versionOf(id string) (version document.Version) {
	require.NoError(m, m.log.view(func(tx *bolt.Tx) error {
		s, err := parseState(tx.Bucket([]byte(productPrefix+id)), []byte(productPrefix+id))
		version = document.Version(s.Version)
		return err
	}))
	return version
}

// check compares a product as its readers find it with the model.
func (m *model) check(id string) {
	p := m.products[id]
	ctx, now := m.Context(), time.Now()
	b, err := m.log.Bounds(ctx, id)
	require.NoError(m, err)
	var dst []eventlog.Entry
	require.NoError(m, m.log.view(func(tx *bolt.Tx) error {
		if bucket := tx.Bucket([]byte(productPrefix + id)); bucket != nil {
			c := bucket.Bucket(bucketLog).Cursor()
			for k, v := c.Seek(keyAfter(b.TrimmedTo)); k != nil; k, v = c.Next() {
				e, err := parseEntry(k, v)
				if err != nil || e.ID.Compare(b.Newest) > 0 {
					return err
				}
				dst = append(dst, e)
			}
		}
		return nil
	}))
	n := len(dst)
	page := make([]eventlog.Entry, []int{1, 7, 1000}[m.random.IntN(3)])
	after, begin := b.TrimmedTo, m.random.IntN(n+1)
	if begin > 0 {
		after = dst[begin-1].ID
	}
	read, err := m.log.Read(ctx, id, after, page)
	require.NoError(m, err)
	require.Equal(m, min(len(page), n-begin), read)
	require.True(m, slices.EqualFunc(dst[begin:begin+read], page[:read], func(a, b eventlog.Entry) bool {
		return a.ID == b.ID && bytes.Equal(a.Data, b.Data)
	}))
	for i, want := range p.entries[len(p.entries)-n:] {
		got := dst[i]
		same := got.ID == want.ID && got.SessionID == want.SessionID && bytes.Equal(got.Data, want.Data) &&
			slices.Equal(got.Keys, want.Keys)
		require.True(m, same && now.Sub(got.ID.Time()) < time.Hour, "%v and %v", want, got)
	}
	if dropped := len(p.entries) - n; dropped > 0 {
		require.Equal(m, p.entries[dropped-1].ID, b.TrimmedTo)
		_, err = m.log.Read(ctx, id, p.entries[0].ID, page)
		if dropped > 1 {
			require.ErrorAs(m, err, new(*eventlog.GapError))
		}
	}
	docs, err := m.log.Documents().List(ctx, id, "", "", 1000)
	require.NoError(m, err)
	var alive []document.Document
	for _, name := range slices.Sorted(maps.Keys(p.docs)) {
		if d := p.docs[name]; d.alive(now) {
			alive = append(alive, d.Document)
		}
	}
	require.Equal(m, fmt.Sprint(alive), fmt.Sprint(docs))
	require.Equal(m, m.log.Stats()[id].Bytes, requireConsistent(m, m.log, id))
}

// checkAll checks that in the end the file is empty except for documents that never expire.
func (m *model) checkAll() {
	require.NoError(m, m.log.Expire(m.Context()))
	for id, s := range m.log.Stats() {
		require.True(m, s.Bytes <= m.opts.Retention.MaxBytes || s.Entries == 1, "%s: %+v", id, s)
	}
	time.Sleep(24 * time.Hour)
	require.NoError(m, m.log.Expire(m.Context()))
	for id := range m.products {
		m.check(id)
		require.Zero(m, m.log.Stats()[id].Bytes)
	}
}

// requireConsistent fails the test unless the file of a product is as its format says, and
// memory as the file. It returns the bytes of the entries.
func requireConsistent(t require.TestingT, l *Log, id string) int64 {
	p, bucket := l.product(id), []byte(productPrefix+id)
	require.NoError(t, l.view(func(tx *bolt.Tx) error {
		b := tx.Bucket(bucket)
		if b == nil {
			return nil
		}
		s, err := parseState(b, bucket)
		require.NoError(t, err)
		require.Equal(t, s, p.state)
		found := newProduct(id, s)
		counted := state{Born: s.Born, TrimmedTo: s.TrimmedTo, Version: s.Version}
		other := &Log{users: musttest.New(recent.NewMemory(nil))}
		require.NoError(t, other.loadEntries(found, b.Bucket(bucketLog), &counted, &reading{}))
		require.NoError(t, errorOf(loadDocuments(b, &counted, &reading{})))
		require.Equal(t, s, counted)
		require.Equal(t, found.keys, p.keys)
		require.Equal(t, found.last, p.last)
		return b.Bucket(bucketDocuments).ForEach(func(k, v []byte) error {
			r, err := parseRecord(k, v)
			require.LessOrEqual(t, r.due&^last, r.until)
			require.Equal(t, r.due != 0, b.Bucket(bucketDue).Get(dueKey(r.due, k)) != nil)
			return err
		})
	}))
	return int64(p.state.Bytes)
}
