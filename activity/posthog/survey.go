package posthog

import (
	"net/http"

	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/jsonscan"
)

// survey is what a first pass over a body finds, in constant memory: that it is
// JSON, how long, and whose.
type survey struct {
	size   int64  // of the JSON, in bytes
	events int    // in it
	token  string // the request's own, or else the first that an event carries
}

// takeSurvey reads a body, with an answer for error.
func takeSurvey(s *jsonscan.Scanner) (survey, error) {
	r := &surveyor{Scanner: s, count: 1}
	var whole tokens
	switch kind := r.Kind(); kind {
	case '{':
		r.object(&whole, 0)
	case '[':
		r.events("The request body")
	default:
		if kind != 0 {
			r.answer = httpx.BadRequest("The request body must be a JSON object or array.")
		}
	}
	if r.answer != nil {
		return survey{}, r.answer
	}
	err := endOf(s)
	token := first(whole.apiKey, whole.token)
	if r.batch {
		token = first(token, r.found)
	} else {
		token = first(token, whole.ofEvent(), r.found)
	}
	return survey{size: s.Offset(), events: r.count, token: token}, err
}

// tokens are what the places say where an event, or the request, can carry its token.
type tokens struct {
	apiKey, token, property string
	inner                   string // of the event inside a webhook body
}

func (t *tokens) ofEvent() string { return first(t.inner, t.apiKey, t.token, t.property) }

// surveyor looks for tokens where a payloadReader reads events.
type surveyor struct {
	*jsonscan.Scanner
	batch  bool
	count  int    // of the events
	found  string // the first token of an event
	answer error
}

// object reads the request (at level 0), an event (1) or one inside an event (2).
func (r *surveyor) object(t *tokens, level int) {
	r.BeginObject()
	for key, ok := r.Key(); ok; key, ok = r.Key() {
		switch string(key) {
		case "api_key":
			r.string(&t.apiKey)
		case "token":
			r.string(&t.token)
		case "properties":
			r.property(&t.property)
		case "event":
			if r.Kind() != '{' || level == 2 {
				r.Skip()
				continue
			}
			var inner tokens
			r.object(&inner, 2)
			t.inner = inner.ofEvent()
		case "batch":
			if level > 0 || r.batch {
				r.Skip()
				continue
			}
			r.batch = true
			if r.events("The field batch"); r.answer != nil {
				return
			}
		default:
			r.Skip()
		}
	}
}

func (r *surveyor) property(token *string) {
	if r.Kind() != '{' {
		r.Skip()
		return
	}
	r.BeginObject()
	for key, ok := r.Key(); ok; key, ok = r.Key() {
		if string(key) != "token" {
			r.Skip()
			continue
		}
		r.string(token)
	}
}

func (r *surveyor) string(s *string) {
	if r.Kind() != '"' {
		r.Skip()
		return
	}
	*s = r.String(maxTokenText)
}

func (r *surveyor) events(what string) {
	if kind := r.Kind(); kind != '[' {
		if kind != 0 {
			r.answer = httpx.BadRequest("%s must be an array of events.", what)
		}
		return
	}
	r.count = 0
	for r.BeginArray(); r.Element(); {
		if r.count++; r.count > maxEvents {
			r.answer = httpx.Errorf(http.StatusRequestEntityTooLarge, "The request brings more than the limit of %d events.", maxEvents)
			return
		}
		if r.found != "" || r.Kind() != '{' {
			r.Skip()
			continue
		}
		var t tokens
		r.object(&t, 1)
		r.found = t.ofEvent()
	}
}
