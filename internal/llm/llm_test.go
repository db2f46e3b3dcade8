package llm_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/llm"
	"github.com/liveactivity/liveactivity/internal/llmtest"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

const (
	model  = "gpt-4o-mini"
	apiKey = "sk-test-0123456789"
	prompt = "Sum up: ada <ada@example.com> exported a report & left."
)

// left is the vendor's default answer.
var left = llmtest.Say("Ada left.")

// refuse answers with the vendor's error object. The parameter and the code are JSON.
func refuse(w http.ResponseWriter, status int, message, kind, param, code string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	text, _ := json.Marshal(message)
	fmt.Fprintf(w, `{"error":{"message":%s,"type":%q,"param":%s,"code":%s}}`, text, kind, param, code)
}

// newModel returns the function under test for a vendor.
func newModel(v *llmtest.Server, name, key string) func(context.Context, string) (string, error) {
	return musttest.New(llm.New(name, key, v.BaseURL()))
}

func TestNew_requiresItsArguments(t *testing.T) {
	const missing, endpoint, url, key = "llm.model", "llm.endpoint", "llm.OPENAI_BASE_URL", "llm.OPENAI_API_KEY"
	for name, tt := range map[string]struct {
		model, apiKey, baseURL string
		want                   []string
	}{
		"no model":                    {"", apiKey, "", []string{missing}},
		"a blank model":               {" \t", apiKey, "", []string{missing}},
		"neither key nor URL":         {model, "", "", []string{endpoint}},
		"nothing":                     {"", "", "", []string{missing, endpoint}},
		"no scheme":                   {model, apiKey, "127.0.0.1:11434/v1", []string{url}},
		"a user":                      {model, apiKey, "http://user:secret@127.0.0.1/v1", []string{url}},
		"a query":                     {model, apiKey, "http://127.0.0.1/v1?key=secret", []string{url}},
		"a request's address":         {model, apiKey, "http://127.0.0.1/v1/chat/completions", []string{url}},
		"a key with a line feed":      {model, apiKey + "\n", "", []string{key}},
		"a key with a space, and all": {"", "a b", "nowhere", []string{missing, key, url}},
		"a key that is not ASCII":     {model, "schlüssel", "", []string{key}},
		"a key alone is enough":       {model, apiKey, "", nil},
		"so is a URL":                 {"llama3.2:3b", "", "http://127.0.0.1:11434/v1", nil},
	} {
		t.Run(name, func(t *testing.T) {
			complete, err := llm.New(tt.model, tt.apiKey, tt.baseURL)
			if assert.Equal(t, tt.want == nil, complete != nil); tt.want == nil {
				require.NoError(t, err)
				return
			}
			assert.Equal(t, tt.want, musttest.Mistakes(t, err))
			assert.NotContains(t, err.Error(), "secret")
			assert.NotContains(t, err.Error(), apiKey)
		})
	}
}

func TestModel_sendsThePromptAndKey(t *testing.T) {
	for name, key := range map[string]string{"with a key": apiKey, "without a key": ""} {
		t.Run(name, func(t *testing.T) {
			headers := make(chan http.Header, 1)
			v := llmtest.New(t, func(w http.ResponseWriter, r *http.Request) {
				headers <- r.Header
				llmtest.Say("\n Ada exported\na report. ")(w, r)
			})
			complete := musttest.New(llm.New(model, key, v.BaseURL()+"/"))
			assert.Equal(t, "Ada exported\na report.", musttest.New(complete(t.Context(), prompt)))
			require.Len(t, v.Asked(), 1)
			assert.Equal(t, map[string]any{"model": model, "max_tokens": 400.0, "temperature": 0.2, "stream": false,
				"messages": []any{map[string]any{"role": "user", "content": prompt}}}, v.Asked()[0].Body)
			header := <-headers
			assert.Equal(t, "application/json", header.Get("Content-Type"))
			if key == "" {
				assert.NotContains(t, header, "Authorization")
			} else {
				assert.Equal(t, "Bearer "+key, header.Get("Authorization"))
			}
		})
	}
}

// Endpoints refuse unknown parameters one by one, in an error of any shape. Those that worked are used from then on.
func TestModel_learnsWhichParametersTheEndpointTakes(t *testing.T) {
	const limit, newer, temperature = "max_tokens", "max_completion_tokens", "temperature"
	standard := func(w http.ResponseWriter, name string) {
		refuse(w, 400, "Unsupported parameter: '"+name+"' is not supported with this model.", "invalid_request_error",
			"null", "null")
	}
	gateway := func(w http.ResponseWriter, name string) {
		refuse(w, 422, "litellm.BadRequestError: '"+name+"' is not supported with this model. Use '"+newer+"' instead.",
			"invalid_request_error", `"`+name+`"`, `"unsupported_parameter"`)
	}
	olderVLLM := func(w http.ResponseWriter, name string) {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"object":"error","message":"[{'type': 'extra_forbidden', 'loc': ('body', `+
			`'%s')}]","type":"BadRequestError","param":null,"code":400}`, name)
	}
	older, room := map[string]any{limit: 400.0}, map[string]any{newer: 4000.0}
	for name, tt := range map[string]struct {
		model   string
		refuse  func(w http.ResponseWriter, name string)
		unknown []string
		want    map[string]any // of the requests that are answered
		asked   int            // for two prompts
	}{
		"max_tokens, by a gateway":         {"a-model", gateway, []string{limit}, room, 3},
		"known to the library":             {"gpt-5-mini", standard, []string{limit}, room, 2},
		"known to the library 2":           {"o3", standard, []string{limit}, room, 2},
		"the temperature":                  {"a-model", standard, []string{temperature}, older, 3},
		"temperature and max_tokens":       {"a-model", standard, []string{temperature, limit}, room, 4},
		"temperature and the newer limit":  {"a-model", standard, []string{temperature, newer}, older, 3},
		"everything":                       {"a-model", standard, []string{temperature, limit, newer}, nil, 5},
		"both limits":                      {"a-model", standard, []string{limit, newer}, nil, 4},
		"max_tokens, by an older vLLM":     {"a-model", olderVLLM, []string{limit}, room, 3},
		"the temperature, by an older one": {"a-model", olderVLLM, []string{temperature}, older, 3},
	} {
		t.Run(name, func(t *testing.T) {
			var v *llmtest.Server
			v = llmtest.New(t, func(w http.ResponseWriter, r *http.Request) {
				asked := v.Asked()
				for _, name := range tt.unknown {
					if _, ok := asked[len(asked)-1].Body[name]; ok {
						tt.refuse(w, name)
						return
					}
				}
				left(w, r)
			})
			complete := newModel(v, tt.model, apiKey)
			for range 2 {
				assert.Equal(t, "Ada left.", musttest.New(complete(t.Context(), prompt)))
			}
			asked := v.Asked()
			require.Len(t, asked, tt.asked)
			want := map[string]any{"model": tt.model, "stream": false,
				"messages": []any{map[string]any{"role": "user", "content": prompt}}}
			maps.Copy(want, tt.want)
			for _, last := range asked[tt.asked-2:] {
				assert.Equal(t, want, last.Body)
			}
		})
	}
}

// Mistral knows max_tokens only.
func TestModel_staysWithTheParametersThatWorked(t *testing.T) {
	v := llmtest.New(t, left)
	complete := newModel(v, "mistral-small-latest", apiKey)
	for range 3 {
		musttest.New(complete(t.Context(), prompt))
	}
	for _, asked := range v.Asked() {
		assert.NotContains(t, asked.Body, "max_completion_tokens")
	}
	v.AnswerWith(func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, 400, "max_tokens is too large", "invalid_request_error", "null", "null")
	})
	_, err := complete(t.Context(), prompt)
	require.ErrorContains(t, err, "400")
	v.AnswerWith(left)
	musttest.New(complete(t.Context(), prompt))
	asked := v.Asked()
	assert.Contains(t, asked[len(asked)-1].Body, "max_tokens", "what did not work is not remembered")
}

func TestModel_reportsRefusals(t *testing.T) {
	vendors := func(message, kind, code string) string { // the vendor's error object; the code is JSON
		return fmt.Sprintf(`{"error":{"message":%q,"type":%q,"param":null,"code":%s}}`, message, kind, code)
	}
	const secrets = "Bearer " + apiKey + " asked " + prompt
	for name, tt := range map[string]struct {
		status     int
		body, want string
	}{
		"a wrong key": {401, vendors("Incorrect API key provided: "+secrets, "invalid_request_error", `"invalid_api_key"`),
			": invalid_api_key"},
		"no such model on a local server": {404, vendors("try pulling it first", "api_error", "null"), ": api_error"},
		"too many requests":               {429, vendors("Rate limit", "requests", `"rate_limit"`), ": rate_limit"},
		"a code that is a number":         {503, vendors("x", "", "1300"), ": 1300"},
		"a code with the key":             {400, vendors("x", apiKey, `"`+apiKey+`"`), ""},
		"a code that is a sentence":       {400, vendors("x", secrets, `"ada@example.com"`), ""},
		"a long code":                     {400, vendors("x", strings.Repeat("x", 65), "null"), ""},
		"a page of a proxy":               {502, "<html>" + prompt, ""},
		"JSON of another kind":            {422, `{"detail":"` + secrets + `"}`, ""},
		"an error that is a string":       {400, `{"error":"` + secrets + `"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			v := llmtest.New(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", "1")
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.body)
			})
			text, err := newModel(v, model, apiKey)(t.Context(), prompt)
			assert.Empty(t, text)
			assert.EqualError(t, err, fmt.Sprintf("llm: the endpoint answers %d %s for model %q%s", tt.status,
				http.StatusText(tt.status), model, tt.want))
			assert.Len(t, v.Asked(), 1, "it is asked once")
		})
	}
}

func TestModel_reportsBadAnswers(t *testing.T) {
	for name, tt := range map[string]struct{ body, want string }{
		"no choices": {`{"choices":[]}`, "no answer"},
		"an empty text": {`{"choices":[{"message":{"content":""},"finish_reason":"content_filter"}]}`,
			`blank (finish reason "content_filter")`},
		"a blank text": {`{"choices":[{"message":{"content":" \n\t"},"finish_reason":"stop"}]}`,
			`blank (finish reason "stop")`},
		"no text": {`{"choices":[{"message":{"content":null,"refusal":"I cannot."}}]}`, "blank"},
		"a talkative reason": {`{"choices":[{"message":{},"finish_reason":"` + strings.Repeat(apiKey, 99) + `"}]}`,
			`blank (finish reason "")`},
		"not JSON":         {`<html>` + apiKey, "llm: invalid character '<'"},
		"cut off":          {`{"choices":[{"message":{"content":"` + apiKey, "llm: unexpected EOF"},
		"of another shape": {`{"choices":"` + apiKey + `"}`, "llm: json: "},
		"larger than 1 MiB": {`{"choices":[{"message":{"content":"` + strings.Repeat(apiKey, 1<<16) + `"}}]}`,
			"larger than 1048576 bytes"},
		"a list without text": {`{"choices":[{"message":{"content":[]}}]}`, "blank"},
		"cut off by the limit": {`{"choices":[{"message":{"content":"Ada exp"},"finish_reason":"length"}]}`,
			"llm: the model's answer is cut off by its limit of tokens"},
	} {
		t.Run(name, func(t *testing.T) {
			v := llmtest.New(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, tt.body) })
			text, err := newModel(v, model, apiKey)(t.Context(), prompt)
			assert.Empty(t, text)
			require.ErrorContains(t, err, tt.want)
			assert.NotContains(t, err.Error(), apiKey)
			assert.Less(t, len(err.Error()), 300)
			assert.Len(t, v.Asked(), 1, "it is asked once")
		})
	}
}

func TestModel_takesAnswersUpToTheLimit(t *testing.T) {
	const head, tail = `{"choices":[{"message":{"content":"`, `"}}]}`
	text := strings.Repeat("x", 1<<20-len(head)-len(tail))
	v := llmtest.New(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, head+text+tail) })
	assert.Len(t, musttest.New(newModel(v, model, apiKey)(t.Context(), prompt)), len(text))
}

// A large error, too, is read only up to its limit.
func TestModel_boundsTheAnswer(t *testing.T) {
	var sent atomic.Int64
	v := llmtest.New(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		block := []byte(strings.Repeat(" ", 64<<10))
		for r.Context().Err() == nil {
			n, err := w.Write(block)
			if sent.Add(int64(n)); err != nil {
				return
			}
		}
	})
	_, err := newModel(v, model, apiKey)(t.Context(), prompt)
	require.ErrorContains(t, err, "larger than")
	v.Close()
	assert.Less(t, sent.Load(), int64(64<<20), "what the buffers on the way hold")
}

func TestModel_boundsTheHeader(t *testing.T) {
	v := llmtest.New(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Long", strings.Repeat("x", 128<<10))
		llmtest.Say("x")(w, r)
	})
	_, err := newModel(v, model, apiKey)(t.Context(), prompt)
	require.ErrorContains(t, err, "65536 bytes")
}

func TestModel_takesAsLongAsItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan struct{})
	v := llmtest.New(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
		close(left)
	})
	_, err := newModel(v, model, apiKey)(ctx, prompt)
	require.ErrorIs(t, err, context.Canceled)
	<-left
}

func TestModel_followsNoRedirect(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			elsewhere := llmtest.New(t, left)
			v := llmtest.New(t, func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, elsewhere.URL+"/v1/chat/completions?token="+apiKey, status)
			})
			_, err := newModel(v, model, apiKey)(t.Context(), prompt)
			require.ErrorContains(t, err, "the endpoint redirects to "+elsewhere.URL+", which is not followed")
			assert.NotContains(t, err.Error(), apiKey)
			assert.Empty(t, elsewhere.Asked())
			assert.Len(t, v.Asked(), 1)
		})
	}
}

func TestModel_reportsAnEndpointThatIsGone(t *testing.T) {
	v := llmtest.New(t, left)
	complete := newModel(v, model, apiKey)
	v.Close()
	_, err := complete(t.Context(), prompt)
	require.ErrorContains(t, err, v.URL)
	assert.NotContains(t, err.Error(), apiKey)
}

func TestModel_isSafeForConcurrentUse(t *testing.T) {
	v := llmtest.New(t, left)
	complete := newModel(v, "gpt-5", apiKey)
	waittest.Together(16, func(int) {
		text, err := complete(t.Context(), prompt)
		assert.NoError(t, err)
		assert.Equal(t, "Ada left.", text)
	})
	assert.Len(t, v.Asked(), 16)
}

// answeringJSON answers with a message that is given as JSON.
func answeringJSON(message, reason string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"choices":[{"message":%s,"finish_reason":%q}]}`, message, reason)
	}
}

// answering answers with a model's message, as JSON.
func answering(content, reasoning, reason string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"choices": []any{map[string]any{
			"message": map[string]any{"content": content, "reasoning_content": reasoning}, "finish_reason": reason}}})
	}
}

func TestModel_dropsItsReasoning(t *testing.T) {
	for content, want := range map[string]string{ // empty for nothing left
		"Ada exported.": "Ada exported.",
		"<think>Hm.\nWell.</think>\n\nAda exported.":             "Ada exported.",
		"<THINK>Hm.</Think>Ada exported.":                        "Ada exported.",
		"<thinking>Hm.</thinking>Ada exported.":                  "Ada exported.",
		"< think >Hm.</ think >Ada exported.":                    "Ada exported.",
		"Hm.</think>Ada exported.":                               "Ada exported.",
		"Ada <think>Hm.</think>exported.":                        "Ada exported.",
		"<think>a</think>Ada <think>b</think>exported.":          "Ada exported.",
		"<think>a<think>b</think>c</think>Ada exported.":         "Ada exported.",
		"<think>I write <think> first.</think>Ada exported.":     "Ada exported.",
		"<think></think>Ada exported.":                           "Ada exported.",
		"So <think>a</think>no, b</think>Ada exported.":          "Ada exported.",
		"Ada exported.<think>Was that it?":                       "Ada exported.",
		"<think>Hm.":                                             "",
		"<think>Ada exported.</think>":                           "",
		"<think>a</think> \n ":                                   "",
		"I think Ada < thinks > about <b>export</b> & <thinker>": "I think Ada < thinks > about <b>export</b> & <thinker>",
	} {
		t.Run(content, func(t *testing.T) {
			v := llmtest.New(t, answering(content, "", "stop"))
			text, err := newModel(v, model, apiKey)(t.Context(), prompt)
			assert.Equal(t, want, text)
			assert.Equal(t, want == "", err != nil, "%v", err)
			assert.Len(t, v.Asked(), 1)
		})
	}
}

func TestModel_readsAnAnswerInParts(t *testing.T) {
	v := llmtest.New(t, answeringJSON(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"Hm."}]},
		{"type":"text","text":"Ada "},{"type":"text","text":"exported."}]}`, "stop"))
	assert.Equal(t, "Ada exported.", musttest.New(newModel(v, model, apiKey)(t.Context(), prompt)))
}

// Thoughts use up the room of an answer, so a thinking model gets more.
func TestModel_givesRoomToOneThatThinks(t *testing.T) {
	for name, cut := range map[string]http.HandlerFunc{
		"in its answer":     answering("<think>Let me", "", "length"),
		"beside it":         answering("", "Let me", "length"),
		"in the template":   answering("Let me.</think>Ada ex", "", "length"),
		"in Ollama's field": answeringJSON(`{"content":"","reasoning":"Let me"}`, "length"),
		"in a newer vLLM's": answeringJSON(`{"content":null,"reasoning":"Let me","reasoning_content":null}`, "length"),
		"unseen, by Gemini": answeringJSON(`{"role":"assistant"}`, "length"),
		"in a part": answeringJSON(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"Let"}]}]}`,
			"length"),
	} {
		t.Run(name, func(t *testing.T) {
			v := llmtest.New(t, left)
			v.AnswerWith(func(w http.ResponseWriter, r *http.Request) {
				if len(v.Asked()) == 1 {
					cut(w, r)
					return
				}
				llmtest.Say("<think>Let me see.</think>Ada exported.")(w, r)
			})
			ask := newModel(v, model, apiKey)
			for range 2 {
				assert.Equal(t, "Ada exported.", musttest.New(ask(t.Context(), prompt)))
			}
			requests := v.Asked()
			require.Len(t, requests, 3, "it is remembered")
			for i, want := range []float64{400, 4000, 4000} {
				assert.Equal(t, want, requests[i].Body["max_tokens"])
			}
			v.AnswerWith(cut)
			_, err := ask(t.Context(), prompt)
			require.Error(t, err)
			assert.Len(t, v.Asked(), 4, "there is no more room to give")
		})
	}
}
