package posthog

import (
	"strings"

	"github.com/liveactivity/liveactivity/activity"
)

// target returns what to call the thing an autocapture event is about.
func target(typ string, elements []element, text string) activity.Target {
	if len(elements) == 0 {
		elements = []element{{}}
	}
	switch typ {
	case activity.TypeSubmit:
		return activity.Target{Label: formLabel(elements)}
	case activity.TypeChange:
		e := elements[0]
		return activity.Target{Label: attributeLabel(e), Element: noun(e)}
	}
	return clickTarget(elements, text)
}

// clickTarget prefers the button or link that was clicked to what lies inside
// it: a click on the "Add" of an "Add to cart" button is one on the button.
func clickTarget(elements []element, text string) activity.Target {
	clicked, control := elements[0], elements[0]
	for _, e := range elements {
		if isControl(e) {
			control = e
			break
		}
	}
	t := activity.Target{Element: noun(control)}
	labels := []string{attributeText(control), attributeText(clicked), fieldName(control), fieldName(clicked), idLabel(control), idLabel(clicked)}
	if !isPrivate(elements) {
		if isControl(control) {
			labels = append([]string{control.Text, text, clicked.Text}, labels...)
		} else {
			labels = append([]string{text, clicked.Text}, labels...)
		}
	}
	t.Label = firstLabel(labels...)
	return t
}

// isControl reports whether e is a button or a link.
func isControl(e element) bool {
	return e.Tag == "button" || e.Tag == "a" || strings.EqualFold(e.Role, "button")
}

// typedRoles are the ARIA roles of elements whose text is typed.
var typedRoles = map[string]bool{"textbox": true, "searchbox": true, "combobox": true, "spinbutton": true}

// isPrivate reports whether the text around the target may be what a user
// typed or chose.
func isPrivate(elements []element) bool {
	for i, e := range elements {
		switch e.Tag {
		case "input", "textarea", "select", "option":
			if i == 0 || e.Tag != "input" {
				return true
			}
		}
		if typedRoles[strings.ToLower(e.Role)] {
			return true
		}
		if e.ContentEditable != "" && !strings.EqualFold(string(e.ContentEditable), "false") {
			return true
		}
	}
	return false
}

func formLabel(elements []element) string {
	for _, e := range elements {
		if e.Tag == "form" {
			return attributeLabel(e)
		}
	}
	return attributeLabel(elements[0])
}

// attributeLabel names an element by its attributes alone.
func attributeLabel(e element) string {
	return firstLabel(attributeText(e), fieldName(e), idLabel(e))
}

func attributeText(e element) string { return firstLabel(e.AriaLabel, e.Title, e.Alt) }

func fieldName(e element) string { return firstLabel(e.Name, e.Placeholder) }

func idLabel(e element) string {
	if id := activity.CleanLabel(e.ID); id != "" {
		return "#" + id
	}
	return ""
}

// firstLabel returns the first that is not blank.
func firstLabel(labels ...string) string {
	for _, label := range labels {
		if activity.CleanLabel(label) != "" {
			return label
		}
	}
	return ""
}

// noun returns what to call an element that has no label.
func noun(e element) string {
	switch e.Tag {
	case "a":
		return "link"
	case "input":
		return inputNoun(strings.ToLower(e.Type))
	case "textarea":
		return "field"
	case "select", "option":
		return "dropdown"
	case "img", "picture":
		return "image"
	case "svg", "path", "use":
		return "icon"
	case "":
		return "element"
	}
	if strings.EqualFold(e.Role, "button") {
		return "button"
	}
	if tag := activity.CleanLabel(e.Tag); tag != "" {
		return tag
	}
	return "element"
}

func inputNoun(typ string) string {
	switch typ {
	case "checkbox":
		return "checkbox"
	case "radio":
		return "radio button"
	case "submit", "button", "reset", "image":
		return "button"
	}
	return "field"
}
