package activitytest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestBounds checks that the stores returned by open keep users' actions
// within a product's MaxBytes: the users written first are evicted first,
// reads do not renew them, and no product takes room from another. It calls
// open as [TestStore] does. The total bound of an in-memory engine must exceed
// the suite's writes, some megabytes.
//
// An engine may evict in steps, as long as writes to the product make it catch
// up.
func TestBounds(t *testing.T, open func(t *testing.T, o Options) Engine) {
	runAll(t, []test{
		{name: "many users: the first are evicted first", run: testFirstUsersGo},
		{name: "many users: those written again stay, those only read are evicted", run: testWrittenAgain},
		{name: "many sessions of one user", run: func(f fixture) { testManySessions(f, "ada", maxEvents) }},
		{name: "many sessions without a user", run: func(f fixture) { testManySessions(f, "", 0) }},
		{name: "another product keeps its users", run: testOthersKeep},
	}, open, Options{MaxBytes: boundBytes})
}

const (
	boundBytes = 256 << 10 // of a product, at most
	longBytes  = 2 << 10   // of a URL
	longUsers  = 4 * boundBytes / longBytes
)

var longPage = page + "?q=" + strings.Repeat("x", longBytes)

func longUser(n int) string { return fmt.Sprintf("long%04d", n) }

// crowd files one action for each of more users than fit. It calls before, if
// not nil, ahead of each.
func (f fixture) crowd(before func(n int)) {
	f.Helper()
	for n := range longUsers {
		if before != nil {
			before(n)
		}
		f.add(NewBatch(product, fmt.Sprint("session", n), longUser(n), Click(f.at(float64(n)), "Save", longPage)))
	}
}

// crowded returns which users of the crowd are kept, and the bytes of their
// actions.
func (f fixture) crowded() (known []int, bytes int) {
	f.Helper()
	for n := range longUsers {
		recent := f.recent(product, longUser(n), maxEvents)
		if len(recent) > 0 {
			known = append(known, n)
			bytes += len(recent.AppendJSON(nil))
		}
	}
	return known, bytes
}

func testFirstUsersGo(f fixture) {
	f.crowd(nil)
	known, bytes := f.crowded()
	require.LessOrEqual(f, bytes, boundBytes*5/4)
	require.GreaterOrEqual(f, len(known), longUsers/16, "the bound is used up")
	for i, n := range known {
		require.Equal(f, longUsers-len(known)+i, n)
	}
}

func testWrittenAgain(f fixture) {
	f.add(NewBatch(product, "w", "written", f.click(0)), NewBatch(product, "r", "read", f.click(0)))
	f.crowd(func(n int) {
		if n%8 == 0 {
			f.add(NewBatch(product, "w", "written", f.click(float64(n+1))))
			f.recent(product, "read", maxEvents)
		}
	})
	assert.NotEmpty(f, f.recent(product, "written", maxEvents))
	assert.Empty(f, f.recent(product, "read", maxEvents))
}

// A user leaves nothing behind but the newest actions.
func testManySessions(f fixture, user string, kept int) {
	f.add(NewBatch(product, "s", "bystander", f.click(0)))
	for n := range longUsers {
		f.add(NewBatch(product, fmt.Sprint(strings.Repeat("s", 1000), n), user, f.click(float64(n))))
	}
	require.Len(f, f.recent(product, user, maxEvents), kept)
	f.crowd(nil)
	require.Empty(f, f.recent(product, "bystander", maxEvents))
	_, bytes := f.crowded()
	require.LessOrEqual(f, bytes, boundBytes*5/4)
	require.GreaterOrEqual(f, bytes, boundBytes/8, "the bound is used up")
}

func testOthersKeep(f fixture) {
	const others = 20
	for n := range others {
		f.add(NewBatch("other", fmt.Sprint("s", n), fmt.Sprint("user", n), f.clicks(1, 2, 3)...))
	}
	f.crowd(nil)
	for n := range others {
		require.Len(f, f.recent("other", fmt.Sprint("user", n), maxEvents), 3)
	}
}
