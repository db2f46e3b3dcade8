package httpx_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/admission"
	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/httpxtest"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/pipetest"
)

// detail checks that the answer is a JSON error and returns its sentence.
func detail(t *testing.T, w *httptest.ResponseRecorder, status int) string {
	t.Helper()
	assert.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
	return httpxtest.Detail(t, status, w.Result())
}

func TestHandler_writesErrorsAsJSON(t *testing.T) {
	cause := errors.New("dial tcp 10.0.0.1: connection refused")
	for name, tt := range map[string]struct {
		err    error
		status int
		detail string
		header http.Header
	}{
		"bad request":  {httpx.BadRequest("The field %s is odd.", "x"), 400, "The field x is odd.", nil},
		"unauthorized": {httpx.Unauthorized("No.", "Bearer"), 401, "No.", http.Header{"Www-Authenticate": {"Bearer"}}},
		"no scheme":    {httpx.Unauthorized("No.", ""), 401, "No.", http.Header{"Www-Authenticate": nil}},
		"not found":    {httpx.NotFound("There is no %q.", `<"&>`), 404, `There is no "<\"&>".`, nil},
		"method not allowed": {httpx.MethodNotAllowed("GET, HEAD"), 405,
			"This path does not take that method; see the Allow header.", http.Header{"Allow": {"GET, HEAD"}}},
		"too large": {httpx.TooLarge(5), 413, "The request body is larger than the limit of 5 bytes.", nil},
		"unavailable": {httpx.Unavailable(cause), 503,
			"The service cannot take this request just now; please repeat it.", http.Header{"Retry-After": {"1"}}},
		"wrapped":         {fmt.Errorf("while reading: %w", httpx.Errorf(409, "Taken.")), 409, "Taken.", nil},
		"any other error": {cause, 500, "Something went wrong inside the server.", nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := httpxtest.NewReporter()
			httpx.Handler(func(http.ResponseWriter, *http.Request) error { return tt.err }).ServeHTTP(wrapper{w},
				httptest.NewRequest("GET", "/", nil))
			assert.Equal(t, tt.detail, detail(t, w.ResponseRecorder, tt.status))
			for key, want := range tt.header {
				assert.Equal(t, want, w.Header()[key])
			}
			assert.NotContains(t, w.Body.String(), "10.0.0.1", "the cause is not the client's")
			require.NotNil(t, w.Err)
			assert.Equal(t, tt.status, w.Err.Status)
			if tt.status >= 500 {
				assert.ErrorIs(t, w.Err, cause)
				assert.Contains(t, w.Err.Error(), "10.0.0.1", "the cause is for the log")
			}
		})
	}
}

// wrapper wraps a writer as handlers between the access log and an error may.
type wrapper struct{ http.ResponseWriter }

func (w wrapper) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func TestWriteError_ofOneErrorManyTimesKeepsItsHeaders(t *testing.T) {
	err := httpx.Unauthorized("No.", "Bearer")
	w := httptest.NewRecorder()
	httpx.WriteError(w, httptest.NewRequest("GET", "/", nil), err)
	w.Header().Set("Www-Authenticate", "changed later")
	again := httptest.NewRecorder()
	httpx.WriteError(again, httptest.NewRequest("GET", "/", nil), err)
	assert.Equal(t, "Bearer", again.Header().Get("Www-Authenticate"))
}

func TestWriteJSON_reportsUnencodableValues(t *testing.T) {
	w := httptest.NewRecorder()
	httpx.WriteJSON(w, http.StatusOK, math.NaN())
	detail(t, w, http.StatusInternalServerError)
}

func TestReadBody_answersEachBody(t *testing.T) {
	const limit = 10
	for name, tt := range map[string]struct {
		body   io.Reader
		length int64 // Content-Length; -1 for none
		want   string
		status int // of the error, 0 for none
	}{
		"empty":                        {strings.NewReader(""), 0, "", 0},
		"short":                        {strings.NewReader("short"), 5, "short", 0},
		"short, without length":        {strings.NewReader("short"), -1, "short", 0},
		"at the limit":                 {strings.NewReader("0123456789"), 10, "0123456789", 0},
		"at the limit, without length": {strings.NewReader("0123456789"), -1, "0123456789", 0},
		"over":                         {strings.NewReader("0123456789a"), 11, "", 413},
		"over, without length":         {strings.NewReader("0123456789a"), -1, "", 413},
		"over by its length, not read": {iotest.ErrReader(errors.New("was read")), 1 << 40, "", 413},
		"breaks off": {io.MultiReader(strings.NewReader("01"), iotest.ErrReader(io.ErrUnexpectedEOF)), 5,
			"", 400},
		"connection lost": {io.MultiReader(strings.NewReader("01"),
			iotest.ErrReader(errors.New("read tcp: reset by 10.0.0.1"))), 5, "", 400},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest("POST", "/", tt.body)
			r.ContentLength = tt.length
			w := httptest.NewRecorder()
			got, err := httpx.ReadBody(w, r, limit, "acme")
			if tt.status == 0 {
				require.NoError(t, err)
				assert.Equal(t, tt.want, string(got.Bytes()))
				got.Release()
				return
			}
			require.Error(t, err)
			assert.Nil(t, got)
			httpx.WriteError(w, r, err)
			assert.NotContains(t, detail(t, w, tt.status), "10.0.0.1")
		})
	}
}

// A Content-Length costs its sender nothing, so it must not cost the server memory before the bytes arrive.
func TestReadBody_setsNoMemoryAsideForAPromise(t *testing.T) {
	r := httptest.NewRequest("POST", "/", strings.NewReader("{}"))
	r.ContentLength = 8 << 20
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	body, err := httpx.ReadBody(httptest.NewRecorder(), r, 8<<20, "")
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	defer body.Release()
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(256<<10))
}

// stalled returns a connection whose client sends one byte of a body of 100,000 bytes.
func stalled(t *testing.T, server *httptest.Server, path string) net.Conn {
	t.Helper()
	conn := musttest.New(net.Dial("tcp", server.Listener.Addr().String()))
	t.Cleanup(func() { conn.Close() })
	musttest.New(fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n{", path))
	return conn
}

// An answer that needs no body does not wait for one.
func TestWriteError_doesNotWaitForTheBody(t *testing.T) {
	for _, want := range []*httpx.Error{httpx.NotFound("Unknown product."), httpx.TooLarge(10)} {
		server := httptest.NewServer(httpx.Handler(func(http.ResponseWriter, *http.Request) error { return want }))
		defer server.Close()
		conn := stalled(t, server, "/")
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(httpx.BodyTime)))
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		defer response.Body.Close()
		assert.Equal(t, want.Status, response.StatusCode)
		assert.True(t, response.Close)
		conn.Close()
	}
}

// A client that asked for the end of the connection, as nginx does by default, can send all of the body: a reset would
// cost it the answer.
func TestWriteError_takesTheUnreadBodyAfterTheAnswer(t *testing.T) {
	for _, first := range []string{"1.1\r\nConnection: close", "1.0"} {
		synctest.Test(t, func(t *testing.T) {
			server := &http.Server{Handler: httpx.Handler(func(http.ResponseWriter, *http.Request) error {
				return httpx.Unauthorized("Invalid or missing API key", "Bearer")
			})}
			listener := pipetest.Listen()
			go func() { _ = server.Serve(listener) }()
			defer server.Close()
			conn := musttest.New(listener.Dial(t.Context(), "", ""))
			defer conn.Close()
			body := make([]byte, 900_000)
			musttest.New(fmt.Fprintf(conn, "POST / HTTP/%s\r\nHost: x\r\nContent-Length: %d\r\n\r\n", first, len(body)))
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			require.NoError(t, err, "the answer does not wait for the body")
			defer response.Body.Close()
			assert.Equal(t, 401, response.StatusCode)
			_, err = conn.Write(body)
			assert.NoError(t, err, first)
		})
	}
}

// A client that sends all of a body before it reads the answer finds an answer.
func TestReadBody_answersABodyThatIsMuchTooLarge(t *testing.T) {
	server := httptest.NewServer(httpx.Handler(func(w http.ResponseWriter, r *http.Request) error {
		_, err := httpx.ReadBody(w, r, 1<<20, "")
		return err
	}))
	defer server.Close()
	const size = 16 << 20
	for _, length := range []string{"Content-Length: 16777216", "Transfer-Encoding: chunked"} {
		conn := musttest.New(net.Dial("tcp", server.Listener.Addr().String()))
		defer conn.Close()
		musttest.New(fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n1000000\r\n", length))
		_, err := conn.Write(make([]byte, size-len("1000000\r\n")))
		require.NoError(t, err, length)
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err, length)
		defer response.Body.Close()
		assert.Equal(t, 413, response.StatusCode)
		assert.True(t, response.Close)
	}
}

// A body that never ends is answered with 408. A request goes on after the time for its body if the body has arrived.
func TestReadBody_waitsForABodyForSomeSecondsOnly(t *testing.T) {
	ends := make(chan error, 1)
	server := httptest.NewServer(httpx.Handler(func(w http.ResponseWriter, r *http.Request) error {
		body, err := httpx.ReadBody(w, r, 1<<20, "")
		if err != nil {
			return err
		}
		defer body.Release()
		select {
		case <-r.Context().Done():
			ends <- r.Context().Err()
		case <-time.After(httpx.BodyTime + time.Second):
			ends <- nil
		}
		return nil
	}))
	defer server.Close()
	go func() {
		response, err := http.Post(server.URL, "application/json", strings.NewReader("{}"))
		if err == nil {
			response.Body.Close()
		}
	}()
	response, err := http.ReadResponse(bufio.NewReader(stalled(t, server, "/")), nil)
	require.NoError(t, err)
	defer response.Body.Close()
	assert.Equal(t, 408, response.StatusCode)
	assert.NoError(t, <-ends)
}

// Bodies count from their first bytes, and the slowest gives way to the others.
func TestReceive_countsFromTheFirstBytes(t *testing.T) {
	room := admission.NewRoom(0)
	n := int(room.Arriving.Limit() / (8 << 10))
	statuses := make(chan int, n+1)
	receive := func(body io.Reader) {
		r := httptest.NewRequest("POST", "/", body)
		b, err := httpx.Receive(httptest.NewRecorder(), r, 1<<20, room)
		var e *httpx.Error
		if errors.As(err, &e) {
			statuses <- e.Status
			return
		}
		b.Release()
		statuses <- 200
	}
	synctest.Test(t, func(t *testing.T) {
		var senders []*io.PipeWriter
		for range n {
			r, w := io.Pipe()
			senders = append(senders, w)
			go receive(r)
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		receive(strings.NewReader("{}"))
		assert.Equal(t, 200, <-statuses)
		gaveWay := 0
		for _, w := range senders {
			w.CloseWithError(errors.New("interrupted"))
			synctest.Wait()
			if <-statuses == 503 {
				gaveWay++
			}
		}
		assert.Positive(t, gaveWay)
	})
}
