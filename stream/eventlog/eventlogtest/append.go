package eventlogtest

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

var appendTests = []test{
	{name: "adds the entries at the end in order, and reads of any length find them so", run: func(f fixture) {
		start := f.bounds().Newest
		want := f.append(Entries("one", 3)...)
		want = append(want, f.append(Entries("two", 1)...)...)
		want = append(want, f.append(Entries("three", 300)...)...)
		for _, each := range []int{1, 2, 3, 7, 303, 304, 305, 1000} {
			require.Equal(f, items(want), items(f.readAll(start, each)), "%d at a time", each)
		}
	}},
	{name: "makes IDs from the log's time, whether or not it was expired", run: func(f fixture) {
		require.NoError(f, f.log.Ping(f.Context()))
		require.NoError(f, f.log.Expire(f.Context()))
		e := f.append(Entry("a", 0))[0]
		require.WithinDuration(f, time.Now(), e.ID.Time(), time.Minute)
		require.WithinDuration(f, f.log.Now(), e.ID.Time(), time.Minute)
	}},
	{name: "accepts any JSON object and any session", run: func(f fixture) {
		start := f.bounds().Newest
		want := f.append(
			eventlog.Entry{Data: []byte(`{}`)},
			eventlog.Entry{SessionID: "sitzung / “1” \x00\n", Data: []byte(`{"title":"größer ☕ \u2028 \n"}`)},
			Sized(Entry("large", 0), 200<<10),
		)
		require.Equal(f, items(want), items(f.readAll(start, 10)))
	}},
	{name: "rejects data of more than one line, with the whole call", run: func(f fixture) {
		before := f.bounds()
		for _, data := range []string{"{\n}", "{\r}", "{}\r\n", "\n"} {
			entries := []eventlog.Entry{keyed("a"), {Keys: keysNamed("b"), Data: []byte(data)}}
			err := f.log.Append(f.Context(), product, entries, f.put("d", "1"))
			require.ErrorIs(f, err, eventlog.ErrInvalid, "%q", data)
			require.Empty(f, f.documents())
		}
		require.Equal(f, before, f.bounds())
		f.append(keyed("a"), keyed("b"))
	}},
	{name: "keeps products apart", run: testProductsApart},
	{name: "does not retain the caller's memory", run: testCallerReusesMemory},
	{name: "of a caller that has given up neither hangs, nor uses its memory, nor appends partially",
		run: testCallerGivesUp},
}

func testProductsApart(f fixture) {
	products := []string{"a", "a:b", "a/b", "A", "ä", "a b", "a*"}
	want := map[string][]eventlog.Entry{}
	for i, id := range products { // the same keys everywhere, but not the same number of entries
		want[id] = Append(f, f.log, id, Entries("session", i+1)...)
	}
	for _, id := range products {
		require.Equal(f, items(want[id]), items(Retained(f, f.log, id)), "product %q", id)
	}
}

// A caller that reuses its buffer for the next encoding, and its slices for the next entries and
// changes, must not change the log.
func testCallerReusesMemory(f fixture) {
	start := f.bounds().Newest
	first := Entry("a", 0)
	keys, data := slices.Clone(first.Keys), bytes.Clone(first.Data)
	entries := []eventlog.Entry{{SessionID: "a", Keys: keys, Data: data}}
	value := []byte("value")
	changes := []document.Change{document.Put(named("a"), value, 0)}
	f.change(entries, changes...)
	want := items(entries)

	copy(value, "xxxxx")
	changes[0] = document.Change{}
	require.Equal(f, "value", string(f.document("a").Value))
	copy(data, bytes.Repeat([]byte{'x'}, len(data)))
	keys[0] = feed.KeyOf("another")
	entries[0] = eventlog.Entry{SessionID: "b"}

	got := f.readAll(start, 10)
	require.Equal(f, want, items(got))
	got[0] = eventlog.Entry{}
	require.Equal(f, want, items(f.readAll(start, 10)), "the reader owns its slice")

	require.Equal(f, first.Keys, f.refused(eventlog.Entry{Keys: first.Keys, Data: first.Data}).Keys)
	f.append(eventlog.Entry{Keys: []feed.Key{feed.KeyOf("another")}, Data: []byte(`{}`)})
}

// A caller whose context ends, or has ended before the call, reuses its memory, while its entries may
// still be waiting to be written.
func testCallerGivesUp(f fixture) {
	const writers, calls = 8, 40
	start := f.bounds().Newest
	waittest.Within(f, "appends of callers that give up", func() {
		waittest.Together(writers, func(w int) {
			for n := range calls {
				entries := writerEntries(w, n)
				for i := range entries {
					entries[i] = Sized(entries[i], 1<<10)
				}
				ctx, cancel := context.WithTimeout(f.Context(), time.Duration(n%8)*200*time.Microsecond)
				_ = f.log.Append(ctx, product, slices.Clone(entries)) // may succeed or fail
				cancel()
				for _, e := range entries {
					copy(e.Data, bytes.Repeat([]byte{'x'}, len(e.Data)))
					e.Keys[0] = feed.KeyOf("another")
				}
			}
		})
	})
	f.append(Entry("last", 0)) // comes after them
	got := f.readAll(start, 100)
	for i, e := range got[:len(got)-1] {
		var content struct {
			SessionID string `json:"session_id"`
			N         int    `json:"n"`
		}
		require.NoError(f, json.Unmarshal(e.Data, &content))
		require.Equal(f, e.SessionID, content.SessionID)
		require.Equal(f, i%2, content.N%2, "both entries of a call")
		require.Equal(f, Entry(e.SessionID, content.N).Keys, e.Keys)
		require.Equal(f, Entry(e.SessionID, content.N).Keys, f.refused(Entry(e.SessionID, content.N)).Keys)
	}
}

// keyed returns an entry with the named keys.
func keyed(names ...string) eventlog.Entry {
	return eventlog.Entry{SessionID: "keyed", Keys: keysNamed(names...), Data: []byte(`{}`)}
}

func keysNamed(names ...string) []feed.Key {
	var keys []feed.Key
	for _, name := range names {
		keys = append(keys, feed.KeyOf(name))
	}
	return keys
}

// distinct returns each of the keys once.
func distinct(keys []feed.Key) []feed.Key {
	sorted := slices.SortedFunc(slices.Values(keys), func(a, b feed.Key) int { return bytes.Compare(a[:], b[:]) })
	return slices.Compact(sorted)
}

var keyTests = []test{
	{name: "of a retained entry are duplicates, and the error names exactly those", run: func(f fixture) {
		f.append(keyed("a", "b"), keyed("c"))
		refusal := f.refused(keyed("new"), keyed("b", "other"), keyed("c"))
		require.Equal(f, distinct(keysNamed("b", "c")), distinct(refusal.Keys))
		require.NotEmpty(f, refusal.Error())
	}},
	{name: "shared by two entries of a call are duplicates", run: func(f fixture) {
		require.Equal(f, keysNamed("a"), distinct(f.refused(keyed("a", "b"), keyed("a", "c")).Keys))
		f.append(keyed("a"), keyed("b"), keyed("c"))
	}},
	{name: "that are duplicates add nothing, leave the entries unchanged, and the other keys free", run: func(f fixture) {
		f.append(keyed("a"))
		before := f.bounds()
		changed := Entries("fresh", 2)
		entries := append(slices.Clone(changed), keyed("a"), keyed("b"))
		f.refused(entries...)
		require.Equal(f, before, f.bounds())
		require.Empty(f, f.readAll(before.Newest, 10))
		require.Equal(f, items(changed), items(entries[:2]))
		f.append(append(changed, keyed("b"))...)
		require.Len(f, distinct(f.refused(append(changed, keyed("b"))...).Keys), 3)
	}},
	{name: "are forgotten with an entry trimmed for its size", retention: small, run: func(f fixture) {
		keys := keysNamed("a", "b")
		first := f.append(eventlog.Entry{Keys: keys, Data: []byte(`{}`)})[0]
		copy(keys, keysNamed("x", "y")) // the caller owns the slice
		f.appendUntil(func() bool { return f.bounds().TrimmedTo.Compare(first.ID) >= 0 })
		f.append(keyed("a"), keyed("b"))
		require.Equal(f, distinct(keysNamed("a", "b")), distinct(f.refused(keyed("a", "b", "x", "y")).Keys))
	}},
	{name: "are forgotten with an entry that has expired", retention: brief, run: func(f fixture) {
		f.append(keyed("a"))
		waittest.Until(f, "the key is free again", func() bool {
			return f.log.Append(f.Context(), product, []eventlog.Entry{keyed("a")}) == nil
		})
	}},
}
