// Package mcptool lets AI agents ask what a user just did: an MCP server
// (Model Context Protocol, Streamable HTTP, stateless) with the one tool
// get_live_user_activity.
//
//	h, err := mcptool.NewHandler(lookup, keys, nil)
//	mux.Handle("/mcp", h)
//
// The tool takes user_id and optionally product_id and limit, and returns the
// object of the REST lookup, as structured content and as text. The caller's
// key is the bearer token of the HTTP request; it needs the scope mcp. It
// opens one product, which is both the default and the only product_id
// accepted.
//
// A request is bounded before it is decoded: 1 MiB, 20 messages in a batch,
// and limits of nesting and values. The response is at most 8 MiB.
package mcptool

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"regexp"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/options"
	"github.com/liveactivity/liveactivity/internal/version"
)

// ToolName is the name of the tool.
const ToolName = "get_live_user_activity"

// The schemas are written out rather than derived from Go types by
// mcp.AddTool, which would decode and validate each result once more and whose
// argument errors name Go types.
var inputSchema = json.RawMessage(`{
	"type": "object",
	"properties": {
		"user_id": {"type": "string", "description": "The user's stable id, as the product identifies the user to its analytics."},
		"product_id": {"type": "string", "description": "The product the user is using; the API key's product if omitted."},
		"limit": {"type": "integer", "description": "How many of the newest actions to return; all that are kept if omitted."}
	},
	"required": ["user_id"]
}`)

var outputSchema = json.RawMessage(`{
	"type": "object",
	"properties": {
		"product_id": {"type": "string"},
		"user_id": {"type": "string"},
		"count": {"type": "integer", "description": "Number of actions."},
		"as_of": {"type": "number", "description": "Time of the lookup, in epoch seconds."},
		"actions": {
			"type": "array",
			"description": "What the user did, oldest first.",
			"items": {
				"type": "object",
				"properties": {
					"type": {"type": "string", "description": "pageview, click, submit or change."},
					"title": {"type": "string"},
					"description": {"type": "string", "description": "What the user did, and on which page."},
					"timestamp_start": {"type": "number", "description": "Epoch seconds."},
					"timestamp_end": {"type": "number", "description": "Epoch seconds."},
					"raw_url": {"type": "string"},
					"canonical_url": {"type": "string", "description": "The URL with identifiers replaced by :id."},
					"index": {"type": "integer"}
				},
				"required": ["type", "title", "description", "timestamp_start", "timestamp_end", "raw_url", "canonical_url", "index"]
			}
		}
	},
	"required": ["product_id", "user_id", "count", "as_of", "actions"]
}`)

// Options of [NewHandler]; a zero field means its default.
type Options struct {
	Logger *slog.Logger // slog.Default()
}

// OptionError is a mistake in the arguments of [NewHandler].
type OptionError = options.Error

// NewHandler returns the MCP server's HTTP handler; opts may be nil. A request
// without a valid key is answered 401, and one whose lookup fails 503; for a
// tool call, the body is also a tool error. NewHandler reports all invalid arguments at once.
func NewHandler(lookup *activity.Lookup, keys *access.Keyring, opts *Options) (http.Handler, error) {
	wrong := options.Mistakes{Package: "mcptool"}
	wrong.Require(lookup != nil, "lookup", "must not be nil")
	wrong.Require(keys != nil, "keys", "must not be nil")
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	t := &tool{lookup: lookup, keys: keys, log: slog.Default()}
	if opts != nil && opts.Logger != nil {
		t.log = opts.Logger
	}
	inner, answers := t.server(), newAnswers()
	return httpx.Handler(func(w http.ResponseWriter, r *http.Request) error {
		productID, err := keys.ProductOf(access.BearerToken(r), access.MCP)
		if errors.Is(err, access.ErrInvalid) {
			return unauthorized(w, r)
		}
		if err != nil {
			return access.Refusal(err)
		}
		if r, err = bounded(w, r); err != nil {
			return err
		}
		release, err := admit(r, answers, productID)
		if err != nil {
			return err
		}
		defer release()
		acceptBoth(r.Header)
		jw := &plainWords{ResponseWriter: w, answer: answerOf(r.Context())}
		inner.ServeHTTP(jw, r)
		return jw.err
	}), nil
}

// server returns the SDK's handler with the one tool.
func (t *tool) server() http.Handler {
	server := mcp.NewServer(&mcp.Implementation{Name: "liveactivity", Version: version.Version()}, &mcp.ServerOptions{
		// The tool never changes, so subscriptions are not offered: one would
		// be a request without an end.
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
	})
	server.AddTool(&mcp.Tool{
		Name:  ToolName,
		Title: "Live user activity",
		Description: "Returns what a user did in the app just now, oldest first: page views, clicks, form submits and changed fields " +
			"of the last hours. Use it to answer with regard to where the user is and what the user tried.",
		Annotations:  &mcp.ToolAnnotations{ReadOnlyHint: true},
		InputSchema:  inputSchema,
		OutputSchema: outputSchema,
	}, t.call)
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{
		Stateless:    true,
		JSONResponse: true,
		// A reverse proxy on this machine may forward other host names. Every
		// request needs a key, which a DNS-rebinding page does not have.
		DisableLocalhostProtection: true,
	})
}

// acceptBoth widens an Accept header that covers JSON, because the SDK
// requires both of its types by name while responses are always JSON.
func acceptBoth(h http.Header) {
	accept := strings.Join(h.Values("Accept"), ",")
	if accept == "" || strings.Contains(accept, "*/*") || strings.Contains(accept, "application/json") || strings.Contains(accept, "application/*") {
		h.Set("Accept", "application/json, text/event-stream")
	}
}

// unauthorized answers a request without a valid key. A tool call's caller
// reads tool errors, so it gets one.
func unauthorized(w http.ResponseWriter, r *http.Request) error {
	var call struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	body, err := httpx.ReadBody(w, r, maxStranger)
	if err != nil || check(body) != nil || json.Unmarshal(body, &call) != nil || call.Method != "tools/call" || !isID(call.ID) {
		return access.Refusal(access.ErrInvalid)
	}
	w.Header().Set("WWW-Authenticate", "Bearer")
	httpx.WriteJSON(w, http.StatusUnauthorized, map[string]any{
		"detail": access.ErrInvalid.Error(), "jsonrpc": "2.0", "id": call.ID, "result": toolError(access.ErrInvalid.Error()),
	})
	return nil
}

// isID reports whether the JSON is a valid id of a JSON-RPC call: a string or
// a number.
func isID(id json.RawMessage) bool {
	return len(id) > 0 && (id[0] == '"' || id[0] == '-' || '0' <= id[0] && id[0] <= '9')
}

func toolError(message string) *mcp.CallToolResult {
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: message}}}
}

type tool struct {
	lookup *activity.Lookup
	keys   *access.Keyring
	log    *slog.Logger
}

// arguments are those of the tool.
type arguments struct {
	ProductID string  `json:"product_id"` // empty for the key's product
	UserID    string  `json:"user_id"`
	Limit     float64 `json:"limit"`
}

func (t *tool) call(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	args, problem := parseArguments(req.Params.Arguments)
	if problem != "" {
		return toolError(problem), nil
	}
	var key string
	if req.Extra != nil {
		key = access.BearerToken(&http.Request{Header: req.Extra.Header})
	}
	productID, err := t.keys.ProductOf(key, access.MCP)
	if err == nil && args.ProductID != "" && args.ProductID != productID {
		err = access.ErrMismatch
	}
	if err != nil {
		return toolError(err.Error()), nil
	}
	answer := answerOf(ctx)
	ctx, cancel := context.WithDeadline(ctx, answer.deadline)
	defer cancel()
	limit := int(min(max(args.Limit, 0), 1<<31-1))
	data, err := t.lookup.AppendJSON(ctx, nil, productID, args.UserID, limit)
	if err != nil {
		t.log.Error("live activity lookup failed", "product_id", productID, "err", err)
		answer.unavailable.Store(true)
		return toolError(unavailable), nil
	}
	if !answer.take(wireSize(data)) {
		return toolError(tooMuch), nil
	}
	return &mcp.CallToolResult{
		Content:           []mcp.Content{&mcp.TextContent{Text: string(data)}},
		StructuredContent: json.RawMessage(data),
	}, nil
}

// unavailable is the tool error of a call while storage is away.
const unavailable = "Live activity cannot be looked up just now; please try again."

// parseArguments returns the arguments, or a sentence that says what is wrong.
func parseArguments(raw json.RawMessage) (args arguments, problem string) {
	err := json.Unmarshal(cmpOr(raw, "{}"), &args)
	var typeError *json.UnmarshalTypeError
	switch {
	case errors.As(err, &typeError) && typeError.Field == "limit":
		return args, "limit must be an integer."
	case errors.As(err, &typeError) && typeError.Field != "":
		return args, typeError.Field + " must be a string."
	case err != nil:
		return args, "The arguments must be a JSON object."
	case args.UserID == "":
		return args, "user_id is required and must not be empty."
	case args.Limit != math.Trunc(args.Limit):
		return args, "limit must be an integer."
	}
	return args, ""
}

func cmpOr(raw json.RawMessage, fallback string) []byte {
	if len(bytes.TrimSpace(raw)) == 0 {
		return []byte(fallback)
	}
	return raw
}

// plainWords rewrites the SDK's errors, which name Go types, in plain language
// and the service's format. Other responses pass through.
type plainWords struct {
	http.ResponseWriter
	answer *answer // nil for none
	begun  bool
	err    error // the response to send instead
}

func (w *plainWords) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *plainWords) WriteHeader(status int) {
	h := w.Header()
	w.begun = true
	if w.isUnavailable() {
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

func (w *plainWords) Write(p []byte) (int, error) {
	if w.err != nil {
		return len(p), nil
	}
	if !w.begun {
		w.WriteHeader(http.StatusOK)
	}
	if w.isUnavailable() {
		p = withDetail(p)
	}
	if _, err := w.ResponseWriter.Write(inPlainWords(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (w *plainWords) isUnavailable() bool { return w.answer != nil && w.answer.unavailable.Load() }

// withDetail makes a JSON-RPC response an error of the service as well. Those of
// a batch have no place for it.
func withDetail(p []byte) []byte {
	if response, ok := bytes.CutPrefix(p, []byte("{")); ok {
		return append([]byte(`{"detail":"`+unavailable+`",`), response...)
	}
	return []byte(`{"detail":"` + unavailable + `"}`)
}

var sentences = map[int]string{
	http.StatusBadRequest: "The request is not a JSON-RPC message that this MCP server accepts: " +
		"check its JSON, jsonrpc, id, method and params, and the Accept and MCP-Protocol-Version headers.",
	http.StatusMethodNotAllowed:     "This MCP server is stateless and accepts POST only.",
	http.StatusUnsupportedMediaType: "The Content-Type must be application/json.",
}

// rpcError is a JSON-RPC error response.
type rpcError struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Error   *struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data,omitempty"`
	} `json:"error"`
}

// Codes of JSON-RPC 2.0 and their messages.
const codeInvalidParams = -32602

var rpcSentences = map[int]string{
	-32700:            "The message is not valid JSON.",
	-32600:            "The message is not a valid request.",
	-32601:            "Unknown method.",
	codeInvalidParams: "The params are invalid for this method.",
	-32603:            "Something went wrong inside the server.",
}

// goWords identify texts of Go errors.
var goWords = regexp.MustCompile(`unmarshal|json:|\bGo\b|\*?mcp\.`)

// inPlainWords replaces the message of a JSON-RPC error that contains Go's
// wording, and returns anything else unchanged.
func inPlainWords(p []byte) []byte {
	if !bytes.HasPrefix(p, []byte("{")) || !bytes.Contains(p[:min(len(p), 256)], []byte(`"error"`)) {
		return p
	}
	var answer rpcError
	if err := json.Unmarshal(p, &answer); err != nil || answer.Error == nil {
		return p
	}
	if !goWords.MatchString(answer.Error.Message) {
		return p
	}
	if answer.Error.Code == 0 { // the SDK leaves it out if params is not an object
		answer.Error.Code = codeInvalidParams
	}
	answer.Error.Message = cmp.Or(rpcSentences[answer.Error.Code], "The request cannot be served.")
	plain, err := json.Marshal(answer)
	if err != nil { // cannot happen: it was just decoded
		return p
	}
	return plain
}
