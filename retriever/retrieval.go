package retriever

import (
	"cmp"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strings"

	"github.com/liveactivity/liveactivity/internal/httpx"
)

// The error codes in Dify's contract. For other errors the code is the status.
const (
	codeNoKey       = 1001
	codeWrongKey    = 1002
	codeNoKnowledge = 2001
)

// Both are 403, because Dify treats any other status as an answer without
// records.
var (
	errNoKey    = httpx.Errorf(http.StatusForbidden, "The Authorization header must be of the form 'Bearer <api-key>'.")
	errWrongKey = httpx.Errorf(http.StatusForbidden, "The API key is not valid.")
)

// code returns the error code for an answer.
func code(e *httpx.Error) int {
	switch {
	case e == errNoKey:
		return codeNoKey
	case e == errWrongKey:
		return codeWrongKey
	case e.Status == http.StatusBadRequest:
		return codeNoKnowledge
	}
	return e.Status
}

// ServeRetrieval answers POST /retrieval of Dify's external knowledge API:
//
//	{"knowledge_id": "…", "query": "…", "retrieval_setting": {"top_k": 5, "score_threshold": 0.5}}
//
// with {"records":[{"content","score","title","metadata"}]}: the newest top_k
// chunks of the session, newest first. Only knowledge_id is required. The query
// is ignored: a user's newest actions are always relevant. All records score
// 1.0, so a higher threshold leaves none. Null fields count as missing, and
// unknown fields are ignored.
//
// Errors are {"error_code","error_msg","detail"}: 403 with code 1001 for a
// missing or malformed key, 403 with 1002 for a wrong one, 400 with 2001 for an
// invalid body, and the status as code otherwise. The detail is the error_msg.
func (h *Handler) ServeRetrieval(w http.ResponseWriter, r *http.Request) {
	if err := h.retrieve(w, r); err != nil {
		writeError(w, r, err)
	}
}

func (h *Handler) retrieve(w http.ResponseWriter, r *http.Request) error {
	if err := h.authorize(r); err != nil {
		return err
	}
	body, err := httpx.ReadBody(w, r, maxBody, "")
	if err != nil {
		return err
	}
	defer body.Release()
	sessionID, limit, err := parseRetrieval(body.Bytes())
	if err != nil {
		return err
	}
	if h.keyBy == KeyByEmail {
		sessionID, _ = h.store.SessionOf(sessionID)
	}
	return h.write(w, sessionID, limit, &struct{}{})
}

// score is the relevance of every record.
const score = 1.0

// retrieval is the body of POST /retrieval.
type retrieval struct {
	KnowledgeID string `json:"knowledge_id"`
	Query       string `json:"query"`
	Setting     struct {
		TopK           *float64 `json:"top_k"`
		ScoreThreshold float64  `json:"score_threshold"`
	} `json:"retrieval_setting"`
}

// kinds describes the values of the fields that are not strings.
var kinds = map[string]string{"retrieval_setting": "an object", "top_k": "an integer of at least 1",
	"score_threshold": "a number"}

// parseRetrieval reads the body of POST /retrieval, and returns the maximum number of
// records.
func parseRetrieval(body []byte) (knowledgeID string, limit int, err error) {
	var r *retrieval
	err = json.Unmarshal(body, &r)
	mistyped, isType := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case isType && mistyped.Field != "":
		return "", 0, wrongType(mistyped.Field[strings.LastIndexByte(mistyped.Field, '.')+1:])
	case err != nil || r == nil:
		return "", 0, httpx.BadRequest("The request body must be a JSON object.")
	case strings.TrimSpace(r.KnowledgeID) == "":
		return "", 0, httpx.BadRequest("The field knowledge_id must be given and must not be empty.")
	}
	limit = math.MaxInt32
	if k := r.Setting.TopK; k != nil {
		if *k < 1 || *k != math.Trunc(*k) {
			return "", 0, wrongType("top_k")
		}
		limit = int(min(*k, math.MaxInt32))
	}
	if r.Setting.ScoreThreshold > score {
		limit = 0
	}
	return r.KnowledgeID, limit, nil
}

func wrongType(field string) error {
	return httpx.BadRequest("The field %s must be %s.", field, cmp.Or(kinds[field], "a string"))
}

// writeError writes err in Dify's form.
func writeError(w http.ResponseWriter, r *http.Request, err error) {
	if e, ok := errors.AsType[*httpx.Error](err); ok {
		said := *e
		said.Fields = map[string]any{"error_code": code(e), "error_msg": e.Detail}
		err = &said
	}
	httpx.WriteError(w, r, err)
}
