package posthog

import (
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/liveactivity/liveactivity/activity"
)

// The events that mean something here.
const (
	eventPageview    = "$pageview"
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
	reasonNothing    = "no_identity" // tells identity, but not whose
)

// Longest values taken over, in bytes. An event with a longer id is malformed;
// a longer URL is cut.
const (
	maxID    = 1024
	maxEmail = 320
	maxURL   = 2048
)

// translate returns what an event means, without its time, or the reason for
// ignoring it.
func translate(e *event) (activity.Event, string) {
	if e == nil || e.Name == "" {
		return activity.Event{}, reasonMalformed
	}
	p := &e.Properties
	out := activity.Event{
		ID:        string(e.UUID),
		SessionID: strings.TrimSpace(first(string(p.SessionID), string(e.SessionID))),
		UserID:    first(string(e.DistinctID), string(p.DistinctID)),
		Email:     email(e),
	}
	out.Identified = out.UserID != "" && (e.Name == eventIdentify || p.IsIdentified || string(p.UserID) == out.UserID)
	if len(out.ID) > maxID || len(out.SessionID) > maxID || len(out.UserID) > maxID {
		return activity.Event{}, reasonMalformed
	}
	switch e.Name {
	case eventPageview, eventAutocapture:
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

// action puts a page view or an autocapture event in words.
func action(e *event) (activity.Action, bool) {
	p := &e.Properties
	page := cleanURL(first(p.CurrentURL, e.CurrentURL))
	if e.Name == eventPageview {
		return shortened(activity.NewAction(activity.TypePageview, activity.Target{}, page)), page != ""
	}
	typ := strings.ToLower(first(p.EventType, e.EventType, activity.TypeClick))
	switch typ {
	case activity.TypeClick, activity.TypeSubmit, activity.TypeChange:
	default:
		return activity.Action{}, false
	}
	elements := parseChain(first(p.ElementsChain, e.ElementsChain))
	if len(elements) == 0 {
		elements = p.Elements
		for i := range elements {
			elements[i].Tag = strings.ToLower(elements[i].Tag)
		}
	}
	if len(elements) == 0 {
		elements = flatElements(typ, e)
	} else {
		elements[0].ID = first(elements[0].ID, e.ElementID)
		elements[0].Name = first(elements[0].Name, e.InputFieldName)
	}
	text := first(p.ElText, e.ButtonOrLinkText)
	return shortened(activity.NewAction(typ, target(typ, elements, text), page)), true
}

// shortened cuts the action's URLs to a length that is safe to keep.
func shortened(a activity.Action) activity.Action {
	a.RawURL, a.CanonicalURL = cut(a.RawURL), cut(a.CanonicalURL)
	return a
}

func cut(url string) string {
	if len(url) <= maxURL {
		return url
	}
	return strings.ToValidUTF8(url[:maxURL], "")
}

// flatElements returns what the fields of a custom destination tell of the
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

// email returns the e-mail address an event tells, or "".
func email(e *event) string {
	for _, candidate := range []string{e.Set.Email, e.Properties.Set.Email, e.Person.Properties.Email, e.Email} {
		candidate = strings.TrimSpace(candidate)
		if at := strings.LastIndexByte(candidate, '@'); at > 0 && at < len(candidate)-1 &&
			len(candidate) <= maxEmail && !strings.ContainsFunc(candidate, isBlank) {
			return candidate
		}
	}
	return ""
}

func isBlank(r rune) bool { return r <= ' ' || r == 0x7f || r == utf8.RuneError }

// cleanURL returns the URL without credentials and control characters.
func cleanURL(raw string) string {
	raw = strings.TrimSpace(raw)
	raw = strings.Map(func(r rune) rune {
		if r < ' ' || 0x7f <= r && r < 0xa0 {
			return -1
		}
		return r
	}, raw)
	scheme, rest, ok := strings.Cut(raw, "//")
	if !ok || scheme != "" && !strings.HasSuffix(scheme, ":") {
		return raw
	}
	authority := rest
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority = rest[:i]
	}
	return scheme + "//" + rest[strings.LastIndexByte(authority, '@')+1:]
}

// timing is what an event tells of its time.
type timing struct {
	timestamp, sentAt text
	offset            *float64 // milliseconds before sending
}

// shift returns by how much the sender's clock seems to be off: the time of
// arrival less the time of sending, where that is told.
func (w timing) shift(sentAt text, now time.Time) (time.Duration, bool) {
	sent, ok := parseTime(first(string(w.sentAt), string(sentAt)))
	return now.Sub(sent), ok && w.timestamp != ""
}

// at returns when an event happened: its timestamp, corrected for the sender's
// clock, or else its offset before now. A time in the future is now.
func (w timing) at(correction time.Duration, now time.Time) (time.Time, bool) {
	t := now
	switch {
	case w.timestamp != "":
		var ok bool
		if t, ok = parseTime(string(w.timestamp)); !ok {
			return time.Time{}, false
		}
		t = t.Add(correction)
	case w.offset != nil:
		offset := max(*w.offset, 0) // a negative one lies in the future
		if offset > float64(math.MaxInt64/int64(time.Millisecond)) {
			return time.Time{}, true
		}
		t = now.Add(-time.Duration(offset * float64(time.Millisecond)))
	}
	if t.After(now) {
		t = now
	}
	return t, true
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
