package retriever

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/httpx"
)

// wanted says once more which bodies are good and what they ask for, with
// nothing of the parser's.
func wanted(body []byte) (want retrieval, ok bool) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil || !json.Valid(body) {
		return retrieval{}, false
	}
	o, _ := v.(map[string]any)
	id, _ := o["knowledge_id"].(string)
	_, isString := o["query"].(string)
	setting, isObject := o["retrieval_setting"].(map[string]any)
	if strings.TrimSpace(id) == "" || !isString && o["query"] != nil || !isObject && o["retrieval_setting"] != nil {
		return retrieval{}, false
	}
	topK, isNumber := number(setting["top_k"], math.MaxInt32)
	threshold, isNumberToo := number(setting["score_threshold"], 0)
	if !isNumber || !isNumberToo || topK < 1 || topK != math.Floor(topK) {
		return retrieval{}, false
	}
	if threshold > 1 {
		topK = 0
	}
	return retrieval{knowledgeID: id, limit: int(min(topK, math.MaxInt32))}, true
}

func number(v any, otherwise float64) (float64, bool) {
	if v == nil {
		return otherwise, true
	}
	n, ok := v.(json.Number)
	f, err := n.Float64()
	return f, ok && err == nil
}

func FuzzParseRetrieval(f *testing.F) {
	for _, seed := range []string{
		`{"knowledge_id":"s","query":"What?","retrieval_setting":{"top_k":2,"score_threshold":0.5},` +
			`"metadata_condition":null}`,
		`{"knowledge_id":"s","retrieval_setting":{"top_k":1.5,"score_threshold":2}}`,
		`{"knowledge_id":"s","retrieval_setting":{"score_threshold":1.1}}`,
		`{"knowledge_id":1}`, `[]`, `null`, ``, `{"knowledge_id":"s"}{}`,
		`{"knowledge_id":"s","query":null,"retrieval_setting":{"top_k":"1"}}`,
		"{\"knowledge_id\":\"\xff\"}", `{"KNOWLEDGE_ID":"s","knowledge_id":"t"}`,
		`{"knowledge_id":"s","retrieval_setting":{"top_k":1e999}}`,
		`{"knowledge_id":"s","retrieval_setting":{"top_k":1e300}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := parseRetrieval(body)
		want, ok := wanted(body)
		if ok {
			require.NoError(t, err)
			require.Equal(t, want, got)
			return
		}
		var e *httpx.Error
		require.True(t, errors.As(err, &e), "%v", err)
		require.Equal(t, http.StatusBadRequest, e.Status)
	})
}
