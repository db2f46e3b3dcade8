package mcptool

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/jsontext"
)

func TestParseLiveActivity_readsArguments(t *testing.T) {
	const (
		notObject = "The arguments must be a JSON object."
		user      = "user_id is required and must not be empty."
		limit     = "limit must be an integer."
	)
	tests := map[string]struct{ raw, problem string }{
		"all":                        {`{"product_id":"acme","user_id":"ada","limit":5}`, ""},
		"no limit":                   {`{"product_id":"acme","user_id":"ada"}`, ""},
		"limit null":                 {`{"product_id":"acme","user_id":"ada","limit":null}`, ""},
		"limit zero":                 {`{"product_id":"acme","user_id":"ada","limit":0}`, ""},
		"limit negative":             {`{"product_id":"acme","user_id":"ada","limit":-5}`, ""},
		"limit with a zero fraction": {`{"product_id":"acme","user_id":"ada","limit":5.0}`, ""},
		"limit with an exponent":     {`{"product_id":"acme","user_id":"ada","limit":5e1}`, ""},
		"limit above 64 bits":        {`{"product_id":"acme","user_id":"ada","limit":99999999999999999999}`, ""},
		"limit far above":            {`{"product_id":"acme","user_id":"ada","limit":1e30}`, ""},
		"limit far below":            {`{"product_id":"acme","user_id":"ada","limit":-1e30}`, ""},
		"further arguments":          {`{"product_id":"acme","user_id":"ada","reason":{"a":[1]}}`, ""},
		"an id of odd characters":    {`{"product_id":"acme","user_id":" /%2F\u0000ä"}`, ""},
		"nothing":                    {``, user},
		"white space":                {" \n", user},
		"null":                       {`null`, user},
		"an empty object":            {`{}`, user},
		"an array":                   {`[]`, notObject},
		"a string":                   {`"acme"`, notObject},
		"a number":                   {`7`, notObject},
		"broken JSON":                {`{"product_id":`, notObject},
		"no product":                 {`{"user_id":"ada"}`, ""},
		"empty product":              {`{"product_id":"","user_id":"ada"}`, ""},
		"product null":               {`{"product_id":null,"user_id":"ada"}`, ""},
		"product a number":           {`{"product_id":7,"user_id":"ada"}`, "product_id must be a string."},
		"no user":                    {`{"product_id":"acme"}`, user},
		"empty user":                 {`{"product_id":"acme","user_id":""}`, user},
		"user an array":              {`{"product_id":"acme","user_id":["ada"]}`, "user_id must be a string."},
		"limit with a fraction":      {`{"product_id":"acme","user_id":"ada","limit":2.5}`, limit},
		"limit a string":             {`{"product_id":"acme","user_id":"ada","limit":"5"}`, limit},
		"limit a boolean":            {`{"product_id":"acme","user_id":"ada","limit":true}`, limit},
		"limit an object":            {`{"product_id":"acme","user_id":"ada","limit":{}}`, limit},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			q, problem := new(tools).parseLiveActivity(json.RawMessage(tt.raw))
			assert.Equal(t, tt.problem, problem)
			assert.Equal(t, problem == "", q.get != nil)
			assert.Contains(t, []string{"", "acme"}, q.productID)
		})
	}
}

func TestAcceptBoth(t *testing.T) {
	const both = "application/json, text/event-stream"
	tests := map[string]struct {
		accept []string
		want   string
	}{
		"none":                   {nil, both},
		"empty":                  {[]string{""}, both},
		"anything":               {[]string{"*/*"}, both},
		"JSON":                   {[]string{"application/json"}, both},
		"JSON with a parameter":  {[]string{"application/json; charset=utf-8"}, both},
		"any application":        {[]string{"application/*"}, both},
		"both":                   {[]string{both}, both},
		"both, as two headers":   {[]string{"text/event-stream", "application/json"}, both},
		"a browser's":            {[]string{"text/html,application/xhtml+xml,*/*;q=0.8"}, both},
		"event stream only":      {[]string{"text/event-stream"}, "text/event-stream"},
		"something else":         {[]string{"text/html"}, "text/html"},
		"something else, thrice": {[]string{"text/html", "image/png"}, "text/html"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h := http.Header{}
			for _, value := range tt.accept {
				h.Add("Accept", value)
			}
			acceptBoth(h)
			assert.Equal(t, tt.want, h.Get("Accept"))
		})
	}
}

// through serves a request with inner wrapped in plainWords, as the handler
// does.
func through(inner http.HandlerFunc) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	httpx.Handler(func(w http.ResponseWriter, r *http.Request) error {
		jw := &plainWords{ResponseWriter: w, answer: &answer{}}
		inner(jw, r)
		return jw.err
	}).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/mcp", nil))
	return w
}

func TestPlainWords_replacesTextByJSON(t *testing.T) {
	for _, status := range []int{400, 403, 404, 405, 409, 413, 415, 500} {
		w := through(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Allow", "POST")
			w.Header().Set("Content-Length", "9999")
			http.Error(w, "open /etc/secret: permission denied", status)
		})
		assert.Equal(t, status, w.Code)
		assert.Equal(t, "application/json", w.Header().Get("Content-Type"))
		assert.Equal(t, "POST", w.Header().Get("Allow"), "other headers stay")
		var body map[string]string
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body))
		assert.Len(t, body, 1)
		assert.NotEmpty(t, body["detail"])
		assert.NotContains(t, body["detail"], "secret")
	}
}

func TestPlainWords_passesEverythingElseThrough(t *testing.T) {
	tests := map[string]struct {
		status            int
		contentType, body string
	}{
		"a result":                  {200, "application/json", `{"result":{}}`},
		"nothing":                   {202, "", ""},
		"text that is not an error": {200, "text/plain", "fine"},
		"an error as JSON":          {400, "application/json", `{"error":{}}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := through(func(w http.ResponseWriter, _ *http.Request) {
				if tt.contentType != "" {
					w.Header().Set("Content-Type", tt.contentType)
				}
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.body)
			})
			assert.Equal(t, tt.status, w.Code)
			assert.Equal(t, tt.contentType, w.Header().Get("Content-Type"))
			assert.Equal(t, tt.body, w.Body.String())
		})
	}
}

// The sent bytes never exceed the bytes taken from the budget, which are at most twice the sent
// ones.
func TestWireSize_isAnUpperBound(t *testing.T) {
	for _, text := range []string{"", "plain", `"quoted" \ back`, "<a href='x'>&amp;</a>", "\u2028\u2029", "größe €",
		strings.Repeat("<&>\"", 1000)} {
		data, err := jsontext.Marshal(map[string]string{"text": text})
		require.NoError(t, err)
		sent, err := json.Marshal(&mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(data)}},
			StructuredContent: json.RawMessage(data)})
		require.NoError(t, err)
		assert.LessOrEqual(t, len(sent), wireSize(data)+overhead, text)
		assert.LessOrEqual(t, wireSize(data), 2*len(sent), "and not by far, %s", text)
	}
}
