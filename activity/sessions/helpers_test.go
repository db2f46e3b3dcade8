package sessions_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/activitytest"
	"github.com/liveactivity/liveactivity/activity/sessions"
)

// noon is the time at which the tests begin.
var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func newMemory(t testing.TB, opts *sessions.MemoryOptions) *sessions.Memory {
	t.Helper()
	m, err := sessions.NewMemory(opts)
	require.NoError(t, err)
	return m
}

// seen is a batch of one action.
func seen(id string, at time.Time) *activity.Batch {
	b := activitytest.NewBatch("acme", id, "user of "+id,
		activitytest.Click(at, "Save", "https://app.example.com/projects/42"))
	b.Email = id + "@example.com"
	return &b
}

// id returns the ID of the session with that number.
func id(n int) string { return fmt.Sprintf("0198c2f4-7a6b-7000-8000-%012d", n) }

// fill adds so many sessions, a millisecond apart, and returns the time of the last one.
func fill(m *sessions.Memory, product string, n int) time.Time {
	at := noon
	for i := range n {
		at = noon.Add(time.Duration(i) * time.Millisecond)
		m.Add(product, seen(id(i), at))
	}
	return at
}

// list returns a listing and its cursor, "" at the end.
func list(t require.TestingT, m *sessions.Memory, q sessions.Query,
	now time.Time) (found []sessions.Session, next string) {
	listing, err := m.List("acme", q, now)
	require.NoError(t, err)
	require.NotNil(t, listing.Sessions)
	if listing.Next != nil {
		require.NotEmpty(t, *listing.Next)
		next = *listing.Next
	}
	return listing.Sessions, next
}

// walk returns the IDs of all listings.
func walk(t require.TestingT, m *sessions.Memory, q sessions.Query, now time.Time) (ids []string) {
	for {
		found, next := list(t, m, q, now)
		for _, s := range found {
			ids = append(ids, s.SessionID)
		}
		if q.After = next; next == "" {
			return ids
		}
	}
}
