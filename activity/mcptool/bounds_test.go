package mcptool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/mcptool"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/internal/musttest"
)

const arguments = `{"user_id":"ada"}`

// batch returns a batch of n messages; each %d becomes the message's number.
func batch(n int, message string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = strings.ReplaceAll(message, "%d", fmt.Sprint(i))
	}
	return "[" + strings.Join(all, ",") + "]"
}

var numbered = strings.Replace(call(arguments), `"id":1`, `"id":%d`, 1)

func TestHandler_acceptsABatchOfTwentyCalls(t *testing.T) {
	w := serve(serving(t, filled(t, 3), nil), post(batch(20, numbered)))
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	var results []toolResult
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &results))
	require.Len(t, results, 20)
	for _, r := range results {
		assert.Empty(t, r.message(t))
	}
}

func TestHandler_completesABatchThatRepeatsOneID(t *testing.T) {
	w := serve(serving(t, filled(t, 3), nil), post(batch(20, call(arguments))))
	assert.NotZero(t, w.Body.Len())
}

// Large batches, deep nesting and too many values are rejected before the SDK decodes them.
func TestHandler_boundsDecodedBodies(t *testing.T) {
	h := serving(t, filled(t, 1), nil)
	const batches, depth, values = "A batch must contain at most 20 calls.", "nested deeper than 64",
		"more than 10000 JSON values"
	for name, tt := range map[string]struct{ body, want string }{
		"21 calls":         {batch(21, numbered), batches},
		"21 notifications": {batch(21, `{"jsonrpc":"2.0","method":"notifications/initialized"}`), batches},
		"arrays in arrays": {call(`{"user_id":"ada","x":` + strings.Repeat("[", 100_000) +
			strings.Repeat("]", 100_000) + `}`), depth},
		"never closed": {strings.Repeat("[", 1<<20), depth},
		"many numbers": {call(`{"user_id":"ada","x":[` + strings.Repeat("1,", 400_000) + `1]}`), values},
	} {
		t.Run(name, func(t *testing.T) { assert.Contains(t, detail(t, serve(h, post(tt.body)), 400), tt.want) })
	}
}

// uncapped is a store that returns all it has, to one call at a time.
type uncapped struct {
	recent.Store
	reading atomic.Bool
}

func (s *uncapped) Recent(ctx context.Context, productID string, of recent.Subject, _ int) (recent.Snapshot, error) {
	if s.reading.Swap(true) {
		return recent.Snapshot{}, errors.New("read by two calls at once")
	}
	time.Sleep(10 * time.Millisecond) // lets another call run
	defer s.reading.Store(false)
	return s.Store.Recent(ctx, productID, of, 1<<30)
}

// wide returns a store with lookups of about size bytes of JSON each.
func wide(t *testing.T, size int) recent.Store {
	t.Helper()
	const each = 1000
	store := musttest.New(recent.NewMemory(&recent.MemoryOptions{MaxEvents: size / each}))
	b := activity.Batch{Type: activity.BatchType, ProductID: "acme", SessionID: "s1"}
	for i := range size / each {
		a := activity.Action{ID: fmt.Sprint(i), Type: activity.TypeClick, Title: strings.Repeat(`<a">`, each/4),
			TimestampStart: activity.Seconds(time.Now())}
		b.Actions = append(b.Actions, activity.BatchAction{Action: a, SessionID: "s1", UserID: "ada"})
	}
	require.NoError(t, store.Add(t.Context(), b))
	return &uncapped{Store: store}
}

// The calls of a batch look up one after the other: together their lookups would take more memory than a request may.
func TestHandler_answersWithAtMostEightMiB(t *testing.T) {
	const most = 8 << 20
	for name, tt := range map[string]struct {
		size, calls, fit int // bytes of a lookup, an eighth of those on the wire; calls, and how many of them fit
	}{"one that fits": {550_000, 2, 1}, "none that fits": {1_100_000, 2, 0}} {
		t.Run(name, func(t *testing.T) {
			w := serve(serving(t, wide(t, tt.size), nil), post(batch(tt.calls, numbered)))
			assert.LessOrEqual(t, w.Body.Len(), most)
			var results []toolResult
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &results), "%.200s", w.Body)
			require.Len(t, results, tt.calls)
			fit := 0
			for _, r := range results {
				if message := r.message(t); message != "" {
					assert.Equal(t, "The answer would exceed 8 MiB; use a smaller limit, or query fewer users at once.", message)
				} else {
					fit++
				}
			}
			assert.Equal(t, tt.fit, fit)
		})
	}
}

// A subscription stays in memory for as long as its stream, which may last for days.
func TestHandler_boundsASubscriptionInBytes(t *testing.T) {
	listening := 0
	count := func(http.ResponseWriter, *http.Request, *mcptool.Listening) error {
		listening++
		return nil
	}
	h := serving(t, filled(t, 1), &mcptool.Options{Listen: count})
	listen := func(id, user string) *httptest.ResponseRecorder {
		return serve(h, post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":"subscriptions/listen","params":`+
			`{"notifications":{"resourceSubscriptions":["liveactivity://acme/users/%s"]}}}`, id, user)))
	}
	long := strings.Repeat("x", 40<<10)
	for _, w := range []*httptest.ResponseRecorder{listen(long, "ada"), listen("1", long)} {
		assert.Contains(t, w.Body.String(), "at most 32 KiB")
	}
	assert.Zero(t, listening)
	listen(long[:1<<10], long[:30<<10])
	assert.Equal(t, 1, listening)
}

// A body without a valid key is read only as far as the response needs.
func TestHandler_readsLittleOfAnUnauthorizedBody(t *testing.T) {
	h := serving(t, filled(t, 1), nil)
	body := &counted{Reader: io.LimitReader(endless{}, 1<<20)}
	r := post("")
	r.Body, r.ContentLength = io.NopCloser(body), -1
	r.Header.Del("Authorization")
	detail(t, serve(h, r), http.StatusUnauthorized)
	assert.LessOrEqual(t, body.n, 128<<10)
}

type counted struct {
	io.Reader
	n int
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += n
	return n, err
}

// The text and the structured content are the object of the lookup. A key opens one product, so a caller need not name
// it, and the same user ID in another product is another user.
func TestTool_returnsTheObjectOfTheLookup(t *testing.T) {
	store := filled(t, 3)
	h, lookup := serving(t, store, nil), musttest.New(recent.NewLookup(store, 10))
	for _, args := range []string{`{"user_id":"ada"}`, `{"user_id":"ada","product_id":""}`,
		`{"user_id":"ada","product_id":null,"limit":null}`, `{"user_id":"ada","product_id":"PRODUCT"}`} {
		for key, productID := range map[string]string{"key": "acme", "other": "globex"} {
			r := post(call(strings.Replace(args, "PRODUCT", productID, 1)))
			r.Header.Set("Authorization", "Bearer "+key)
			result := decode(t, serve(h, r))
			require.Empty(t, result.message(t))
			assert.JSONEq(t, string(result.Result.StructuredContent), result.Result.Content[0].Text)
			var got recent.LiveActivity
			require.NoError(t, json.Unmarshal(result.Result.StructuredContent, &got))
			want := musttest.New(lookup.Get(t.Context(), productID, "ada", 0))
			assert.InDelta(t, want.AsOf, got.AsOf, 60)
			got.AsOf = want.AsOf
			assert.Equal(t, want, got)
		}
	}
}

func TestNewHandler_reportsEverythingThatIsWrong(t *testing.T) {
	_, err := mcptool.NewHandler(nil, nil, nil)
	assert.Equal(t, []string{"mcptool.lookup", "mcptool.keys"}, musttest.Mistakes(t, err))
}

// gate is a store whose lookups of acme wait until it opens.
type gate struct {
	recent.Store
	waiting atomic.Int64
	open    chan struct{}
}

func (g *gate) Recent(ctx context.Context, productID string, of recent.Subject, limit int) (recent.Snapshot, error) {
	if productID == "acme" {
		g.waiting.Add(1)
		defer g.waiting.Add(-1)
		select {
		case <-g.open:
		case <-ctx.Done():
			return recent.Snapshot{}, ctx.Err()
		}
	}
	return g.Store.Recent(ctx, productID, of, limit)
}

// Answers hold memory until they are sent. A product has room for a few; other products' calls go on meanwhile.
func TestHandler_boundsTheAnswersOfAllRequests(t *testing.T) {
	const requests = 40
	synctest.Test(t, func(t *testing.T) {
		g := &gate{Store: filled(t, 3), open: make(chan struct{})}
		h := serving(t, g, nil)
		answers := make(chan *httptest.ResponseRecorder, requests)
		ask := func() { answers <- serve(h, post(call(arguments))) }
		for range requests {
			go ask()
		}
		synctest.Wait()
		held := int(g.waiting.Load())
		assert.Positive(t, held)
		assert.LessOrEqual(t, held, 256>>3/4)
		other := post(call(arguments))
		other.Header.Set("Authorization", "Bearer other")
		begun := time.Now()
		assert.Empty(t, decode(t, serve(h, other)).message(t))
		assert.Zero(t, time.Since(begun))
		busy := 0
		for range requests {
			if w := <-answers; w.Code == http.StatusServiceUnavailable {
				assert.NotEmpty(t, w.Header().Get("Retry-After"))
				busy++
			} else {
				assert.NotEmpty(t, decode(t, w).message(t), "the lookup took too long")
			}
		}
		assert.Positive(t, busy)
		assert.Less(t, time.Since(begun), 5*time.Second)
		close(g.open)
		assert.Empty(t, decode(t, serve(h, post(call(arguments)))).message(t), "all room is free again")
	})
}

// Making a batch's answer takes several times its bytes, so a product has one batch served at a time, beside calls.
func TestHandler_countsTheCopiesOfABatchsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{Store: filled(t, 3), open: make(chan struct{})}
		h := serving(t, g, nil)
		codes := make(chan int, 4)
		ask := func(body string) {
			go func() { codes <- serve(h, post(body)).Code }()
			synctest.Wait()
		}
		ask(batch(20, numbered))
		one := g.waiting.Load()
		require.Positive(t, one)
		ask(call(arguments))
		require.Equal(t, one+1, g.waiting.Load())
		ask(batch(20, numbered))
		ask(batch(5, numbered))
		assert.Equal(t, one+1, g.waiting.Load(), "the other batches wait")
		close(g.open)
		for range cap(codes) {
			assert.Equal(t, http.StatusOK, <-codes)
		}
	})
}
