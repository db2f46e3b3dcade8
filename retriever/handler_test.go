package retriever_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/httpxtest"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/retriever"
)

// newStore has two sessions with an email each.
func newStore(tb testing.TB) *retriever.Store {
	tb.Helper()
	s := musttest.New(retriever.NewStore(nil))
	add(tb, s, batch("s", "ada@example.com", "one"), batch("s", "", "two"), batch("t", "bob+1@example.com", "other"))
	return s
}

func TestServeEvents_takesSessionOrEmail(t *testing.T) {
	tests := map[string]struct {
		query string
		want  []string
	}{
		"session":                    {"session_id=s", []string{"two", "one"}},
		"email":                      {"email=ada@example.com", []string{"two", "one"}},
		"email, plus sign":           {"email=bob+1@example.com", []string{"other"}},
		"email, other case":          {"email=+ADA@Example.com%20", []string{"two", "one"}},
		"both: the session":          {"session_id=t&email=ada@example.com", []string{"other"}},
		"empty session":              {"session_id=&email=ada@example.com", []string{"two", "one"}},
		"unknown session":            {"session_id=x", []string{}},
		"unknown session, not email": {"session_id=x&email=ada@example.com", []string{}},
		"a session is no email":      {"session_id=ada@example.com", []string{}},
		"others are ignored":         {"session_id=s&limit=1&top_k=x", []string{"two", "one"}},
		"twice: the first":           {"session_id=s&session_id=t", []string{"two", "one"}},
		"not UTF-8":                  {"session_id=s%ff%fe", []string{}},
		"many":                       {strings.Repeat("x=y&", 5_000) + "session_id=s", []string{"two", "one"}},
	}
	for _, keyBy := range []retriever.KeyBy{"", retriever.KeyBySession, retriever.KeyByEmail} {
		mux := newMux(newStore(t), &retriever.HandlerOptions{KeyBy: keyBy})
		for name, tt := range tests {
			t.Run(fmt.Sprintf("%s, %q", name, keyBy), func(t *testing.T) {
				assert.Equal(t, tt.want, said(requireRecords(t, get(mux, "/events?"+tt.query))))
			})
		}
	}
}

func TestServeEvents_refuses(t *testing.T) {
	const provide, malformed = "Provide session_id or email as a query parameter.", "The query string is malformed."
	tests := map[string]struct{ query, want string }{
		"nothing":            {"", provide},
		"both empty":         {"?session_id=&email=", provide},
		"blank email":        {"?email=+%09", provide},
		"other names":        {"?sessionId=s&Email=ada@example.com", provide},
		"the first is empty": {"?session_id=&session_id=s", provide},
		"an array":           {"?session_id[]=s", provide},
		"bad escape":         {"?session_id=s&x=%zz", malformed},
		"semicolon":          {"?session_id=s;email=x", malformed},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "/events", nil)
			r.URL.RawQuery = strings.TrimPrefix(tt.query, "?")
			assert.Equal(t, tt.want, httpxtest.Detail(t, http.StatusBadRequest, do(newMux(newStore(t), nil), r, nil).Result()))
		})
	}
}

const apiKey = "k€y with = and spaces"

func TestHandler_letsOnlyTheKeyThrough(t *testing.T) {
	const noKey, wrongKey = 1001, 1002
	tests := map[string]struct {
		header []string // name and value
		code   int      // zero for a key that opens
	}{
		"the key":              {[]string{"Authorization", "Bearer " + apiKey}, 0},
		"no header":            {nil, noKey},
		"another header":       {[]string{"X-Api-Key", apiKey}, noKey},
		"wrong key":            {[]string{"Authorization", "Bearer guess"}, wrongKey},
		"beginning of the key": {[]string{"Authorization", "Bearer " + apiKey[:5]}, wrongKey},
		"more than the key":    {[]string{"Authorization", "Bearer " + apiKey + "x"}, wrongKey},
		"key in another case":  {[]string{"Authorization", "Bearer " + strings.ToUpper(apiKey)}, wrongKey},
	}
	mux := newMux(newStore(t), &retriever.HandlerOptions{APIKey: apiKey})
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for _, query := range []string{"?session_id=s", "?session_id=x", ""} { // a stranger learns nothing
				w := get(mux, "/events"+query, tt.header...)
				if tt.code == 0 {
					assert.NotEqual(t, http.StatusUnauthorized, w.Code)
					continue
				}
				assert.Equal(t, "Invalid or missing API key", httpxtest.Detail(t, http.StatusUnauthorized, w.Result()))
				assert.Equal(t, "Bearer", w.Header().Get("WWW-Authenticate"))
			}
			for _, body := range []string{`{"knowledge_id":"s"}`, `{"knowledge_id":"x"}`, `nonsense`} {
				w := post(mux, body, tt.header...)
				if tt.code == 0 {
					assert.NotEqual(t, http.StatusForbidden, w.Code)
					continue
				}
				assert.NotContains(t, requireCode(t, http.StatusForbidden, tt.code, w), apiKey)
			}
		})
	}
}

// A page whose site points its own name at this machine would otherwise read everything.
func TestHandler_withoutAKeyAnswersForThisMachineOnly(t *testing.T) {
	for host, refused := range map[string]bool{
		"evil.example:8090": true, "host.docker.internal.evil.example": true,
		"localhost:8090": false, "host.docker.internal:8090": false,
	} {
		for _, key := range []string{"", apiKey} {
			server := httptest.NewServer(newMux(newStore(t), &retriever.HandlerOptions{APIKey: key}))
			defer server.Close()
			events, _ := http.NewRequest(http.MethodGet, server.URL+"/events?session_id=s", nil)
			retrieval, _ := http.NewRequest(http.MethodPost, server.URL+"/retrieval", strings.NewReader(`{"knowledge_id":"s"}`))
			for _, r := range []*http.Request{events, retrieval} {
				r.Host = host
				r.Header.Set("Authorization", "Bearer "+apiKey)
				response, err := http.DefaultClient.Do(r)
				require.NoError(t, err)
				require.NoError(t, response.Body.Close())
				assert.Equal(t, refused && key == "", response.StatusCode == http.StatusMisdirectedRequest, host+r.URL.Path)
			}
		}
	}
}

func TestHandler_refusesAStrangerBeforeReadingTheBody(t *testing.T) {
	mux := newMux(newStore(t), &retriever.HandlerOptions{APIKey: apiKey})
	r := httptest.NewRequest(http.MethodPost, "/retrieval", brokenBody{t})
	requireCode(t, http.StatusForbidden, 1001, do(mux, r, nil))
}

// brokenBody must not be read.
type brokenBody struct{ t *testing.T }

func (b brokenBody) Read([]byte) (int, error) {
	b.t.Error("the body was read")
	return 0, errors.New("broken")
}

// The reason of an error goes to the access log of the embedding program.
func TestHandler_leavesErrorsForTheLog(t *testing.T) {
	mux := newMux(newStore(t), nil)
	cause := errors.New("connection reset by 10.0.0.1")
	r := httptest.NewRequest(http.MethodPost, "/retrieval", io.MultiReader(strings.NewReader(`{"know`),
		iotest.ErrReader(cause)))
	w := httpxtest.NewReporter()
	mux.ServeHTTP(w, r)
	assert.NotContains(t, requireCode(t, http.StatusBadRequest, 2001, w.ResponseRecorder), "10.0.0.1")
	require.NotNil(t, w.Err)
	assert.ErrorIs(t, w.Err, cause)
}

func TestParseKeyBy(t *testing.T) {
	for name, want := range map[string]retriever.KeyBy{"session_id": retriever.KeyBySession,
		"email": retriever.KeyByEmail} {
		got, err := retriever.ParseKeyBy(name)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	for _, name := range []string{"", "session", "SESSION_ID", "e-mail", " email"} {
		got, err := retriever.ParseKeyBy(name)
		require.Error(t, err, "%q", name)
		assert.Contains(t, err.Error(), strconv.Quote(name))
		assert.Empty(t, got)
	}
}

// Readers get whole answers of one session only, also during writes.
func TestHandler_readsWholeAnswersDuringWrites(t *testing.T) {
	const sessions, writes, maxChunks = 4, 300, 5
	s := musttest.New(retriever.NewStore(&retriever.StoreOptions{MaxChunks: maxChunks, MaxSessions: sessions - 1}))
	mux := newMux(s, nil)
	var writers, readers sync.WaitGroup
	done := make(chan struct{})
	for i := range sessions {
		id := fmt.Sprint("session-", i)
		writers.Go(func() {
			for n := range writes {
				b := batch(id, id+"@example.com", fmt.Sprint(id, " did ", n), fmt.Sprint(id, " did more"))
				s.Learn(b)
				assert.NoError(t, s.Add(t.Context(), b))
				if n%7 == 0 {
					assert.NoError(t, s.Overwrite(t.Context(), summary(id, id+" in sum", 4)))
				}
			}
		})
		readers.Go(func() {
			for {
				for _, w := range []*httptest.ResponseRecorder{
					get(mux, "/events?session_id="+id), get(mux, "/events?email="+id+"@example.com"),
					post(mux, fmt.Sprintf(`{"knowledge_id":%q,"retrieval_setting":{"top_k":3}}`, id)),
				} {
					checkWhole(t, w, id, maxChunks)
				}
				s.Sessions()
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	writers.Wait()
	close(done)
	readers.Wait()
}

// checkWhole is for goroutines, which must not end the test.
func checkWhole(t *testing.T, w *httptest.ResponseRecorder, id string, most int) {
	var body struct{ Records []record }
	assert.Equal(t, http.StatusOK, w.Code)
	assert.NoError(t, json.Unmarshal(w.Body.Bytes(), &body))
	assert.LessOrEqual(t, len(body.Records), most)
	for _, what := range said(body.Records) {
		assert.True(t, strings.HasPrefix(what, id+" "), "%q is not of %s", what, id)
	}
}

// BenchmarkEvents is a retrieval of 50 chunks of two actions each over a loopback connection, from
// one of a thousand sessions. It is compared with the least work of net/http for as many bytes. The
// median ratio must be at least 0.7.
func BenchmarkEvents(b *testing.B) {
	s := musttest.New(retriever.NewStore(nil))
	const did = "User clicked Mark as done on the tasks detail page (https://app.acme.example/projects/:id/tasks/:id)"
	for range retriever.DefaultMaxChunks {
		for session := range 1000 {
			add(b, s, batch(fmt.Sprint("session_", session), fmt.Sprint("user_", session, "@acme.example"), did, did))
		}
	}
	const target, bearer = "/events?session_id=session_7", "Bearer " + apiKey
	mux := newMux(s, &retriever.HandlerOptions{APIKey: apiKey})
	require.Equal(b, retriever.DefaultMaxChunks,
		strings.Count(get(mux, target, "Authorization", bearer).Body.String(), `"title"`))
	httpxtest.Compare(b, mux, target, http.Header{"Authorization": {bearer}})
}

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
	quoted := musttest.New(json.Marshal(s))
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
		"two objects": {`{"knowledge_id":"s"}{"knowledge_id":"s"}`, notObject},
		"null":        {`null`, notObject},
		"array":       {`[{"knowledge_id":"s"}]`, notObject},
		"nested too deep": {`{"knowledge_id":"s","x":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) +
			`}`, notObject},
		"no knowledge_id":     {`{"query":"x"}`, noID},
		"blank knowledge_id":  {`{"knowledge_id":" \t"}`, noID},
		"knowledge_id null":   {`{"knowledge_id":null}`, noID},
		"knowledge_id number": {`{"knowledge_id":42}`, "The field knowledge_id must be a string."},
		"setting array": {`{"knowledge_id":"s","retrieval_setting":[]}`,
			"The field retrieval_setting must be an object."},
		"top_k zero":                {`{"knowledge_id":"s","retrieval_setting":{"top_k":0}}`, badTopK},
		"top_k fraction":            {`{"knowledge_id":"s","retrieval_setting":{"top_k":1.5}}`, badTopK},
		"top_k string":              {`{"knowledge_id":"s","retrieval_setting":{"top_k":"5"}}`, badTopK},
		"top_k bad, none are asked": {`{"knowledge_id":"s","retrieval_setting":{"top_k":0,"score_threshold":2}}`, badTopK},
		"score_threshold string":    {`{"knowledge_id":"s","retrieval_setting":{"score_threshold":"0.5"}}`, badScore},
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
