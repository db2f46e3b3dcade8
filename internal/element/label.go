package element

import (
	"cmp"
	"slices"
	"strings"
	"unicode"

	"github.com/liveactivity/liveactivity/activity"
)

// A name comes from the developer, never from the user. In order of preference it is a label
// added for this purpose, the words of a button or link, an attribute for assistive technology,
// a field's name, or an ID. Texts are never used if one of the elements may contain typed text
// or a choice. Without a name, only the element's noun is left.

// Target returns the name of an action's target, from the elements, starting at the target and
// going outwards, and the text that the source considers the target's own. Without elements
// only the text can name it. Target only reads the elements.
func Target(typ string, elements []Element, text string) activity.Target {
	if len(elements) == 0 {
		elements = make([]Element, 1)
	}
	switch e := &elements[0]; {
	case typ == activity.TypeSubmit:
		return activity.Target{Label: formLabel(elements)}
	case hasOption(elements):
		return activity.Target{Element: "option"}
	case typ == activity.TypeChange:
		return activity.Target{Label: attributeLabel(e), Element: noun(e)}
	}
	return clickTarget(elements, text)
}

// clickTarget prefers a clicked control to the elements inside it: a click on the "Add" in an
// "Add to cart" button is a click on the button. It uses the innermost control or named field,
// or else the clicked element itself. None of the elements is an option.
func clickTarget(elements []Element, text string) activity.Target {
	clicked, control, inside := &elements[0], &elements[0], elements[:1]
	for i := range elements {
		e := &elements[i]
		if isControl(e) || isField(e.Tag) && attributeLabel(e) != "" {
			control, inside = e, elements[:i]
			break
		}
	}
	if isCaptioned(clicked) {
		return activity.Target{Label: firstLabel(clicked.Value, attributeLabel(clicked)), Element: noun(control)}
	}
	label, symbol := markedLabel(elements), ""
	if label == "" && !isPrivate(elements) {
		if isControl(control) {
			label = firstLabel(control.Text)
		}
		label = firstLabel(label, text, clicked.Text)
		if !strings.ContainsFunc(label, isSpoken) {
			label, symbol = "", label
		}
	}
	label = firstLabel(label, attributeText(control))
	for i := range inside { // such as the icon that has the clicked path
		label = firstLabel(label, attributeText(&inside[i]))
	}
	label = firstLabel(label, symbol, fieldName(control), fieldName(clicked), idLabel(control), idLabel(clicked))
	return activity.Target{Label: label, Element: noun(control)}
}

// isSpoken reports whether r is part of a word or number, unlike a symbol such as the "×" of a
// close button.
func isSpoken(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }

// isControl reports whether e is a button, a link or another element to click.
func isControl(e *Element) bool {
	return e.Tag == "button" || e.Tag == "a" || controlNoun(e) != "" || isTouchable(e)
}

// controlNouns are the nouns for elements to click, by their ARIA roles.
var controlNouns = map[string]string{
	"button": "button", "link": "link", "tab": "tab", "switch": "switch", "checkbox": "checkbox", "radio": "radio button",
	"menuitem": "menu item", "menuitemcheckbox": "menu item", "menuitemradio": "menu item",
}

// controlNoun returns the noun for e's first role that is one of controlNouns, else "".
func controlNoun(e *Element) string { return byRole(e, controlNouns) }

// byRole returns the value of e's first role that has one, else the zero value.
func byRole[V comparable](e *Element, values map[string]V) (none V) {
	for role := range strings.FieldsSeq(strings.ToLower(e.Role)) {
		if value := values[role]; value != none {
			return value
		}
	}
	return none
}

// isTouchable reports whether e is a React Native button, whose component has a name such as
// "TouchableOpacity", possibly in brackets. The tag is folded.
func isTouchable(e *Element) bool {
	return strings.Contains(e.Tag, "touchable") || strings.Contains(e.Tag, "pressable")
}

var optionRole = map[string]bool{"option": true}

// hasOption reports whether one of the elements is an option. Its name would
// reveal the user's choice.
func hasOption(elements []Element) bool {
	for i := range elements {
		if e := &elements[i]; e.Tag == "option" || byRole(e, optionRole) {
			return true
		}
	}
	return false
}

// isCaptioned reports whether e is a button whose value is its caption: an input into which
// nobody types.
func isCaptioned(e *Element) bool {
	typ := strings.ToLower(strings.TrimSpace(e.Type))
	return e.Tag == "input" && (typ == "submit" || typ == "button" || typ == "reset")
}

// markedLabel returns the label that a developer gave the clicked element or one around it, in
// ph-label. It takes precedence over all others, and is shown even if texts are private.
func markedLabel(elements []Element) string {
	for i := range elements {
		if label := elements[i].PHLabel; label != "" {
			return label
		}
	}
	return ""
}

// typedRoles are the ARIA roles of elements whose text is typed or whose value is set by
// the user.
var typedRoles = map[string]bool{
	"textbox": true, "searchbox": true, "combobox": true, "spinbutton": true, "slider": true,
}

// isField reports whether a tag outside HTML names a text field: "TextInput",
// "ForwardRef-TextInput-", "ion-input". It is false for HTML's own input, which is just as
// often a button or a box.
func isField(tag string) bool {
	if tag == "input" {
		return false
	}
	return containsAny(strings.ReplaceAll(tag, "-", ""),
		"input", "textfield", "textview", "textarea", "textbox", "searchbar", "searchfield", "combobox",
		"passwordfield", "emailfield", "numberfield")
}

// chooser returns the noun for a native view whose text is the value chosen in it, else "".
func chooser(view string) string {
	for _, part := range []string{"picker", "slider", "stepper", "uiswitch"} {
		if strings.Contains(view, part) {
			return strings.TrimPrefix(part, "ui")
		}
	}
	return ""
}

func containsAny(s string, parts ...string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(s, part) })
}

// isPrivate reports whether the text around the target may be a user's input or choice. One
// such element is enough: the target is inside it, so its text is part of that element's.
func isPrivate(elements []Element) bool {
	for i := range elements {
		e := &elements[i]
		switch e.Tag {
		case "input", "textarea", "select":
			return true
		}
		if byRole(e, typedRoles) || isField(e.Tag) || isField(e.Class) || chooser(e.Class) != "" {
			return true
		}
		if e.ContentEditable != "" && !strings.EqualFold(e.ContentEditable, "false") {
			return true
		}
	}
	return false
}

// formLabel names the innermost form, or else the element that was submitted.
func formLabel(elements []Element) string {
	for i := range elements {
		if e := &elements[i]; e.Tag == "form" {
			return attributeLabel(e)
		}
	}
	return attributeLabel(&elements[0])
}

// attributeLabel names an element only by its attributes, which reveal nothing typed or chosen.
func attributeLabel(e *Element) string {
	return firstLabel(attributeText(e), fieldName(e), idLabel(e))
}

// attributeText returns the text that describes an element to people.
func attributeText(e *Element) string {
	return firstLabel(e.AriaLabel, e.Title, e.Alt)
}

// fieldName returns a field's name, or else its placeholder.
func fieldName(e *Element) string { return firstLabel(e.Name, e.Placeholder) }

// idLabel returns an ID with a "#", so that it does not read as text, or "" if there is
// none.
func idLabel(e *Element) string {
	if id := activity.CleanLabel(e.ID); id != "" {
		return "#" + id
	}
	return ""
}

// firstLabel returns the first label that is not blank, cleaned.
func firstLabel(labels ...string) string {
	for _, label := range labels {
		if label = activity.CleanLabel(label); label != "" {
			return label
		}
	}
	return ""
}

// tagNouns are the nouns for elements by their tags, inputNouns those for inputs by their types.
var (
	tagNouns = map[string]string{"a": "link", "textarea": "field", "select": "dropdown", "img": "image",
		"picture": "image", "svg": "icon", "path": "icon", "use": "icon"}
	inputNouns = map[string]string{"checkbox": "checkbox", "radio": "radio button", "submit": "button",
		"button": "button", "reset": "button", "image": "button"}
)

// noun returns the noun for an element: a word for the common ones, or else its tag.
func noun(e *Element) string {
	switch {
	case e.Tag == "input":
		return cmp.Or(inputNouns[strings.ToLower(strings.TrimSpace(e.Type))], "field")
	case tagNouns[e.Tag] != "":
		return tagNouns[e.Tag]
	case isField(e.Tag), isField(e.Class):
		return "field"
	case isTouchable(e):
		return "button"
	}
	return cmp.Or(chooser(e.Class), controlNoun(e), activity.CleanLabel(e.Tag), "element")
}
