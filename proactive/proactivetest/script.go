package proactivetest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/assistance"
	"github.com/liveactivity/liveactivity/proactive"
)

type step struct {
	position position
	source   string
	at       time.Duration
	verb     string // of its action
	object   string // of its verb
	expect   []expectation
}

// position is a place in a script, counted from 1; columns count characters.
type position struct{ line, column int }

func (p position) errorf(format string, args ...any) error {
	return fmt.Errorf("line %d, column %d: %s", p.line, p.column, fmt.Sprintf(format, args...))
}

// The verbs other than acts and events.
const (
	verbWait    = "wait"
	verbPage    = "page"
	verbEvent   = "event"
	verbSays    = "says"
	verbDesk    = "desk"
	verbRestart = "restart"
)

// acts maps verbs that take a quoted object to types of action.
var acts = map[string]string{"click": activity.TypeClick, "submit": activity.TypeSubmit, "change": activity.TypeChange,
	"error": activity.TypeError}

var events = map[string]assistance.Event{
	"dismisses":  assistance.Reported(proactive.Dismissed),
	"progresses": assistance.Reported(proactive.Progressed),
	"finishes":   assistance.Reported(proactive.Finished),
	"abandons":   assistance.Reported(proactive.Abandoned),
	"joins":      assistance.Engaged{},
}

type expectation struct {
	position position
	kind     string // offer, no offer, state, reply, guide, removed or refused
	object   string
	label    string // the offer's label
}

// states maps the states in a script, by their short or full names.
var states = map[string]assistance.State{
	"thinking":                assistance.Thinking,
	"proactive":               assistance.Proactive,
	"proactive_assistance":    assistance.Proactive,
	"reactive":                assistance.Reactive,
	"reactive_assistance":     assistance.Reactive,
	"guidance":                assistance.Guidance,
	"guidance_execution":      assistance.Guidance,
	"conservative":            assistance.Conservative,
	"conservative_assistance": assistance.Conservative,
}

var reasons = []assistance.Reason{assistance.NoMatch, assistance.Stale, assistance.Sending, assistance.Busy,
	assistance.HoldingBack, assistance.CoolingDown}

// maxTime limits the time that a script can span: a failing desk is asked every
// few seconds.
const maxTime = 1000 * time.Hour

func parse(script string) (steps []step, err error) {
	last := time.Duration(0)
	for n, line := range strings.Split(script, "\n") {
		tokens, err := split(line, n+1)
		if err != nil {
			return nil, err
		}
		for more := true; more; {
			var one []token
			if one, tokens, more = cut(tokens, ";"); len(one) == 0 {
				continue
			}
			s, err := parseStep(one)
			if err != nil {
				return nil, err
			}
			if s.at < last {
				return nil, s.position.errorf("the time is before the previous step's, %v", last)
			}
			last = s.at
			steps = append(steps, s)
		}
	}
	return steps, nil
}

// token is a word, a quoted text, or one of ; , and →.
type token struct {
	position
	text   string
	quoted bool
}

// split splits a line into tokens and stops at a comment.
func split(line string, number int) (tokens []token, err error) {
	for rest := line; ; {
		rest = strings.TrimLeftFunc(rest, unicode.IsSpace)
		at := position{number, 1 + utf8.RuneCountInString(line[:len(line)-len(rest)])}
		if rest == "" || rest[0] == '#' {
			return tokens, nil
		}
		t := token{position: at}
		length := 0
		switch {
		case rest[0] == '"':
			quoted, err := strconv.QuotedPrefix(rest)
			if err != nil {
				return nil, at.errorf("a text in quotes has no end")
			}
			length, t.quoted = len(quoted), true
			t.text, _ = strconv.Unquote(quoted) // it is a valid quoted string
		case rest[0] == ';' || rest[0] == ',':
			length, t.text = 1, rest[:1]
		case strings.HasPrefix(rest, "→") || strings.HasPrefix(rest, "->"):
			length, t.text = len("→"), "→"
			if rest[0] == '-' {
				length = len("->")
			}
		default:
			length = wordLength(rest)
			t.text = rest[:length]
		}
		tokens, rest = append(tokens, t), rest[length:]
	}
}

// wordLength returns the length of the word at the start of a text. A # inside a
// word belongs to it, as in a URL.
func wordLength(s string) int {
	for i, r := range s {
		if unicode.IsSpace(r) || strings.ContainsRune(`;,"→`, r) || strings.HasPrefix(s[i:], "->") {
			return i
		}
	}
	return len(s)
}

func parseStep(tokens []token) (s step, err error) {
	first := tokens[0]
	s.position, s.source = first.position, join(tokens)
	offset, ok := strings.CutPrefix(first.text, "t+")
	if !ok || first.quoted {
		return s, first.errorf("a step begins with its time, such as t+4s, and not with %q", first.text)
	}
	if s.at, err = time.ParseDuration(offset); err != nil || s.at < 0 || s.at > maxTime {
		return s, first.errorf("%q is not a time such as t+4s or t+1m30s, at most t+1000h", first.text)
	}
	done, expected, isArrow := cut(tokens[1:], "→")
	if s.verb, s.object, err = parseAction(done); err != nil || !isArrow {
		return s, err
	}
	s.expect, err = parseExpectations(tokens[1+len(done)], expected)
	return s, err
}

// cut splits tokens at the first one that is this sign.
func cut(tokens []token, sign string) (before, after []token, found bool) {
	i := slices.IndexFunc(tokens, func(t token) bool { return !t.quoted && t.text == sign })
	if i < 0 {
		return tokens, nil, false
	}
	return tokens[:i], tokens[i+1:], true
}

func join(tokens []token) string {
	var words []string
	for _, t := range tokens {
		if t.quoted {
			t.text = strconv.Quote(t.text)
		}
		words = append(words, t.text)
	}
	return strings.ReplaceAll(strings.Join(words, " "), " ,", ",")
}

// parseAction reads the tokens before an arrow: a verb with its object.
func parseAction(tokens []token) (does, object string, err error) {
	if len(tokens) == 0 {
		return verbWait, "", nil
	}
	verb := tokens[0]
	two := len(tokens) == 2
	_, isAct := acts[verb.text]
	_, isEvent := events[verb.text]
	switch {
	case verb.quoted:
	case len(tokens) == 1 && (strings.HasPrefix(verb.text, "/") || strings.Contains(verb.text, "://")):
		return verbPage, verb.text, nil
	case two && (isAct || verb.text == verbEvent || verb.text == verbSays) && tokens[1].quoted:
		return verb.text, tokens[1].text, nil
	case two && verb.text == verbDesk && (tokens[1].text == "fails" || tokens[1].text == "works"):
		return verbDesk, tokens[1].text, nil
	case len(tokens) == 1 && (isEvent || verb.text == verbRestart || verb.text == verbWait):
		return verb.text, "", nil
	}
	return "", "", verb.errorf("%s is not something that happens; see the package documentation", join(tokens))
}

func parseExpectations(arrow token, tokens []token) (all []expectation, err error) {
	for more := true; more; {
		var one []token
		if one, tokens, more = cut(tokens, ","); len(one) == 0 {
			return nil, arrow.errorf("something must be expected after → and each comma")
		}
		e, err := parseExpectation(one)
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

func parseExpectation(tokens []token) (expectation, error) {
	e := expectation{position: tokens[0].position}
	words := make([]string, len(tokens))
	for i, t := range tokens {
		if words[i] = t.text; t.quoted {
			words[i] = `"`
		}
	}
	last := tokens[len(tokens)-1].text
	switch form := words[0]; {
	case form == "offer" && len(words) == 2 && words[1] != `"`:
		e.kind, e.object = "offer", last
	case form == "offer" && len(words) == 3 && words[1] != `"` && words[2] == `"`:
		e.kind, e.object, e.label = "offer", words[1], last
	case form == "no" && len(words) == 2 && words[1] == "offer":
		e.kind = "no offer"
	case form == "no" && len(words) == 3 && words[1] == "offer" && slices.Contains(reasons, assistance.Reason(last)):
		e.kind, e.object = "no offer", last
	case form == "state" && len(words) == 2 && states[last] != "":
		e.kind, e.object = "state", string(states[last])
	case form == "guide" && len(words) == 2 && words[1] == `"`:
		e.kind, e.object = "guide", last
	case len(words) == 1 && (form == "reply" || form == "removed" || form == "refused"):
		e.kind = form
	default:
		return e, e.position.errorf("%s cannot be expected; see the package documentation", join(tokens))
	}
	return e, nil
}
