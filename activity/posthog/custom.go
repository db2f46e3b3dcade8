package posthog

import (
	"cmp"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/intake"
)

// page returns the address of an event's page or screen, "" if it has none.
func (e *event) page() string {
	page := cmp.Or(e.properties.currentURL, e.currentURL)
	if page == "" && e.properties.screenName != "" {
		page = intake.ScreenURL(e.properties.screenName)
	}
	return page
}

// custom sets the meaning of an event that the product lists. It reads the event's properties
// again, because only the rule determines which of them matter.
func (d *decoder) custom(out *activity.Event, e *event, rule *intake.Rule) {
	if e.name != intake.EventException {
		out.Action = rule.Action(e.name, d.Reader, e.from, e.to, e.page())
		return
	}
	var t thrown
	ofThrown.Read(d.Again(e.from, e.to), &t)
	did := intake.OnScreen(
		activity.NewError(cmp.Or(t.typ, t.earlierType), cmp.Or(t.message, t.earlierMessage), e.page()))
	out.Action = &did
}

// thrown is an error that was thrown: the first one of the list, which continues with the errors
// that caused it, or the error as earlier SDKs report it. Any field may be empty.
type thrown struct{ typ, message, earlierType, earlierMessage string }

var ofThrown = intake.Fields[thrown]{
	"$exception_list":    func(r *intake.Reader, t *thrown) { r.Array(1, func() { ofListed.Read(r, t) }) },
	"$exception_type":    func(r *intake.Reader, t *thrown) { r.SetString(&t.earlierType, intake.MaxText) },
	"$exception_message": func(r *intake.Reader, t *thrown) { r.SetString(&t.earlierMessage, intake.MaxText) },
}

var ofListed = intake.Fields[thrown]{
	"type":  func(r *intake.Reader, t *thrown) { r.SetString(&t.typ, intake.MaxText) },
	"value": func(r *intake.Reader, t *thrown) { r.SetString(&t.message, intake.MaxText) },
}
