package mcptool_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/activity/mcptool"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/internal/httpxtest"
	"github.com/liveactivity/liveactivity/internal/musttest"
)

// filled returns a store in which ada of acme visited n pages.
func filled(t testing.TB, n int) recent.Store {
	t.Helper()
	store := musttest.New(recent.NewMemory(nil))
	b := activity.Batch{Type: activity.BatchType, ProductID: "acme", SessionID: "s1"}
	for i := range n {
		a := activity.NewAction(activity.TypePageview, activity.Target{},
			fmt.Sprintf("https://app.example.com/page-%c", 'a'+i))
		a.ID = fmt.Sprint("event-", i)
		a.TimestampStart = activity.Seconds(time.Now().Add(time.Duration(i-n) * time.Second))
		b.Actions = append(b.Actions, activity.BatchAction{Action: a, SessionID: "s1", UserID: "ada"})
	}
	require.NoError(t, store.Add(context.Background(), b))
	return store
}

// brokenStore is a store whose storage is unavailable.
type brokenStore struct{ recent.Store }

func (brokenStore) Recent(context.Context, string, recent.Subject, int) (recent.Snapshot, error) {
	return recent.Snapshot{}, errors.New("dial tcp 10.0.0.1: refused")
}

// serving returns an MCP handler over store with two keys: "key" of acme and "other" of globex.
func serving(t testing.TB, store recent.Store, opts *mcptool.Options) http.Handler {
	t.Helper()
	keys := access.NewKeyring()
	require.NoError(t, keys.Add("key", "acme"))
	require.NoError(t, keys.Add("other", "globex", access.MCP))
	return musttest.New(mcptool.NewHandler(musttest.New(recent.NewLookup(store, 10)), keys, opts))
}

// post returns a request with a JSON body and acme's key.
func post(body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer key")
	return r
}

// call returns the body of a tool call.
func call(arguments string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_live_user_activity","arguments":` +
		arguments + `}}`
}

func serve(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// toolResult is the relevant part of a JSON-RPC response.
type toolResult struct {
	ID     json.RawMessage
	Detail string
	Error  *struct{ Message string }
	Result struct {
		IsError           bool
		Content           []struct{ Type, Text string }
		StructuredContent json.RawMessage
	}
}

// message returns the text of a tool error, or "" if the call succeeded.
func (r toolResult) message(t *testing.T) string {
	t.Helper()
	require.Nil(t, r.Error)
	require.Len(t, r.Result.Content, 1)
	require.Equal(t, "text", r.Result.Content[0].Type)
	if !r.Result.IsError {
		return ""
	}
	assert.Empty(t, r.Result.StructuredContent)
	return r.Result.Content[0].Text
}

func decode(t *testing.T, w *httptest.ResponseRecorder) (result toolResult) {
	t.Helper()
	assert.Equal(t, "application/json", w.Header().Get("Content-Type"))
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &result), "%s", w.Body)
	return result
}

// detail checks that the response is {"detail": …} and returns the sentence.
func detail(t *testing.T, w *httptest.ResponseRecorder, status int) string {
	t.Helper()
	return httpxtest.Detail(t, status, w.Result())
}

// 12 actions are kept, the cap is 10.
func TestTool_limit(t *testing.T) {
	h := serving(t, filled(t, 12), nil)
	for limit, want := range map[string]int{
		"null": 10, "0": 10, "-5": 10, "-1e30": 10, "1": 1, "3": 3, "3.0": 3, "0.3e1": 3, "10": 10, "11": 10,
		"2147483648": 10,
		"1e9":        10, "9223372036854775807": 10, "9223372036854775808": 10, "99999999999999999999": 10, "1e30": 10,
	} {
		t.Run(limit, func(t *testing.T) {
			result := decode(t, serve(h, post(call(`{"product_id":"acme","user_id":"ada","limit":`+limit+`}`))))
			require.Empty(t, result.message(t))
			var got recent.LiveActivity
			require.NoError(t, json.Unmarshal(result.Result.StructuredContent, &got))
			assert.Equal(t, want, got.Count)
			require.Len(t, got.Actions, want)
			assert.Equal(t, "Page Load: Page l", got.Actions[want-1].Title, "the newest are returned")
		})
	}
}

func TestTool_errors(t *testing.T) {
	h := serving(t, filled(t, 1), nil)
	for name, tt := range map[string]struct{ key, arguments, want string }{
		"another product":         {"key", `{"product_id":"globex","user_id":"ada"}`, "API key does not match product_id"},
		"another product's key":   {"other", `{"product_id":"acme","user_id":"ada"}`, "API key does not match product_id"},
		"limit with a fraction":   {"key", `{"product_id":"acme","user_id":"ada","limit":2.5}`, "limit must be an integer."},
		"limit a string":          {"key", `{"product_id":"acme","user_id":"ada","limit":"2"}`, "limit must be an integer."},
		"limit a boolean":         {"key", `{"user_id":"ada","limit":true}`, "limit must be an integer."},
		"no user":                 {"key", `{"product_id":"acme"}`, "user_id is required and must not be empty."},
		"empty user":              {"key", `{"user_id":""}`, "user_id is required and must not be empty."},
		"user an array":           {"key", `{"user_id":["ada"]}`, "user_id must be a string."},
		"nothing":                 {"key", ``, "user_id is required and must not be empty."},
		"null":                    {"key", `null`, "user_id is required and must not be empty."},
		"an array":                {"key", `[]`, "The arguments must be a JSON object."},
		"product id not a string": {"key", `{"product_id":["acme"],"user_id":"ada"}`, "product_id must be a string."},
	} {
		t.Run(name, func(t *testing.T) {
			r := post(strings.Replace(call(tt.arguments), `,"arguments":}`, `}`, 1))
			r.Header.Set("Authorization", "Bearer "+tt.key)
			w := serve(h, r)
			assert.Equal(t, http.StatusOK, w.Code)
			assert.Equal(t, tt.want, decode(t, w).message(t))
		})
	}
}

func TestTool_hidesStorageErrorsFromClients(t *testing.T) {
	var log bytes.Buffer
	h := serving(t, brokenStore{}, &mcptool.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	w := serve(h, post(call(`{"product_id":"acme","user_id":"ada@example.com"}`)))
	assert.Equal(t, http.StatusServiceUnavailable, w.Code)
	assert.NotEmpty(t, w.Header().Get("Retry-After"))
	assert.Contains(t, w.Body.String(), `"detail":"Live activity cannot be looked up just now; please try again."`)
	assert.Equal(t, "Live activity cannot be looked up just now; please try again.", decode(t, w).message(t))
	assert.NotContains(t, w.Body.String(), "10.0.0.1")
	assert.Contains(t, log.String(), "10.0.0.1", "the error is logged")
	assert.NotContains(t, log.String(), "ada@example.com")
	assert.NotContains(t, log.String(), "Bearer")
}

func TestHandler_refusesRequestsWithoutAValidKey(t *testing.T) {
	h := serving(t, filled(t, 1), nil)
	bodies := map[string]string{
		"initialize":     `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`,
		"list":           `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
		"notification":   `{"jsonrpc":"2.0","method":"tools/call","params":{}}`,
		"no JSON":        `{"jsonrpc":`,
		"an array":       `[` + call(`{}`) + `]`,
		"nothing":        ``,
		"far too much":   `{"id":1,"method":"tools/call","x":"` + strings.Repeat("x", 2<<20) + `"}`,
		"a deep nesting": `{"id":` + strings.Repeat("[", 100_000),
	}
	for _, authorization := range []string{"", "Bearer", "Bearer ", "Bearer wrong", "Basic key", "key",
		"Bearer key extra"} {
		for name, body := range bodies {
			t.Run(authorization+"/"+name, func(t *testing.T) {
				r := post(body)
				r.Header.Set("Authorization", authorization)
				w := serve(h, r)
				assert.Equal(t, "Invalid or missing API key", detail(t, w, http.StatusUnauthorized))
				challenge := w.Header().Get("WWW-Authenticate")
				if _, token, _ := strings.Cut(authorization, "Bearer "); token == "" {
					assert.Equal(t, "Bearer", challenge)
				} else {
					assert.Contains(t, challenge, `Bearer error="invalid_token", error_description="wrong key`)
				}
			})
		}
	}
}

// An MCP client in a browser calls from another origin.
func TestHandler_answersPreflights(t *testing.T) {
	h := serving(t, filled(t, 1), nil)
	r := httptest.NewRequest(http.MethodOptions, "/mcp", nil)
	r.Header.Set("Origin", "http://localhost:6274")
	r.Header.Set("Access-Control-Request-Method", "POST")
	r.Header.Set("Access-Control-Request-Headers", "authorization,content-type,mcp-protocol-version,mcp-method,mcp-name")
	w := serve(h, r)
	assert.Equal(t, http.StatusNoContent, w.Code)
	assert.Equal(t, "*", w.Header().Get("Access-Control-Allow-Origin"))
	allowed := strings.ToLower(w.Header().Get("Access-Control-Allow-Headers"))
	for _, header := range strings.Split(r.Header.Get("Access-Control-Request-Headers"), ",") {
		assert.Contains(t, allowed, header)
	}
	for _, key := range []string{"key", "wrong"} {
		r := post(call(`{"product_id":"acme","user_id":"ada"}`))
		r.Header.Set("Origin", "http://localhost:6274")
		r.Header.Set("Authorization", "Bearer "+key)
		w := serve(h, r)
		assert.Equal(t, "*", w.Header().Get("Access-Control-Allow-Origin"), key)
		assert.Contains(t, w.Header().Get("Access-Control-Expose-Headers"), "WWW-Authenticate", key)
	}
}

// A tool call's caller reads tool errors, so it gets one, at 401. An ID is echoed only if it is valid.
func TestHandler_answersAnUnauthorizedCallWithAToolError(t *testing.T) {
	h := serving(t, filled(t, 1), nil)
	for id, isValid := range map[string]bool{`1`: true, `"a-b"`: true,
		`null`: false, `{"a":1}`: false, `[1]`: false, `true`: false, `false`: false} {
		r := post(strings.Replace(call(`{"product_id":"acme","user_id":"ada"}`), `"id":1`, `"id":`+id, 1))
		r.Header.Del("Authorization")
		w := serve(h, r)
		if !isValid {
			detail(t, w, http.StatusUnauthorized)
			continue
		}
		assert.Equal(t, http.StatusUnauthorized, w.Code)
		assert.Equal(t, "Bearer", w.Header().Get("WWW-Authenticate"))
		result := decode(t, w)
		assert.Equal(t, "Invalid or missing API key", result.Detail)
		assert.Equal(t, "Invalid or missing API key", result.message(t))
		assert.Equal(t, id, string(result.ID))
	}
}

func TestHandler_answersWhoAcceptsJSON(t *testing.T) {
	h := serving(t, filled(t, 1), nil)
	for accept, want := range map[string]int{
		"": 200, "*/*": 200, "application/json": 200, "application/*": 200, "application/json, text/event-stream": 200,
		"text/event-stream, application/json;q=0.5": 200, "text/html, */*;q=0.1": 200,
		"application/json; charset=utf-8": 200, "text/html,application/xhtml+xml,*/*;q=0.8": 200,
		"text/html|application/json": 200, // two headers
		"text/event-stream":          400, "text/html": 400, "text/html|image/png": 400,
	} {
		t.Run(accept, func(t *testing.T) {
			r := post(call(`{"product_id":"acme","user_id":"ada"}`))
			r.Header["Accept"] = strings.Split(accept, "|")
			w := serve(h, r)
			if want == 200 {
				assert.Empty(t, decode(t, w).message(t))
				return
			}
			detail(t, w, want)
		})
	}
}

// The response is always {"detail": …}, without Go's wording.
func TestHandler_rejectsInvalidMessages(t *testing.T) {
	h := serving(t, filled(t, 1), nil)
	for name, tt := range map[string]struct {
		body   string
		edit   func(*http.Request)
		status int
	}{
		"nothing":                      {"", nil, 400},
		"no JSON":                      {`{"jsonrpc":`, nil, 400},
		"not an object":                {`7`, nil, 400},
		"no JSON-RPC":                  {`{"hello":"world"}`, nil, 400},
		"an unknown notification":      {`{"jsonrpc":"2.0","method":"tools/destroy"}`, nil, 400},
		"an unknown method in a batch": {`[{"jsonrpc":"2.0","id":1,"method":"tools/destroy"}]`, nil, 400},
		"an old protocol version": {call(`{}`), func(r *http.Request) { r.Header.Set("MCP-Protocol-Version", "1999-01-01") },
			400},
		"no content type":  {call(`{}`), func(r *http.Request) { r.Header.Del("Content-Type") }, 415},
		"a body too large": {call(`{"x":"` + strings.Repeat("x", 1<<20) + `"}`), nil, 413},
		"too large, no length": {"", func(r *http.Request) {
			r.Body = io.NopCloser(io.LimitReader(endless{}, 4<<20))
			r.ContentLength = -1
		}, 413},
		"GET": {"", func(r *http.Request) { r.Method = http.MethodGet }, 405},
		"PUT": {call(`{}`), func(r *http.Request) { r.Method = http.MethodPut }, 405},
	} {
		t.Run(name, func(t *testing.T) {
			r := post(tt.body)
			if tt.edit != nil {
				tt.edit(r)
			}
			w := serve(h, r)
			sentence := detail(t, w, tt.status)
			for _, words := range []string{"invalid character", "malformed payload", "unexpected", "json:", "1999", "EOF"} {
				assert.NotContains(t, sentence, words)
			}
			if tt.status == http.StatusMethodNotAllowed {
				assert.Equal(t, "POST", w.Header().Get("Allow"))
			}
		})
	}
}

// A relay such as mcp-remote passes only a JSON-RPC response on: after any other status its client waits in vain.
func TestHandler_answersAnUnknownMethodByItsID(t *testing.T) {
	h := serving(t, filled(t, 1), nil)
	for _, id := range []string{`1`, `"a"`} {
		w := serve(h, post(`{"jsonrpc":"2.0","id":`+id+`,"method":"tools/destroy","params":{}}`))
		assert.Equal(t, http.StatusOK, w.Code)
		assert.JSONEq(t, `{"jsonrpc":"2.0","id":`+id+`,"error":{"code":-32601,"message":"Unknown method."}}`, w.Body.String())
	}
}

// endless is an endless body of spaces.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func TestHandler_acceptsABodyUpToTheLimit(t *testing.T) {
	body := call(`{"product_id":"acme","user_id":"ada","padding":""}`)
	body = strings.Replace(body, `"padding":"`, `"padding":"`+strings.Repeat("x", 1<<20-len(body)), 1)
	require.Len(t, body, 1<<20)
	assert.Empty(t, decode(t, serve(serving(t, filled(t, 1), nil), post(body))).message(t))
}

// The server keeps no sessions and its one tool never changes, so there is nothing to wait for: every response ends at
// once. One that stayed open would delay a shutdown.
func TestHandler_endsEveryResponse(t *testing.T) {
	h := serving(t, filled(t, 1), nil)
	for _, method := range []string{"ping", "tools/list", "resources/list", "prompts/list", "logging/setLevel",
		"server/discover", "subscriptions/listen"} {
		for _, version := range []string{"2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"} {
			t.Run(method+" "+version, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				r := post(`{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{"notifications":{"toolsListChanged":true},` +
					`"_meta":{"io.modelcontextprotocol/protocolVersion":"` + version +
					`","io.modelcontextprotocol/clientCapabilities":{}}}}`)
				r.Header.Set("MCP-Protocol-Version", version)
				r.Header.Set("Mcp-Method", method)
				w := serve(h, r.WithContext(ctx))
				require.NoError(t, ctx.Err(), "the response does not end")
				assert.NotEmpty(t, w.Body.String())
			})
		}
	}
}

func TestHandler_answersANotification(t *testing.T) {
	w := serve(serving(t, filled(t, 1), nil), post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))
	assert.Equal(t, http.StatusAccepted, w.Code)
	assert.Zero(t, w.Body.Len())
}

func TestHandler_answersAnUnknownToolWithAProtocolError(t *testing.T) {
	w := serve(serving(t, filled(t, 1), nil), post(strings.Replace(call(`{}`), mcptool.ToolName, "drop_tables", 1)))
	result := decode(t, w)
	require.NotNil(t, result.Error)
	assert.Contains(t, result.Error.Message, "drop_tables")
}

// The SDK's errors for params of a wrong type name Go types.
func TestHandler_reportsWrongParamsInPlainLanguage(t *testing.T) {
	wrong := func(id, method, params string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":` + params + `}`
	}
	plain := func(id string) string {
		return `{"jsonrpc":"2.0","id":` + id +
			`,"error":{"code":-32602,"message":"The params are invalid for this method."}}`
	}
	long := `"` + strings.Repeat("x", 1000) + `"`
	for message, want := range map[string]string{
		wrong("7", "tools/call", `5`):                      plain("7"),
		wrong("7", "tools/call", `{"name":5}`):             plain("7"),
		wrong("7", "initialize", `[1]`):                    plain("7"),
		wrong(long, "tools/call", `{"name":5}`):            plain(long),
		"[" + wrong("1", "tools/call", `{"name":5}`) + "]": "[" + plain("1") + "]",
	} {
		assert.Equal(t, want, serve(serving(t, filled(t, 0), nil), post(message)).Body.String())
	}
}
