package main_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/proctest"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

const mebibyte = 1 << 20

// attacked is a server under attack.
type attacked struct {
	*proctest.Process
	t *testing.T
}

func newAttacked(t *testing.T) attacked {
	t.Helper()
	a := attacked{launch(t, nil, "--config="+acme(t), anyPort), t}
	require.Equal(t, http.StatusOK, a.send(t, event("", `""`))) // everything made only once is made
	return a
}

// send sends a body and returns the status of the answer.
func (a attacked) send(t *testing.T, body []byte) int {
	t.Helper()
	resp, err := http.Post(a.URL()+"/e/", "text/plain", bytes.NewReader(body))
	if !assert.NoError(t, err) {
		return 0
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

var peak = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peakMemory returns the server's peak memory, in bytes.
func (a attacked) peakMemory() int64 {
	a.t.Helper()
	status := musttest.New(os.ReadFile(fmt.Sprintf("/proc/%d/status", a.PID())))
	match := peak.FindSubmatch(status)
	require.NotNil(a.t, match)
	kilobytes := musttest.New(strconv.ParseInt(string(match[1]), 10, 64))
	return kilobytes << 10
}

// clockTick is the unit of processor time in /proc.
const clockTick = 10 * time.Millisecond

// cpuTime returns the processor time that the server has used.
func (a attacked) cpuTime() time.Duration {
	a.t.Helper()
	stat := musttest.New(os.ReadFile(fmt.Sprintf("/proc/%d/stat", a.PID())))
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	user := musttest.New(strconv.ParseInt(fields[11], 10, 64))
	system := musttest.New(strconv.ParseInt(fields[12], 10, 64))
	return time.Duration(user+system) * clockTick
}

// event returns a click with one more property, whose value is JSON.
func event(property, value string) []byte {
	return []byte(`{"api_key":"` + captureToken +
		`","event":"$autocapture","distinct_id":"u","properties":{"$session_id":"s","` + property + `":` + value + `}}`)
}

// batch returns a request of n events, which a format makes of their numbers.
func batch(n int, format string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"batch":[`)
	for i := range n {
		fmt.Fprintf(&b, format+",", i)
	}
	fmt.Fprintf(&b, `{}],"api_key":%q}`, captureToken)
	return b.Bytes()
}

// These begin the formats of events: of one user, and of a user for each number.
const (
	view = `{"event":"$pageview","uuid":"u%d","distinct_id":"u","properties":{"$session_id":"s",` +
		`"$current_url":"https://x`
	ofMany = `"uuid":"u%d","distinct_id":"user%[1]d","properties":{"$session_id":"s%[1]d",`
	views  = `{"event":"$pageview",` + ofMany + `"$current_url":"https://x/n%[1]d`
	clicks = `{"event":"$autocapture",` + ofMany
)

// attacks returns requests of about 8 MiB that are hard to serve, made once.
var attacks = sync.OnceValue(func() map[string][]byte {
	const size = 8*mebibyte - 512
	fill := func(piece string) string { return strings.Repeat(piece, size/len(piece)) }
	ones := "[1" + fill(",1") + "]"
	id := func(piece string, n int) string { return `"` + strings.Repeat(piece, n) + `%07[1]d"` }
	return map[string][]byte{
		"numbers as elements": event("$elements", ones),
		"objects as elements": event("$elements", `[{}`+fill(`,{"attr__id":"x"}`)+`]`),
		"no credential":       bytes.Replace(event("$elements", ones), []byte(captureToken), []byte("phc_unknown"), 1),
		"a chain":             event("$elements_chain", `"`+fill(`a:text=\"x\";`)+`"`),
		"a URL": bytes.Replace(event("$current_url", `"https://x/`+fill("a")[20:]+`"`),
			[]byte("$autocapture"), []byte("$pageview"), 1),
		"a session of space":         event("$session_id", `"`+fill(" ")+`ab"`),
		"a label":                    event("$el_text", `"`+fill("x ")+`"`),
		"escapes":                    event("$el_text", `"`+fill(`\u00e9`)+`"`),
		"nesting":                    event("x", strings.Repeat("[", 9000)+strings.Repeat("]", 9000)),
		"a million keys":             event("x", `{`+fill(`"k":1,`)+`"k":1}`),
		"a long key":                 event("x", `{"`+fill(`k`)+`":1}`),
		"the same key over and over": []byte(`{"api_key":"` + captureToken + `",` + fill(`"event":{},`) + `"event":1}`),
		"space":                      append(event("x", "1"), fill(" ")[1000:]...),
		"space first":                append([]byte(fill(" ")[1000:]), event("x", "1")...),
		"many events":                batch(9_999, view+`/","x":"`+strings.Repeat("x", 600)+`"}}`),
		"paths of identifiers":       batch(3_900, view+strings.Repeat("/1", 1000)+`"}}`),
		"paths of escapes":           batch(3_900, view+strings.Repeat("/%%31", 500)+`"}}`),
		"many URLs":                  batch(9_990, view+`/n%[1]d`+strings.Repeat("/alpha/beta/qx", 50)+`"}}`),
		"labels":                     batch(9_990, clicks+`"$el_text":"`+strings.Repeat("label ", 106)+`"}}`),
		"chains":                     batch(9_990, clicks+`"$elements_chain":"`+strings.Repeat(`a:text=\"x\";`, 50)+`"}}`),
		"the longest URLs":           batch(3_700, views+strings.Repeat("/alpha/beta/qx", 145)+`"}}`),
		"the longest ids": batch(3_800, `{"event":"$pageview","uuid":"u%d","distinct_id":`+id("u", 1000)+
			`,"properties":{"$session_id":`+id("s", 1000)+`,"$current_url":"/"}}`),
		"long sessions": batch(9_400, `{"event":"$pageview","uuid":"u%d","properties":{"$session_id":`+id("s", 715)+
			`,"$current_url":"/"}}`),
		"URLs of many":            batch(9_990, views+strings.Repeat("/alpha/beta/qx", 45)+`"}}`),
		"URLs of line separators": batch(9_990, views+strings.Repeat("/a\u2028", 130)+`"}}`),
		"ids of line separators": batch(9_990, `{"event":"$pageview","uuid":"u%d","distinct_id":`+id("\u0085", 350)+
			`,"properties":{"$session_id":"s%[1]d","$current_url":"/"}}`),
		"long addresses": batch(9_990, `{"event":"$pageview","uuid":"u%d","distinct_id":`+id("u", 60)+
			`,"$set":{"email":"`+strings.Repeat("e", 242)+`%07[1]d@b.c"},"properties":{"$session_id":`+id("s", 60)+
			`,"$current_url":"https://x/n%[1]d/abc"}}`),
		"identified users": batch(4_300, `{"event":"$autocapture","uuid":"u%d","distinct_id":`+id("u", 700)+
			`,"$set":{"email":"e%[1]d@b.c"},"properties":{"$is_identified":true,"$session_id":`+id("s", 700)+`}}`),
		"two kinds of a URL": batch(7_000, `{"event":"$pageview","uuid":"u%d","distinct_id":"user%[1]d",`+
			`"$set":{"email":"e%[1]d@b.c"},"properties":{"$is_identified":true,"$session_id":"s%[1]d",`+
			`"$current_url":"https://x/%[1]d`+strings.Repeat("/alpha/beta/qx", 40)+`"}}`),
		"too much": batch(9_990, `{"event":"$autocapture","uuid":"u%d","distinct_id":`+
			id(strings.Repeat("\u0085", 64)+strings.Repeat("u", 90), 1)+`,"$set":{"email":"`+strings.Repeat("e", 180)+
			`%[1]d@b.c"},"properties":{"$is_identified":true,"$session_id":`+
			id(strings.Repeat("\u0085", 64)+strings.Repeat("s", 90), 1)+`}}`),
		"other tokens": batch(5_000,
			`{"event":"$pageview","distinct_id":"u","properties":{"token":"phc_%d","$current_url":"https://x/"}}`),
	}
})

// newReference builds the program that a request is compared with.
func newReference(t *testing.T) *proctest.Command {
	t.Helper()
	return proctest.Build(t, ".", "testdata/reference")
}

// compare returns the processor time of a pass of the decoder over b, which decodes values or only
// finds their ends, and b compressed.
func compare(t *testing.T, reference *proctest.Command, b []byte, decodes bool) (pass time.Duration, zipped []byte) {
	t.Helper()
	cmd := exec.Command(reference.Path(), fmt.Sprint("-decode=", decodes))
	cmd.Stdin, cmd.Stderr = bytes.NewReader(b), t.Output()
	output, err := cmd.Output()
	require.NoError(t, err)
	line, zipped, ok := bytes.Cut(output, []byte("\n"))
	require.True(t, ok)
	_, err = fmt.Sscan(string(line), (*int64)(&pass))
	require.NoError(t, err)
	return pass, zipped
}

// clockError bounds the error of processor times, together with a server's background work.
const clockError = 100 * time.Millisecond

// attempts bounds how often a request is sent to a new server until its processor time is within
// the limit. Other tests use the processor's caches meanwhile.
const attempts = 20

// A request with any body adds at most 128 MiB of memory and takes at most twenty times the CPU of
// a pass of the JSON decoder.
func TestBudget_boundsOneRequest(t *testing.T) {
	reference := newReference(t)
	asIs := func(zipped []byte) []byte { return zipped }
	inForm := func(zipped []byte) []byte {
		return []byte("data=" + url.QueryEscape(base64.StdEncoding.EncodeToString(zipped)))
	}
	all := attacks()
	for name, plain := range all {
		t.Run(name, func(t *testing.T) { requireFrugal(t, reference, plain, asIs) })
	}
	t.Run("in a form", func(t *testing.T) { requireFrugal(t, reference, all["numbers as elements"], inForm) })
}

// requireFrugal requires that a server is frugal with a body, which decodes to plain.
func requireFrugal(t *testing.T, reference *proctest.Command, plain []byte, encode func(zipped []byte) []byte) {
	t.Helper()
	require.Less(t, len(plain), 8*mebibyte)
	for attempt := 1; ; attempt++ {
		a := newAttacked(t)
		pass, zipped := compare(t, reference, plain, false)
		memory, cpu := a.peakMemory(), a.cpuTime()
		status := a.send(t, encode(zipped))
		cpu, memory = a.cpuTime()-cpu, a.peakMemory()-memory
		a.Kill()
		t.Logf("status %d, %d MiB, %v, %.1f passes", status, memory/mebibyte, cpu, float64(cpu)/float64(pass))
		require.Less(t, status, http.StatusInternalServerError)
		require.LessOrEqual(t, memory, int64(128*mebibyte))
		if cpu <= 20*pass+clockError {
			return
		}
		require.Less(t, attempt, attempts, "it takes %v, a pass of the decoder %v", cpu, pass)
	}
}

// Small events cost most when each has its own user and session. They take less than twenty passes
// even then: events of 300 bytes without decoding values, and the smallest ones with it.
func TestBudget_boundsARequestOfManyUsers(t *testing.T) {
	reference := newReference(t)
	for name, c := range map[string]struct {
		event   string
		decodes bool
	}{
		"page views": {`{"event":"$pageview",` + ofMany + `"$current_url":"https://app.example.com/p/%[1]d","x":"` +
			strings.Repeat("x", 130) + `"}}`, false},
		"clicks": {clicks + `"$event_type":"click","$el_text":"Buy it","$current_url":"https://app.example.com/p/%[1]d",` +
			`"x":"` + strings.Repeat("x", 90) + `"}}`, false},
		"identities": {`{"event":"$identify","uuid":"u%d","distinct_id":"user%[1]d","$set":{"email":"u%[1]d@example.com"},` +
			`"properties":{"$session_id":"s%[1]d","x":"` + strings.Repeat("x", 130) + `"}}`, false},
		"users of one session": {`{"event":"$pageview","uuid":"u%d","distinct_id":"user%[1]d","properties":{` +
			`"$session_id":"s","$is_identified":true,"$current_url":"https://app.example.com/p/%[1]d","x":"` +
			strings.Repeat("x", 100) + `"}}`, false},
		"smallest clicks": {`{"event":"$autocapture","distinct_id":"%d","session_id":"%[1]d"}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			best := math.Inf(1)
			for run := 0; run < attempts && best >= 20; run++ {
				a := newAttacked(t)
				pass, body := compare(t, reference, batch(9_000, c.event), c.decodes)
				cpu := a.cpuTime()
				require.Equal(t, http.StatusOK, a.send(t, body))
				cpu = a.cpuTime() - cpu
				a.Kill()
				best = min(best, float64(cpu)/float64(pass))
			}
			t.Logf("%.1f passes", best)
			assert.Less(t, best, 20.0)
		})
	}
}

// Many large requests at once take a bounded part of the memory, and each gets an answer.
func TestBudget_boundsAllRequestsTogether(t *testing.T) {
	reference := newReference(t)
	a, all := newAttacked(t), attacks()
	for _, name := range []string{"a URL", "a session of space", "no credential"} {
		_, body := compare(t, reference, all[name], false)
		waittest.Together(50, func(int) {
			assert.Contains(t, []int{http.StatusOK, http.StatusUnauthorized, http.StatusServiceUnavailable}, a.send(t, body))
		})
	}
	assert.Less(t, a.peakMemory(), int64(512*mebibyte))
}

// Endless bodies at the doors of help desks hold no more memory than the bound of all requests.
func TestServer_boundsBodiesThatNeverEnd(t *testing.T) {
	const limit, senders = 128 * mebibyte, 160
	config := productFile(t, `{"products": [{"product_id": "acme", "capture_tokens": ["phc_acme"], "integration_config": {
		"intercom": {"base_url": "https://api.intercom.io", "access_token": "t", "admin_id": "1", "client_secret": "s"}}}]}`)
	a := attacked{launch(t, []string{fmt.Sprintf("GOMEMLIMIT=%d", limit)}, "--config="+config, anyPort), t}
	addr := strings.TrimPrefix(a.URL(), "http://")
	before := a.peakMemory()
	var sent sync.WaitGroup
	for range senders {
		conn, err := net.Dial("tcp", addr)
		require.NoError(t, err)
		defer conn.Close()
		sent.Go(func() {
			fmt.Fprintf(conn, "POST /chatbot-webhook/acme HTTP/1.1\r\nHost: x\r\nX-Hub-Signature: sha1=0\r\nContent-Length: "+
				"%d\r\n\r\n", mebibyte)
			_, _ = conn.Write(bytes.Repeat([]byte(" "), mebibyte-1)) // those that gave way are cut off
		})
	}
	sent.Wait()
	status, _ := proctest.Request(t, "POST", a.URL()+"/chatbot-webhook/acme", "{}", "X-Hub-Signature: sha1=0")
	assert.Equal(t, http.StatusUnauthorized, status, "another body finds room")
	assert.Less(t, a.peakMemory()-before, int64(80*mebibyte))
}
