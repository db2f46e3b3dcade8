package mcptool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/activity/sessions"
)

// tools are the functions behind the MCP tools.
type tools struct {
	lookup *activity.Lookup
	// sessions lists live sessions; nil for no such tool.
	sessions func(ctx context.Context, productID string, q sessions.Query) (sessions.Listing, error)
	keys     *access.Keyring
	log      *slog.Logger
}

// query is a decoded call.
type query struct {
	productID string // empty for the key's product
	// get appends the JSON of the result to dst.
	get func(ctx context.Context, dst []byte, productID string) ([]byte, error)
}

// call returns the handler of a tool. parse decodes the arguments into a query, or
// returns a sentence about the first mistake.
func (t *tools) call(parse func(arguments json.RawMessage) (q query, problem string)) mcp.ToolHandler {
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		q, problem := parse(req.Params.Arguments)
		if problem != "" {
			return toolError(problem), nil
		}
		var key string
		if req.Extra != nil {
			key = access.BearerToken(&http.Request{Header: req.Extra.Header})
		}
		productID, err := t.keys.ProductOf(key, access.MCP)
		if err == nil && q.productID != "" && q.productID != productID {
			err = access.ErrMismatch
		}
		if err != nil {
			return toolError(err.Error()), nil
		}
		answer := answerOf(ctx)
		ctx, cancel := context.WithDeadline(ctx, answer.deadline)
		defer cancel()
		data, err := q.get(ctx, nil, productID)
		var wrong *sessions.QueryError
		if errors.As(err, &wrong) {
			return toolError(wrong.Error() + "."), nil
		}
		if err != nil {
			t.log.Error("a tool's lookup failed", "tool", req.Params.Name, "product_id", productID, "err", err)
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
}

// unavailable is the tool error of a call while storage is away.
const unavailable = "Live activity cannot be looked up just now; please try again."

// ofUser decodes the arguments of get_live_user_activity.
func (t *tools) ofUser(raw json.RawMessage) (q query, problem string) {
	var args struct {
		ProductID string `json:"product_id"`
		UserID    string `json:"user_id"`
		Limit     limit  `json:"limit"`
	}
	problem = decode(raw, &args)
	switch {
	case problem != "":
		return q, problem
	case args.UserID == "":
		return q, "user_id is required and must not be empty."
	case !args.Limit.isInteger():
		return q, notAnInteger
	}
	return query{args.ProductID, func(ctx context.Context, dst []byte, productID string) ([]byte, error) {
		return t.lookup.AppendJSON(ctx, dst, productID, args.UserID, args.Limit.int())
	}}, ""
}

// ofProduct decodes the arguments of list_live_sessions.
func (t *tools) ofProduct(raw json.RawMessage) (q query, problem string) {
	var args struct {
		ProductID string `json:"product_id"`
		Limit     limit  `json:"limit"`
		After     string `json:"after"`
		Prefix    string `json:"q"`
	}
	problem = decode(raw, &args)
	switch {
	case problem != "":
		return q, problem
	case !args.Limit.isInteger():
		return q, notAnInteger
	}
	return query{args.ProductID, func(ctx context.Context, dst []byte, productID string) ([]byte, error) {
		listing, err := t.sessions(ctx, productID, sessions.Query{Limit: args.Limit.int(), After: args.After,
			Prefix: args.Prefix})
		if err != nil {
			return nil, err
		}
		data, err := activity.Marshal(listing)
		return append(dst, data...), err
	}}, ""
}

// limit is an argument: any number of JSON.
type limit float64

// notAnInteger is the tool error for any other limit.
const notAnInteger = "limit must be an integer."

func (l limit) isInteger() bool { return float64(l) == math.Trunc(float64(l)) }

// int returns the limit, zero for one below.
func (l limit) int() int { return int(min(max(l, 0), 1<<31-1)) }

// decode decodes the arguments of a call, or returns a sentence about the mistake.
func decode(raw json.RawMessage, args any) (problem string) {
	err := json.Unmarshal(cmpOr(raw, "{}"), args)
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

func cmpOr(raw json.RawMessage, fallback string) []byte {
	if len(bytes.TrimSpace(raw)) == 0 {
		return []byte(fallback)
	}
	return raw
}
