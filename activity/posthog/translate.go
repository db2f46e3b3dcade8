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

// typeTouch is the apps' word for a click.
const typeTouch = "touch"

// translate returns the meaning of an event, without its time, or the reason for ignoring it; with a
// reason the event may be incomplete. It modifies e's elements. The result retains no other memory
// of e.
func (d *decoder) translate(e *event, listed *intake.Events) (activity.Event, string) {
	if e == nil || e.name == "" {
		return activity.Event{}, intake.ReasonMalformed
	}
	p := &e.properties
	distinctID := cmp.Or(e.distinctID, p.distinctID)
	out := activity.Event{
		ID:        cmp.Or(e.uuid, e.digest),
		SessionID: intake.UnsharedID(intake.Trimmed(cmp.Or(p.sessionID, e.sessionID))),
		UserID:    intake.UnsharedID(distinctID, cookieless),
		Email:     email(e),
	}
	out.Identified = out.UserID != "" && (e.name == eventIdentify || p.isIdentified || p.userID == out.UserID)
	if e.name == eventIdentify || e.name == eventAlias {
		if out.Anonymous = intake.UnsharedID(p.anonID, cookieless); intake.IsLongID(out.Anonymous) {
			out.Anonymous = ""
		}
	}
	switch e.name {
	case eventPageview, eventScreen, eventAutocapture:
		action, ok := action(e)
		if !ok {
			return activity.Event{}, intake.ReasonMalformed
		}
		out.Action, out.Markable = &action, action.Type == activity.TypeClick && listed.Marks()
	case eventIdentify, eventSet, eventAlias:
	default:
		if mark := listed.Mark(e.name); mark != "" {
			action, ok := action(e)
			if !ok || action.Type != activity.TypeClick {
				return activity.Event{}, intake.ReasonMalformed
			}
			action.Marks = []string{mark}
			out.Action = &action
		} else if rule := listed.Find(e.name); rule != nil {
			d.custom(&out, e, rule)
		} else if out.Email == "" {
			return activity.Event{}, intake.ReasonOther
		}
	}
	reason := intake.ReasonToIgnore(&out)
	if reason == intake.ReasonNobody && distinctID == cookieless { // the action still goes to the stream
		reason = ""
	}
	return out, reason
}

// action describes a page view or an autocapture event. It reports false for an event without
// the address or the name of its page or screen, and for an unknown type of interaction.
func action(e *event) (activity.Action, bool) {
	p := &e.properties
	if e.name == eventScreen {
		return intake.NewAction(activity.TypePageview, activity.Target{}, intake.ScreenURL(p.screenName)), p.screenName != ""
	}
	page := e.page()
	if e.name == eventPageview {
		a := activity.NewAction(activity.TypePageview, activity.Target{}, page)
		return a, a.RawURL != ""
	}
	typ := strings.ToLower(cmp.Or(p.eventType, e.eventType, activity.TypeClick))
	if typ == typeTouch {
		typ = activity.TypeClick
	}
	switch typ {
	case activity.TypeClick, activity.TypeSubmit, activity.TypeChange:
	default:
		return activity.Action{}, false
	}
	elements := p.elements
	if chained := parseChain(p.elements[:0], cmp.Or(p.elementsChain, e.elementsChain)); len(chained) > 0 {
		p.elements, elements = chained, chained
	}
	for i := range elements {
		elements[i].Fold()
	}
	if len(elements) == 0 {
		elements = flatElements(typ, e)
	} else {
		elements[0].ID = cmp.Or(elements[0].ID, e.elementID)
		elements[0].Name = cmp.Or(elements[0].Name, e.inputFieldName)
	}
	text := cmp.Or(p.elText, e.buttonOrLinkText)
	return intake.NewAction(typ, element.Target(typ, elements, text), page), true
}

// flatElements returns the element that the fields of a custom destination describe, or none.
// The destination's template has no tag, so the kind follows from the fields that are set.
func flatElements(typ string, e *event) []element.Element {
	el := element.Element{ID: e.elementID, Name: e.inputFieldName}
	switch {
	case typ == activity.TypeSubmit:
		el.Tag = "form"
	case e.linkDestination != "":
		el.Tag = "a"
	case e.inputFieldName != "":
		el.Tag = "input"
	case e.buttonOrLinkText != "":
		el.Tag = "button"
	case e.elementID == "":
		return nil
	}
	return []element.Element{el}
}

// cookieless is the distinct ID of every visitor of a page that sets no cookies. An event from there
// has no session and no user.
const cookieless = "$posthog_cookieless"

// email returns the email address of an event, or "".
func email(e *event) string {
	return intake.FirstEmail(e.set.email, e.properties.set.email, e.person.properties.email, e.email)
}
