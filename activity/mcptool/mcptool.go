// Package mcptool lets AI agents ask what a user just did: an MCP server
// (Model Context Protocol, Streamable HTTP, stateless) with the one tool
// get_live_user_activity.
//
//	h := mcptool.NewHandler(lookup, keys, nil)
//	mux.Handle("/mcp", h)
//
// The tool takes product_id, user_id and limit and returns the object of the
// REST lookup, as structured content and as text. The caller's key is the
// bearer token of the HTTP request; it must have the scope mcp and be of the
// product asked for.
package mcptool

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math"
	"net/http"
	"regexp"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/version"
)

// ToolName is the name of the tool.
const ToolName = "get_live_user_activity"

// maxBody is the largest message taken, in bytes.
const maxBody = 1 << 20

var inputSchema = json.RawMessage(`{
	"type": "object",
	"properties": {
		"product_id": {"type": "string", "description": "The product the user is using."},
		"user_id": {"type": "string", "description": "The user's stable id, as the product identifies the user to its analytics."},
		"limit": {"type": "integer", "description": "How many of the newest actions to return; all that are kept when omitted."}
	},
	"required": ["product_id", "user_id"]
}`)

var outputSchema = json.RawMessage(`{
	"type": "object",
	"properties": {
		"product_id": {"type": "string"},
		"user_id": {"type": "string"},
		"count": {"type": "integer", "description": "Number of actions."},
		"as_of": {"type": "number", "description": "When this was looked up, in epoch seconds."},
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

// Options of [NewHandler].
type Options struct {
	Logger *slog.Logger // nil for silence
}

// NewHandler returns the MCP server's HTTP handler; opts may be nil. A request
// without a valid key is answered 401; where it is a call of the tool, the
// body is the tool error as well.
func NewHandler(lookup *activity.Lookup, keys *access.Keyring, opts *Options) http.Handler {
	log := slog.New(slog.DiscardHandler)
	if opts != nil && opts.Logger != nil {
		log = opts.Logger
	}
	t := &tool{lookup: lookup, keys: keys, log: log}
	server := mcp.NewServer(&mcp.Implementation{Name: "liveactivity", Version: version.Version}, &mcp.ServerOptions{
		// The tool never changes, so there is nothing to subscribe to:
		// a subscription would be a request without an end.
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
	inner := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{
		Stateless:    true,
		JSONResponse: true,
		// A reverse proxy on this machine passes other host names on.
		// Every request needs a key, which a rebound page does not have.
		DisableLocalhostProtection: true,
		MaxRequestBodyBytes:        maxBody,
	})
	return httpx.Handler(func(w http.ResponseWriter, r *http.Request) error {
		err := keys.Known(access.BearerToken(r), access.MCP)
		if errors.Is(err, access.ErrInvalid) {
			return unauthorized(w, r)
		}
		if err != nil {
			return access.Refusal(err)
		}
		acceptBoth(r.Header)
		jw := &plainWords{ResponseWriter: w}
		inner.ServeHTTP(jw, r)
		return jw.err
	})
}

// acceptBoth lets clients in that accept JSON or anything, which is all they
// are sent. The SDK insists on the two types by name.
func acceptBoth(h http.Header) {
	accept := strings.Join(h.Values("Accept"), ",")
	if accept == "" || strings.Contains(accept, "*/*") || strings.Contains(accept, "application/json") || strings.Contains(accept, "application/*") {
		h.Set("Accept", "application/json, text/event-stream")
	}
}

// unauthorized answers a request without a valid key. A tool's caller reads
// tool errors, so it gets one.
func unauthorized(w http.ResponseWriter, r *http.Request) error {
	var call struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil || json.Unmarshal(body, &call) != nil || call.Method != "tools/call" || call.ID == nil {
		return access.Refusal(access.ErrInvalid)
	}
	w.Header().Set("WWW-Authenticate", "Bearer")
	httpx.WriteJSON(w, http.StatusUnauthorized, map[string]any{
		"detail": access.ErrInvalid.Error(), "jsonrpc": "2.0", "id": call.ID, "result": toolError(access.ErrInvalid.Error()),
	})
	return nil
}

func toolError(message string) *mcp.CallToolResult {
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: message}}}
}

type tool struct {
	lookup *activity.Lookup
	keys   *access.Keyring
	log    *slog.Logger
}

// arguments of the tool.
type arguments struct {
	ProductID *string  `json:"product_id"`
	UserID    *string  `json:"user_id"`
	Limit     *float64 `json:"limit"`
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
	if err := t.keys.Check(key, *args.ProductID, access.MCP); err != nil {
		return toolError(err.Error()), nil
	}
	limit := 0
	if args.Limit != nil {
		limit = int(min(max(*args.Limit, 0), 1<<31-1))
	}
	data, err := t.lookup.AppendJSON(ctx, nil, *args.ProductID, *args.UserID, limit)
	if err != nil {
		t.log.Error("live activity cannot be looked up", "product_id", *args.ProductID, "err", err)
		return toolError("Live activity cannot be looked up just now; please try again."), nil
	}
	return &mcp.CallToolResult{
		Content:           []mcp.Content{&mcp.TextContent{Text: string(data)}},
		StructuredContent: json.RawMessage(data),
	}, nil
}

// parseArguments returns the arguments, or what is wrong with them.
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
	case args.ProductID == nil || *args.ProductID == "":
		return args, "product_id is required and must not be empty."
	case args.UserID == nil || *args.UserID == "":
		return args, "user_id is required and must not be empty."
	case args.Limit != nil && *args.Limit != math.Trunc(*args.Limit):
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

// plainWords puts the SDK's errors in our words and form: its own tell of Go
// types. What is not an error passes through.
type plainWords struct {
	http.ResponseWriter
	err error // the answer to give instead
}

func (w *plainWords) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *plainWords) WriteHeader(status int) {
	h := w.Header()
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
	if _, err := w.ResponseWriter.Write(inPlainWords(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

var sentences = map[int]string{
	http.StatusBadRequest: "The request is not a JSON-RPC message that this MCP server takes: " +
		"check its JSON, jsonrpc, id, method and params, and the Accept and MCP-Protocol-Version headers.",
	http.StatusMethodNotAllowed:      "This MCP server is stateless and takes POST only.",
	http.StatusRequestEntityTooLarge: "The request body is larger than the limit of 1048576 bytes.",
	http.StatusUnsupportedMediaType:  "The Content-Type must be application/json.",
}

// rpcError is a JSON-RPC answer that is an error.
type rpcError struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Error   *struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data,omitempty"`
	} `json:"error"`
}

// Codes of JSON-RPC 2.0, and what they are told as.
const codeInvalidParams = -32602

var rpcSentences = map[int]string{
	-32700:            "The message is not valid JSON.",
	-32600:            "The message is not a valid request.",
	-32601:            "There is no such method.",
	codeInvalidParams: "The params are not what the method takes.",
	-32603:            "Something went wrong inside the server.",
}

// goWords are what tells Go's own errors from the SDK's.
var goWords = regexp.MustCompile(`unmarshal|json:|\bGo\b|\*?mcp\.`)

// inPlainWords returns a JSON-RPC error that holds one of Go with our words for
// it, and anything else as it is.
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
	if answer.Error.Code == 0 { // the SDK leaves it out where params are not an object
		answer.Error.Code = codeInvalidParams
	}
	answer.Error.Message = cmp.Or(rpcSentences[answer.Error.Code], "The request cannot be served.")
	plain, err := json.Marshal(answer)
	if err != nil { // it was decoded just now
		return p
	}
	return plain
}
