package posthog

import (
	"strings"
	"unicode/utf8"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/intake"
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

// Reasons for ignoring an event that only PostHog's events have.
const (
	reasonOtherEvent = "other_event" // not one of the events above
	reasonNothing    = "no_identity" // carries identity, but of no known user
)

// Longest values taken over, in bytes. An event with a longer id is malformed.
const (
	maxID      = 1024
	maxEscapes = 256 // by how much an id is longer in JSON, in which it stands again and again
)

// translate returns the meaning of an event, without its time, or the reason for
// ignoring it. The result keeps nothing else in memory.
func translate(e *event) (activity.Event, string) {
	if e == nil || e.Name == "" {
		return activity.Event{}, intake.ReasonMalformed
	}
	p := &e.Properties
	out := activity.Event{
		ID:        first(string(e.UUID), string(e.Digest)),
		SessionID: trimmed(first(string(p.SessionID), string(e.SessionID))),
		UserID:    userID(first(string(e.DistinctID), string(p.DistinctID))),
		Email:     email(e),
	}
	out.Identified = out.UserID != "" && (e.Name == eventIdentify || p.IsIdentified || string(p.UserID) == out.UserID)
	if e.Name == eventIdentify || e.Name == eventAlias {
		if out.Anonymous = userID(string(p.AnonID)); isLongID(out.Anonymous) {
			out.Anonymous = ""
		}
	}
	if len(out.ID) > maxID || isLongID(out.SessionID) || isLongID(out.UserID) {
		return activity.Event{}, intake.ReasonMalformed
	}
	switch e.Name {
	case eventPageview, eventScreen, eventAutocapture:
		action, ok := action(e)
		switch {
		case !ok:
			return activity.Event{}, intake.ReasonMalformed
		case out.SessionID == "" && out.UserID == "" && !isCookieless(e):
			return activity.Event{}, intake.ReasonNobody
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

// flatElements returns the element that the fields of a custom destination describe,
// or none.
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
		if intake.IsEmail(candidate) {
			return candidate
		}
	}
	return ""
}

// trimmed returns s without white space around it, which then takes no memory
// either. A text that may have been cut stays as it is, which is too long for an id:
// a part of one id could be another user's.
func trimmed(s string) string {
	if t := strings.TrimSpace(s); len(t) != len(s) && len(s) <= maxText-utf8.UTFMax {
		return strings.Clone(t)
	}
	return s
}
