package posthog

import (
	"cmp"
	"strings"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/intake"
	"github.com/liveactivity/liveactivity/internal/element"
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

// interactions maps the types of autocaptured interactions to types of actions. Apps send the last four.
var interactions = map[string]string{
	"": activity.TypeClick, "click": activity.TypeClick, "submit": activity.TypeSubmit, "change": activity.TypeChange,
	"touch": activity.TypeClick, "primary_action": activity.TypeClick, "toggle": activity.TypeChange,
	"value_changed": activity.TypeChange,
}

// translate returns the meaning of an event, without its time, or the reason for ignoring it; with a
// reason the event may be incomplete. It modifies e's elements. The result retains no other memory
// of e.
func (d *decoder) translate(e *event, listed *intake.Events) (activity.Event, string) {
	if e == nil || e.Name == "" {
		return activity.Event{}, intake.ReasonMalformed
	}
	p := &e.Properties
	distinctID := cmp.Or(e.DistinctID, p.DistinctID)
	out := activity.Event{
		ID:        cmp.Or(e.UUID, e.digest),
		SessionID: intake.UnsharedID(intake.Trimmed(cmp.Or(p.SessionID, e.SessionID))),
		UserID:    intake.UnsharedID(distinctID, cookieless),
		Email:     email(e),
	}
	out.Identified = out.UserID != "" && (e.Name == eventIdentify || p.IsIdentified || p.UserID == out.UserID)
	if e.Name == eventIdentify || e.Name == eventAlias {
		if out.Anonymous = intake.UnsharedID(p.AnonID, cookieless); intake.IsUnusable(out.Anonymous) {
			out.Anonymous = ""
		}
	}
	switch e.Name {
	case eventPageview, eventScreen, eventAutocapture:
		action, reason := action(e)
		if reason != "" {
			return activity.Event{}, reason
		}
		out.Action, out.Markable = &action, action.Type == activity.TypeClick && listed.Marks()
	case eventIdentify, eventSet, eventAlias:
	default:
		if mark := listed.Mark(e.Name); mark != "" {
			action, reason := action(e)
			if reason != "" || action.Type != activity.TypeClick {
				return activity.Event{}, intake.ReasonMalformed
			}
			action.Marks = []string{mark}
			out.Action = &action
		} else if rule := listed.Find(e.Name); rule != nil {
			d.custom(&out, e, rule)
		} else if out.Email == "" {
			return activity.Event{}, intake.ReasonOther
		}
	}
	reason := intake.ReasonToIgnore(&out)
	if reason == intake.ReasonNobody && distinctID == cookieless { // the action still goes to the stream
		reason, out.Email = "", "" // no erasure would find the address
	}
	return out, reason
}

// action describes a page view or an autocapture event, or returns the reason for ignoring it: it lacks
// the address or the name of its page or screen, or is another kind of interaction, such as a scroll.
func action(e *event) (a activity.Action, reason string) {
	p := &e.Properties
	if e.Name == eventScreen {
		if p.ScreenName == "" {
			return a, intake.ReasonMalformed
		}
		return activity.NewAction(activity.TypePageview, activity.Target{}, intake.ScreenURL(p.ScreenName)), ""
	}
	page := e.page()
	if e.Name == eventPageview {
		if a = activity.NewAction(activity.TypePageview, activity.Target{}, page); a.RawURL == "" {
			return a, intake.ReasonMalformed
		}
		return a, ""
	}
	typ := interactions[strings.ToLower(cmp.Or(p.EventType, e.EventType))]
	if typ == "" {
		return a, intake.ReasonOther
	}
	elements := p.Elements
	if chained := parseChain(p.Elements[:0], string(cmp.Or(p.ElementsChain, e.ElementsChain))); len(chained) > 0 {
		p.Elements, elements = chained, chained
	}
	for i := range elements {
		elements[i].Fold()
	}
	if len(elements) == 0 {
		elements = flatElements(typ, e)
	} else {
		elements[0].ID = cmp.Or(elements[0].ID, e.ElementID)
		elements[0].Name = cmp.Or(elements[0].Name, e.InputFieldName)
	}
	text := cmp.Or(p.ElText, e.ButtonOrLinkText)
	return activity.NewAction(typ, element.Target(typ, elements, text), page), ""
}

// flatElements returns the element that the fields of a custom destination describe, or none.
// The destination's template has no tag, so the kind follows from the fields that are set.
func flatElements(typ string, e *event) []element.Element {
	el := element.Element{ID: e.ElementID, Name: e.InputFieldName}
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
	return []element.Element{el}
}

// cookieless is the distinct ID of every visitor of a page that sets no cookies. An event from there
// has no session and no user.
const cookieless = "$posthog_cookieless"

// email returns the email address of an event, or "".
func email(e *event) string {
	return intake.FirstEmail(e.Set.Email, e.Properties.Set.Email, e.Person.Properties.Email, e.Email)
}
