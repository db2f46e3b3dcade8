// Package element names the element of a page or an app that a user clicked, changed or
// submitted, by the same rules for all sources: an input's text, a typed value and a
// choice never become a name.
package element

import (
	"cmp"
	"strings"
	"unicode"
)

// Element is one element on the path from the clicked element up to the body, with the
// attributes that can name it. The texts are as received, neither cleaned nor bounded; Value
// is a caption only for inputs that are buttons.
type Element struct {
	Tag             string
	Text            string
	AriaLabel       string // or React Native's accessibilityLabel
	Title           string
	Alt             string
	Name            string
	Placeholder     string
	ID              string // or React Native's testID
	Type            string
	Role            string
	Value           string
	PHLabel         string
	Class           string // CSS classes, separated by spaces or dots; for a UIKit view, the name of its superclass
	ContentEditable string // "true" if the attribute has no value; "" without it
}

// Unread stands for unreadable elements around the target. Any of them may contain typed
// text.
var Unread = Element{ContentEditable: "true"}

// Fold converts the tag to lower case. A tag in mixed case is the class name of an app's native
// view: then Class becomes the names of that class and its superclass in lower case. For any
// other element Class becomes empty, and an editor's class makes the element editable. The
// functions of this package expect folded elements.
func (e *Element) Fold() {
	tag := strings.ToLower(e.Tag)
	if tag == e.Tag || strings.ToUpper(tag) == e.Tag { // HTML
		for class := range strings.FieldsFuncSeq(e.Class, isClassEnd) {
			if e.ContentEditable == "" && editors[strings.ToLower(class)] {
				e.ContentEditable = "true"
			}
		}
		e.Tag, e.Class = tag, ""
		return
	}
	e.Tag, e.Class = tag, tag+" "+strings.ToLower(e.Class)
}

// isClassEnd reports whether r ends a class, in an attribute or in an elements chain.
func isClassEnd(r rune) bool { return r == '.' || unicode.IsSpace(r) }

// editors are the CSS classes of the editable elements of common editors, in lower case. The
// browser SDKs of PostHog and Amplitude report the classes of an element with
// contenteditable="true", but not the attribute.
var editors = map[string]bool{
	"prosemirror": true, "ql-editor": true, "ck-editor__editable": true, "cke_editable": true,
	"mce-content-body": true, "public-drafteditor-content": true, "contenteditable__root": true,
	"note-editable": true, "fr-element": true, "jodit-wysiwyg": true, "redactor-in": true,
	"sun-editor-editable": true, "medium-editor-element": true, "pell-content": true,
	"block-editor-rich-text__editable": true, "codex-editor__redactor": true, "cm-content": true,
	"codemirror": true, "monaco-editor": true, "ace_editor": true,
}

// attributes maps the lower-case names of attributes, in an elements chain or in $elements, to
// their fields. Names with the same meaning share a field, so the last one read wins.
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
	"attr__testid":             func(e *Element) *string { return &e.ID },
	"attr__accessibilitylabel": func(e *Element) *string { return &e.AriaLabel },
	"attr__ph-label":           func(e *Element) *string { return &e.PHLabel },
	"attr__class":              func(e *Element) *string { return &e.Class },
	"attr__contenteditable":    func(e *Element) *string { return &e.ContentEditable },
	"attr__data-slate-node":    func(e *Element) *string { return &e.ContentEditable }, // in Slate's editor
	"attr__data-lexical-text":  func(e *Element) *string { return &e.ContentEditable }, // in Lexical's
	"attr__data-offset-key":    func(e *Element) *string { return &e.ContentEditable }, // in Draft.js's
}

// Attribute returns the field for the attribute with a name, in any case, or nil for an unused
// attribute.
func (e *Element) Attribute(name string) *string {
	if at := attributes[strings.ToLower(name)]; at != nil {
		return at(e)
	}
	return nil
}

// Set sets an attribute by its name. It ignores an unused attribute.
func (e *Element) Set(name, value string) {
	switch field := e.Attribute(name); field {
	case nil:
	case &e.ContentEditable:
		*field = cmp.Or(value, "true")
	default:
		*field = value
	}
}
