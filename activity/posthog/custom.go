package posthog

import (
	"cmp"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/intake"
)

// page returns the address of an event's page or screen, "" if it has none.
func (e *event) page() string {
	page := cmp.Or(e.Properties.CurrentURL, e.CurrentURL)
	if page == "" && e.Properties.ScreenName != "" {
		page = intake.ScreenURL(e.Properties.ScreenName)
	}
	return page
}

// custom sets the meaning of an event that the product lists. It reads the event's properties
// again, because only the rule determines which of them matter.
func (d *decoder) custom(out *activity.Event, e *event, rule *intake.Rule) {
	if e.Name != intake.EventException {
		out.Action = rule.Action(e.Name, d.Reader, e.Properties.Span, e.page())
		return
	}
	var t thrown
	ofThrown.Read(d.Again(e.Properties.Span), &t)
	did := activity.NewError(cmp.Or(t.List.Type, t.Type), cmp.Or(t.List.Message, t.Message), e.page())
	out.Action = &did
}

// thrown is an error that was thrown. Any field may be empty.
type thrown struct {
	// List has the first error of the list, which continues with the errors that caused it.
	List listed `in:"$exception_list"`
	// Earlier SDKs report the error in these two.
	Type    string `in:"$exception_type"`
	Message string `in:"$exception_message"`
}

type listed struct {
	Type    string `in:"type"`
	Message string `in:"value"`
}

var ofThrown, ofListed = intake.FieldsOf[thrown](), intake.FieldsOf[listed]()

// Read implements [intake.Value].
func (l *listed) Read(r *intake.Reader) { r.Array(1, func() { ofListed.Read(r, l) }) }
