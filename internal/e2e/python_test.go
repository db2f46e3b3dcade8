package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/directory"
	"github.com/liveactivity/liveactivity/internal/depstest"
	"github.com/liveactivity/liveactivity/internal/logtest"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/proctest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
)

// python is the client in Python at work.
type python struct {
	*proctest.Process
	t *testing.T
}

// startPython runs the client until the test ends, or until it ends itself.
func startPython(t *testing.T, url, product, key string) *python {
	t.Helper()
	script, err := filepath.Abs("testdata/stream_client.py")
	require.NoError(t, err)
	cmd := exec.Command(depstest.Command(t, "python3"), script, url, product)
	return &python{proctest.Launch(t, cmd, []string{"TOKEN=" + key}), t}
}

// objects returns the lines that a process has written, each an object.
func objects(t *testing.T, output *logtest.Buffer) (all []map[string]any) {
	t.Helper()
	for line := range strings.Lines(output.String()) {
		if !strings.HasSuffix(line, "\n") {
			break // there is more to come
		}
		var object map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &object), line)
		all = append(all, object)
	}
	return all
}

// awaitNote waits until the client has written so many notes of a kind, and returns them.
func (p *python) awaitNote(what string, count int) (notes []map[string]any) {
	p.t.Helper()
	waittest.Until(p.t, fmt.Sprintf("it has taken %d notes of %q", count, what), func() bool {
		notes = nil
		for _, note := range objects(p.t, &p.Stderr) {
			if note["note"] == what {
				notes = append(notes, note)
			}
		}
		return len(notes) >= count
	})
	return notes
}

// receives waits until the client has received that many payloads, and compares them with those of a
// reader in Go. It returns the last one.
func (p *python) receives(s *service, count int) (last string) {
	p.t.Helper()
	var got []activity.Batch
	waittest.Until(p.t, fmt.Sprintf("%d payloads came", count), func() bool {
		got = nil
		for line := range strings.Lines(p.Stdout.String()) {
			var b activity.Batch
			if last = line; json.Unmarshal([]byte(line), &b) == nil { // otherwise there is more to come
				got = append(got, b)
			}
		}
		return len(got) >= count
	})
	want := s.startReader("?since=0").awaitBatches(p.t, count)
	require.Equal(p.t, want, got)
	return last
}

// The Python client of the hosted service reads the stream unchanged.
func TestPython_readsTheStream(t *testing.T) {
	log, secret := musttest.New(memorylog.New(nil)), ""
	s := startService(t, func(o *liveactivity.Options) {
		o.Log, o.Heartbeat, secret = log, 200*time.Millisecond, o.Products[0].WebhookSecret
	})
	ingest := func(events ...string) {
		body := `[` + strings.Join(events, ",") + `]`
		status, answer := proctest.Request(t, http.MethodPost, s.url+"/webhook/"+productID, body, "X-PostHog-Secret: "+secret)
		require.Equal(t, http.StatusOK, status, answer)
	}
	event := func(name, session, user, properties string) string {
		return fmt.Sprintf(`{"event":%q,"distinct_id":%q,"properties":{"$session_id":%q,%s}}`, name, user, session,
			properties)
	}
	p := startPython(t, s.url, productID, s.key)
	p.awaitNote("connected", 1)
	ingest(event("$identify", "s1", "ada", `"$set":{"email":"ada@example.com"}`),
		event("$pageview", "s1", "ada", `"$current_url":"https://Shop.example/products/42?ref=mail"`),
		event("$pageview", "s2", "bob\u0085\u2028&<ü>", `"$current_url":"https://shop.example/"`),
		event("$autocapture", "s1", "ada", `"$current_url":"https://shop.example/products/42","$event_type":"click",`+
			`"$elements_chain":"button:nth-child=\"1\"nth-of-type=\"1\"text=\"Add “Tea” to cart\""`))
	p.receives(s, 2)

	sessions := musttest.New(directory.New(log.Documents(), time.Hour))
	require.NoError(t, sessions.Amend(t.Context(), productID, "s1", nil, func(a *directory.Amendment) error {
		a.Session.ConversationID = "conversation_7"
		return nil
	}))
	ingest(event("$pageview", "s1", "ada", `"$current_url":"https://shop.example/help"`))
	assert.Contains(t, p.receives(s, 3), `"conversation_id": "conversation_7"`)

	for _, data := range []string{`{"type":"news","product_id":"shop"}`, `no JSON`,
		`{"type":"summary","product_id":"shop","session_id":"s1","summary":"Looked at tea.\nThen asked for help.",` +
			`"replaces":3,"forwarded_at":1795316386.25}`} {
		require.NoError(t, log.Append(t.Context(), productID, []eventlog.Entry{{SessionID: "s1", Data: []byte(data)}}))
	}
	assert.Contains(t, p.receives(s, 4), `"summary": "Looked at tea.\nThen asked for help.", "replaces": 3`)
	p.awaitNote("heartbeat", 2)

	s.cut()
	p.awaitNote("connected", 2)
	ingest(event("$pageview", "s2", "bob", `"$current_url":"https://shop.example/bye"`))
	p.receives(s, 5)
	p.hasReadAll()

	late := startPython(t, s.url, productID+"?last_event_id=9999999999999-0", s.key)
	late.receives(s, 5)
	gap := late.awaitNote("ignored", 1)[0]
	assert.Equal(t, "gap", gap["event"])
	assert.Contains(t, gap["data"], `"requested":"9999999999999-0"`)
}

// hasReadAll fails the test if the client received an unknown event.
func (p *python) hasReadAll() {
	p.t.Helper()
	for _, note := range objects(p.t, &p.Stderr) {
		switch note["note"] {
		case "ignored", "no JSON", "malformed", "refused":
			assert.Fail(p.t, "the client was sent an event that it does not know", "%v", note)
		}
	}
}
