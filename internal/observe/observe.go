// Package observe wraps HTTP handlers for their operator: request IDs, an access
// log, request durations, and an answer after a panic.
package observe

import (
	"bufio"
	"cmp"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/metrics"
	"github.com/liveactivity/liveactivity/internal/options"
	"github.com/liveactivity/liveactivity/internal/outage"
)

// Observer logs and measures requests. It is safe for concurrent use.
type Observer struct {
	log       *slog.Logger
	durations *prometheus.HistogramVec

	warnings outage.Pace // of answers of 503, by cause: full storage refuses every request
}

// New returns an observer that logs to log, or slog.Default() for nil, and
// registers the metric liveactivity_http_request_duration_seconds; reg may be
// nil.
func New(log *slog.Logger, reg prometheus.Registerer) (*Observer, error) {
	wrong := options.Mistakes{Package: "observe"}
	o := &Observer{log: cmp.Or(log, slog.Default()), durations: metrics.Register(&wrong, reg,
		prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "liveactivity_http_request_duration_seconds",
			Help:    "Time from a request's headers to the end of its answer; for a stream, to its start.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"route", "code"}))}
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	return o, nil
}

// maxRequestID is the maximum length of an X-Request-Id adopted from a client.
const maxRequestID = 128

// Wrap gives every request an ID, its own X-Request-Id if that is plain text or else a new
// one, which the answer also carries. It turns a panic into a 500, and observes the request
// under the route's name, which is determined after serving and must come from a small set. A
// panic with [http.ErrAbortHandler] is passed on after the request was observed.
//
// A line's level depends on the answer: debug below 400, info below 500, warn for 503 and
// error for the rest, but debug for an error that is marked as an outage. There is at most one
// warning a minute for each cause; the metric counts every answer.
func (o *Observer) Wrap(route func(*http.Request) string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		sw := &statusWriter{ResponseWriter: w, requestID: requestID(r)}
		w.Header().Set("X-Request-Id", sw.requestID)
		defer func() {
			cut := false
			if p := recover(); p != nil {
				cut = o.recovered(sw, r, route(r), p)
			}
			o.done(r, route(r), sw, cmp.Or(sw.began, time.Now()).Sub(start))
			if cut {
				panic(http.ErrAbortHandler)
			}
		}()
		next.ServeHTTP(sw, r)
	})
}

// requestID returns a request's ID. It replaces an ID with blanks or control characters,
// which could forge a log line.
func requestID(r *http.Request) string {
	id := r.Header.Get("X-Request-Id")
	if id == "" || len(id) > maxRequestID || !options.IsPrintable(id) {
		return uuid.NewString()
	}
	return id
}

// recovered answers a request whose handler panicked with a 500. It returns
// true if part of an answer is already sent: then the connection must be cut,
// or the client would take that part for the whole.
func (o *Observer) recovered(w *statusWriter, r *http.Request, route string, p any) (cut bool) {
	if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		return true
	}
	o.log.Error("handler panicked", "request_id", w.requestID, "route", route, "panic", p, "stack", string(debug.Stack()))
	if w.status != 0 {
		return true
	}
	httpx.WriteError(w, r, errors.New("panic"))
	return false
}

// done measures and logs a served request. It never logs a body, but it does log an
// error's sentence and cause.
func (o *Observer) done(r *http.Request, route string, w *statusWriter, took time.Duration) {
	code := cmp.Or(w.status, http.StatusOK) // net/http's answer if a handler wrote nothing
	o.durations.WithLabelValues(route, strconv.Itoa(code)).Observe(took.Seconds())
	var failed, cause error
	if w.err != nil {
		failed, cause = w.err, w.err.Cause
	}
	level := slog.LevelDebug
	switch {
	case code == http.StatusServiceUnavailable: // the client should retry
		level = o.warnings.Level(failed)
	case code >= 500:
		level = outage.Level(cause, slog.LevelError)
	case code >= 400:
		level = slog.LevelInfo
	}
	if !o.log.Enabled(r.Context(), level) {
		return
	}
	attrs := []slog.Attr{slog.String("request_id", w.requestID), slog.String("method", r.Method),
		slog.String("route", route), slog.Int("status", code), slog.Duration("took", took),
		slog.String("remote", r.RemoteAddr)}
	if w.err != nil {
		attrs = append(attrs, slog.String("detail", w.err.Detail))
	}
	if cause != nil {
		attrs = append(attrs, slog.Any("err", cause))
	}
	o.log.LogAttrs(r.Context(), level, "request", attrs...)
}

// statusWriter records the status, and the error behind it. The underlying writer's other
// abilities stay reachable through [http.ResponseController]. Like any writer it must be used
// by one goroutine at a time.
type statusWriter struct {
	http.ResponseWriter
	requestID string
	status    int          // the first one written; 0 before that
	began     time.Time    // of a stream that was not hijacked; zero for any other answer
	err       *httpx.Error // the error of a failed request, or nil
}

// Report implements [httpx.Reporter].
func (w *statusWriter) Report(e *httpx.Error) { w.err = e }

func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *statusWriter) WriteHeader(status int) {
	w.begin(status)
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(p []byte) (int, error) {
	w.begin(http.StatusOK)
	return w.ResponseWriter.Write(p)
}

// begin records the status of an answer, and the time if it is the start of a stream.
func (w *statusWriter) begin(status int) {
	if w.status == 0 && w.Header().Get("Content-Type") == "text/event-stream" {
		w.began = time.Now()
	}
	w.status = cmp.Or(w.status, status)
}

// Hijack records that the handler now controls the connection.
func (w *statusWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		w.status = http.StatusOK
	}
	return conn, rw, err
}
