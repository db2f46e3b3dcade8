package boltlog

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

func FuzzParseEntry(f *testing.F) {
	f.Add([]byte("0123456789abcdef"), []byte(nil), "session", []byte("{}"), 3)
	f.Add([]byte(""), []byte("\x00\x00\x00\x00\x01s\x01"), "", []byte(nil), 0)
	f.Add([]byte("k"), bytes.Repeat([]byte{0xff}, 40), "\x00", []byte("\xff"), 300)
	f.Fuzz(func(t *testing.T, key, value []byte, session string, data []byte, n int) {
		if s, keys, d, err := parseEntry(key, value); err == nil {
			require.Equal(t, len(value), sumSize+len(s)+len(keys)+len(d)+widthsOf(value), "every byte is a part")
		}
		_, _, _, _ = parseEntry(key, seal(key, append(make([]byte, sumSize), value...))) // right by its sum only
		e := eventlog.Entry{SessionID: session, Data: data, Keys: make([]activity.Key, n&0x3ff)}
		for i := range e.Keys {
			e.Keys[i][i%len(e.Keys[i])] = byte(i)
		}
		encoded := appendEntry(nil, key, e)
		require.EqualValues(t, entrySize(e), idSize+len(encoded))
		s, keys, d, err := parseEntry(key, encoded)
		require.NoError(t, err)
		require.Equal(t, session, string(s))
		require.Equal(t, string(data), string(d))
		require.Equal(t, e.Keys, parseKeys(keys))
		_, _, _, err = parseEntry(append(key, 'x'), encoded)
		require.ErrorIs(t, err, ErrDamaged)
		encoded[n&0xffff%len(encoded)] ^= 1
		_, _, _, err = parseEntry(key, encoded)
		require.ErrorIs(t, err, ErrDamaged)
	})
}

// widthsOf returns how many bytes the two lengths in an entry take.
func widthsOf(value []byte) int {
	b := value[sumSize:]
	width := func() (n int) {
		for n = 1; b[n-1] >= 0x80; n++ {
			continue
		}
		return n
	}
	first := width()
	session, _, _ := cutBytes(b, 1)
	b = b[first+len(session):]
	return first + width()
}

func FuzzParseRecord(f *testing.F) {
	f.Add([]byte("name"), []byte("value"), uint64(1), int64(0), int64(0))
	f.Add([]byte{}, make([]byte, recordHead), ^uint64(0), int64(-1), int64(1))
	f.Fuzz(func(t *testing.T, name, value []byte, version uint64, until, ttl int64) {
		if r, err := parseRecord(name, value); err == nil {
			require.Equal(t, value, r.encode(name))
		}
		_, _ = parseRecord(name, seal(name, append(make([]byte, sumSize), value...)))
		want := record{version: document.Version(version), written: version + 1, place: place{version - 1, uint64(ttl)}, ttl: ttl, until: until,
			value: append([]byte{}, value...)}
		encoded := want.encode(name)
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
