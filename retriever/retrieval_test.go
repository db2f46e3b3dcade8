package retriever_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/retriever"
)

// requireCode requires an error of the form that /retrieval has, and returns
// its sentence.
func requireCode(tb testing.TB, status, code int, w *httptest.ResponseRecorder) string {
	tb.Helper()
	require.Equal(tb, status, w.Code, w.Body)
	require.Equal(tb, "application/json", w.Header().Get("Content-Type"))
	require.Equal(tb, "nosniff", w.Header().Get("X-Content-Type-Options"))
	require.Equal(tb, strconv.Itoa(w.Body.Len()), w.Header().Get("Content-Length"))
	var body map[string]any
	require.NoError(tb, json.Unmarshal(w.Body.Bytes(), &body))
	require.Len(tb, body, 3)
	require.Equal(tb, float64(code), body["error_code"])
	require.NotEmpty(tb, body["error_msg"])
	require.Equal(tb, body["error_msg"], body["detail"])
	return body["detail"].(string)
}

// Dify takes no null.
func TestServeRetrieval_returnsTheRecordsOfEventsPlusMetadata(t *testing.T) {
	mux := newMux(newStore(t), nil)
	want := strings.ReplaceAll(get(mux, "/events?session_id=s").Body.String(), `Z"}`, `Z","metadata":{}}`)
	assert.Equal(t, want, post(mux, `{"knowledge_id":"s"}`).Body.String())
}

func TestServeRetrieval_takes(t *testing.T) {
	all := []string{"two", "one"}
	tests := map[string]struct {
		body string
		want []string
	}{
		"knowledge_id alone":           {`{"knowledge_id":"s"}`, all},
		"unknown knowledge_id":         {`{"knowledge_id":"x"}`, []string{}},
		"an email where sessions are":  {`{"knowledge_id":"ada@example.com"}`, []string{}},
		"top_k 1":                      {`{"knowledge_id":"s","retrieval_setting":{"top_k":1}}`, all[:1]},
		"top_k larger than an integer": {`{"knowledge_id":"s","retrieval_setting":{"top_k":1e300}}`, all},
		"top_k an integer like 1.0":    {`{"knowledge_id":"s","retrieval_setting":{"top_k":1.0}}`, all[:1]},
		"top_k null":                   {`{"knowledge_id":"s","retrieval_setting":{"top_k":null}}`, all},
		"score_threshold 1":            {`{"knowledge_id":"s","retrieval_setting":{"score_threshold":1.0}}`, all},
		"score_threshold above 1":      {`{"knowledge_id":"s","retrieval_setting":{"score_threshold":1.0001}}`, []string{}},
		"a whole request of Dify": {`{"retrieval_setting": {"top_k": 1, "score_threshold": 0.5}, "query": "What is new?", ` +
			`"knowledge_id": "s", "metadata_condition": null}`, all[:1]},
		"nulls": {`{"knowledge_id":"s","query":null,"retrieval_setting":null}`, all},
		"unknown fields": {`{"knowledge_id":"s","metadata_condition":{"a":[1,{}]},"x":1e999,` +
			`"retrieval_setting":{"y":"z"}}`, all},
		"not UTF-8": {"{\"knowledge_id\":\"s\xff\"}", []string{}},
	}
	mux := newMux(newStore(t), nil)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tt.want, said(requireRecords(t, post(mux, tt.body, "Content-Type", "application/json"))))
		})
	}
}

func TestServeRetrieval_byEmail(t *testing.T) {
	mux := newMux(newStore(t), &retriever.HandlerOptions{KeyBy: retriever.KeyByEmail})
	for id, want := range map[string][]string{
		"ada@example.com":     {"two", "one"},
		" ADA@example.COM ":   {"two", "one"},
		"bob+1@example.com":   {"other"},
		"nobody@example.com":  {},
		"s":                   {}, // a mismatch returns nothing
		"ada@example.com\x00": {},
	} {
		assert.Equal(t, want, said(requireRecords(t, post(mux, fmt.Sprintf(`{"knowledge_id":%s}`, quote(t, id))))), "%q", id)
	}
}

func quote(t *testing.T, s string) string {
	t.Helper()
	quoted, err := json.Marshal(s)
	require.NoError(t, err)
	return string(quoted)
}

func TestServeRetrieval_refuses(t *testing.T) {
	const (
		notObject = "The request body must be a JSON object."
		noID      = "The field knowledge_id must be given and must not be empty."
		badTopK   = "The field top_k must be an integer of at least 1."
		badScore  = "The field score_threshold must be a number."
	)
	tests := map[string]struct{ body, want string }{
		"nothing":     {``, notObject},
		"breaks off":  {`{"knowledge_id":"s"`, notObject},
		"two objects": {`{"knowledge_id":"s"}{"knowledge_id":"s"}`, notObject},
		"null":        {`null`, notObject},
		"array":       {`[{"knowledge_id":"s"}]`, notObject},
		"nested too deep": {`{"knowledge_id":"s","x":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) +
			`}`, notObject},
		"no knowledge_id":     {`{"query":"x"}`, noID},
		"blank knowledge_id":  {`{"knowledge_id":" \t"}`, noID},
		"knowledge_id null":   {`{"knowledge_id":null}`, noID},
		"knowledge_id number": {`{"knowledge_id":42}`, "The field knowledge_id must be a string."},
		"query number":        {`{"knowledge_id":"s","query":1}`, "The field query must be a string."},
		"setting array": {`{"knowledge_id":"s","retrieval_setting":[]}`,
			"The field retrieval_setting must be an object."},
		"top_k zero":                {`{"knowledge_id":"s","retrieval_setting":{"top_k":0}}`, badTopK},
		"top_k fraction":            {`{"knowledge_id":"s","retrieval_setting":{"top_k":1.5}}`, badTopK},
		"top_k string":              {`{"knowledge_id":"s","retrieval_setting":{"top_k":"5"}}`, badTopK},
		"top_k no number there is":  {`{"knowledge_id":"s","retrieval_setting":{"top_k":1e999}}`, badTopK},
		"top_k bad, none are asked": {`{"knowledge_id":"s","retrieval_setting":{"top_k":0,"score_threshold":2}}`, badTopK},
		"score_threshold string":    {`{"knowledge_id":"s","retrieval_setting":{"score_threshold":"0.5"}}`, badScore},
		"score_threshold too large": {`{"knowledge_id":"s","retrieval_setting":{"score_threshold":1e999}}`, badScore},
	}
	for _, keyBy := range []retriever.KeyBy{retriever.KeyBySession, retriever.KeyByEmail} {
		mux := newMux(newStore(t), &retriever.HandlerOptions{KeyBy: keyBy})
		for name, tt := range tests {
			t.Run(fmt.Sprint(name, ", ", keyBy), func(t *testing.T) {
				assert.Equal(t, tt.want, requireCode(t, http.StatusBadRequest, 2001, post(mux, tt.body)))
			})
		}
	}
}

func TestServeRetrieval_limitsTheBody(t *testing.T) {
	body := func(length int) string {
		const before, after = `{"knowledge_id":"s","query":"`, `"}`
		return before + strings.Repeat("x", length-len(before)-len(after)) + after
	}
	const limit = 64 << 10
	mux := newMux(newStore(t), nil)
	assert.Len(t, requireRecords(t, post(mux, body(limit))), 2)
	requireCode(t, http.StatusRequestEntityTooLarge, 413, post(mux, body(limit+1)))
}
