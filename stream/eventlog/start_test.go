package eventlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/httpx"
)

// For any request of a client, a reader starts inside the log, and a gap is an event of one line.
func FuzzParseStart(f *testing.F) {
	for _, seed := range [][3]string{
		{}, {"1000-5"}, {"", "1000-5"}, {"", "", "1.5"}, {"garbage"}, {"2000-0"}, {"9999999999999-0", "1000-0", "0"},
		{"", "\"\n\r\x00\u2028"}, {"", "", "NaN"}, {"", "", "1e12"}, {"", "", "-1e12"}, {"", "\xff"}, {"1-0"},
		{"", "x\n\nevent: heartbeat\ndata: {}\n\n"}, {"", strings.Repeat("9", 30_000)}, {"", strings.Repeat("☕", 5_000)},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	bounds := []Bounds{
		{TrimmedTo: ID{Milli: 1000}, Newest: ID{Milli: 1000}},
		{TrimmedTo: ID{Milli: 1000}, Oldest: ID{Milli: 1000, Seq: 1}, Newest: ID{Milli: 2000}},
	}
	f.Fuzz(func(t *testing.T, header, id, since string) {
		start, err := parseStart(startRequest(header, id, since))
		if err != nil {
			requireBadRequest(t, err)
			return
		}
		for _, b := range bounds {
			cursor, gap := start.cursor(b)
			require.GreaterOrEqual(t, cursor.Compare(b.TrimmedTo), 0)
			require.LessOrEqual(t, cursor.Compare(b.Newest), 0)
			if gap {
				require.Equal(t, b.TrimmedTo, cursor)
				requireGapEvent(t, gapEvent(start.id, b.Oldest))
			}
		}
	})
}

func startRequest(header, id, since string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/stream/acme?"+url.Values{"last_event_id": {id}, "since": {since}}.Encode(),
		nil)
	r.Header.Set("Last-Event-ID", header)
	return r
}

func requireBadRequest(t *testing.T, err error) {
	t.Helper()
	var problem *httpx.Error
	require.True(t, errors.As(err, &problem))
	require.Equal(t, http.StatusBadRequest, problem.Status)
}

func requireGapEvent(t *testing.T, gap []byte) {
	t.Helper()
	data, ok := bytes.CutPrefix(gap, []byte("event: gap\ndata: "))
	require.True(t, ok)
	data, ok = bytes.CutSuffix(data, []byte("\n\n"))
	require.True(t, ok)
	require.NotContains(t, string(data), "\n")
	require.NotContains(t, string(data), "\r")
	var fields map[string]string
	require.NoError(t, json.Unmarshal(data, &fields))
	require.Contains(t, fields, "requested")
	require.Contains(t, fields, "oldest")
	require.Len(t, fields, 2)
	require.LessOrEqual(t, len(fields["requested"]), 1000)
	require.LessOrEqual(t, len(gap), 2048)
}
