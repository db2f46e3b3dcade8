package boltlog

import (
	"bytes"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/eventlogtest"
)

func FuzzParseRun(f *testing.F) {
	f.Add([]byte("0123456789abcdef"), []byte("\x00\x01\x01s\x01"), "session", []byte("{}"), 3)
	f.Add(make([]byte, idSize), []byte("\x00\x02\x00\x00\x00\x00\x00\x00"), "", []byte(nil), 0)
	f.Add([]byte("k"), bytes.Repeat([]byte{0xff}, 40), "\x00", []byte("\xff"), 300)
	f.Fuzz(func(t *testing.T, key, value []byte, session string, data []byte, n int) {
		_, _ = parseRun(key, value)
		value = seal(key, append(make([]byte, sumSize), value...)) // right by its sum only
		if run, err := parseRun(key, value); err == nil {
			require.Equal(t, value, encodeRun(key, run), "every byte is a part")
			require.Equal(t, idAt(key), run[len(run)-1].id)
			require.LessOrEqual(t, run[0].id.Compare(run[len(run)-1].id), 0)
		}
		last := eventlog.ID{Milli: 5, Seq: uint64(n&0xf) + 1}
		key = appendID(nil, last)
		e := eventlog.Entry{SessionID: session, Data: data, Keys: make([]activity.Key, n&0x3ff)}
		for i := range e.Keys {
			e.Keys[i][i%len(e.Keys[i])] = byte(i)
		}
		value = appendEntry(make([]byte, runHead), eventlog.Entry{})
		first := len(value)
		value = appendEntry(value, e)
		require.EqualValues(t, entrySize(e), entryHead+len(value)-first)
		run, err := parseRun(key, sealRun(key, value, 2))
		require.NoError(t, err)
		require.Equal(t, []eventlog.ID{{Milli: 5, Seq: last.Seq - 1}, last}, []eventlog.ID{run[0].id, run[1].id})
		require.Equal(t, entrySize(e), run[1].size())
		require.Equal(t, session, string(run[1].session))
		require.Equal(t, string(data), string(run[1].data))
		require.Equal(t, e.Keys, parseKeys(run[1].keys))
		rest, err := parseRun(key, encodeRun(key, run[1:]))
		require.NoError(t, err)
		require.Equal(t, run[1:], rest)
		_, err = parseRun(append(key, 'x'), value)
		require.ErrorIs(t, err, ErrDamaged)
		_, err = parseRun(key, sealRun(key, value, 3))
		require.ErrorIs(t, err, ErrDamaged)
		_, err = parseRun(key, sealRun(key, value, 1))
		require.ErrorIs(t, err, ErrDamaged)
		value[n&0xffff%len(value)] ^= 1
		_, err = parseRun(key, value)
		require.ErrorIs(t, err, ErrDamaged)
	})
}

// Entries of one call are a few runs, which are cut where they become too large
// and where IDs do not follow each other; entries are read from any other.
func TestRuns_holdTheEntriesOfACall(t *testing.T) {
	const n = 300
	l := openLog(t, t.TempDir(), &Options{TailBytes: 1, Retention: eventlog.Retention{MaxBytes: 50_000}})
	ahead := eventlog.ID{Milli: uint64(time.Now().Add(time.Hour).UnixMilli()), Seq: math.MaxUint64 - n/2}
	l.product(acme).last = ahead
	entries := make([]eventlog.Entry, n)
	for i := range entries {
		entries[i] = eventlogtest.Sized(eventlogtest.Entry("a", i), 100)
	}
	require.NoError(t, l.Append(t.Context(), acme, entries))
	require.Equal(t, eventlog.ID{Milli: ahead.Milli, Seq: math.MaxUint64}, entries[n/2-1].ID)
	require.Equal(t, eventlog.ID{Milli: ahead.Milli + 1}, entries[n/2].ID)
	requireConsistent(t, l, acme)
	runs := countOf(t, l, bucketLog)
	require.Greater(t, runs, int(l.Stats()[acme].Bytes/runBytes))
	require.Less(t, runs, n/20)

	for held := n; held > n/2; held -= 7 { // the front goes
		for i := n - held; i < n; i++ {
			into := make([]eventlog.Entry, 2)
			read, err := l.Read(t.Context(), acme, entries[i].ID, into)
			require.NoError(t, err)
			require.Equal(t, min(2, n-1-i), read)
			if read > 0 {
				require.Equal(t, entries[i+1].ID, into[0].ID)
				require.Equal(t, entries[i+1].Data, into[0].Data)
			}
			before, after, err := l.around(l.product(acme), entries[i].ID)
			require.NoError(t, err)
			require.Equal(t, []eventlog.ID{entries[i].ID, into[0].ID}, []eventlog.ID{before, after})
		}
		require.NoError(t, l.do(t.Context(), &operation{product: l.product(acme), trims: 7}))
		requireConsistent(t, l, acme)
		b := eventlogtest.Bounds(t, l, acme)
		require.Equal(t, eventlog.Bounds{TrimmedTo: entries[n-held+6].ID, Oldest: entries[n-held+7].ID, Newest: entries[n-1].ID}, b)
	}
}

func FuzzParseRecord(f *testing.F) {
	f.Add([]byte("name"), []byte("value"), uint64(1), int64(0), int64(0))
	f.Add([]byte{}, make([]byte, recordHead), ^uint64(0), int64(-1), int64(1))
	f.Fuzz(func(t *testing.T, name, value []byte, version uint64, until, ttl int64) {
		if r, err := parseRecord(name, value); err == nil {
			require.Equal(t, value, r.append(nil, name))
		}
		_, _ = parseRecord(name, seal(name, append(make([]byte, sumSize), value...)))
		want := record{version: document.Version(version), written: version + 1, place: place{version - 1, uint64(ttl)}, ttl: ttl, until: until,
			value: append([]byte{}, value...)}
		encoded := want.append([]byte("before"), name)[len("before"):]
		got, err := parseRecord(name, encoded)
		require.NoError(t, err)
		require.Equal(t, want, got)
		encoded[int(version%uint64(len(encoded)))] ^= 0x80
		_, err = parseRecord(name, encoded)
		require.ErrorIs(t, err, ErrDamaged)
	})
}

func FuzzParseGroup(f *testing.F) {
	f.Add([]byte("place"), []byte("\x00\x00\x00\x00\x00\x00\x00\x01\x01a\x02bc"), []byte("name"), []byte("other"), int64(1))
	f.Add([]byte{}, []byte("\x00\x00\x00\x00\x00\x00\x00\x01\x05a"), []byte{}, bytes.Repeat([]byte("n"), 1024), int64(-1))
	f.Fuzz(func(t *testing.T, key, value, one, other []byte, until int64) {
		_, _ = parseGroup(key, value)
		if g, err := parseGroup(key, seal(key, append(make([]byte, sumSize), value...))); err == nil {
			again, err := parseGroup(key, g.encode(key))
			require.NoError(t, err)
			require.Equal(t, g, again)
		}
		want := group{until, [][]byte{one, other}}
		encoded := want.encode(key)
		got, err := parseGroup(key, encoded)
		require.NoError(t, err)
		require.Equal(t, until, got.until)
		require.True(t, bytes.Equal(one, got.names[0]) && bytes.Equal(other, got.names[1]))
		encoded[len(encoded)/2] ^= 1
		_, err = parseGroup(key, encoded)
		require.ErrorIs(t, err, ErrDamaged)
	})
}

// Pages of any bytes are refused or not, and that comes to an end.
func FuzzStructure(f *testing.F) {
	const pageSize = 128
	f.Add(make([]byte, 8*pageSize), uint64(2))
	f.Add(append(bytes.Repeat([]byte{2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 16, 0, 0, 0, 1, 0, 0, 0, 2}, 30), make([]byte, pageSize)...), uint64(2))
	leaf := make([]byte, 4*pageSize)
	copy(leaf[2*pageSize:], []byte{2, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 16, 0, 0, 0, 1, 0, 0, 0, 32, 0, 0, 0, 'k'})
	f.Add(leaf, uint64(2))
	full := make([]byte, 20*pageSize) // a list of free pages that says there is one more than its page has room for
	copy(full[3*pageSize:], []byte{3, 0, 0, 0, 0, 0, 0, 0, 16, 0, (pageSize-headSize)/8 + 1})
	for i := range (pageSize - headSize) / 8 {
		full[3*pageSize+headSize+8*i] = byte(4 + i)
	}
	f.Add(full, uint64(2))
	f.Fuzz(func(_ *testing.T, file []byte, root uint64) {
		s := &structure{file: bytes.NewReader(file), size: pageSize, reading: &reading{}}
		s.used = make([]bool, max(2, len(file)/pageSize))
		_ = s.tree(root, nil, nil)
		_ = s.freelist(root + 1)
		_ = s.check(0)
	})
}

func TestState_isOfItsBucketOnly(t *testing.T) {
	a := state{trimmedTo: eventlog.ID{Milli: 1, Seq: 2}, entries: 3, documents: 4}.encode([]byte("p/a"))
	_, err := unseal([]byte("p/a"), a)
	require.NoError(t, err)
	_, err = unseal([]byte("p/b"), a)
	require.ErrorIs(t, err, ErrDamaged)
}

// The pages are whole: it is what they hold that does not fit together.
func TestOpen_refusesDamagedPlaces(t *testing.T) {
	for name, damage := range map[string]func(b *bolt.Bucket, at []byte) error{
		"a byte of a name": func(b *bolt.Bucket, at []byte) error {
			value := bytes.Clone(b.Bucket(bucketPlaces).Get(at))
			value[len(value)-1] ^= 1
			return b.Bucket(bucketPlaces).Put(at, value)
		},
		"no place": func(b *bolt.Bucket, at []byte) error { return b.Bucket(bucketPlaces).Delete(at) },
		"a name less": func(b *bolt.Bucket, at []byte) error {
			g, err := parseGroup(at, b.Bucket(bucketPlaces).Get(at))
			g.names = g.names[1:]
			return errors.Join(err, b.Bucket(bucketPlaces).Put(at, g.encode(at)))
		},
		"another time": func(b *bolt.Bucket, at []byte) error {
			g, err := parseGroup(at, b.Bucket(bucketPlaces).Get(at))
			g.until++
			return errors.Join(err, b.Bucket(bucketPlaces).Put(at, g.encode(at)))
		},
		"no time": func(b *bolt.Bucket, at []byte) error {
			k, _ := b.Bucket(bucketExpiry).Cursor().First()
			return b.Bucket(bucketExpiry).Delete(k)
		},
		"a time too many": func(b *bolt.Bucket, at []byte) error { return b.Bucket(bucketExpiry).Put([]byte("soon"), nil) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			l := openLog(t, dir, nil)
			_, err := l.Documents().Write(t.Context(), acme, document.Put(document.Document{Name: "a"}, nil, time.Hour),
				document.Put(document.Document{Name: "b"}, nil, time.Hour), document.Put(document.Document{Name: "c"}, nil, 0))
			require.NoError(t, err)
			require.NoError(t, l.db.Update(func(tx *bolt.Tx) error {
				b := tx.Bucket([]byte(productPrefix + acme))
				at, _ := b.Bucket(bucketPlaces).Cursor().First()
				return damage(b, at)
			}))
			require.NoError(t, l.Release())
			_, err = Open(dir, nil)
			require.ErrorIs(t, err, ErrDamaged)
		})
	}
}
