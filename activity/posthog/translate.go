package posthog

import (
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/liveactivity/liveactivity/activity"
)

// The events that mean something here.
const (
	eventPageview    = "$pageview"
	eventScreen      = "$screen" // a page view of an app
	eventAutocapture = "$autocapture"
	eventIdentify    = "$identify"
	eventSet         = "$set"
	eventAlias       = "$create_alias"
)

// Reasons for ignoring an event, as the metrics name them.
const (
	reasonMalformed  = "malformed"   // not an object, or without what it needs
	reasonOtherEvent = "other_event" // not one of the events above
	reasonExpired    = "expired"     // older than the retention
	reasonToken      = "other_token" // carries another product's token
	reasonNothing    = "no_identity" // carries identity, but of no known user
)

// Longest values taken over, in bytes. An event with a longer id is malformed.
const (
	maxID      = 1024
	maxEscapes = 256 // by how much an id is longer in JSON, in which it stands again and again
	maxEmail   = 254 // a path of 256 with its brackets: RFC 5321, 4.5.3.1.3
)

// translate returns what an event means, without its time, or the reason for
// ignoring it. What it returns keeps nothing in memory but itself.
func translate(e *event) (activity.Event, string) {
	if e == nil || e.Name == "" {
		return activity.Event{}, reasonMalformed
	}
	p := &e.Properties
	out := activity.Event{
		ID:        first(string(e.UUID), string(e.Digest)),
		SessionID: trimmed(first(string(p.SessionID), string(e.SessionID))),
		UserID:    userID(first(string(e.DistinctID), string(p.DistinctID))),
		Email:     email(e),
	}
	out.Identified = out.UserID != "" && (e.Name == eventIdentify || p.IsIdentified || string(p.UserID) == out.UserID)
	if len(out.ID) > maxID || isLongID(out.SessionID) || isLongID(out.UserID) {
		return activity.Event{}, reasonMalformed
	}
	switch e.Name {
	case eventPageview, eventScreen, eventAutocapture:
		action, ok := action(e)
		if !ok || out.SessionID == "" && out.UserID == "" {
			return activity.Event{}, reasonMalformed
		}
		out.Action = &action
		return out, ""
	case eventIdentify, eventSet, eventAlias:
	default:
		if out.Email == "" {
			return activity.Event{}, reasonOtherEvent
		}
	}
	// A session learns a user, an address or both; a user learns an address.
	if out.SessionID != "" && (out.UserID != "" || out.Email != "") || out.UserID != "" && out.Email != "" {
		return out, ""
	}
	return activity.Event{}, reasonNothing
}

func isLongID(id string) bool { return len(id) > maxID || escapes(id) > maxEscapes }

// escapes returns by how many bytes an id is longer in JSON, at most.
func escapes(id string) (n int) {
	for _, r := range id {
		switch {
		case r == '"', r == '\\':
			n++
		case r < ' ':
			n += len(`\u0000`) - 1
		case r == '\u0085', r == '\u2028', r == '\u2029':
			n += len(`\u0085`) - utf8.RuneLen(r)
		}
	}
	return n
}

// action puts a page view or an autocapture event in words.
func action(e *event) (activity.Action, bool) {
	p := &e.Properties
	if e.Name == eventScreen {
		return keepScreen(activity.NewAction(activity.TypePageview, activity.Target{}, screenURL(p.ScreenName))), p.ScreenName != ""
	}
	page := first(p.CurrentURL, e.CurrentURL)
	if page == "" && p.ScreenName != "" {
		page = screenURL(p.ScreenName)
	}
	if e.Name == eventPageview {
		a := activity.NewAction(activity.TypePageview, activity.Target{}, page)
		return a, a.RawURL != ""
	}
	typ := strings.ToLower(first(p.EventType, e.EventType, activity.TypeClick))
	if typ == typeTouch {
		typ = activity.TypeClick
	}
	switch typ {
	case activity.TypeClick, activity.TypeSubmit, activity.TypeChange:
	default:
		return activity.Action{}, false
	}
	elements := p.Elements
	if chained := parseChain(p.Elements[:0], first(p.ElementsChain, e.ElementsChain)); len(chained) > 0 {
		p.Elements, elements = chained, chained
	}
	for i := range elements {
		elements[i].fold()
	}
	if len(elements) == 0 {
		elements = flatElements(typ, e)
	} else {
		elements[0].ID = first(elements[0].ID, e.ElementID)
		elements[0].Name = first(elements[0].Name, e.InputFieldName)
	}
	text := first(p.ElText, e.ButtonOrLinkText)
	return keepScreen(activity.NewAction(typ, target(typ, elements, text), page)), true
}

// flatElements returns what the fields of a custom destination say about the
// element, and nothing where they do not.
func flatElements(typ string, e *event) []element {
	el := element{ID: e.ElementID, Name: e.InputFieldName}
	switch {
	case typ == activity.TypeSubmit:
		el.Tag = "form"
	case e.LinkDestination != "":
		el.Tag = "a"
	case e.InputFieldName != "":
		el.Tag = "input"
	case e.ButtonOrLinkText != "":
		el.Tag = "button"
	case e.ElementID == "":
		return nil
	}
	return []element{el}
}

// email returns the e-mail address of an event, or "".
func email(e *event) string {
	for _, candidate := range []string{e.Set.Email, e.Properties.Set.Email, e.Person.Properties.Email, e.Email} {
		candidate = trimmed(candidate)
		if at := strings.LastIndexByte(candidate, '@'); at > 0 && at < len(candidate)-1 &&
			len(candidate) <= maxEmail && !strings.ContainsFunc(candidate, isBlank) {
			return candidate
		}
	}
	return ""
}

// trimmed returns s without white space around it, which then takes no memory
// either. A text that may have been cut stays as it is, which is too long for an id:
// a part of one could be that of another.
func trimmed(s string) string {
	if t := strings.TrimSpace(s); len(t) != len(s) && len(s) <= maxText-utf8.UTFMax {
		return strings.Clone(t)
	}
	return s
}

func isBlank(r rune) bool {
	return unicode.IsSpace(r) || unicode.IsControl(r) || r == utf8.RuneError
}

// timing is what an event states about its time.
type timing struct {
	timestamp, sentAt text
	offset            *float64 // milliseconds before sending
	clockIsRight      bool     // of the sender: the timestamp needs no correction
}

// apply gives the event its times and reports whether they are any. sentAt is
// the request's. An offset counts from the time of sending or else of arrival,
// and an event without either happened when it arrived.
func (w timing) apply(e *activity.Event, sentAt text, arrived time.Time) (ok bool) {
	sent, known := parseTime(first(string(w.sentAt), string(sentAt)))
	e.Received = arrived
	switch {
	case w.timestamp != "":
		e.Sent, e.ServerTime = sent, w.clockIsRight
		e.Time, ok = parseTime(string(w.timestamp))
		return ok
	case w.offset != nil && known:
		e.Sent, e.Time = sent, before(sent, *w.offset)
	case w.offset != nil:
		e.ServerTime, e.Time = true, before(arrived, *w.offset)
	default:
		e.ServerTime, e.Time = true, arrived
	}
	return true
}

// before returns the time so many milliseconds before t, or the zero time where
// that is longer ago than durations are.
func before(t time.Time, milliseconds float64) time.Time {
	if milliseconds > float64(math.MaxInt64/int64(time.Millisecond)) {
		return time.Time{}
	}
	return t.Add(-time.Duration(max(milliseconds, 0) * float64(time.Millisecond))) // a negative one lies in the future
}

// timeLayouts are those that PostHog's SDKs and templates write, besides RFC 3339.
var timeLayouts = []string{
	"2006-01-02 15:04:05.999999999Z07:00",
	"2006-01-02T15:04:05.999999999",
	"2006-01-02 15:04:05.999999999",
	"2006-01-02T15:04:05.999999999Z0700",
}

// parseTime reads a time as SDKs and templates write it: RFC 3339 and its near
// relations, UTC where no zone is given, or a number of seconds or milliseconds
// since the epoch.
func parseTime(s string) (time.Time, bool) {
	if s == "" {
		return time.Time{}, false
	}
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return t, true
	}
	if n, err := strconv.ParseFloat(s, 64); err == nil {
		if math.Abs(n) >= 1e11 { // milliseconds, from the year 1973 on
			n /= 1000
		}
		if math.IsNaN(n) || math.Abs(n) > 1e11 {
			return time.Time{}, false
		}
		return time.UnixMicro(int64(n * 1e6)), true
	}
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, s); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}
