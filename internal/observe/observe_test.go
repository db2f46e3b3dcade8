package observe_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/logtest"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/observe"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

// observed is a handler under observation.
type observed struct {
	handler http.Handler
	log     *logtest.Buffer
	reg     *prometheus.Registry
}

// observing wraps next under the route's name "route", logging from level on.
func observing(level slog.Level, next http.Handler) *observed {
	o := &observed{log: &logtest.Buffer{}, reg: prometheus.NewRegistry()}
	log := slog.New(slog.NewJSONHandler(o.log, &slog.HandlerOptions{Level: level}))
	o.handler = musttest.New(observe.New(log, o.reg)).Wrap(func(*http.Request) string { return "route" }, next)
	return o
}

func (o *observed) serve(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	o.handler.ServeHTTP(w, r)
	return w
}

// lines returns the log's lines.
func (o *observed) lines(t *testing.T) (lines []map[string]any) {
	t.Helper()
	for text := range strings.Lines(o.log.String()) {
		var line map[string]any
		require.NoError(t, json.Unmarshal([]byte(text), &line))
		lines = append(lines, line)
	}
	return lines
}

// durations returns how many requests were observed with each status and route.
func (o *observed) durations(t *testing.T) map[string]uint64 {
	t.Helper()
	families := musttest.New(o.reg.Gather())
	require.Len(t, families, 1)
	require.Equal(t, "liveactivity_http_request_duration_seconds", families[0].GetName())
	counts := map[string]uint64{}
	for _, m := range families[0].GetMetric() {
		code, route := m.GetLabel()[0], m.GetLabel()[1]
		require.Equal(t, []string{"code", "route"}, []string{code.GetName(), route.GetName()})
		counts[code.GetValue()+" "+route.GetValue()] = m.GetHistogram().GetSampleCount()
	}
	return counts
}

func get(target string) *http.Request { return httptest.NewRequest(http.MethodGet, target, nil) }

// answer returns a handler that answers with the status and nothing else.
func answer(status int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
}

func fail(err error) http.Handler {
	return httpx.Handler(func(http.ResponseWriter, *http.Request) error { return err })
}

// A request keeps an ID of its own that is plain text. Any other gets a new one.
func TestWrap_givesEveryRequestAnID(t *testing.T) {
	for id, keeps := range map[string]bool{
		"abc": true, "req-1/2:3": true, strings.Repeat("x", 128): true, "~!": true,
		"": false, strings.Repeat("x", 129): false, "a b": false, "a\nlevel=ERROR": false, "a\x1b[31m": false, "ä": false,
		"a\x7f": false, "   ": false,
	} {
		o := observing(slog.LevelDebug, answer(200))
		r := get("/")
		r.Header["X-Request-Id"] = []string{id}
		first, second := o.serve(r).Header().Get("X-Request-Id"), o.serve(r).Header().Get("X-Request-Id")
		assert.Equal(t, first, o.lines(t)[0]["request_id"], "the log names the same id")
		if keeps {
			assert.Equal(t, id, first)
			continue
		}
		assert.NoError(t, uuid.Validate(first), "%q", id)
		assert.NotEqual(t, first, second, "%q", id)
	}
}

func TestWrap_turnsAPanicInto500(t *testing.T) {
	for name, value := range map[string]any{"a string": "oh s3cr3t", "an error": errors.New("oh s3cr3t"), "a number": 7} {
		t.Run(name, func(t *testing.T) {
			o := observing(slog.LevelInfo, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(value) }))
			w := o.serve(get("/users/acme/ada@example.com/live-activity"))
			assert.Equal(t, http.StatusInternalServerError, w.Code)
			assert.Equal(t, "application/json", w.Header().Get("Content-Type"))
			assert.JSONEq(t, `{"detail":"Something went wrong inside the server."}`, w.Body.String())
			assert.NotEmpty(t, w.Header().Get("X-Request-Id"))
			assert.Equal(t, map[string]uint64{"500 route": 1}, o.durations(t))
			lines := o.lines(t)
			require.Len(t, lines, 2)
			assert.Equal(t, "ERROR", lines[0]["level"])
			assert.Equal(t, w.Header().Get("X-Request-Id"), lines[0]["request_id"])
			assert.Contains(t, lines[0]["stack"], "observe_test.go", "the log says where it happened")
			assert.NotContains(t, o.log.String(), "ada@example.com", "an email is never logged in full")
		})
	}
}

// The client must not take half an answer for a whole one.
func TestWrap_cutsAnAnswerThatPanicsHalfWay(t *testing.T) {
	o := observing(slog.LevelInfo, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"actions":[`)
		_ = http.NewResponseController(w).Flush()
		panic("half way")
	}))
	server := httptest.NewUnstartedServer(o.handler)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.Start()
	defer server.Close()
	resp := musttest.New(http.Get(server.URL))
	defer resp.Body.Close()
	_, err := io.ReadAll(resp.Body)
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
	server.Close()
	assert.Contains(t, o.log.String(), "half way")
}

func TestWrap_passesAnAbortOn(t *testing.T) {
	o := observing(slog.LevelInfo, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		panic(http.ErrAbortHandler)
	}))
	assert.PanicsWithError(t, http.ErrAbortHandler.Error(), func() { o.serve(get("/")) })
	assert.Empty(t, o.log.String())
}

func TestWrap_logsByStatus(t *testing.T) {
	for name, tt := range map[string]struct {
		next  http.Handler
		level string
	}{
		"200":             {answer(200), "DEBUG"},
		"nothing written": {http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), "DEBUG"},
		"301":             {answer(301), "DEBUG"},
		"401":             {fail(httpx.Unauthorized("No.", "")), "INFO"},
		"404":             {answer(404), "INFO"},
		"500":             {fail(errors.New("x")), "ERROR"},
		"503":             {fail(httpx.Unavailable(errors.New("x"))), "WARN"},
		"200 by Write only": {http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("x")) }),
			"DEBUG"},
	} {
		t.Run(name, func(t *testing.T) {
			o := observing(slog.LevelDebug, tt.next)
			w := o.serve(get("/"))
			lines := o.lines(t)
			require.Len(t, lines, 1)
			assert.Equal(t, tt.level, lines[0]["level"])
			assert.Equal(t, "GET", lines[0]["method"])
			assert.Equal(t, "route", lines[0]["route"])
			assert.EqualValues(t, w.Code, lines[0]["status"])
			assert.Equal(t, w.Header().Get("X-Request-Id"), lines[0]["request_id"])
		})
	}
}

func TestWrap_logsTheCauseHiddenFromTheClient(t *testing.T) {
	o := observing(slog.LevelInfo, fail(httpx.Unavailable(errors.New("redis: connection refused"))))
	w := o.serve(get("/"))
	assert.NotContains(t, w.Body.String(), "redis")
	lines := o.lines(t)
	require.Len(t, lines, 1)
	assert.Equal(t, "redis: connection refused", lines[0]["err"])
	assert.Equal(t, "The service cannot take this request just now; please repeat it.", lines[0]["detail"])
}

// Full storage refuses every request, and its log may be on the same disk.
func TestWrap_warnsOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := observing(slog.LevelInfo, fail(httpx.Unavailable(errors.New("full"))))
		for range 3 {
			for range 10 {
				o.serve(get("/"))
			}
			time.Sleep(time.Minute)
		}
		assert.Len(t, o.lines(t), 3)
	})
}

// A rare failure must not be hidden behind a frequent one.
func TestWrap_warnsOfEachCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		causes := []error{httpx.Unavailable(errors.New("full")), httpx.Unavailable(errors.New("busy")),
			&httpx.Error{Status: http.StatusServiceUnavailable, Detail: "It has not started."}}
		o := observing(slog.LevelInfo, httpx.Handler(func(http.ResponseWriter, *http.Request) error {
			n++
			return causes[n%len(causes)]
		}))
		for range 30 {
			o.serve(get("/"))
		}
		assert.Len(t, o.lines(t), len(causes))
		causes = nil
		for i := range 100 { // causes that name what they are about
			causes = append(causes, httpx.Unavailable(fmt.Errorf("no room for %d", i)))
		}
		time.Sleep(time.Minute)
		for range 300 {
			o.serve(get("/"))
		}
		assert.LessOrEqual(t, len(o.lines(t)), len(causes)/4, "the log stays readable")
	})
}

func TestWrap_logsNothingBelowItsLevel(t *testing.T) {
	o := observing(slog.LevelWarn, answer(404))
	o.serve(get("/"))
	assert.Empty(t, o.log.String())
	assert.Equal(t, map[string]uint64{"404 route": 1}, o.durations(t), "but it is measured")
}

func TestWrap_logsNoBodyPathOrCredential(t *testing.T) {
	const secret = "s3cr3t"
	for name, next := range map[string]http.Handler{"served": answer(200),
		"refused": fail(httpx.Unauthorized("No.", "Bearer"))} {
		t.Run(name, func(t *testing.T) {
			o := observing(slog.LevelDebug, next)
			r := httptest.NewRequest(http.MethodPost, "/users/"+secret+"/?key="+secret, strings.NewReader(secret))
			r.Header.Set("Authorization", "Bearer "+secret)
			r.Header.Set("X-PostHog-Secret", secret)
			r.Header.Set("Cookie", secret)
			o.serve(r)
			require.NotEmpty(t, o.log.String())
			assert.NotContains(t, o.log.String(), secret)
		})
	}
}

func TestWrap_measuresByRouteAndStatus(t *testing.T) {
	log, reg := slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	mux := httpx.NewMux(nil)
	mux.Handle("GET /users/{id}", answer(200))
	mux.Handle("GET /broken", fail(errors.New("x")))
	o := &observed{reg: reg, handler: musttest.New(observe.New(log, reg)).Wrap(httpx.Route, mux)}
	for _, target := range []string{"/users/1", "/users/2", "/users/ada%2Fb", "/broken", "/none/1", "/none/2",
		"//users/1"} {
		o.serve(get(target))
	}
	o.serve(httptest.NewRequest(http.MethodPost, "/users/1", nil))
	assert.Equal(t, map[string]uint64{
		"200 GET /users/{id}": 3,
		"500 GET /broken":     1,
		"404 ":                3,
		"405 ":                1,
	}, o.durations(t), "ids and unknown paths make no labels of their own")
}

// A stream that is not hijacked, as over HTTP/2, lasts longer than its start takes.
func TestWrap_measuresAStreamToItsStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := observing(slog.LevelDebug, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(time.Second)
			w.Header().Set("Content-Type", "text/event-stream")
			for range 3 {
				_, _ = io.WriteString(w, "data: 1\n\n")
				time.Sleep(time.Hour)
			}
		}))
		o.serve(get("/"))
		assert.EqualValues(t, time.Second, o.lines(t)[0]["took"])
		assert.InDelta(t, 1, musttest.New(o.reg.Gather())[0].GetMetric()[0].GetHistogram().GetSampleSum(), 0)
	})
}

func TestNew_needsNoRegistry(t *testing.T) {
	o := &observed{handler: musttest.New(observe.New(slog.New(slog.DiscardHandler), nil)).Wrap(httpx.Route, answer(204))}
	assert.Equal(t, http.StatusNoContent, o.serve(get("/")).Code)
}

// An inner handler can flush and hijack the server's own writer.
func TestWrap_keepsFlushAndHijack(t *testing.T) {
	flush := func(w http.ResponseWriter, _ *http.Request) { assert.NoError(t, http.NewResponseController(w).Flush()) }
	hijack := func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if assert.NoError(t, err) {
			_, _ = rw.WriteString("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\ntaken")
			assert.NoError(t, rw.Flush())
			assert.NoError(t, conn.Close())
		}
	}
	for name, tt := range map[string]struct {
		next http.HandlerFunc
		body string
	}{"flush": {flush, ""}, "hijack": {hijack, "taken"}} {
		t.Run(name, func(t *testing.T) {
			o := observing(slog.LevelDebug, tt.next)
			server := httptest.NewServer(o.handler)
			resp := musttest.New(http.Get(server.URL))
			body := musttest.New(io.ReadAll(resp.Body))
			resp.Body.Close()
			server.Close()
			assert.Equal(t, tt.body, string(body))
			waittest.Until(t, "the request is logged", func() bool { return len(o.lines(t)) == 1 })
			assert.Equal(t, map[string]uint64{"200 route": 1}, o.durations(t))
		})
	}
}
