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

// receives waits until the client has received exactly these payloads. They were forwarded between
// since and now, except where a time is given.
func (p *python) receives(since time.Time, want ...map[string]any) {
	p.t.Helper()
	waittest.Until(p.t, fmt.Sprintf("%d payloads came", len(want)), func() bool {
		return len(objects(p.t, &p.Stdout)) >= len(want)
	})
	payloads := objects(p.t, &p.Stdout)
	require.Len(p.t, payloads, len(want))
	for i, payload := range payloads {
		if _, stated := want[i]["forwarded_at"]; !stated {
			at, _ := payload["forwarded_at"].(float64)
			assert.GreaterOrEqual(p.t, at, activity.Seconds(since))
			assert.LessOrEqual(p.t, at, activity.Seconds(time.Now()))
			delete(payload, "forwarded_at")
		}
		require.Equal(p.t, want[i], payload)
	}
}

// shopping is the visit of two people to the shop: the events to ingest, and the entries that
// readers of the stream must get.
type shopping struct{ start time.Time }

// event is an event of a session, that many seconds after the start.
func (v shopping) event(id, name, session, user string, second int, properties map[string]any) map[string]any {
	properties["$session_id"] = session
	at := v.start.Add(time.Duration(second) * time.Second)
	return map[string]any{"uuid": id, "event": name, "distinct_id": user, "timestamp": at.Format(time.RFC3339Nano),
		"properties": properties}
}

// browsing is a request with events of both sessions.
func (v shopping) browsing() []map[string]any {
	return []map[string]any{
		v.event("e1", "$identify", "s1", "ada", 0, map[string]any{"$set": map[string]any{"email": "ada@example.com"}}),
		v.event("e2", "$pageview", "s1", "ada", 1,
			map[string]any{"$current_url": "https://Shop.example/products/42?ref=mail"}),
		v.event("e3", "$pageview", "s2", "bob\u0085\u2028&<ü>", 2, map[string]any{"$current_url": "https://shop.example/"}),
		v.event("e4", "$autocapture", "s1", "ada", 3, map[string]any{
			"$current_url": "https://shop.example/products/42", "$event_type": "click",
			"$elements_chain": `button:nth-child="1"nth-of-type="1"text="Add “Tea” to cart"`,
		}),
	}
}

// browsed is the entries of browsing.
func (v shopping) browsed() []map[string]any {
	return []map[string]any{
		v.actions("s1", "ada", "ada@example.com", nil,
			v.action(0, "pageview", "Page Load: Products detail", "User landed on the products detail page",
				"https://Shop.example/products/42?ref=mail", "https://shop.example/products/:id", 1, 3),
			v.action(1, "click", "Click Add “Tea” to cart", "User clicked Add “Tea” to cart on the products detail page",
				"https://shop.example/products/42", "https://shop.example/products/:id", 3, 3)),
		v.actions("s2", "bob\u0085\u2028&<ü>", "", nil,
			v.action(0, "pageview", "Page Load: Home", "User landed on the home page", "https://shop.example/",
				"https://shop.example/", 2, 2)),
	}
}

// action is an action that begins and ends that many seconds after the start.
func (v shopping) action(index int, kind, title, description, raw, canonical string, begins, ends int) map[string]any {
	seconds := func(n int) float64 { return activity.Seconds(v.start.Add(time.Duration(n) * time.Second)) }
	return map[string]any{
		"index": float64(index), "type": kind, "title": title, "description": description, "raw_url": raw,
		"canonical_url":   canonical,
		"timestamp_start": seconds(begins), "timestamp_end": seconds(ends),
	}
}

// actions is a payload of these actions, without the time.
func (v shopping) actions(session, user, email string, conversation any, actions ...map[string]any) map[string]any {
	whose := map[string]any{"session_id": session, "user_id": user, "email": email, "conversation_id": conversation}
	payload := map[string]any{"type": "actions", "product_id": productID, "count": float64(len(actions))}
	var list []any
	for _, a := range actions {
		for name, value := range whose {
			payload[name], a[name] = value, value
		}
		list = append(list, a)
	}
	payload["actions"] = list
	return payload
}

// The Python client of the hosted service reads the stream unchanged.
func TestPython_readsTheStream(t *testing.T) {
	log, secret := musttest.New(memorylog.New(nil)), ""
	s := startService(t, func(o *liveactivity.Options) {
		o.Log, o.Heartbeat, secret = log, 200*time.Millisecond, o.Products[0].WebhookSecret
	})
	ingest := func(events ...map[string]any) {
		body, err := json.Marshal(events)
		require.NoError(t, err)
		status, answer := proctest.Request(t, http.MethodPost, s.url+"/webhook/"+productID, string(body),
			"X-PostHog-Secret: "+secret)
		require.Equal(t, http.StatusOK, status, answer)
	}
	began := time.Now()
	v := shopping{start: began.Add(-time.Minute).UTC().Truncate(time.Millisecond)}
	p := startPython(t, s.url, productID, s.key)
	p.awaitNote("connected", 1)
	want := v.browsed()
	ingest(v.browsing()...)
	p.receives(began, want...)

	sessions := musttest.New(directory.New(log.Documents(), time.Hour))
	require.NoError(t, sessions.Amend(t.Context(), productID, "s1", nil, func(a *directory.Amendment) error {
		a.Session.ConversationID = "conversation_7"
		return nil
	}))
	ingest(v.event("e5", "$pageview", "s1", "ada", 4, map[string]any{"$current_url": "https://shop.example/help"}))
	want = append(want, v.actions("s1", "ada", "ada@example.com", "conversation_7",
		v.action(2, "pageview", "Page Load: Help", "User landed on the help page", "https://shop.example/help",
			"https://shop.example/help", 4, 4)))
	p.receives(began, want...)

	for _, data := range []string{`{"type":"news","product_id":"shop"}`, `no JSON`,
		`{"type":"summary","product_id":"shop","session_id":"s1","email":"ada@example.com","summary":"Looked ` +
			`at tea.\nThen asked for help.","replaces":3,"forwarded_at":1795316386.25}`} {
		require.NoError(t, log.Append(t.Context(), productID, []eventlog.Entry{{SessionID: "s1", Data: []byte(data)}}))
	}
	want = append(want, map[string]any{"type": "summary", "product_id": productID, "session_id": "s1",
		"summary": "Looked at tea.\nThen asked for help.", "replaces": 3.0, "forwarded_at": 1795316386.25})
	p.receives(began, want...)
	p.awaitNote("heartbeat", 2)

	s.cut()
	p.awaitNote("connected", 2)
	ingest(v.event("e6", "$pageview", "s2", "bob", 5, map[string]any{"$current_url": "https://shop.example/bye"}))
	want = append(want, v.actions("s2", "bob", "", nil,
		v.action(1, "pageview", "Page Load: Bye", "User landed on the bye page", "https://shop.example/bye",
			"https://shop.example/bye", 5, 5)))
	p.receives(began, want...)
	p.hasReadAll()

	late := startPython(t, s.url, productID+"?last_event_id=9999999999999-0", s.key)
	late.receives(began, want...)
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
