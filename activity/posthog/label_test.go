package posthog_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/intake"
)

// postOne posts one event to the shop and returns its action.
func postOne(t *testing.T, body any) activity.Action {
	t.Helper()
	e := eventOf(t, webhookDoor, body)
	require.NotNil(t, e.Action)
	return *e.Action
}

// on returns an autocapture event of now on an elements chain.
func on(eventType, text, chain string) object {
	return click(object{"properties.$event_type": eventType, "properties.$el_text": text,
		"properties.$elements_chain": chain})
}

// onBoth returns the event on a chain, and on the same elements without a chain.
func onBoth(eventType, text, chain string) []object {
	listed, elements := on(eventType, text, ""), []object{}
	for part := range strings.SplitSeq(chain, ";") {
		tag, attributes, _ := strings.Cut(part, ":")
		element := object{"tag_name": tag}
		for _, a := range attribute.FindAllStringSubmatch(attributes, -1) {
			if a[1] == "text" {
				a[1] = "$el_text"
			}
			element[a[1]] = a[2]
		}
		elements = append(elements, element)
	}
	listed["properties"].(object)["$elements"] = elements
	return []object{on(eventType, text, chain), listed}
}

// attribute matches an attribute of an elements chain.
var attribute = regexp.MustCompile(`([\w-]+)="([^"]*)"`)

var verbs = map[string][2]string{"click": {"Click ", "clicked "}, "submit": {"Submit ", "submitted "},
	"change": {"Change ", "changed "}}

// requireSaid asserts the name of an element in a dashboard's action: a name of its own, or a kind with an article.
func requireSaid(t *testing.T, typ, element string, a activity.Action) {
	t.Helper()
	assert.Equal(t, typ, a.Type)
	assert.Equal(t, verbs[typ][0]+regexp.MustCompile(`^(an?|the) `).ReplaceAllString(element, ""), a.Title)
	assert.Equal(t, "User "+verbs[typ][1]+element+" on the dashboard page", a.Description)
}

func TestLabel_ofAClick(t *testing.T) {
	for _, c := range []struct{ name, text, chain, want string }{
		{"text of a button", "Buy", `button:text="Buy"`, "Buy"},
		{"text of a link", "Docs", `a:href="/docs"text="Docs"`, "Docs"},
		{"span in a button", "Add", `span:text="Add";button:text="Add to cart"`, "Add to cart"},
		{"span in a link", "See", `span:text="See";a:text="See plans"`, "See plans"},
		{"span in a role of button", "Add", `span:text="Add";div:attr__role="button"text="Add to cart"`, "Add to cart"},
		{"role in capitals", "Add", `span:text="Add";div:attr__role="BUTTON"text="Add to cart"`, "Add to cart"},
		{"deep in a button", "", `path:;svg:;span:;button:attr__aria-label="Close"`, "Close"},
		{"the nearest control", "x", `span:text="x";a:text="Docs";button:text="Menu"`, "Docs"},
		{"button without text around text", "Add", `span:text="Add";button:`, "Add"},
		{"button without text around text, with aria-label", "Add", `span:text="Add";button:attr__aria-label="Add to cart"`,
			"Add"},
		{"aria-label of a symbol", "×", `span:text="×";button:attr__aria-label="Close"text="×"`, "Close"},
		{"symbol without aria-label", "★", `button:attr__id="f"text="★"`, "★"},
		{"number with aria-label", "3", `button:attr__aria-label="Friday"text="3"`, "3"},
		{"text that only the chain has", "", `div:text="Card"`, "Card"},
		{"text that only the event has", "Card", `div:`, "Card"},
		{"no chain", "Card", ``, "Card"},

		{"aria-label before all attributes", "",
			`button:attr__alt="c"attr__aria-label="a"attr__id="f"attr__name="d"attr__placeholder="e"attr__title="b"`, "a"},
		{"title before alt", "", `button:attr__alt="c"attr__id="f"attr__name="d"attr__placeholder="e"attr__title="b"`, "b"},
		{"alt before name", "", `button:attr__alt="c"attr__id="f"attr__name="d"attr__placeholder="e"`, "c"},
		{"name before placeholder", "", `input:attr__id="f"attr__name="d"attr__placeholder="e"`, "d"},
		{"placeholder before id", "", `input:attr__id="f"attr__placeholder="e"`, "e"},
		{"id before tag", "", `button:attr__id="f"`, "#f"},
		{"alt of an image in a link", "", `img:attr__alt="Home";a:href="/"`, "Home"},
		{"aria-label of an icon in a button", "", `path:;svg:attr__aria-label="Close";span:;button:attr__id="b"`, "Close"},
		{"nothing around what is in no control", "", `path:;svg:;main:attr__aria-label="Content"`, "an icon"},
		{"attributes of the link around an image", "", `img:attr__alt="logo";a:attr__aria-label="Home"`, "Home"},
		{"blank text is no label", " \n\t", `button:attr__aria-label="  "attr__id="f"text=" "`, "#f"},
		{"invisible text is no label", "\u200b\u202e", "button:text=\"\u200b\"", "a button"},

		{"button", "", `button:`, "a button"},
		{"link", "", `a:href="/x"`, "a link"},
		{"role of button", "", `div:attr__role="button"`, "a button"},
		{"icon in a button", "", `svg:;button:`, "a button"},
		{"icon in a menu item with aria-label", "", `svg:;li:attr__aria-label="Copy"attr__role="menuitem"`, "Copy"},
		{"icon in a menu item", "", `svg:;li:attr__role="none MenuItem"`, "a menu item"},
		{"thumb of a switch", "", `span:;button:attr__aria-label="Dark mode"attr__role="switch"`, "Dark mode"},
		{"padding of a tab", "", `div:attr__role="tab"`, "a tab"},
		{"checkbox", "", `input:attr__type="checkbox"`, "a checkbox"},
		{"checkbox in capitals", "", `input:attr__type="CHECKBOX"`, "a checkbox"},
		{"radio button", "", `input:attr__type="radio"`, "a radio button"},
		{"submit button", "", `input:attr__type="submit"attr__value="Send"`, "Send"},
		{"field", "", `input:`, "a field"},
		{"text area", "", `textarea:`, "a field"},
		{"dropdown", "", `select:`, "a dropdown"},
		{"image", "", `img:`, "an image"},
		{"icon", "", `svg:`, "an icon"},
		{"any other tag", "", `div:nth-child="1"`, "a div"},
		{"nothing at all", "", ``, "an element"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, event := range onBoth("click", c.text, c.chain) {
				requireSaid(t, "click", c.want, postOne(t, event))
			}
		})
	}
}

func TestLabel_ofASubmitOrChange(t *testing.T) {
	for _, c := range []struct{ name, typ, chain, want string }{
		{"form by name", "submit", `form:attr__id="f"attr__name="signup"`, "the signup form"},
		{"form by aria-label", "submit", `form:attr__aria-label="Sign up"attr__name="signup"`, "the Sign up form"},
		{"form around the target", "submit", `button:attr__name="go"text="Go";form:attr__name="signup"`, "the signup form"},
		{"form without a name", "submit", `form:`, "a form"},
		{"form that is not in the chain", "submit", ``, "a form"},
		{"in capitals", "SUBMIT", `form:attr__name="signup"`, "the signup form"},

		{"field by name", "change", `input:attr__id="i"attr__name="email"attr__placeholder="you@example.com"`,
			"the email field"},
		{"field by aria-label", "change", `input:attr__aria-label="E-mail"attr__name="email"`, "the E-mail field"},
		{"the field, not its form", "change", `input:;form:attr__name="signup"`, "a field"},
		{"dropdown without a name", "change", `select:`, "a dropdown"},
		{"checkbox without a name", "change", `input:attr__type="checkbox"`, "a checkbox"},
		{"what is not in the chain", "change", ``, "an element"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, event := range onBoth(c.typ, "", c.chain) {
				requireSaid(t, strings.ToLower(c.typ), c.want, postOne(t, event))
			}
		})
	}
}

// The text and the value of an input stay out of the event.
func TestLabel_neverContainsTypedText(t *testing.T) {
	chains := []string{
		`input:`, `input:attr__type="password"attr__name="password"`, `input:attr__type="checkbox"`, `textarea:`, `select:`,
		`INPUT:`, `TextArea:`, `option:;select:`, `input:;a:`, `input:;label:`,
		`span:;input:`, `a:;div:;INPUT:attr__type="text"`,
		`div:attr__contenteditable="true"`, `div:attr__contenteditable="TRUE"`,
		`div:attr__contenteditable="plaintext-only"`, `div:attr__contenteditable=""`,
		`b:;p:;div:attr__contenteditable="true"`, `a:;div:attr__contenteditable="true"`, `b:;div:attr__contenteditable=""`,
		// editors of known classes, Slate's, Lexical's and Draft.js's
		`a:;p:;div:attr__class="tiptap ProseMirror focus:ring"`, `span:;p:attr__data-slate-node="element"`,
		`span:attr__data-lexical-text="true";a:`, `span:;div:attr__data-offset-key="a-0-0"`,
	}
	// Rich editors and search boxes are often plain elements with a role.
	for _, role := range []string{"textbox", "searchbox", "combobox", "spinbutton", "slider", "TextBox"} {
		editor := `div:attr__role="` + role + `"`
		chains = append(chains, editor, "span:;"+editor)
	}
	const typed = "typed s3cret"
	for _, chain := range chains {
		t.Run(chain, func(t *testing.T) {
			chain = strings.ReplaceAll(chain+";", ";", `text="`+typed+`"attr__value="`+typed+`";`)
			for _, typ := range []string{"click", "change", "submit"} {
				for _, event := range onBoth(typ, typed, strings.TrimSuffix(chain, ";")) {
					requireUntold(t, event, "s3cret")
				}
			}
		})
	}
}

// A change without an element still comes from a typed or chosen value.
func TestLabel_neverContainsTextTypedOutsideOfAnElement(t *testing.T) {
	typed := func(fields object) object {
		fields["button_or_link_text"] = "typed s3cret"
		return flat(fields)
	}
	for name, body := range map[string]object{
		"change without a chain":      on("change", "typed s3cret", ""),
		"change, flat":                typed(object{"event_type": "change"}),
		"change, flat, of a field":    typed(object{"event_type": "change", "input_field_name": "email"}),
		"change, flat, of an element": typed(object{"event_type": "change", "element_id": "email"}),
		"click, flat, on a field":     typed(object{"event_type": "click", "input_field_name": "email"}),
		"submit, flat":                typed(object{"event_type": "submit"}),
		"submit without a chain":      on("submit", "typed s3cret", ""),
		"value of a hidden property":  click(object{"properties.$el_value": "typed s3cret", "value": "s3cret"}),
	} {
		t.Run(name, func(t *testing.T) { requireUntold(t, body, "s3cret") })
	}
}

// requireUntold posts an event and asserts that its result does not contain the secret.
func requireUntold(t *testing.T, body object, secret string) {
	t.Helper()
	assert.NotContains(t, string(marshal(eventOf(t, webhookDoor, body))), secret)
}

func TestLabel_ofElementsWithoutAChain(t *testing.T) {
	for name, c := range map[string]struct {
		elements    any
		text, title string
	}{
		"attributes of wrong types": {[]object{{"tag_name": "button", "attr__id": 5, "$el_text": []any{}, "classes": "x",
			"attr__title": "Go"}}, "", "Click Go"},
		"none":         {[]object{}, "Buy", "Click Buy"},
		"not an array": {object{"tag_name": "button"}, "Buy", "Click Buy"},
		"junk":         {[]any{nil, 5, "x", []any{}}, "Buy", "Click Buy"},
		"an editor beyond the last that is read": {append(slices.Repeat([]object{{"tag_name": "p"}}, 128),
			object{"attr__contenteditable": ""}), "typed", "Click p"},
		"as PostHog stores them": {[]object{{"tag_name": "div", "$el_text": "typed",
			"attributes": object{"attr__contenteditable": "true"}}}, "typed", "Click div"},
		"fields spelt with hyphens": {[]object{{"tag_name": "vaadin-password-field", "$el_text": "typed"}}, "typed",
			"Click field"},
	} {
		t.Run(name, func(t *testing.T) {
			a := postOne(t, click(object{"properties.$elements_chain": nil, "properties.$elements": c.elements,
				"properties.$el_text": c.text}))
			assert.Equal(t, c.title, a.Title)
		})
	}
}

// The parser does not read a long chain to its end. An editor beyond that end still hides typed text.
func TestLabel_ofAChainThatIsNotReadToItsEnd(t *testing.T) {
	class := strings.Repeat("flex-row ", 60)
	around := strings.Repeat(`;div:attr__class="`+class+`"nth-child="1"`, 120)
	for name, chain := range map[string]string{
		"by far the longest":        strings.Repeat(around, 3),
		"long":                      around,
		"of many elements":          strings.Repeat(`;div:nth-child="1"`, 200),
		"a long attribute":          `;div:attr__class="` + strings.Repeat(class, 300) + `"attr__id="x"`,
		"an attribute with no end":  `;div:attr__class="x`,
		"an attribute nobody knows": `;div:style="x"`,
	} {
		chain = `p:nth-child="1"text="typed"` + chain + `;div:attr__contenteditable="true"`
		assert.Equal(t, "Click p", postOne(t, on("click", "typed", chain)).Title, name)
	}
	assert.Equal(t, "Click Go", postOne(t, on("click", "Go", `p:text="Go"`+around)).Title)
}

// A custom destination may send no chain. Its other fields then name the element.
func TestLabel_ofAFlatBody(t *testing.T) {
	for _, c := range []struct {
		name      string
		fields    object
		typ, want string
	}{
		{"text of a button", object{"event_type": "click", "button_or_link_text": "Export CSV"}, "click", "Export CSV"},
		{"text of a link", object{"event_type": "click", "button_or_link_text": "Docs", "link_destination": "/docs"}, "click",
			"Docs"},
		{"link without text", object{"event_type": "click", "link_destination": "/docs"}, "click", "a link"},
		{"element by id", object{"event_type": "click", "element_id": "export"}, "click", "#export"},
		{"field", object{"event_type": "change", "input_field_name": "plan"}, "change", "the plan field"},
		{"field that was clicked", object{"event_type": "click", "input_field_name": "plan"}, "click", "plan"},
		{"form", object{"event_type": "submit", "element_id": "signup"}, "submit", "the #signup form"},
		{"form without a name", object{"event_type": "submit"}, "submit", "a form"},
		{"chain before fields", object{"event_type": "click", "elements_chain": `button:text="Buy"`, "element_id": "x"},
			"click", "Buy"},
		{"name beside a chain without one", object{"event_type": "change", "elements_chain": `input:nth-child="1"`,
			"input_field_name": "phone"}, "change", "the phone field"},
		{"id beside a chain without one", object{"elements_chain": `button:nth-child="1"`, "element_id": "x"}, "click", "#x"},
		{"id of a chain wins", object{"elements_chain": `button:attr_id="own"`, "element_id": "x"}, "click", "#own"},
		{"no type is a click", object{"button_or_link_text": "Buy"}, "click", "Buy"},
		{"nothing", object{}, "click", "an element"},
		{"fields that are null", object{"event_type": nil, "element_id": nil, "input_field_name": nil,
			"link_destination": nil, "button_or_link_text": nil, "elements_chain": nil}, "click", "an element"},
	} {
		t.Run(c.name, func(t *testing.T) { requireSaid(t, c.typ, c.want, postOne(t, flat(c.fields))) })
	}
	view := postOne(t, flat(object{"event": "$pageview"}))
	assert.Equal(t, [3]string{"pageview", "Page Load: Dashboard", "User landed on the dashboard page"},
		[3]string{view.Type, view.Title, view.Description})
}

// Credentials are gone from a page's address, and a hash route is found behind any query.
func TestLabel_ofAPage(t *testing.T) {
	const host, query = "app.example.com", "/p?"
	long := strings.Repeat("x", 3000)
	a := postOne(t, click(object{"properties.$current_url": "https://ada:s3cret@" + host + query + long + "#/orders/5"}))
	assert.Equal(t, "User clicked Export CSV on the orders detail page", a.Description)
	clean := "https://" + host + query + long
	assert.Equal(t, clean[:2048], a.RawURL)
	assert.Equal(t, "https://app.example.com/p#/orders/:id", a.CanonicalURL)
}

// A click without a page still counts. A page view without a page does not.
func TestLabel_withoutAPage(t *testing.T) {
	for name, url := range map[string]any{"none": nil, "empty": "", "blank": " \n", "wrong type": object{}} {
		t.Run(name, func(t *testing.T) {
			a := postOne(t, click(object{"properties.$current_url": url}))
			assert.Equal(t, activity.Action{Type: "click", Title: "Click Export CSV", Description: "User clicked Export CSV"}, a)
			requireIgnored(t, webhookDoor, click(object{"event": "$pageview", "properties.$current_url": url}))
		})
	}
}

func TestLabel_ofAnUnknownKindOfAutocapture(t *testing.T) {
	for _, typ := range []string{"swipe", "scroll", " click"} {
		ignored := meaningOf(t, captureDoor, click(object{"properties.$event_type": typ}))
		assert.Equal(t, intake.ReasonOther, ignored.Reason, typ)
	}
	for _, typ := range []any{nil, "", object{}} {
		assert.Equal(t, "click", postOne(t, click(object{"properties.$event_type": typ})).Type)
	}
}

// posthog-ios has words of its own for the use of a control.
func TestLabel_ofANativeControl(t *testing.T) {
	for typ, test := range map[string]struct{ chain, want string }{
		"toggle":         {`UISwitch:text="true";UIView`, "User changed a switch on the cart page"},
		"value_changed":  {`Volume:text="0.5"attr__class="UISlider";UIView`, "User changed a slider on the cart page"},
		"primary_action": {`PayControl:text="Pay now"attr__class="UIControl"`, "User clicked Pay now on the cart page"},
	} {
		a := postOne(t, click(object{"properties.$event_type": typ, "properties.$elements_chain": test.chain,
			"properties.$el_text": nil, "properties.$current_url": nil, "properties.$screen_name": "Cart"}))
		assert.Equal(t, test.want, a.Description, typ)
	}
}

func TestScreen_isAPageView(t *testing.T) {
	for name, want := range map[string][2]string{
		"Order History":   {"app://screen/order-history", "Order history"},
		" /settings/2FA ": {"app://screen/settings-2fa", "Settings 2fa"},
		"Übersicht":       {"app://screen/übersicht", "Übersicht"},
		"42":              {"app://screen/42", "42"},
		"?token=x":        {"app://screen/token-x", "Token x"},
		"!":               {"app://screen/unnamed", "Unnamed"},
	} {
		a := postOne(t, click(object{"event": "$screen", "properties.$screen_name": name, "properties.$current_url": nil}))
		assert.Equal(t, activity.TypePageview, a.Type)
		assert.Equal(t, [2]string{want[0], want[0]}, [2]string{a.RawURL, a.CanonicalURL}, name)
		assert.Equal(t, "Page Load: "+want[1], a.Title)
	}
	requireIgnored(t, captureDoor, click(object{"event": "$screen"}))
}

// touch returns the action of a touch of the elements.
func touch(t *testing.T, elements ...any) activity.Action {
	t.Helper()
	return postOne(t, click(object{"properties.$event_type": "touch", "properties.$screen_name": "Cart",
		"properties.$current_url": nil,
		"properties.$el_text":     nil, "properties.$elements_chain": nil, "properties.$elements": elements}))
}

func TestTouch_isAClick(t *testing.T) {
	root := object{"tag_name": "View"}
	for want, elements := range map[string][]any{
		"Pay now": {object{"tag_name": "Text", "$el_text": "Pay now"}, object{"tag_name": "TouchableOpacity"}, root},
		"Open menu": {object{"tag_name": "View"},
			object{"tag_name": "ForwardRef-Pressable-", "attr__accessibilityLabel": "Open menu"}, root},
		"#checkout": {object{"tag_name": "Image"}, object{"tag_name": "TouchableHighlight", "attr__testID": "checkout"},
			root},
		"button": {object{"tag_name": "Image"}, object{"tag_name": "TouchableHighlight"}, root},
		"Buy the kettle": {object{"tag_name": "Buy-the-kettle", "$el_text": "?"},
			object{"tag_name": "Buy-the-kettle", "attr__ph-label": "Buy the kettle"}, root},
		"E-mail address": {object{"tag_name": "TextInput", "$el_text": "s3cret",
			"attr__accessibilityLabel": "E-mail address"}, root},
		"#mail": {object{"tag_name": "RCTSinglelineTextInputView", "$el_text": "s3cret"},
			object{"tag_name": "TextInput", "attr__testID": "mail"}, root},
		"field": {object{"tag_name": "TextInput", "$el_text": "s3cret"}, root},
	} {
		a := touch(t, elements...)
		assert.Equal(t, activity.TypeClick, a.Type)
		assert.Equal(t, "Click "+want, a.Title)
		assert.Equal(t, "app://screen/cart", a.CanonicalURL)
		assert.Contains(t, a.Description, " on the cart page")
		assert.NotContains(t, a.Title+a.Description, "s3cret")
	}
}

// A typed or chosen value never names an action, however its element is described.
func TestLabel_ofFieldsAndChoices(t *testing.T) {
	secret := func(attributes string) string { return attributes + `nth-child="1"text="s3cret"` }
	for chain, want := range map[string]string{
		`option:` + secret(`attr__title="s3cret"attr__value="s3cret"attr__id="s3cret"`) +
			`;select:attr__name="plan"`: "Click option",
		`li:` + secret(`attr__aria-label="s3cret"attr__role="option"`) + `;ul:attr__role="listbox"`: "Click option",
		`span:` + secret(``) + `;li:` +
			secret(`attr__role="none OPTION"attr__name="s3cret"`): "Click option",
		`button:` + secret(``) + `;div:attr__role="option"nth-child="1"`:             "Click option",
		`div:` + secret(`attr__role="presentation textbox"`):                         "Click div",
		`div:` + secret(`attr__role="	TextBox  none"`):                               "Click div",
		`div:` + secret(`attr__contentEditable=""`):                                  "Click div",
		`div:` + secret(`attr__role="spinbutton button"`):                            "Click button",
		`ion-input:` + secret(``):                                                    "Click field",
		`p:` + secret(``) + `;div.tiptap.ProseMirror:nth-child="1"`:                  "Click p", // attributes are masked
		`input:attr__type="submit"attr__value="Pay now"attr__name="go"nth-child="1"`: "Click Pay now",
		`input:attr__type=" Button "attr__value="Add row"nth-child="1"`:              "Click Add row",
		`input:attr__type="submit"nth-child="1"`:                                     "Click button",
		`div:attr__role="tab"nth-child="1"text="Invoices"`:                           "Click Invoices",
		`li:attr__role="none menuitem"nth-child="1"text="Rename"`:                    "Click Rename",
		`div:attr__role="radio"nth-child="1"text="Monthly"`:                          "Click Monthly",
		`span:nth-child="1"text="Add";` +
			`div:attr__role="presentation button"nth-child="1"text="Add to cart"`: "Click Add to cart",
	} {
		a := postOne(t, click(object{"properties.$elements_chain": chain, "properties.$el_text": nil}))
		assert.Equal(t, want, a.Title, chain)
		assert.NotContains(t, a.Title+a.Description, "s3cret", chain)
		a = postOne(t, click(object{"properties.$elements_chain": chain, "properties.$event_type": "change"}))
		assert.NotContains(t, a.Title+a.Description, "s3cret", chain)
	}
	a := postOne(t, on("click", "s3cret", `li:attr__role="option"nth-child="1"`))
	assert.Equal(t, "User clicked an option on the dashboard page", a.Description)
	require.NotContains(t, a.Title, "s3cret")
}

// posthog-ios sends the text of a view: typed text of a field or text view, a choice of a picker, slider or switch.
func TestLabel_neverContainsTheTextOfANativeView(t *testing.T) {
	for chain, want := range map[string]string{
		`UITextView:text="s3cret";UIView;UIWindow`:                                           "Click field",
		`UITextField:text="s3cret";UIView`:                                                   "Click field",
		`NotesView:text="s3cret"attr__class="UITextView";UIView`:                             "Click field",
		`PhoneEntry:text="s3cret"attr__class="UITextField";UIView`:                           "Click field",
		`AmountEntry:text="s3cret"attr__class="MDCBaseTextField";UIView`:                     "Click field",
		`UISearchTextField:text="s3cret"attr__class="UITextField";UISearchBar:text="s3cret"`: "Click field",
		`_UITextLayoutCanvasView:text="s3cret";` +
			`NotesView:text="s3cret"attr__class="UITextView";UIView`: "Click _uitextlayoutcanvasview",
		`NotesView:text="s3cret"attr__class="UITextView"attr__ph-label="Notes"`: "Click Notes",
		`UIPickerTableViewTitledCell:text="s3cret";UIPickerColumnView;` +
			`UIPickerView:text="s3cret"`: "Click picker",
		`UIPickerView:text="s3cret";UIView`:                           "Click picker",
		`CountryWheel:text="s3cret"attr__class="UIPickerView";UIView`: "Click picker",
		`UIDatePicker:text="s3cret"`:                                  "Click picker",
		`UISlider:text="s3cret"`:                                      "Click slider",
		`Volume:text="s3cret"attr__class="UISlider"`:                  "Click slider",
		`UIStepper:text="s3cret"`:                                     "Click stepper",
		`UISwitchModernVisualElement;UISwitch:text="s3cret"`:          "Click switch",

		`UIButton:text="Pay now";UIView`:                                                  "Click Pay now",
		`PayButton:text="Pay now"attr__class="UIButton";UIView`:                           "Click Pay now",
		`UISegmentedControl:text="Invoices"`:                                              "Click Invoices",
		`button.text-field:attr__class="TextField slider text-field"text="Clear"`:         "Click Clear",
		`button:text="Bold";div.ql-toolbar.ql-snow:attr__class="ql-toolbar ql-snow"`:      "Click Bold",
		`BUTTON:attr__class="UITextView"text="Clear"`:                                     "Click Clear",
		`div:attr__class="Slider"text="Monthly";div.picker:attr__class="picker textview"`: "Click Monthly",
	} {
		for typ, text := range map[string]any{"touch": nil, "click": "s3cret", "change": "s3cret", "submit": "s3cret"} {
			if strings.Contains(chain, "s3cret") || typ == "touch" {
				a := postOne(t, click(object{"properties.$elements_chain": chain, "properties.$event_type": typ,
					"properties.$el_text": text}))
				assert.NotContains(t, a.Title+a.Description, "s3cret", chain)
				if a.Type == activity.TypeClick {
					assert.Equal(t, want, a.Title, chain)
				}
			}
		}
	}
	a := touch(t, object{"tag_name": "PhoneEntry", "$el_text": "s3cret", "attr__class": "UITextField"},
		object{"tag_name": "UIView"})
	assert.Equal(t, "Click field", a.Title)
}
