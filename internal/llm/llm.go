// Package llm calls a language model at any endpoint with OpenAI's chat
// completions API: OpenAI itself, a gateway, or a model on this machine.
package llm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"

	"github.com/sashabaranov/go-openai"

	"github.com/liveactivity/liveactivity/internal/options"
	"github.com/liveactivity/liveactivity/internal/origin"
)

// Limits of requests and answers.
const (
	temperature = 0.2
	maxTokens   = 400

	// maxThinking is the limit if it includes reasoning: maxTokens would leave
	// no room for an answer.
	maxThinking = 4000

	maxBody   = 1 << 20 // bytes in an answer
	maxHeader = 64 << 10
)

// client calls one model.
type client struct {
	api     *openai.Client
	model   string
	apiKey  string
	baseURL string

	takes atomic.Int32 // the last parameters that worked; the next request begins with them
	// thinks is true if the model's reasoning counts against the limit.
	thinks atomic.Bool
}

// New returns a function that sends the model a prompt, as one user message, and
// returns its answer: never blank or truncated, without white space around it and
// without the model's reasoning. An answer has at most 400 tokens, or 4,000
// including the reasoning if the model has any. The function is safe for
// concurrent use. It takes as long as ctx allows and calls an overloaded endpoint
// only once: the caller decides when to retry. Its errors contain neither the key
// nor the prompt.
//
// Without a base URL, such as http://127.0.0.1:11434/v1, it uses OpenAI's; with
// one the key may be empty. New reports all mistakes in its arguments and
// connects to nothing.
func New(model, apiKey, baseURL string) (func(ctx context.Context, prompt string) (string, error), error) {
	wrong := options.Mistakes{Package: "llm"}
	wrong.Require(strings.TrimSpace(model) != "", "model", "must have a name")
	wrong.Require(apiKey != "" || baseURL != "", "endpoint", "must be given by OPENAI_API_KEY or OPENAI_BASE_URL")
	wrong.Require(options.IsPrintable(apiKey), "OPENAI_API_KEY", "must be printable ASCII without spaces")
	u, ok := origin.Base(baseURL)
	wrong.Require(baseURL == "" || ok && !strings.HasSuffix(u.Path, "/chat/completions"),
		"OPENAI_BASE_URL", "must be like http://127.0.0.1:11434/v1, the address before /chat/completions")
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	config := openai.DefaultConfig(apiKey)
	config.BaseURL = cmp.Or(baseURL, config.BaseURL)
	config.HTTPClient = newHTTPClient()
	c := &client{api: openai.NewClientWithConfig(config), model: model, apiKey: apiKey, baseURL: config.BaseURL}
	return c.complete, nil
}

// complete calls the model and returns its answer's text. Apart from the attempts of ask,
// it calls again only to leave room for reasoning, once in the client's lifetime.
func (c *client) complete(ctx context.Context, prompt string) (string, error) {
	answer, err := c.ask(ctx, prompt)
	if err == nil && isCutThought(answer) && c.thinks.CompareAndSwap(false, true) {
		answer, err = c.ask(ctx, prompt) // with room for the reasoning
	}
	if err != nil {
		return "", c.explain(err)
	}
	if len(answer.Choices) == 0 {
		return "", errors.New("llm: the endpoint gave no answer")
	}
	choice := answer.Choices[0]
	text := textOf(choice.Message)
	switch {
	case text == "":
		return "", fmt.Errorf("llm: the model's answer is blank (finish reason %q)", code(choice.FinishReason))
	case choice.FinishReason == openai.FinishReasonLength:
		return "", errors.New("llm: the model's answer is cut off by its limit of tokens")
	}
	return text, nil
}

// isCutThought reports whether an answer reached its limit during the model's
// reasoning. Endpoints put the reasoning in different places, so an answer
// without text also counts: Ollama and vLLM have a separate field for it, and
// Gemini omits the content.
func isCutThought(answer openai.ChatCompletionResponse) bool {
	if len(answer.Choices) == 0 || answer.Choices[0].FinishReason != openai.FinishReasonLength {
		return false
	}
	message := answer.Choices[0].Message
	return message.ReasoningContent != "" || textOf(message) == "" ||
		thought.MatchString(message.Content) || unpaired.MatchString(message.Content)
}

// textOf returns an answer's text, without reasoning. The content of Mistral's
// reasoning models is an array of parts.
func textOf(message openai.ChatCompletionMessage) string {
	content := message.Content
	for _, part := range message.MultiContent {
		if part.Type == openai.ChatMessagePartTypeText {
			content += part.Text
		}
	}
	return strings.TrimSpace(unpaired.ReplaceAllString(thought.ReplaceAllString(content, ""), ""))
}

// The tags around a model's reasoning.
const (
	startTag = `<\s*think(?:ing)?\s*>`
	endTag   = `</\s*think(?:ing)?\s*>`
)

// thought matches reasoning. unpaired, applied after that is removed, matches reasoning at a tag
// without its partner. A missing start tag was part of the prompt or is nested: everything before
// the end tag is reasoning. After a missing end tag everything is.
var (
	thought  = regexp.MustCompile(`(?is)` + startTag + `.*?` + endTag)
	unpaired = regexp.MustCompile(`(?is)^.*` + endTag + `|` + startTag + `.*`)
)

// parameters are sets of optional parameters, tried in order. All endpoints know
// max_tokens and temperature, but OpenAI's newer models refuse both and require
// max_completion_tokens. Mistral refuses that in turn, and older local servers
// ignore it, so that their answers never end. Some models refuse only the
// temperature. Neither model names nor hosts identify the provider, because
// gateways use their own, so a refusal leads to the next set, and the set that
// worked is remembered.
type parameters int32

const (
	limitAndTemperature parameters = iota // max_tokens and temperature
	limitOnly                             // max_tokens
	newerLimit                            // max_completion_tokens
	noParameters
)

// ask sends the prompt with parameters that the endpoint accepts.
func (c *client) ask(ctx context.Context, prompt string) (openai.ChatCompletionResponse, error) {
	for p := parameters(c.takes.Load()); ; {
		answer, err := c.api.CreateChatCompletion(ctx, c.request(prompt, p))
		if err == nil {
			c.takes.Store(int32(p))
			return answer, nil
		}
		next := p.after(err)
		if next == p {
			return answer, err
		}
		p = next
	}
}

// request returns the request for a set. newerLimit is for models that reason, so it starts
// with their limit.
func (c *client) request(prompt string, p parameters) openai.ChatCompletionRequest {
	request := openai.ChatCompletionRequest{Model: c.model,
		Messages: []openai.ChatCompletionMessage{{Role: openai.ChatMessageRoleUser, Content: prompt}}}
	switch p {
	case limitAndTemperature:
		request.Temperature = temperature
		fallthrough
	case limitOnly:
		limit := maxTokens
		if c.thinks.Load() {
			limit = maxThinking
		}
		//lint:ignore SA1019 most endpoints know no other limit
		request.MaxTokens = limit
	case newerLimit:
		request.MaxCompletionTokens = maxThinking
	}
	return request
}

// after returns the next set to try after an error, which is p itself unless
// the error refuses a parameter of p.
func (p parameters) after(err error) parameters {
	words := refusal(err)
	switch {
	case p == newerLimit && strings.Contains(words, "max_completion_tokens"):
		return noParameters
	case p <= limitOnly && strings.Contains(words, "max_tokens"):
		return newerLimit
	case p <= limitOnly && strings.Contains(words, "temperature"):
		return p + 1
	}
	return p
}

// refusal returns the message of an error that may refuse a parameter: a 400 or
// 422 from the endpoint, whatever its shape, or an error of the library, which
// knows some models. The message may contain the prompt and must not be logged.
func refusal(err error) string {
	var refused *openai.APIError
	var other *openai.RequestError
	status, words := 0, ""
	switch {
	case errors.Is(err, openai.ErrReasoningModelMaxTokensDeprecated),
		errors.Is(err, openai.ErrReasoningModelLimitationsOther), errors.Is(err, openai.ErrReasoningSamplingUnsupported):
		return "max_tokens"
	case errors.As(err, &other): // older vLLM: {"object":"error","message":…}
		status, words = other.HTTPStatusCode, string(other.Body)
	case errors.As(err, &refused):
		status, words = refused.HTTPStatusCode, refused.Message
	}
	if status == http.StatusBadRequest || status == http.StatusUnprocessableEntity {
		return words
	}
	return ""
}

// explain returns an error that can be logged. The endpoint's message may echo
// the key or the prompt, so only its code is reported.
func (c *client) explain(err error) error {
	var refused *openai.APIError
	var other *openai.RequestError
	var transport *url.Error
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &other): // may wrap a partial APIError
		return c.statusError(other.HTTPStatusCode, "")
	case errors.As(err, &refused):
		return c.statusError(refused.HTTPStatusCode, cmp.Or(code(refused.Code), code(refused.Type)))
	case errors.As(err, &transport): // its URL may be a redirect's target
		return fmt.Errorf("llm: ask %s: %w", c.baseURL, transport.Err)
	case errors.As(err, &tooLarge):
		return fmt.Errorf("llm: the endpoint's answer is larger than %d bytes", tooLarge.Limit)
	}
	return fmt.Errorf("llm: %w", err)
}

// statusError returns the error for a status, with the code unless that could be the
// key.
func (c *client) statusError(status int, code string) error {
	text := fmt.Sprintf("llm: the endpoint answers %d %s for model %q", status, http.StatusText(status), c.model)
	if code == "" || c.apiKey != "" && strings.Contains(code, c.apiKey) {
		return errors.New(text)
	}
	return errors.New(text + ": " + code)
}

// maxCode is the maximum length of a reported code, in bytes.
const maxCode = 64

// code returns the code in an endpoint's error: a word like insufficient_quota, or
// a number. The library decodes null as zero.
func code(v any) string {
	text := fmt.Sprint(v)
	if v == nil || v == 0 || len(text) > maxCode || strings.ContainsFunc(text, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-' && r != '.'
	}) {
		return ""
	}
	return text
}

// newHTTPClient returns a client that reads no more than necessary and sends
// the key and the prompt only to the configured URL.
func newHTTPClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxResponseHeaderBytes = maxHeader
	return &http.Client{
		Transport: limitedTransport{transport},
		CheckRedirect: func(r *http.Request, _ []*http.Request) error {
			return fmt.Errorf("the endpoint redirects to %s://%s, which is not followed", r.URL.Scheme, r.URL.Host)
		},
	}
}

// limitedTransport limits the bodies of answers.
type limitedTransport struct{ inner http.RoundTripper }

func (t limitedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.inner.RoundTrip(r)
	if err == nil {
		response.Body = http.MaxBytesReader(nil, response.Body, maxBody)
	}
	return response, err
}
