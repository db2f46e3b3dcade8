package documenttest

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

const writers = 8

var concurrencyTests = []test{
	{name: "loses no change, and assigns no version twice", run: testNothingLost},
	{name: "never shows half of a change", run: testMovedTogether},
	{name: "makes a change conditional on the checked documents", run: testNobodyLeavesLast},
	{name: "lists an unchanged document once, however others come and go", run: testListsWhatStays},
}

// change makes changes to the named documents, retrying on conflicts. It may
// be called from any goroutine.
func (f fixture) change(make func([]document.Document) []document.Change,
	names ...string) (version document.Version, err error) {
	err = document.Retry(f.Context(), func() error {
		docs, err := f.store.Get(f.Context(), f.product, names...)
		if err == nil {
			version, err = f.store.Write(f.Context(), f.product, make(docs)...)
		}
		return err
	})
	return version, err
}

// number is the value of a counter document.
func number(d document.Document) int {
	n, _ := strconv.Atoi(string(d.Value))
	return n
}

// add is a change of the document by n.
func add(d document.Document, n int) document.Change {
	return document.Put(d, strconv.AppendInt(nil, int64(number(d)+n), 10), time.Hour)
}

// Writers count in documents that do not exist at first.
func testNothingLost(f fixture) {
	const increments, counters = 25, 5
	var given [writers][]document.Version
	waittest.Together(writers, func(w int) {
		for i := range increments {
			name := fmt.Sprint("counter", i%counters)
			version, err := f.change(func(docs []document.Document) []document.Change {
				return []document.Change{add(docs[0], 1)}
			}, name)
			if !assert.NoError(f, err) {
				return
			}
			given[w] = append(given[w], version)
			docs, err := f.store.Get(f.Context(), f.product, name)
			assert.NoError(f, err)
			assert.GreaterOrEqual(f, docs[0].Version, version, "a read after a write sees it")
		}
		assert.True(f, slices.IsSorted(given[w]), "versions grow")
	})
	for i := range counters {
		require.Equal(f, writers*increments/counters, number(f.one(fmt.Sprint("counter", i))))
	}
	all := slices.Sorted(slices.Values(slices.Concat(given[:]...)))
	require.Len(f, slices.Compact(all), writers*increments, "no version comes twice")
}

// The amount moved between the documents is in exactly one of them at any
// time.
func testMovedTogether(f fixture) {
	const sum, moves = 100, 25
	f.write(document.Put(named("from"), []byte(strconv.Itoa(sum)), 0), document.Put(named("to"), nil, 0))
	var reading sync.WaitGroup
	var done atomic.Bool
	for range 2 {
		reading.Go(func() {
			for !done.Load() {
				docs, err := f.store.Get(f.Context(), f.product, "from", "to")
				if !assert.NoError(f, err) || !assert.Equal(f, sum, number(docs[0])+number(docs[1])) {
					return
				}
			}
		})
	}
	waittest.Together(4, func(int) {
		for range moves {
			_, err := f.change(func(docs []document.Document) []document.Change {
				return []document.Change{add(docs[0], -1), add(docs[1], 1)}
			}, "from", "to")
			assert.NoError(f, err)
		}
	})
	done.Store(true)
	reading.Wait()
	require.Equal(f, 4*moves, number(f.one("to")))
}

// Two members that each leave only while the other stays never both leave.
func testNobodyLeavesLast(f fixture) {
	for round := range 20 {
		ada, bob := fmt.Sprint("ada", round), fmt.Sprint("bob", round)
		f.putAll(ada, bob)
		leave := func(docs []document.Document) []document.Change {
			if !docs[1].Exists() {
				return nil
			}
			return []document.Change{document.Delete(docs[0]), document.Check(docs[1])}
		}
		waittest.Together(2, func(i int) {
			_, err := f.change(leave, [][]string{{ada, bob}, {bob, ada}}[i]...)
			assert.NoError(f, err)
		})
		docs := f.get(ada, bob)
		require.NotEqual(f, docs[0].Exists(), docs[1].Exists(), "one has left and one has stayed")
	}
}

func testListsWhatStays(f fixture) {
	var stay []string
	for i := range 100 {
		stay = append(stay, fmt.Sprintf("doc/%03d", i))
	}
	f.putAll(stay...)
	var done atomic.Bool
	var running sync.WaitGroup
	for w := range 2 {
		running.Go(func() {
			for i := 0; !done.Load(); i++ {
				d := named(fmt.Sprintf("doc/%03d/%d", i%len(stay), w))
				var err error
				d.Version, err = f.store.Write(f.Context(), f.product, document.Put(d, nil, time.Hour))
				assert.NoError(f, err)
				_, err = f.store.Write(f.Context(), f.product, document.Delete(d))
				assert.NoError(f, err)
			}
		})
	}
	for range 10 {
		listed := f.listAll("doc/", 7)
		assert.True(f, slices.IsSorted(listed))
		listed = slices.DeleteFunc(listed, func(name string) bool { return len(name) > len(stay[0]) })
		assert.Equal(f, stay, listed)
	}
	done.Store(true)
	running.Wait()
}
