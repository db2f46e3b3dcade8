package retriever

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strings"

	"github.com/liveactivity/liveactivity/internal/httpx"
)

// The error codes of Dify's contract. Other errors have their status as code.
const (
	codeNoKey       = 1001
	codeWrongKey    = 1002
	codeNoKnowledge = 2001
)

// Both are 403: Dify takes any other status for an answer without records.
var (
	errNoKey    = httpx.Errorf(http.StatusForbidden, "The Authorization header must be of the form 'Bearer <api-key>'.")
	errWrongKey = httpx.Errorf(http.StatusForbidden, "The API key is not valid.")
)

// code returns the error code of an answer.
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
// 1.0, so a higher threshold leaves none. A null field counts as missing, and
// unknown fields are ignored.
//
// Errors are {"error_code","error_msg","detail"}: 403 with code 1001 for a
// missing or malformed key, 403 with 1002 for a wrong one, code 2001 for a
// request without a knowledge_id, and the status as code otherwise. The detail
// is the error_msg.
func (h *Handler) ServeRetrieval(w http.ResponseWriter, r *http.Request) {
	if err := h.retrieve(w, r); err != nil {
		writeError(w, r, err)
	}
}

func (h *Handler) retrieve(w http.ResponseWriter, r *http.Request) error {
	if err := h.authorize(r); err != nil {
		return err
	}
	body, err := httpx.ReadBody(w, r, h.maxBody, "")
	if err != nil {
		return err
	}
	defer body.Release()
	request, err := parseRetrieval(body.Bytes())
	if err != nil {
		return err
	}
	sessionID := request.knowledgeID
	if h.keyBy == KeyByEmail {
		sessionID, _ = h.store.SessionOf(request.knowledgeID)
	}
	h.write(w, sessionID, request.limit, `,"metadata":{}}`)
	return nil
}

// retrieval is a decoded request.
type retrieval struct {
	knowledgeID string
	limit       int // of records, newest first
}

// score is the score of every record.
const score = 1.0

// object is a JSON object. Other than with a struct the case of names counts.
type object map[string]json.RawMessage

// parseRetrieval reads the body of POST /retrieval.
func parseRetrieval(body []byte) (retrieval, error) {
	var o object
	if err := json.Unmarshal(body, &o); err != nil || o == nil {
		return retrieval{}, httpx.BadRequest("The request body must be a JSON object.")
	}
	id, err := field(o, "knowledge_id", "", "a string")
	if err != nil {
		return retrieval{}, err
	}
	if strings.TrimSpace(id) == "" {
		return retrieval{}, httpx.BadRequest("The field knowledge_id must be given and must not be empty.")
	}
	if _, err := field(o, "query", "", "a string"); err != nil {
		return retrieval{}, err
	}
	setting, err := field(o, "retrieval_setting", object{}, "an object")
	if err != nil {
		return retrieval{}, err
	}
	limit, err := parseSetting(setting)
	return retrieval{knowledgeID: id, limit: limit}, err
}

// parseSetting returns how many records the retrieval_setting allows.
func parseSetting(setting object) (limit int, err error) {
	threshold, err := field(setting, "score_threshold", 0.0, "a number")
	if err != nil {
		return 0, err
	}
	const topK, positiveInteger = "top_k", "an integer of at least 1"
	k, err := field[float64](setting, topK, math.MaxInt32, positiveInteger)
	if err != nil {
		return 0, err
	}
	if k < 1 || k != math.Trunc(k) {
		return 0, wrongType(topK, positiveInteger)
	}
	if threshold > score {
		return 0, nil
	}
	return int(min(k, math.MaxInt32)), nil
}

// field returns a field of an object, or otherwise where there is none.
func field[T any](o object, name string, otherwise T, kind string) (T, error) {
	raw, ok := o[name]
	if !ok || string(raw) == "null" {
		return otherwise, nil
	}
	var v T
	if err := json.Unmarshal(raw, &v); err != nil {
		return otherwise, wrongType(name, kind)
	}
	return v, nil
}

func wrongType(name, kind string) error {
	return httpx.BadRequest("The field %s must be %s.", name, kind)
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
