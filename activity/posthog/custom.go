package posthog

import (
	"cmp"
	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/intake"
)

// page returns the address of the page or the screen of an event, "" where it has none.
func (e *event) page() string {
	page := cmp.Or(e.Properties.CurrentURL, e.CurrentURL)
	if page == "" && e.Properties.ScreenName != "" {
		page = intake.ScreenURL(e.Properties.ScreenName)
	}
	return page
}

// custom sets the meaning of an event that the product lists. It reads the event's properties
// once more, since only the rule tells which of them matter.
func (r *reader) custom(out *activity.Event, e *event, rule *intake.Rule) {
	var did activity.Action
	properties := r.Again(e.From, e.To)
	if e.Name == intake.EventException {
		typ, message := exception(properties)
		did = activity.NewError(typ, message, e.page())
	} else {
		did = activity.NewEvent(e.Name, rule.Sentence, rule.Read(properties), e.page())
	}
	did = intake.OnScreen(did)
	out.Action = &did
}

// exception reads the type and the message of the error that was thrown: the first of the list,
// which the errors that caused it follow. Either may be empty.
func exception(properties *intake.Reader) (typ, message string) {
	var listed [2]string
	properties.Object(func(key []byte) {
		switch string(key) {
		case "$exception_list":
			properties.Array(1, func() {
				properties.Object(func(key []byte) {
					switch string(key) {
					case "type":
						properties.SetString(&listed[0], intake.MaxText)
					case "value":
						properties.SetString(&listed[1], intake.MaxText)
					default:
						properties.Skip()
					}
				})
			})
		case "$exception_type": // of earlier SDKs, like the next one
			properties.SetString(&typ, intake.MaxText)
		case "$exception_message":
			properties.SetString(&message, intake.MaxText)
		default:
			properties.Skip()
		}
	})
	return cmp.Or(listed[0], typ), cmp.Or(listed[1], message)
}
