package mcptool

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/liveactivity/liveactivity/internal/httpx"
)

// Subscriptions: a client posts subscriptions/listen with the resources of some users and gets a
// stream that tells which of them acted, but not how. It then reads the resource. Notifications
// may be more frequent than needed, but none is left out.

// resourceTemplate is the URI of a user's live activity as a resource.
const resourceTemplate = "liveactivity://{product_id}/users/{user_id}"

// anySpelling is the same template for URIs that do not escape each character which may stand for
// itself, such as the @ of an email address.
const anySpelling = "liveactivity://{product_id}/users/{+user_id}"

// Bounds of a subscription, which stays in memory for as long as its stream.
const (
	maxResources = 100      // that it names
	maxListened  = 32 << 10 // bytes of the resources, each with the subscription's ID, as in notifications
)

// userOf returns the user of a resource of the product, false for any other URI. Both IDs are
// escaped as path segments.
func userOf(uri, productID string) (userID string, ok bool) {
	rest, ok := strings.CutPrefix(uri, "liveactivity://")
	product, user, is := strings.Cut(rest, "/users/")
	product, errProduct := url.PathUnescape(product)
	user, errUser := url.PathUnescape(user)
	return user, ok && is && errProduct == nil && errUser == nil && product == productID && user != ""
}

// Listening is a client that is notified when users act, by a stream of JSON-RPC notifications.
// Its methods return frames of server-sent events, which the caller owns, and are safe for
// concurrent use.
type Listening struct {
	ProductID string
	// Check returns an error once the client may no longer listen, or while that cannot be
	// checked. It reads a document if the client has signed in, so it may block for 4 seconds.
	// It does not depend on the request's context.
	Check func() error

	id   json.RawMessage     // of the request, by which the client tells its subscriptions apart
	uris map[string][]string // of the resources, by user ID; one may be escaped in several ways
}

// Opening returns the acknowledgement, the first frame of the stream. It names the resources
// that the server accepts, which are all of the subscription.
func (l *Listening) Opening() []byte {
	all := slices.Concat(slices.Collect(maps.Values(l.uris))...)
	slices.Sort(all)
	return l.notification("subscriptions/acknowledged", map[string]any{
		"notifications": map[string]any{"resourceSubscriptions": all}})
}

// Heartbeat returns a comment, which clients ignore.
func (l *Listening) Heartbeat() []byte { return []byte(": heartbeat\n\n") }

// Acted returns a notification for each URI of a user that acted or was erased, nil for a user the
// client does not listen to.
func (l *Listening) Acted(userID string) (frames []byte) {
	for _, uri := range l.uris[userID] {
		frames = append(frames, l.notification("resources/updated", map[string]any{"uri": uri})...)
	}
	return frames
}

// All returns a notification for each of the users, for a reader that may have missed entries.
func (l *Listening) All() (frames []byte) {
	for userID := range l.uris {
		frames = append(frames, l.Acted(userID)...)
	}
	return frames
}

func (l *Listening) notification(method string, params map[string]any) []byte {
	params["_meta"] = map[string]any{"io.modelcontextprotocol/subscriptionId": l.id}
	// The id is JSON and the rest strings, so there is no error.
	message, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "method": "notifications/" + method, "params": params})
	return slices.Concat([]byte("event: message\ndata: "), message, []byte("\n\n"))
}

// listening returns the subscription that a request asks for, and nil for any other request. If
// the subscription is invalid, it returns the problem as a sentence, with the ID to answer. It
// keeps no part of the body. A body that is malformed in another way is left to the SDK.
func listening(body []byte, productID string) (l *Listening, id json.RawMessage, problem string) {
	var call struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			Notifications struct {
				ResourceSubscriptions []string `json:"resourceSubscriptions"`
			} `json:"notifications"`
		} `json:"params"`
	}
	if !bytes.Contains(body, []byte("listen")) || json.Unmarshal(body, &call) != nil ||
		call.Method != "subscriptions/listen" || !isID(call.ID) ||
		len(call.Params.Notifications.ResourceSubscriptions) == 0 {
		return nil, nil, ""
	}
	l = &Listening{ProductID: productID, id: call.ID, uris: map[string][]string{}}
	named := call.Params.Notifications.ResourceSubscriptions
	slices.Sort(named)
	if named = slices.Compact(named); len(named) > maxResources {
		return nil, call.ID, "A subscription names at most 100 resources."
	}
	size := 0
	for _, uri := range named {
		user, ok := userOf(uri, productID)
		if !ok {
			return nil, call.ID, "A resource is named " + resourceTemplate + ", with the key's product."
		}
		if size += len(uri) + len(call.ID); size > maxListened {
			return nil, call.ID, "The resources of a subscription have at most 32 KiB, each with the subscription's ID."
		}
		l.uris[user] = append(l.uris[user], uri)
	}
	return l, call.ID, ""
}

// withoutSubscribe hides subscriptions from clients of older revisions, which call initialize:
// their subscriptions belong to a session, and this server has none. Newer clients read the
// capability by another method, which stays as it is.
func withoutSubscribe(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
		result, err := next(ctx, method, r)
		if opened, ok := result.(*mcp.InitializeResult); ok && err == nil {
			opened.Capabilities.Resources.Subscribe = false
		}
		return result, err
	}
}

// published lists a template in place of the one that the SDK matches URIs with.
func published(template mcp.ResourceTemplate) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			result, err := next(ctx, method, r)
			if listed, ok := result.(*mcp.ListResourceTemplatesResult); ok && err == nil {
				listed.ResourceTemplates = []*mcp.ResourceTemplate{&template}
			}
			return result, err
		}
	}
}

// refuse answers a call with a JSON-RPC error.
func refuse(w http.ResponseWriter, id json.RawMessage, code int, problem string) {
	httpx.WriteJSON(w, http.StatusOK, map[string]any{"jsonrpc": "2.0", "id": id,
		"error": map[string]any{"code": code, "message": problem}})
}
