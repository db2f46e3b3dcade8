package mcptool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"math"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/activity/agent"
	"github.com/liveactivity/liveactivity/activity/intake"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/activity/sessions"
	"github.com/liveactivity/liveactivity/activity/tracing"
	"github.com/liveactivity/liveactivity/internal/jsontext"
)

// A tool call has two steps: parse decodes the arguments without a lookup, then get does the
// lookup, once the caller's product is known. A failure that a model can react to is a tool
// error, because clients need not show a protocol error to the model. Every lookup writes an
// audit line, even a failed one.

// tools are the functions behind the MCP tools and the resource. It does not change after
// [NewHandler] and is used concurrently.
type tools struct {
	lookup *recent.Lookup
	// sessions lists live sessions, context reads a person's; nil for no such tool.
	sessions func(ctx context.Context, productID string, q sessions.Query) (sessions.Listing, error)
	context  func(ctx context.Context, productID string, q agent.Query) (*agent.Context, error)
	log      *slog.Logger
}

// query is a decoded call: the product it names, and the lookup, which is called at most once.
type query struct {
	productID string // empty for the key's product
	get       func(ctx context.Context, productID string) (result, error)
}

// result is the result of a call. json is an object that matches the tool's output schema;
// nobody changes it afterwards.
type result struct {
	json []byte
	text string // for the model; if empty, the model gets the JSON
	hint string // a further text; empty for none
}

// texts returns the texts of the result. Clients without support for structured content read the
// JSON there.
func (r *result) texts() (content []mcp.Content) {
	if r.text == "" {
		r.text = string(r.json)
	}
	content = []mcp.Content{&mcp.TextContent{Text: r.text}}
	if r.hint != "" {
		content = append(content, &mcp.TextContent{Text: r.hint})
	}
	return content
}

// look does a lookup for the caller of the tool or method with that name, and returns a sentence
// if there is nothing to answer. A failed lookup also makes the HTTP response a 503, which tells
// clients that a retry is worthwhile.
func (t *tools) look(ctx context.Context, name string, q query) (found result, problem string) {
	answer := answerOf(ctx)
	access.Audit(ctx, t.log, answer.keyName, answer.productID, name)
	ctx, cancel := context.WithDeadline(tracing.WithVia(ctx, name), answer.deadline)
	defer cancel()
	answer.looking <- struct{}{}
	defer func() { <-answer.looking }()
	found, err := q.get(ctx, answer.productID)
	if wrong, ok := errors.AsType[*activity.QueryError](err); ok {
		return found, wrong.Error() + "."
	}
	if err != nil {
		t.log.Error("a lookup failed", "tool", name, "product_id", answer.productID, "err", err)
		answer.unavailable.Store(true)
		return found, unavailable
	}
	size := wireSize(found.json) + wireSize([]byte(found.text+found.hint))
	if size > answer.left {
		return found, tooMuch
	}
	answer.left -= size
	return found, ""
}

// call returns the handler of a tool. parse decodes the arguments into a query, or returns a
// sentence about the first mistake. The handler never returns an error: the SDK would answer
// with a protocol error.
func (t *tools) call(parse func(arguments json.RawMessage) (q query, problem string)) mcp.ToolHandler {
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		q, problem := parse(req.Params.Arguments)
		if problem != "" {
			return toolError(problem), nil
		}
		if q.productID != "" && q.productID != answerOf(ctx).productID {
			return toolError(access.ErrMismatch.Error()), nil
		}
		found, problem := t.look(ctx, req.Params.Name, q)
		if problem != "" {
			return toolError(problem), nil
		}
		return &mcp.CallToolResult{Content: found.texts(), StructuredContent: json.RawMessage(found.json)}, nil
	}
}

// resource returns the live activity of the user named by a URI. A user of another product is
// not found, as if it did not exist.
func (t *tools) resource(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	userID, ok := userOf(req.Params.URI, answerOf(ctx).productID)
	if !ok {
		return nil, mcp.ResourceNotFoundError(req.Params.URI)
	}
	found, problem := t.look(ctx, "resources/read", t.liveActivity("", userID, 0))
	if problem != "" { // a sentence for the model
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: problem}
	}
	return &mcp.ReadResourceResult{Cacheable: mcp.Cacheable{CacheScope: "private"}, Contents: []*mcp.ResourceContents{
		{URI: req.Params.URI, MIMEType: "application/json", Text: string(found.json)}}}, nil
}

// unavailable is the tool error of a call while storage is unavailable. withDetail puts it into
// JSON unchanged, so it has no character to escape.
const unavailable = "Live activity cannot be looked up just now; please try again."

// The arguments of the tools, as models see them. The functions that parse them accept more, such as
// a number for a string.

type userArguments struct {
	UserID    string `json:"user_id" jsonschema:"The user's stable ID, as the product identifies the user to analytics."`
	ProductID string `json:"product_id,omitempty" jsonschema:"The product; the API key's product if omitted."`
	Limit     limit  `json:"limit,omitempty" jsonschema:"How many of the newest actions to return; all if omitted."`
}

type contextArguments struct {
	Email          string `json:"email,omitempty" jsonschema:"The person's email address."`
	UserID         string `json:"user_id,omitempty" jsonschema:"The person's stable ID, rarely an email address."`
	SessionID      string `json:"session_id,omitempty" jsonschema:"A session; only its actions are returned."`
	ConversationID string `json:"conversation_id,omitempty" jsonschema:"The help-desk conversation of the person."`
	Desk           string `json:"desk,omitempty" jsonschema:"The help desk of the conversation, if several have that ID."`
	ProductID      string `json:"product_id,omitempty" jsonschema:"The product; the API key's product if omitted."`
	Since          string `json:"since,omitempty" jsonschema:"A result's cursor or epoch seconds: only later actions."`
	Limit          limit  `json:"limit,omitempty" jsonschema:"How many of the newest actions to return; all if omitted."`
	MaxChars       limit  `json:"max_chars,omitempty" jsonschema:"Characters of the text: 200 to 20000; 4000 if omitted."`
}

type sessionsArguments struct {
	ProductID string `json:"product_id,omitempty" jsonschema:"The product; the API key's product if omitted."`
	Limit     limit  `json:"limit,omitempty" jsonschema:"How many sessions to return: 50 if omitted, at most 200."`
	After     string `json:"after,omitempty" jsonschema:"A result's next, to continue; an empty result may have one."`
	Prefix    string `json:"q,omitempty" jsonschema:"The start of the email address, user ID or session ID, in any case."`
}

// parseLiveActivity decodes the arguments of get_live_user_activity.
func (t *tools) parseLiveActivity(raw json.RawMessage) (q query, problem string) {
	var args userArguments
	problem = decode(raw, &args)
	switch {
	case problem != "":
		return q, problem
	case args.UserID == "":
		return q, "user_id is required and must not be empty."
	case !args.Limit.isInteger():
		return q, notAnInteger
	}
	return t.liveActivity(args.ProductID, args.UserID, args.Limit.int()), ""
}

// liveActivity is the query for the live activity of a user.
func (t *tools) liveActivity(productID, userID string, limit int) query {
	return query{productID, func(ctx context.Context, productID string) (found result, err error) {
		found.json, err = t.lookup.AppendJSON(ctx, nil, productID, userID, limit)
		if t.context != nil && intake.IsEmail(userID) && bytes.HasSuffix(found.json, []byte(`"actions":[]}`)) {
			found.hint = emailHint
		}
		return found, err
	}}
}

// emailHint is for an email address that was given as a user ID and is not one: models pass the
// address that they have.
const emailHint = "No user with that user_id was active recently. It is an email address: call " + ContextToolName +
	" with it as email instead."

// parseContext decodes the arguments of get_user_context. Each may be a string or a number, and one
// that is null or empty counts as missing: models fill in arguments that they do not need.
func (t *tools) parseContext(raw json.RawMessage) (q query, problem string) {
	args := map[string]json.RawMessage{}
	if problem = decode(raw, &args); problem != "" {
		return q, problem
	}
	values := url.Values{}
	for _, name := range slices.Sorted(maps.Keys(args)) {
		value, ok := textOf(args[name])
		if !ok {
			return q, name + " must be a string or a number."
		}
		if value != "" {
			values.Set(name, value)
		}
	}
	asked, err := agent.ParseQuery(values)
	if err != nil {
		return q, err.Error() + "."
	}
	return query{values.Get("product_id"), func(ctx context.Context, productID string) (found result, err error) {
		a, err := t.context(ctx, productID, asked)
		if err != nil {
			return found, err
		}
		found.text = a.Text
		if a.LastSeen == 0 && intake.IsEmail(asked.UserID) {
			found.hint = emailHint
		}
		found.json, err = jsontext.Marshal(a)
		return found, err
	}}, ""
}

// textOf returns a string, or a number as it is written, but integers without a fraction: some
// models write 50.0 for an integer. null is an empty string.
func textOf(raw json.RawMessage) (text string, ok bool) {
	if err := json.Unmarshal(raw, &text); err == nil {
		return text, true
	}
	var number json.Number
	if err := json.Unmarshal(raw, &number); err != nil {
		return "", false
	}
	return strings.TrimSuffix(number.String(), ".0"), true
}

// parseSessions decodes the arguments of list_live_sessions.
func (t *tools) parseSessions(raw json.RawMessage) (q query, problem string) {
	var args sessionsArguments
	problem = decode(raw, &args)
	switch {
	case problem != "":
		return q, problem
	case !args.Limit.isInteger():
		return q, notAnInteger
	}
	return query{args.ProductID, func(ctx context.Context, productID string) (found result, err error) {
		listing, err := t.sessions(ctx, productID, sessions.Query{Limit: args.Limit.int(), After: args.After,
			Prefix: args.Prefix})
		if err != nil {
			return found, err
		}
		found.json, err = jsontext.Marshal(listing)
		return found, err
	}}, ""
}

// limit is an argument: any JSON number. It is decoded as a float, because some models write
// 5.0.
type limit float64

// notAnInteger is the tool error for any other limit.
const notAnInteger = "limit must be an integer."

func (l limit) isInteger() bool { return float64(l) == math.Trunc(float64(l)) }

// int returns the limit, and zero for a negative one, which means that the caller sets none.
func (l limit) int() int { return int(min(max(l, 0), 1<<31-1)) }

// decode decodes the arguments of a call, or returns a sentence about the mistake. Missing
// arguments are an empty object. All fields but limit are strings, and the sentences say so.
func decode(raw json.RawMessage, args any) (problem string) {
	if len(bytes.TrimSpace(raw)) == 0 {
		raw = json.RawMessage("{}")
	}
	err := json.Unmarshal(raw, args)
	var typeError *json.UnmarshalTypeError
	switch {
	case errors.As(err, &typeError) && typeError.Field == "limit":
		return notAnInteger
	case errors.As(err, &typeError) && typeError.Field != "":
		return typeError.Field + " must be a string."
	case err != nil:
		return "The arguments must be a JSON object."
	}
	return ""
}
