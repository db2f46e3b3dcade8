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
	ContentEditable string // means true when the attribute has no value; "" without the attribute
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

// attributes are where attributes are kept, by their names in lower case in an elements chain or
// in $elements. Names that mean the same share a place, so the last one read counts.
var attributes = map[string]func(*Element) *string{
	"tag_name":                 func(e *Element) *string { return &e.Tag },
	"text":                     func(e *Element) *string { return &e.Text },
	"$el_text":                 func(e *Element) *string { return &e.Text },
	"attr__aria-label":         func(e *Element) *string { return &e.AriaLabel },
	"attr__title":              func(e *Element) *string { return &e.Title },
	"attr__alt":                func(e *Element) *string { return &e.Alt },
	"attr__name":               func(e *Element) *string { return &e.Name },
	"attr__placeholder":        func(e *Element) *string { return &e.Placeholder },
	"attr__id":                 func(e *Element) *string { return &e.ID },
	"attr_id":                  func(e *Element) *string { return &e.ID },
	"attr__type":               func(e *Element) *string { return &e.Type },
	"attr__role":               func(e *Element) *string { return &e.Role },
	"attr__value":              func(e *Element) *string { return &e.Value },
	"attr__testid":             func(e *Element) *string { return &e.TestID },
	"attr__accessibilitylabel": func(e *Element) *string { return &e.Accessibility },
	"attr__ph-label":           func(e *Element) *string { return &e.PHLabel },
	"attr__class":              func(e *Element) *string { return &e.Class },
	"attr__contenteditable":    func(e *Element) *string { return &e.ContentEditable },
}

// Attribute returns where the attribute with a name, of any case, is kept; nil for one that is
// not looked at.
func (e *Element) Attribute(name string) *string {
	if at := attributes[strings.ToLower(name)]; at != nil {
		return at(e)
	}
	return nil
}

// Set takes over an attribute by its name. One that is not looked at changes nothing.
func (e *Element) Set(name, value string) {
	switch field := e.Attribute(name); field {
	case nil:
	case &e.ContentEditable:
		*field = cmp.Or(value, "true")
	default:
		*field = value
	}
}
