package mcptool

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/liveactivity/liveactivity/internal/httpx"
)

// plainWords rewrites the SDK's errors, which name Go types, in plain language and the service's
// format. Other responses pass through. It relies on the SDK writing a JSON response in one
// Write: each Write is examined by itself.
type plainWords struct {
	http.ResponseWriter
	answer *answer
	begun  bool  // WriteHeader was called
	err    error // the response to send instead; the handler has written nothing then
	// unknown means that err is about a method that the SDK does not know.
	unknown bool
}

// Unwrap is for [http.ResponseController].
func (w *plainWords) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader holds back the SDK's plain-text errors, whose body Write then drops. It turns any
// response that contains a failed lookup into a 503, with the headers of the service's 503.
func (w *plainWords) WriteHeader(status int) {
	h := w.Header()
	w.begun = true
	if w.answer.unavailable.Load() {
		maps.Copy(h, httpx.Unavailable(nil).Header)
		status = http.StatusServiceUnavailable
	}
	if status < 400 || !strings.HasPrefix(h.Get("Content-Type"), "text/plain") {
		h.Del("Content-Length") // Write may change it
		w.ResponseWriter.WriteHeader(status)
		return
	}
	h.Del("Content-Type")
	h.Del("Content-Length")
	w.err = httpx.Errorf(status, "%s", cmp.Or(sentences[status], "The request cannot be served."))
}

// Write reports p as written in full, whatever it writes instead: the SDK must not take a
// rewritten message for a short write.
func (w *plainWords) Write(p []byte) (int, error) {
	if w.err != nil {
		w.unknown = bytes.HasPrefix(p, []byte("JSON RPC not handled"))
		return len(p), nil
	}
	if !w.begun {
		w.WriteHeader(http.StatusOK)
	}
	if w.answer.unavailable.Load() {
		p = withDetail(p)
	}
	if _, err := w.ResponseWriter.Write(inPlainWords(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// end returns the response to send instead of the SDK's, nil for none. It answers a call of an
// unknown method itself, by its ID: some relays between a client and the server pass on JSON-RPC
// responses only, and the client would wait in vain. A batch gets the SDK's status.
func (w *plainWords) end(body []byte) error {
	var call struct {
		ID json.RawMessage `json:"id"`
	}
	if !w.unknown || json.Unmarshal(body, &call) != nil || !isID(call.ID) {
		return w.err
	}
	refuse(w.ResponseWriter, call.ID, jsonrpc.CodeMethodNotFound, rpcSentences[jsonrpc.CodeMethodNotFound])
	return nil
}

// withDetail makes a JSON-RPC response an error of the service as well, by a field in front of
// the others. A batch has no place for that field, so its results are left out.
func withDetail(p []byte) []byte {
	if response, ok := bytes.CutPrefix(p, []byte("{")); ok {
		return append([]byte(`{"detail":"`+unavailable+`",`), response...)
	}
	return []byte(`{"detail":"` + unavailable + `"}`)
}

// sentences replace the SDK's plain-text errors, by status.
var sentences = map[int]string{
	http.StatusBadRequest: "The request is not a JSON-RPC message that this MCP server accepts: " +
		"check its JSON, jsonrpc, id, method and params, and the Accept and MCP-Protocol-Version headers.",
	http.StatusUnsupportedMediaType: "The Content-Type must be application/json.",
}

// rpcError matches the code and the message of a JSON-RPC error, alone, in a batch or in an event.
// Data never match: their quotes are escaped in strings, and they have no such object.
var rpcError = regexp.MustCompile(`"error":\{"code":(-?\d+),"message":"(?:[^"\\]|\\.)*"`)

// rpcSentences replace the messages of JSON-RPC errors, by code.
var rpcSentences = map[int]string{
	jsonrpc.CodeParseError:     "The message is not valid JSON.",
	jsonrpc.CodeInvalidRequest: "The message is not a valid request.",
	jsonrpc.CodeMethodNotFound: "Unknown method.",
	jsonrpc.CodeInvalidParams:  "The params are invalid for this method.",
	jsonrpc.CodeInternalError:  "Something went wrong inside the server.",
}

// goWords identify texts of Go errors.
var goWords = regexp.MustCompile(`unmarshal|json:|not handled|\bGo\b|\*?mcp\.`)

// inPlainWords replaces the messages of JSON-RPC errors that contain Go's wording, and returns
// anything else unchanged.
func inPlainWords(p []byte) []byte {
	if !rpcError.Match(p) {
		return p
	}
	return rpcError.ReplaceAllFunc(p, func(failed []byte) []byte {
		if !goWords.Match(failed) {
			return failed
		}
		code, _ := strconv.Atoi(string(rpcError.FindSubmatch(failed)[1]))
		code = cmp.Or(code, jsonrpc.CodeInvalidParams) // the SDK leaves it out if params is not an object
		return fmt.Appendf(nil, `"error":{"code":%d,"message":%q`, code,
			cmp.Or(rpcSentences[code], "The request cannot be served."))
	})
}
