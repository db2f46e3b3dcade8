package connector

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/prompt"
	"github.com/liveactivity/liveactivity/internal/quickreply"
)

const (
	maxLabelsBody = 64 << 10                // bytes of a request
	labelsTime    = 3500 * time.Millisecond // leaves time to release two leases and answer within 5 s
	maxAnswer     = 4 << 10                 // bytes of the model's answer that are used
)

// labelsRequest is the body of a request for labels. All fields are required; the number of
// actions is checked but not used, because the service reads the actions itself.
type labelsRequest struct {
	SessionID      string `json:"session_id"`
	ConversationID string `json:"conversation_id"`
	ActionCount    *int   `json:"action_count"`
}

// ServeLabels returns the handler that suggests at most three labels of an offer to a
// session, from its latest actions. The model suggests them; without a model or after
// its failure the configured labels are returned. Mount the handler under POST
// /NAME/proactive/{product_id}, behind authentication.
//
//	{"session_id": "…", "conversation_id": "…", "action_count": 12} → {"labels": ["Yes, show me"]}
func (c *Connector) ServeLabels(desk string) http.Handler {
	return httpx.Handler(func(w http.ResponseWriter, r *http.Request) error {
		productID, err := httpx.PathValue(r, "product_id")
		if err != nil {
			return err
		}
		product, err := c.product(productID)
		if err != nil {
			return err
		}
		if d, ok := product.find(desk); !ok {
			return httpx.NotFound("The product has no such help desk.")
		} else if d.capabilities().Offerer == nil {
			return httpx.NotFound("The help desk makes no offers.")
		}
		body, err := httpx.ReadBody(w, r, maxLabelsBody, productID)
		if err != nil {
			return err
		}
		defer body.Release()
		var request labelsRequest
		if err := decodeLabels(body.Bytes(), &request); err != nil {
			return err
		}
		of := Link{desk, request.ConversationID}
		labels := c.labels(r.Context(), productID, of, product, request.SessionID)
		httpx.WriteJSON(w, http.StatusOK, map[string][]string{"labels": labels})
		return nil
	})
}

// decodeLabels decodes and checks a request. It ignores unknown
// fields.
func decodeLabels(body []byte, request *labelsRequest) error {
	if err := json.Unmarshal(body, request); err != nil {
		return httpx.BadRequest("The body must be a JSON object with the strings session_id and conversation_id and " +
			"the number action_count.")
	}
	switch {
	case strings.TrimSpace(request.SessionID) == "":
		return httpx.BadRequest("session_id is missing.")
	case strings.TrimSpace(request.ConversationID) == "" || len(request.ConversationID) > maxConversationID:
		return httpx.BadRequest("conversation_id must have 1 to %d bytes.", maxConversationID)
	case request.ActionCount == nil || *request.ActionCount < 0:
		return httpx.BadRequest("action_count must be a number that is not negative.")
	}
	return nil
}

// labelInstructions begin the prompt for labels.
const labelInstructions = `
You suggest quick replies for a chat widget in a web app. Write up to three short labels (at most five words ` +
	`each) that the user below would like to choose, each on a line of its own and nothing else: no numbers, ` +
	`quotes or explanations. Each label is something the user could say to ask for help with what they are doing.`

// labels returns labels for a session in a conversation, never nil. Any failure leads to the
// configured ones. A session whose activity a model may not see is treated as one without
// actions. The model is asked under the same leases as for summaries and replies, and not at all
// if its turn comes too late to answer in time.
func (c *Connector) labels(ctx context.Context, productID string, of Link, product Product, sessionID string) []string {
	configured := quickreply.CleanLabels(product.Labels)
	if c.opts.Model == nil {
		return configured
	}
	ctx, cancel := context.WithTimeout(ctx, labelsTime)
	defer cancel()
	latest := time.Now().Add(labelsTime / 2) // a later call would be cut off
	sessions, err := c.store.vouched(ctx, productID, Link{}, []session{{ID: sessionID}}, nil, product.TakesClaims)
	if err != nil {
		return configured
	}
	actions, err := c.store.actions(ctx, productID, Link{}, sessions)
	if err != nil || len(actions) == 0 {
		return configured
	}
	answer, err := c.store.askModel(ctx, productID, of, func(ctx context.Context) (string, error) {
		if time.Now().After(latest) {
			return "", errors.New("connector: too many others wait for the model")
		}
		return c.opts.Model(ctx, prompt.New(labelInstructions)+
			"\nThe user's last actions, oldest first:\n"+prompt.Data(maxMessage, actions...))
	})
	if err != nil {
		c.logger.Warn("no labels were suggested", "product_id", productID, "session_id", sessionID, "err", err)
		return configured
	}
	suggested := quickreply.CleanLabels(linesOf(answer[:min(len(answer), maxAnswer)]))
	if len(suggested) == 0 {
		return configured
	}
	return suggested
}

var (
	listMark = regexp.MustCompile(`^([-*•]|\d+[.)])\s*`) // the mark before an item of a list
	opening  = regexp.MustCompile(`(?m)^\s*[\[{]`)       // the start of JSON, at the start of a line
)

// linesOf returns the lines of a model's answer without list marks and emphasis, or the strings
// of a JSON array, which may lack its brackets or be the only field of an object. Models answer
// in any of these forms, often in a code block or after a line that ends in a colon. Any other JSON
// has no lines.
func linesOf(answer string) (lines []string) {
	array, isJSON := answer, opening.MatchString(answer)
	if begin, end := strings.Index(answer, "["), strings.LastIndex(answer, "]"); isJSON && 0 <= begin && begin < end {
		array = answer[begin+1 : end]
	}
	switch {
	case json.Unmarshal([]byte("["+array+"]"), &lines) == nil:
		return lines
	case isJSON:
		return nil
	}
	lines = nil
	for line := range strings.Lines(answer) {
		line = strings.TrimSpace(line)
		label := strings.Trim(listMark.ReplaceAllString(line, ""), "\"'“”*_`")
		if !strings.HasPrefix(line, "```") && !strings.HasSuffix(label, ":") {
			lines = append(lines, label)
		}
	}
	return lines
}
