package boltlog

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

func FuzzParseEntry(f *testing.F) {
	f.Add([]byte("0123456789abcdef"), []byte("\x01s\x01"), "session", []byte("{}"), 3)
	f.Add([]byte("k"), bytes.Repeat([]byte{0xff}, 40), "\x00", []byte("\xff"), 300)
	f.Fuzz(func(t *testing.T, key, value []byte, session string, data []byte, n int) {
		_, _ = parseEntry(key, value)
		_, _ = parseEntry(key, seal(key, append(make([]byte, sumSize), value...))) // right by its sum only

		e := eventlog.Entry{SessionID: session, Data: data, Keys: make([]feed.Key, n&0x3ff)}
		for i := range e.Keys {
			e.Keys[i][i%len(e.Keys[i])] = byte(i)
		}
		id := eventlog.ID{Milli: 5, Seq: uint64(n)}
		key, value = appendID(nil, id), encodeEntry(e)
		got, err := parseEntry(key, seal(key, value))
		require.NoError(t, err)
		require.Equal(t, id, got.ID)
		require.Equal(t, session, got.SessionID)
		require.Equal(t, string(data), string(got.Data))
		require.Equal(t, e.Keys, got.Keys)
		require.ErrorIs(t, errorOf(parseEntry(append(key, 'x'), value)), ErrDamaged)
		value[n&0xffff%len(value)] ^= 1
		require.ErrorIs(t, errorOf(parseEntry(key, value)), ErrDamaged)
	})
}

func FuzzParseRecord(f *testing.F) {
	f.Add([]byte("name"), []byte("value"), uint64(1), int64(0), int64(0))
	f.Add([]byte{}, make([]byte, recordHead), ^uint64(0), int64(-1), int64(1))
	f.Fuzz(func(t *testing.T, name, value []byte, version uint64, until, ttl int64) {
		_, _ = parseRecord(name, value)
		if r, err := parseRecord(name, seal(name, append(make([]byte, sumSize), value...))); err == nil {
			require.Equal(t, value, r.encode(name)[sumSize:], "every byte is a part")
		}
		want := record{document.Version(version), until, until - 1, ttl, append([]byte{}, value...)}
		encoded := want.encode(name)
		got, err := parseRecord(name, encoded)
		require.NoError(t, err)
		require.Equal(t, want, got)
		encoded[int(version%uint64(len(encoded)))] ^= 0x80
		require.ErrorIs(t, errorOf(parseRecord(name, encoded)), ErrDamaged)
	})
}
