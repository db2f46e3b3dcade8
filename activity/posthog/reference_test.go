package posthog_test

import "encoding/json"

// wireEvent is what any server decodes that takes the same events with
// encoding/json; the benchmark compares ingest with it.
type wireEvent struct {
	event
	Event string `json:"event"`
}

type wireElement struct {
	Tag             string `json:"tag_name"`
	Text            string `json:"$el_text"`
	AriaLabel       string `json:"attr__aria-label"`
	Title           string `json:"attr__title"`
	Alt             string `json:"attr__alt"`
	Name            string `json:"attr__name"`
	Placeholder     string `json:"attr__placeholder"`
	ID              string `json:"attr__id"`
	Type            string `json:"attr__type"`
	Role            string `json:"attr__role"`
	ContentEditable string `json:"attr__contenteditable"`
}

// traits are the properties of a person that matter here.
type traits struct {
	Email string `json:"email"`
	namesakes
}

// properties are those of an event's properties that matter here.
type properties struct {
	DistinctID    string        `json:"distinct_id"`
	UserID        string        `json:"$user_id"` // from identify on
	IsIdentified  bool          `json:"$is_identified"`
	Token         string        `json:"token"`
	SessionID     string        `json:"$session_id"`
	CurrentURL    string        `json:"$current_url"`
	EventType     string        `json:"$event_type"`
	ElText        string        `json:"$el_text"`
	ElementsChain string        `json:"$elements_chain"`
	Elements      []wireElement `json:"$elements"`
	Set           traits        `json:"$set"`

	namesakes
}

// namesakes keep properties of a page's own from being taken for the ones that
// mean something: encoding/json ignores case, but prefers a field of the exact
// name.
type namesakes struct {
	Token1 json.RawMessage `json:"Token"`
	Token2 json.RawMessage `json:"TOKEN"`
	Email1 json.RawMessage `json:"Email"`
	Email2 json.RawMessage `json:"EMAIL"`
}

// event is an event in any of the forms it comes in: as SDKs send it, as
// PostHog hands it to webhooks, and the flat fields of a custom destination.
type event struct {
	Name string `json:"-"`

	UUID          string     `json:"uuid"`
	DistinctID    string     `json:"distinct_id"`
	Properties    properties `json:"properties"`
	Timestamp     string     `json:"timestamp"`
	Offset        *float64   `json:"offset"` // milliseconds before sending
	SentAt        string     `json:"sent_at"`
	Set           traits     `json:"$set"`
	ElementsChain string     `json:"elements_chain"`
	APIKey        string     `json:"api_key"`
	Token         string     `json:"token"`
	Person        struct {
		Properties traits `json:"properties"`
	} `json:"person"`

	Email            string `json:"email"`
	ElementID        string `json:"element_id"`
	EventType        string `json:"event_type"`
	SessionID        string `json:"session_id"`
	CurrentURL       string `json:"current_url"`
	InputFieldName   string `json:"input_field_name"`
	LinkDestination  string `json:"link_destination"`
	ButtonOrLinkText string `json:"button_or_link_text"`
}
