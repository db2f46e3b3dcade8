// Package llmtest is a language model for tests.
package llmtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// Server is an endpoint like OpenAI's that keeps the questions it receives. It answers any
// other request with a 404.
type Server struct {
	*httptest.Server
	mu     sync.Mutex
	asked  []Question
	answer http.HandlerFunc
}

// Question is a request to the model.
type Question struct {
	Authorization string
	Body          map[string]any
}

// New returns a server that answers with answer until the test ends.
func New(t testing.TB, answer http.HandlerFunc) *Server {
	t.Helper()
	s := &Server{answer: answer}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// BaseURL is the base URL to configure a client with.
func (s *Server) BaseURL() string { return s.URL + "/v1" }

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := Question{Authorization: r.Header.Get("Authorization")}
	err := json.NewDecoder(r.Body).Decode(&q.Body)
	if err != nil || r.Method != http.MethodPost || r.URL.Path != "/v1/chat/completions" || r.URL.RawQuery != "" {
		http.NotFound(w, r)
		return
	}
	s.mu.Lock()
	s.asked = append(s.asked, q)
	answer := s.answer
	s.mu.Unlock()
	answer(w, r)
}

// AnswerWith changes the model's answers.
func (s *Server) AnswerWith(answer http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// Asked returns the questions received.
func (s *Server) Asked() []Question {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// Say returns a handler that answers with a text, in OpenAI's form.
func Say(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		content, _ := json.Marshal(text)
		fmt.Fprintf(w, `{"id":"chatcmpl-1","object":"chat.completion","created":1741569952,"model":"gpt-4o-mini-2024-07-18",
			"choices":[{"index":0,"message":{"role":"assistant","content":%s,"refusal":null,"annotations":[]},
				"logprobs":null,"finish_reason":"stop"}],
			"usage":{"prompt_tokens":19,"completion_tokens":10,"total_tokens":29},
			"service_tier":"default","system_fingerprint":null}`, content)
	}
}
