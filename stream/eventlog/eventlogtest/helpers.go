package eventlogtest

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// Append appends entries to a product's log and returns them with their IDs.
func Append(t testing.TB, log eventlog.Log, productID string, entries ...eventlog.Entry) []eventlog.Entry {
	t.Helper()
	require.NoError(t, log.Append(t.Context(), productID, entries))
	return entries
}

// Bounds returns the bounds of a product's log.
func Bounds(t testing.TB, log eventlog.Log, productID string) eventlog.Bounds {
	t.Helper()
	b, err := log.Bounds(t.Context(), productID)
	require.NoError(t, err)
	return b
}

// Retained returns all entries that a product's log has not trimmed.
func Retained(t testing.TB, log eventlog.Log, productID string) []eventlog.Entry {
	t.Helper()
	return ReadAll(t, log, productID, Bounds(t, log, productID).TrimmedTo, 1000)
}

// ReadAll returns the entries after the cursor, and reads at most atOnce in one
// call.
func ReadAll(t testing.TB, log eventlog.Log, productID string, after eventlog.ID, atOnce int) (all []eventlog.Entry) {
	t.Helper()
	dst := make([]eventlog.Entry, atOnce)
	for {
		n, err := log.Read(t.Context(), productID, after, dst)
		if errors.Is(err, eventlog.ErrClosed) {
			require.Zero(t, n)
			return all
		}
		require.NoError(t, err)
		if n == 0 {
			return all
		}
		all, after = append(all, dst[:n]...), dst[n-1].ID
	}
}

// IDs returns the IDs of entries.
func IDs(entries []eventlog.Entry) []eventlog.ID {
	ids := make([]eventlog.ID, len(entries))
	for i, e := range entries {
		ids[i] = e.ID
	}
	return ids
}
