package durability_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/helpdesk/helpdesktest"
	"github.com/liveactivity/liveactivity/internal/redistest"
)

// Servers write notes into tickets while they and their Redis are killed and paused, also in the
// middle of a note and for longer than leases last, and while the desk is away or its answers are
// lost. Within seconds every acknowledged action is in its ticket, once and in order.
func TestKill_notes(t *testing.T) {
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		redis := redistest.Start(t, "--appendfsync", "always")
		testKillNotes(t, 3, "--redis-url="+redis.URL(), redis)
	})
	t.Run("file", func(t *testing.T) {
		t.Parallel()
		testKillNotes(t, 1, "--data-dir="+t.TempDir(), nil)
	})
}

func testKillNotes(t *testing.T, servers int, storage string, redis *redistest.Server) {
	s := newStorm(t, servers, storage)
	s.timeout = time.Second
	k := newNoteKiller(s)
	k.redis = redis
	k.startAll()
	for i := range visitors {
		v := k.newVisitor(i)
		s.senders.Go(v.run)
	}
	k.faults()
	s.end()
	ended := time.Now()
	for !assert.ObjectsAreEqual(k.wanted(), k.noted()) && time.Since(ended) < noteTime {
		s.pause(300 * time.Millisecond)
	}
	took := time.Since(ended)
	k.terminateAll()
	want, got := k.wanted(), k.noted()
	for _, v := range k.visitors {
		key := v.ticket + " " + v.sessions[0].id
		if !slices.Equal(want[key], got[key]) {
			s.fail(fmt.Errorf("the notes of ticket and session %s, after %s, %s", key, took, difference(want[key], got[key])))
		}
		delete(got, key)
	}
	s.require(nil)
	require.Empty(t, got, "notes where they do not belong")
	require.Less(t, took, noteTime)
	t.Logf("%d kills and %d pauses, %d of these in the middle of a note; all is noted %s after the last event; %s",
		k.kills, k.pauses, k.caught, took.Round(time.Millisecond), s)
}

const (
	visitors = 6
	// longStop is long enough for another server to take a paused server's leases.
	longStop = document.DefaultLeaseTTL * 4 / 3
	// noteTime bounds the time of notes after the last fault: a lease ends (8 seconds), requests in
	// flight settle (5), and doubtful notes settle once more (10).
	noteTime = 30 * time.Second
)

type noteKiller struct {
	*killer
	redis    *redistest.Server // nil for a file
	desk     *helpdesktest.Zendesk
	visitors []*visitor

	// A note that is handed over here, before or after it is written, stands still until its receiver closes goOn.
	arriving, leaving chan *inFlight

	caught, pauses int
}

type inFlight struct {
	server int
	goOn   chan struct{}
}

// newNoteKiller gives each server of a storm a way of its own to one desk.
func newNoteKiller(s *storm) *noteKiller {
	k := &noteKiller{killer: newKiller(s),
		desk: helpdesktest.NewZendesk(&helpdesktest.ZendeskOptions{InMemory: true, RequestsPerMinute: -1,
			UpdatesPerMinute: -1, UpdatesPerTicket: -1}),
		arriving: make(chan *inFlight), leaving: make(chan *inFlight)}
	var config map[string]string
	require.NoError(s.t, json.Unmarshal(k.desk.Config(), &config))
	for i, sv := range s.servers {
		way := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { k.serveDesk(i, w, r) }))
		s.t.Cleanup(way.Close)
		config["base_url"] = way.URL
		zendesk, err := json.Marshal(config)
		require.NoError(s.t, err)
		file := filepath.Join(s.t.TempDir(), "products.json")
		require.NoError(s.t, os.WriteFile(file, fmt.Appendf(nil, `{"products": [{"product_id": %q, "webhook_secret": %q,
			"integration_config": {"zendesk": %s,
				"notes": {"debounce_ms": 50, "interval_s": 0, "summary_threshold": 10000}}}]}`,
			product, webhookSecret, zendesk), 0o600))
		sv.args = slices.Clone(sv.args)
		sv.args[slices.IndexFunc(sv.args, func(arg string) bool {
			return strings.HasPrefix(arg, "--config=")
		})] = "--config=" + file
	}
	return k
}

func (k *noteKiller) serveDesk(server int, w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // it did not arrive
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	stand := func(at chan *inFlight) {
		f := &inFlight{server, make(chan struct{})}
		select {
		case at <- f:
			<-f.goOn
		default:
		}
	}
	if r.Method == http.MethodPut {
		stand(k.arriving)
		defer stand(k.leaving)
	}
	k.desk.ServeHTTP(w, r)
}

// inTheMiddle calls strike while a server waits for the answer to a note, which the desk has
// written or will write later. Without a note in time it strikes any server.
func (k *noteKiller) inTheMiddle(strike func(server int)) {
	at := k.arriving
	if k.rng.IntN(2) == 0 {
		at = k.leaving
	}
	select {
	case f := <-at:
		defer close(f.goOn)
		k.caught++
		strike(f.server)
	case <-time.After(time.Second):
		strike(k.rng.IntN(len(k.servers)))
	}
}

// faults causes faults for longer than leases last. All the while one of several servers stands still.
func (k *noteKiller) faults() {
	k.pause(time.Second)
	paused := -1
	if len(k.servers) > 1 {
		k.inTheMiddle(func(server int) {
			paused = server
			k.life(server).Signal(syscall.SIGSTOP)
		})
	}
	for began := time.Now(); time.Since(began) < longStop; k.pause(upTo(k.rng, 300*time.Millisecond)) {
		k.require(nil)
		k.fault(paused)
	}
	if paused >= 0 {
		k.pauses++
		k.life(paused).Signal(syscall.SIGCONT)
	}
}

// fault causes one fault that does not need the paused server.
func (k *noteKiller) fault(paused int) {
	kill := func(server int) {
		if server != paused {
			k.kill(server)
			k.restart(server)
		}
	}
	switch k.rng.IntN(7) {
	case 0:
		kill(k.rng.IntN(len(k.servers)))
	case 6:
		if k.redis != nil {
			k.redis.Kill()
			k.pause(upTo(k.rng, 500*time.Millisecond))
			k.redis.Restart()
		}
	case 1, 2:
		k.inTheMiddle(kill)
	case 3:
		k.inTheMiddle(func(server int) {
			if server == paused {
				return
			}
			k.pauses++
			k.life(server).Signal(syscall.SIGSTOP)
			k.pause(upTo(k.rng, time.Second))
			k.life(server).Signal(syscall.SIGCONT)
		})
	case 4:
		k.weather(helpdesktest.Fault{Status: http.StatusServiceUnavailable})
	default:
		k.weather(helpdesktest.Fault{Method: http.MethodPut, Lose: true})
	}
}

// weather lets the desk fail for a while.
func (k *noteKiller) weather(f helpdesktest.Fault) {
	k.desk.Fail(f)
	k.pause(upTo(k.rng, time.Second))
	k.desk.Heal()
}

// visitor is a client with one session, which is linked to a ticket after some of its requests, or before the first.
type visitor struct {
	*sender
	ticket  string
	webhook *http.Request
	early   int // requests before the link
}

// newVisitor returns a visitor with a ticket of its own; the last one shares the first one's.
func (k *noteKiller) newVisitor(n int) *visitor {
	v := &visitor{sender: k.storm.newSender(n)}
	who := session{fmt.Sprintf("visitor-%d", n), fmt.Sprintf("visitor_%d", n)}
	v.sessions, v.early = []session{who}, v.rng.IntN(20)
	if n < visitors-1 {
		v.ticket, v.webhook = k.desk.NewTicket(noteHook, emailOf(who.user), "Help!")
	} else {
		v.ticket = k.visitors[0].ticket
		v.webhook = k.desk.Webhook(noteHook, fmt.Appendf(nil,
			`{"ticket_id": %q, "requester_email": %q, "trigger_type": "new_ticket"}`, v.ticket, emailOf(who.user)))
	}
	k.visitors = append(k.visitors, v)
	return v
}

const noteHook = "/chatbot-webhook/" + product

func (v *visitor) run() {
	n := 0
	for ; !v.storm.isOver(); n++ {
		if n == v.early {
			v.link()
		}
		v.once()
		v.storm.pause(upTo(v.rng, 100*time.Millisecond))
	}
	if n <= v.early { // a busy machine has not come as far
		v.link()
	}
}

// link sends the webhook until a server has taken it.
func (v *visitor) link() {
	body, err := io.ReadAll(v.webhook.Body)
	if err != nil {
		v.storm.fail(err)
		return
	}
	var headers []string
	for name := range v.webhook.Header {
		headers = append(headers, name+": "+v.webhook.Header.Get(name))
	}
	v.storm.insist(v.rng, http.StatusOK, http.MethodPost, noteHook, string(body), headers...)
}

// wanted returns the names of the pages that should be in notes, by ticket and session.
func (k *noteKiller) wanted() map[string][]string {
	want := map[string][]string{}
	for _, v := range k.visitors {
		key, newest := v.ticket+" "+v.sessions[0].id, -1
		for _, r := range v.sent {
			for _, p := range r.pages {
				if p.session == v.sessions[0].id && p.order > newest { // not repeated
					want[key] = append(want[key], letters(p.client)+" "+letters(p.order))
					newest = p.order
				}
			}
		}
	}
	return want
}

// noted returns the names of the pages that are in notes, by ticket and session.
func (k *noteKiller) noted() map[string][]string {
	got := map[string][]string{}
	for _, v := range k.visitors[:visitors-1] {
		for _, note := range k.desk.Notes(v.ticket) {
			header, _, _ := strings.Cut(note, "\n")
			key := v.ticket + " " + strings.TrimPrefix(header, "session_id: ")
			for line := range strings.SplitSeq(note, "\n") {
				number, page, _ := strings.Cut(line, "] User landed on the step ")
				if name, ok := strings.CutSuffix(page, " page"); ok && strings.HasPrefix(number, "[") {
					got[key] = append(got[key], name)
				}
			}
		}
	}
	return got
}

// difference says where two lists begin to differ.
func difference(want, got []string) string {
	n := 0
	for n < min(len(want), len(got)) && want[n] == got[n] {
		n++
	}
	upTo := func(list []string) []string { return list[max(0, n-3):min(n+20, len(list))] }
	return fmt.Sprintf("from place %d of %d and %d on: want %q, got %q", n, len(want), len(got), upTo(want), upTo(got))
}
