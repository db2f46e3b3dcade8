package fair_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/fair"
	"github.com/liveactivity/liveactivity/internal/heaptest"
)

type cache = fair.Cache[string, string]

// one returns the cost of a value that is put with no bytes of its own.
func one(t testing.TB) int64 {
	t.Helper()
	c := fair.New[string, string](nil, nil)
	put(c, "p", "a")
	first := c.Bytes("p")
	put(c, "p", "b")
	return c.Bytes("p") - first
}

// base returns the cost of a product beyond its values.
func base(t testing.TB) int64 {
	t.Helper()
	c := fair.New[string, string](nil, nil)
	put(c, "p", "a")
	return c.Bytes("p") - one(t)
}

func put(c *cache, product, key string) {
	c.Put(product, key, "value of "+key, fair.Item{})
	c.Trim(product)
}

func kept(t testing.TB, c *cache, product string, keys ...string) string {
	t.Helper()
	var found []string
	for _, key := range keys {
		if value, ok := c.Get(product, key); ok {
			require.Equal(t, "value of "+key, value)
			found = append(found, key)
		}
	}
	return strings.Join(found, " ")
}

func TestCache_forgetsTheOldestWriteFirst(t *testing.T) {
	for name, c := range map[string]struct {
		use  func(c *cache) // between three values and a fourth
		want string
	}{
		"first come":    {func(*cache) {}, "b c d"},
		"put again":     {func(c *cache) { put(c, "p", "a") }, "a c d"},
		"read":          {func(c *cache) { c.Get("p", "a") }, "b c d"},
		"set":           {func(c *cache) { c.Find("p", "a").Set(fair.Item{Due: 1}) }, "b c d"},
		"pinned":        {func(c *cache) { c.Put("p", "a", "value of a", fair.Item{Pinned: true}) }, "a c d"},
		"pinned by set": {func(c *cache) { c.Find("p", "a").Set(fair.Item{Pinned: true}) }, "a c d"},
		"pinned for a time": {func(c *cache) {
			c.Find("p", "a").Set(fair.Item{Pinned: true})
			c.Find("p", "a").Set(fair.Item{})
		}, "a c d"},
		"last": {func(c *cache) {
			c.Find("p", "a").Set(fair.Item{Last: true})
			put(c, "p", "b")
			put(c, "p", "c")
		}, "a c d"},
		"last by set": {func(c *cache) { c.Find("p", "a").Set(fair.Item{Last: true}) }, "a c d"},
		"last for a time": {func(c *cache) { c.Find("p", "b").Set(fair.Item{Last: true}); c.Find("p", "b").Set(fair.Item{}) },
			"b c d"},
		"all but one last": {func(c *cache) {
			for _, key := range []string{"a", "b", "c"} {
				c.Find("p", key).Set(fair.Item{Last: true})
			}
		}, "b c d"},
		"kept":            {func(c *cache) { c.Find("p", "a").Keep(fair.Item{}) }, "a c d"},
		"opened":          {func(c *cache) { c.Open("p", "a") }, "b c d"},
		"grown":           {func(c *cache) { c.Find("p", "b").Set(fair.Item{Bytes: one(t)}) }, "c d"},
		"removed":         {func(c *cache) { c.Remove("p", "b") }, "a c d"},
		"of no product":   {func(c *cache) { c.Remove("q", "a"); require.Nil(t, c.Find("q", "a")) }, "b c d"},
		"another product": {func(c *cache) { put(c, "q", "a") }, "b c d"},
	} {
		t.Run(name, func(t *testing.T) {
			var evicted []string
			m := fair.New(&fair.Options{MaxBytes: base(t) + 3*one(t)}, func(e *fair.Entry[string, string]) {
				assert.Equal(t, "p", e.Product())
				assert.Equal(t, "value of "+e.Key(), e.Value)
				evicted = append(evicted, e.Key())
			})
			for _, key := range []string{"a", "b", "c"} {
				put(m, "p", key)
			}
			c.use(m)
			put(m, "p", "d")
			assert.Equal(t, c.want, kept(t, m, "p", "a", "b", "c", "d"))
			for _, key := range evicted {
				assert.NotContains(t, c.want, key)
			}
			assert.LessOrEqual(t, m.Bytes("p"), base(t)+3*one(t))
		})
	}
}

func TestCache_keepsTheNewestWriteHoweverLarge(t *testing.T) {
	c := fair.New[string, string](&fair.Options{MaxBytes: 10, TotalBytes: 10}, nil)
	put(c, "p", "a")
	put(c, "p", "b")
	assert.Equal(t, "b", kept(t, c, "p", "a", "b"))
	put(c, "q", "a")
	assert.Equal(t, "a", kept(t, c, "q", "a"))
	assert.Empty(t, kept(t, c, "p", "b"), "of another product nothing has to stay")
}

func TestCache_evictsNothingBeforeItIsKept(t *testing.T) {
	c := fair.New[string, string](&fair.Options{MaxBytes: 1}, nil)
	e, isNew := c.Open("p", "a")
	require.True(t, isNew)
	again, isNew := c.Open("p", "a")
	require.False(t, isNew)
	require.Same(t, e, again)
	require.Same(t, e, c.Find("p", "a"))
	assert.Equal(t, []string{"p", "a", ""}, []string{e.Product(), e.Key(), e.Value})
	assert.Equal(t, base(t)+one(t), c.Bytes("p"), "it counts")
	put(c, "p", "b")
	put(c, "p", "c")
	assert.Equal(t, 2, c.Len())
	require.Same(t, e, c.Find("p", "a"))
	e.Value = "value of a"
	e.Keep(fair.Item{})
	c.Trim("p")
	assert.Equal(t, "a", kept(t, c, "p", "a", "b", "c"))
}

func TestCache_dropsAllOfAProduct(t *testing.T) {
	c := fair.New(nil, func(e *fair.Entry[string, string]) { assert.Fail(t, "it is not evicted", e.Value) })
	for i := range 1000 {
		c.Put("p", fmt.Sprint(i), "", fair.Item{Due: 1, Pinned: i%2 == 0})
	}
	put(c, "q", "a")
	c.Drop("p")
	c.Drop("unheard of")
	assert.Zero(t, c.Bytes("p"))
	assert.Equal(t, 1, c.Len())
	assert.Nil(t, c.Due(1))
}

// Each call of Evict takes one value of the product alone, never a pinned one. A Last value goes
// after the others, except one that was just written.
func TestCache_evictsOneValueOfAProduct(t *testing.T) {
	var gone []string
	c := fair.New(nil, func(e *fair.Entry[string, string]) { gone = append(gone, e.Key()) })
	c.Put("p", "pinned", "", fair.Item{Pinned: true})
	c.Put("p", "last", "", fair.Item{Last: true})
	for _, key := range []string{"a", "b"} {
		c.Put("p", key, "", fair.Item{})
	}
	c.Put("q", "a", "", fair.Item{})
	for range 5 {
		c.Evict("p")
	}
	c.Evict("nobody's")
	assert.Equal(t, []string{"a", "last", "b"}, gone)
	assert.Equal(t, 2, c.Len())
}

func TestCache_takesFromTheLargestHolder(t *testing.T) {
	size := one(t)
	c := fair.New[string, string](&fair.Options{TotalBytes: 3*base(t) + 300*size}, nil)
	fill := func(product string, n int) {
		for i := range n {
			put(c, product, fmt.Sprint(i))
		}
	}
	count := func(product string) int64 { return (c.Bytes(product) - base(t)) / size }
	fill("small", 50)
	fill("large", 1000)
	assert.EqualValues(t, 50, count("small"))
	assert.InDelta(t, 250, count("large"), 6)
	fill("other", 1000)
	assert.EqualValues(t, 50, count("small"), "within its share")
	assert.InDelta(t, 125, count("large"), 6)
	assert.InDelta(t, 125, count("other"), 6)
	assert.Equal(t, "999", kept(t, c, "other", "0", "800", "999"))
	assert.Equal(t, "999", kept(t, c, "large", "0", "800", "999"))

	c.Drop("large")
	fill("other", 1000)
	assert.InDelta(t, 250, count("other"), 10, "what is dropped is there for others")
	assert.EqualValues(t, 50, count("small"))
}

func TestCache_pinnedValuesCountForTheShare(t *testing.T) {
	size := one(t)
	c := fair.New[string, string](&fair.Options{TotalBytes: 2*base(t) + 100*size}, nil)
	for i := range 60 {
		c.Put("pins", fmt.Sprint("pin", i), "", fair.Item{Pinned: true})
	}
	for i := range 40 {
		put(c, "quiet", fmt.Sprint(i))
	}
	for i := range 100 {
		put(c, "pins", fmt.Sprint(i))
	}
	assert.EqualValues(t, 40, (c.Bytes("quiet")-base(t))/size)
}

func TestCache_returnsDueEntries(t *testing.T) {
	c := fair.New[string, string](nil, nil)
	next := func(now int64) string {
		due := c.Due(now)
		if due == nil {
			return ""
		}
		due.Remove()
		return due.Key()
	}
	item := func(due int64) fair.Item { return fair.Item{Due: due} }
	c.Put("p", "never", "", fair.Item{})
	c.Put("p", "late", "", item(30))
	c.Put("p", "early", "", item(10))
	c.Put("p", "later now", "", item(5))
	c.Put("p", "later now", "", item(40))
	c.Put("p", "earlier now", "", item(40))
	c.Find("p", "earlier now").Set(item(20))
	c.Put("p", "never now", "", item(1))
	c.Find("p", "never now").Set(fair.Item{})
	assert.Empty(t, next(9))
	assert.Equal(t, "early", next(10))
	assert.Empty(t, next(10))
	assert.Equal(t, "earlier now", next(30))
	assert.Equal(t, "late", next(30))
	assert.Empty(t, next(39))
	assert.Equal(t, "later now", next(1000))
	assert.Empty(t, next(1000))
	assert.Equal(t, 2, c.Len())
}

// entry is a value as the model of a cache holds it, in the order of writing.
type entry struct {
	product, key string
	item         fair.Item
}

// TestCache_agreesWithAList makes random calls and compares with a list. The remaining values are
// counted to the byte, and every evicted value is older than the remaining ones.
func TestCache_agreesWithAList(t *testing.T) {
	const products, keys = 4, 12
	size, base := one(t), base(t)
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 1))
		opts := fair.Options{MaxBytes: base + 8*size, TotalBytes: 4*base + 20*size}
		c := fair.New[string, string](&opts, nil)
		var list []entry
		for range 200 {
			e := entry{fmt.Sprint(random.IntN(products)), fmt.Sprint(random.IntN(keys)), fair.Item{}}
			list = slices.DeleteFunc(list, func(have entry) bool { return have.product == e.product && have.key == e.key })
			if random.IntN(5) == 0 {
				c.Remove(e.product, e.key)
			} else {
				e.item = fair.Item{Bytes: random.Int64N(2 * size), Pinned: random.IntN(6) == 0}
				c.Put(e.product, e.key, "", e.item)
				list = append(list, e)
			}
			c.Trim(e.product)
			list = remaining(t, c, list)
			bytes := map[string]int64{}
			for _, e := range list {
				bytes[e.product] += size + e.item.Bytes
			}
			total := int64(0)
			for p := range products {
				product := fmt.Sprint(p)
				if bytes[product] > 0 {
					bytes[product] += base
				}
				require.Equal(t, bytes[product], c.Bytes(product))
				total += bytes[product]
			}
			require.Equal(t, len(list), c.Len())
			if !slices.ContainsFunc(list, func(e entry) bool { return e.item.Pinned }) && len(list) > 1 {
				require.LessOrEqual(t, total, opts.TotalBytes)
				require.LessOrEqual(t, bytes[e.product], opts.MaxBytes)
			}
		}
	}
}

// remaining returns the entries of the list that the cache still has.
func remaining(t testing.TB, c *cache, list []entry) []entry {
	t.Helper()
	var left []entry
	for _, e := range list {
		_, ok := c.Get(e.product, e.key)
		if ok {
			left = append(left, e)
			continue
		}
		require.False(t, e.item.Pinned)
		for _, older := range left {
			require.False(t, older.product == e.product && !older.item.Pinned, "an older one stayed")
		}
	}
	return left
}

func TestCache_readsAndRenewsWithoutAllocating(t *testing.T) {
	c := fair.New[string, string](nil, nil)
	put(c, "p", "a")
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		c.Get("p", "a")
		c.Find("p", "b")
		c.Get("q", "a")
		c.Find("p", "a").Keep(fair.Item{})
	}))
}

// A cache takes the memory that it counts, in any state and after any history.
func TestCache_costsItsStatedSize(t *testing.T) {
	const total, products = 2 << 20, 8
	item := func(key string) fair.Item { return fair.Item{Bytes: fair.Size(len(key)), Due: 1} }
	for name, fill := range map[string]func(c *cache){
		"one product after another": func(c *cache) {
			for p := range products {
				for i := range 4000 {
					key := fmt.Sprint(p, "/", i)
					c.Put(fmt.Sprint(p), key, "", item(key))
					c.Trim(fmt.Sprint(p))
				}
			}
		},
		"long keys": func(c *cache) {
			for i := range 5000 {
				key := fmt.Sprint(strings.Repeat("k", 1000), i)
				c.Put(fmt.Sprint(i%products), key, "", item(key))
				c.Trim(fmt.Sprint(i % products))
			}
		},
		"many products": func(c *cache) {
			for i := range 12_000 {
				c.Put(fmt.Sprint(strings.Repeat("p", 100), i), "k", "", item("k"))
				c.Trim(fmt.Sprint(strings.Repeat("p", 100), i))
			}
		},
		"many removed": func(c *cache) {
			for i := range 30_000 {
				c.Put("p", fmt.Sprint(i), "", item("1234567"))
				if i >= 1000 {
					c.Remove("p", fmt.Sprint(i-1000))
				}
			}
		},
		"all pinned, and no longer": func(c *cache) {
			for i := range 10_000 {
				key := fmt.Sprint(i)
				c.Put("p", key, "", fair.Item{Bytes: fair.Size(len(key)), Pinned: true})
			}
			for i := range 9_900 {
				c.Find("p", fmt.Sprint(i)).Set(item("1234567"))
			}
			c.Trim("p")
			c.Drop("p")
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := fair.New[string, string](&fair.Options{TotalBytes: total}, nil)
			grown := heaptest.After(func() { fill(c) })
			t.Logf("%d values take %.2f of the bound", c.Len(), float64(grown)/total)
			assert.LessOrEqual(t, grown, int64(total*12/10))
			runtime.KeepAlive(c)
		})
	}
}

func TestCache_holdsSoManyOfAProduct(t *testing.T) {
	var gone []string
	c := fair.New(&fair.Options{MaxItems: 2}, func(e *fair.Entry[string, int]) {
		gone = append(gone, e.Product()+"/"+e.Key())
	})
	for _, product := range []string{"a", "b"} {
		for i, key := range []string{"1", "2", "3"} {
			c.Put(product, key, i, fair.Item{})
			c.Trim(product)
		}
	}
	assert.Equal(t, []string{"a/1", "b/1"}, gone)
}

func TestSizeOfMap_isTheMemoryOfAnEventsProperties(t *testing.T) {
	assert.Zero(t, fair.SizeOfMap(map[string]string{}))
	for n := 1; n <= 10; n++ {
		held, size := make([]map[string]string, 1000), int64(0)
		grown := heaptest.After(func() {
			for i := range held {
				held[i] = map[string]string{}
				for name := range n {
					held[i][fmt.Sprint("property of an event ", name)] = strings.Repeat("x", 60)
				}
				size += fair.SizeOfMap(held[i])
			}
		})
		assert.InEpsilon(t, grown, size, 0.5, n)
		runtime.KeepAlive(held)
	}
}

// A large product must not keep the requests of all others waiting.
func TestCache_dropsManyValuesInAMoment(t *testing.T) {
	c := fair.New[string, string](nil, nil)
	filled, dropped := time.Hour, time.Hour
	for range 5 {
		began := time.Now()
		for i := range 20_000 {
			c.Put("p", fmt.Sprint(i), "", fair.Item{Due: int64(i + 1)})
		}
		full := time.Now()
		c.Drop("p")
		filled, dropped = min(filled, full.Sub(began)), min(dropped, time.Since(full))
		require.Zero(t, c.Len())
	}
	assert.Less(t, 30*dropped, filled)
}

// A dropped product's values are not due again, and a new product of that ID has its own.
func TestCache_hasDueValuesOfANewProductAfterADrop(t *testing.T) {
	c := fair.New[string, string](nil, nil)
	c.Put("p", "old", "", fair.Item{Due: 1})
	c.Put("q", "other", "", fair.Item{Due: 3})
	c.Drop("p")
	c.Put("p", "new", "", fair.Item{Due: 2})
	for _, want := range []string{"new", "other"} {
		due := c.Due(3)
		require.NotNil(t, due)
		assert.Equal(t, want, due.Key())
		due.Remove()
	}
	assert.Nil(t, c.Due(3))
}

// counter counts how often it is locked.
type counter struct {
	sync.Mutex
	locked int
}

func (c *counter) Lock() {
	c.Mutex.Lock()
	c.locked++
}

func TestCache_releasesTheLockWhileItSeesManyValues(t *testing.T) {
	c := fair.New[string, string](nil, nil)
	for i := range 5000 {
		put(c, "p", fmt.Sprint(i))
	}
	lock, seen := counter{}, 0
	c.SweepEach(&lock, "p", func(e *fair.Entry[string, string]) {
		assert.False(t, lock.TryLock())
		seen++
	})
	assert.Equal(t, 5000, seen)
	assert.GreaterOrEqual(t, lock.locked, 5)
	assert.True(t, lock.TryLock())
}
