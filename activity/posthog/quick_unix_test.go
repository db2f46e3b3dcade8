//go:build unix

package posthog_test

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/intake"
	"github.com/liveactivity/liveactivity/activity/posthog"
)

// requireQuick asserts that f takes less processor time than a limit. The limit leaves room for a
// slow machine, but not for an algorithm that reads its input over and over.
func requireQuick(t testing.TB, limit time.Duration, f func()) {
	t.Helper()
	var before, after syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &before))
	f()
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &after))
	took := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
	require.Less(t, time.Duration(took), limit)
}

// A chain is read to 128 KiB, and its sender chooses every byte.
func TestParseChain_takesTimeInProportion(t *testing.T) {
	const size = 128 << 10
	for _, piece := range []string{`:`, `:attr__`, `b:text="x"attr__`, `:attr__"`, `:text`, `;`, `:text="x";`, `.a:b`,
		`\"`, `\";a`, `\"attr__`, `\";a:attr__`, `\`, `"`, `:text="\`, `attr__a=`} {
		for _, head := range []string{``, `b:text="`, `b.x`} {
			t.Run(head+" "+piece, func(t *testing.T) {
				chain := head + strings.Repeat(piece, size/len(piece))
				requireQuick(t, time.Second/2, func() {
					assert.LessOrEqual(t, len(posthog.ParseChain(chain)), posthog.MaxElements+1)
				})
			})
		}
	}
}

// A body of any shape costs no more than reading it a few times.
func TestBadInput_takesTimeInProportion(t *testing.T) {
	const size = 512 << 10
	padding := `"p":"` + strings.Repeat("x", 100) + `",`
	level := len(padding) + len(`{"event":`)
	fill := func(piece string) string { return strings.Repeat(piece, size/len(piece)) }
	nested := func(open, end string, n int) string { return strings.Repeat(open, n) + "1" + strings.Repeat(end, n) }
	for name, body := range map[string]string{
		"events in events":             nested(`{`+padding+`"event":`, `}`, min(size/level, 9000)),
		"events in events, in a batch": `{"batch":[` + nested(`{`+padding+`"event":`, `}`, min(size/level, 9000)) + `]}`,
		"persons in persons":           nested(`{`+padding+`"person":`, `}`, min(size/level, 9000)),
		"batches in batches":           nested(`{`+padding+`"batch":[`, `]}`, min(size/level, 4000)),
		"arrays in arrays":             nested(`[`, `]`, 9000),
		"the same key again and again": `{` + fill(`"event":{},`) + `"event":1}`,
		"tokens":                       `{` + fill(`"token":"x",`) + `"token":"y"}`,
		"properties":                   `{"event":"$autocapture","properties":{` + fill(`"k":1,`) + `"k":1}}`,
		"elements": `{"event":"$autocapture","distinct_id":"u","properties":{"$elements":[` +
			fill(`{},`) + `{}]}}`,
		"a long label": `{"event":"$autocapture","distinct_id":"u","properties":{"$el_text":"` + fill(`x `) + `"}}`,
		"a long URL": `{"event":"$pageview","distinct_id":"u","properties":{"$current_url":"https://x/` +
			fill(`a@/`) + `"}}`,
		"a long address": `{"event":"$identify","distinct_id":"u","properties":{"$session_id":"s"},` +
			`"$set":{"email":"` + fill(`a@`) + `"}}`,
		"a long time": `{"event":"$autocapture","distinct_id":"u","timestamp":"` + fill(`1`) + `"}`,
		"escapes":     `{"event":"$autocapture","distinct_id":"u","elements_chain":"` + fill(`\u003b`) + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(intake.Options{})
			requireQuick(t, 3*time.Second, func() {
				w := s.post(webhookDoor, []byte(body))
				assert.Less(t, w.Code, http.StatusInternalServerError)
			})
		})
	}
}
