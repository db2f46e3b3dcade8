// Package element names the element of a page or an app that a user clicked, changed or
// submitted, by rules that hold for all sources: the text of an input, a typed value
// and a choice are never a name.
package element

import (
	"cmp"
	"strings"
)

// Element is one element of the path from the clicked element up to the body, with the
// attributes that can name it. The texts are as they arrived, neither clean nor bounded; Value
// is a caption only of the inputs that are buttons.
type Element struct {
	Tag             string
	Text            string
	AriaLabel       string
	Title           string
	Alt             string
	Name            string
	Placeholder     string
	ID              string
	Type            string
	Role            string
	Value           string
	TestID          string // of React Native, like the next two
	Accessibility   string
	PHLabel         string
	Class           string // a web page's CSS classes; for a UIKit view, the name of its superclass
	ContentEditable Flag
}

// Unread stands for elements around the target that could not be read. Any of them may hold
// typed text.
var Unread = Element{ContentEditable: "true"}

// Fold lowers the case of the tag. Of an app's native view, whose tag is the name of its class,
// Class becomes the names of the class and its superclass in lower case; of anything else it
// becomes empty. A tag in mixed case is a native view's. The functions of this package expect
// folded elements.
func (e *Element) Fold() {
	tag := strings.ToLower(e.Tag)
	if tag == e.Tag || strings.ToUpper(tag) == e.Tag { // HTML
		e.Tag, e.Class = tag, ""
		return
	}
	e.Tag, e.Class = tag, tag+" "+strings.ToLower(e.Class)
}

// Flag is the value of an attribute that means true when it has none. "" is an attribute that
// is not there.
type Flag string

// Set takes over an attribute by its name in an elements chain. One that is not looked at
// changes nothing.
func (e *Element) Set(key, value string) {
	switch field := e.Attribute(key); field {
	case nil:
	case (*string)(&e.ContentEditable):
		*field = cmp.Or(value, "true")
	default:
		*field = value
	}
}

// Attribute returns where the attribute is kept that has a name, of any case, in an elements
// chain or in $elements; nil for one that is not looked at. Names that mean the same share a
// place, so the last one read counts.
func (e *Element) Attribute(key string) *string {
	switch strings.ToLower(key) {
	case "tag_name":
		return &e.Tag
	case "text", "$el_text":
		return &e.Text
	case "attr__aria-label":
		return &e.AriaLabel
	case "attr__title":
		return &e.Title
	case "attr__alt":
		return &e.Alt
	case "attr__name":
		return &e.Name
	case "attr__placeholder":
		return &e.Placeholder
	case "attr__id", "attr_id":
		return &e.ID
	case "attr__type":
		return &e.Type
	case "attr__role":
		return &e.Role
	case "attr__value":
		return &e.Value
	case "attr__testid":
		return &e.TestID
	case "attr__accessibilitylabel":
		return &e.Accessibility
	case "attr__ph-label":
		return &e.PHLabel
	case "attr__class":
		return &e.Class
	case "attr__contenteditable":
		return (*string)(&e.ContentEditable)
	}
	return nil
}
