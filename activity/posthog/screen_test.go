package posthog_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/posthog"
)

func TestScreen_isAPageView(t *testing.T) {
	for name, want := range map[string][2]string{
		"Order History":   {"app://screen/order-history", "Order history"},
		" /settings/2FA ": {"app://screen/settings-2fa", "Settings 2fa"},
		"Übersicht":       {"app://screen/übersicht", "Übersicht"},
		"42":              {"app://screen/42", "Detail"},
		"?token=x":        {"app://screen/token-x", "Token x"},
		"!":               {"app://screen/unnamed", "Unnamed"},
	} {
		a := postOne(t, click(object{"event": "$screen", "properties.$screen_name": name, "properties.$current_url": nil}))
		assert.Equal(t, activity.TypePageview, a.Type)
		assert.Equal(t, [2]string{want[0], want[0]}, [2]string{a.RawURL, a.CanonicalURL}, name)
		assert.Equal(t, "Page Load: "+want[1], a.Title)
	}
	s := newService(posthog.Options{})
	requireCounts(t, s.post(captureDoor, marshal(t, click(object{"event": "$screen"}))), 0, 1)
}

// touch returns what a touch of the elements becomes.
func touch(t *testing.T, elements ...any) activity.Action {
	t.Helper()
	return postOne(t, click(object{"properties.$event_type": "touch", "properties.$screen_name": "Cart", "properties.$current_url": nil,
		"properties.$el_text": nil, "properties.$elements_chain": nil, "properties.$elements": elements}))
}

func TestTouch_isAClick(t *testing.T) {
	root := object{"tag_name": "View"}
	for want, elements := range map[string][]any{
		"Pay now":        {object{"tag_name": "Text", "$el_text": "Pay now"}, object{"tag_name": "TouchableOpacity"}, root},
		"Open menu":      {object{"tag_name": "View"}, object{"tag_name": "ForwardRef-Pressable-", "attr__accessibilityLabel": "Open menu"}, root},
		"#checkout":      {object{"tag_name": "Image"}, object{"tag_name": "TouchableHighlight", "attr__testID": "checkout"}, root},
		"button":         {object{"tag_name": "Image"}, object{"tag_name": "TouchableHighlight"}, root},
		"Buy the kettle": {object{"tag_name": "Buy-the-kettle", "$el_text": "?"}, object{"tag_name": "Buy-the-kettle", "attr__ph-label": "Buy the kettle"}, root},
		"E-mail address": {object{"tag_name": "TextInput", "$el_text": "s3cret", "attr__accessibilityLabel": "E-mail address"}, root},
		"#mail":          {object{"tag_name": "RCTSinglelineTextInputView", "$el_text": "s3cret"}, object{"tag_name": "TextInput", "attr__testID": "mail"}, root},
		"field":          {object{"tag_name": "TextInput", "$el_text": "s3cret"}, root},
	} {
		a := touch(t, elements...)
		assert.Equal(t, activity.TypeClick, a.Type)
		assert.Equal(t, "Click "+want, a.Title)
		assert.Equal(t, "app://screen/cart", a.CanonicalURL)
		assert.Contains(t, a.Description, " on the cart page")
		assert.NotContains(t, a.Title+a.Description, "s3cret")
	}
}

// What a user typed or chose never names an action, however its element is described.
func TestLabel_ofWhatIsTypedOrChosen(t *testing.T) {
	secret := func(attributes string) string { return attributes + `nth-child="1"text="s3cret"` }
	for chain, want := range map[string]string{
		`option:` + secret(`attr__title="s3cret"attr__value="s3cret"attr__id="s3cret"`) + `;select:attr__name="plan"`: "Click option",
		`li:` + secret(`attr__aria-label="s3cret"attr__role="option"`) + `;ul:attr__role="listbox"`:                   "Click option",
		`span:` + secret(``) + `;li:` + secret(`attr__role="none OPTION"attr__name="s3cret"`):                         "Click option",
		`button:` + secret(``) + `;div:attr__role="option"nth-child="1"`:                                              "Click option",
		`div:` + secret(`attr__role="presentation textbox"`):                                                          "Click div",
		`div:` + secret(`attr__role="	TextBox  none"`):                                                                "Click div",
		`div:` + secret(`attr__Role="searchbox"`):                                                                     "Click div",
		`div:` + secret(`attr__contentEditable=""`):                                                                   "Click div",
		`span:` + secret(``) + `;div:attr__role="group combobox"nth-child="1"`:                                        "Click span",
		`div:` + secret(`attr__role="spinbutton button"`):                                                             "Click button",
		`ion-input:` + secret(``):                                                                                     "Click field",
		`textarea:` + secret(`attr__value="s3cret"`):                                                                  "Click field",
		`input:` + secret(`attr__type="text"attr__value="s3cret"`):                                                    "Click field",
		`input:` + secret(`attr__type="radio"attr__value="s3cret"`):                                                   "Click radio button",
		`input:` + secret(`attr__value="s3cret"`):                                                                     "Click field",
		`input:attr__type="submit"attr__value="Pay now"attr__name="go"nth-child="1"`:                                  "Click Pay now",
		`input:attr__type=" Button "attr__value="Add row"nth-child="1"`:                                               "Click Add row",
		`input:attr__type="submit"nth-child="1"`:                                                                      "Click button",
		`div:attr__role="tab"nth-child="1"text="Invoices"`:                                                            "Click Invoices",
		`li:attr__role="none menuitem"nth-child="1"text="Rename"`:                                                     "Click Rename",
		`div:attr__role="radio"nth-child="1"text="Monthly"`:                                                           "Click Monthly",
		`span:nth-child="1"text="Add";div:attr__role="presentation button"nth-child="1"text="Add to cart"`:            "Click Add to cart",
	} {
		a := postOne(t, click(object{"properties.$elements_chain": chain, "properties.$el_text": nil}))
		assert.Equal(t, want, a.Title, chain)
		assert.NotContains(t, a.Title+a.Description, "s3cret", chain)
		a = postOne(t, click(object{"properties.$elements_chain": chain, "properties.$event_type": "change"}))
		assert.NotContains(t, a.Title+a.Description, "s3cret", chain)
	}
	a := postOne(t, click(object{"properties.$elements_chain": `li:attr__role="option"nth-child="1"`, "properties.$el_text": "s3cret"}))
	assert.Equal(t, "User clicked an option on the dashboard page", a.Description)
	require.NotContains(t, a.Title, "s3cret")
}

// posthog-ios sends the text that a view holds: of a text field or text view that is what
// was typed, of a picker, slider, stepper or switch what was chosen.
func TestLabel_neverContainsWhatANativeViewHolds(t *testing.T) {
	for chain, want := range map[string]string{
		`UITextView:text="s3cret";UIView;UIWindow`:                                                     "Click field",
		`UITextField:text="s3cret";UIView`:                                                             "Click field",
		`NotesView:text="s3cret"attr__class="UITextView";UIView`:                                       "Click field",
		`PhoneEntry:text="s3cret"attr__class="UITextField";UIView`:                                     "Click field",
		`AmountEntry:text="s3cret"attr__class="MDCBaseTextField";UIView`:                               "Click field",
		`UISearchTextField:text="s3cret"attr__class="UITextField";UISearchBar:text="s3cret"`:           "Click field",
		`_UITextLayoutCanvasView:text="s3cret";NotesView:text="s3cret"attr__class="UITextView";UIView`: "Click _uitextlayoutcanvasview",
		`NotesView:text="s3cret"attr__class="UITextView"attr__ph-label="Notes"`:                        "Click Notes",
		`UIPickerTableViewTitledCell:text="s3cret";UIPickerColumnView;UIPickerView:text="s3cret"`:      "Click uipickertableviewtitledcell",
		`UIPickerView:text="s3cret";UIView`:                                                            "Click uipickerview",
		`CountryWheel:text="s3cret"attr__class="UIPickerView";UIView`:                                  "Click countrywheel",
		`UIDatePicker:text="s3cret"`:                                                                   "Click uidatepicker",
		`UISlider:text="s3cret"`:                                                                       "Click uislider",
		`Volume:text="s3cret"attr__class="UISlider"`:                                                   "Click volume",
		`UIStepper:text="s3cret"`:                                                                      "Click uistepper",
		`UISwitchModernVisualElement;UISwitch:text="s3cret"`:                                           "Click uiswitchmodernvisualelement",

		`UIButton:text="Pay now";UIView`:                                                  "Click Pay now",
		`PayButton:text="Pay now"attr__class="UIButton";UIView`:                           "Click Pay now",
		`UISegmentedControl:text="Invoices"`:                                              "Click Invoices",
		`button.text-field:attr__class="TextField slider text-field"text="Clear"`:         "Click Clear",
		`BUTTON:attr__class="UITextView"text="Clear"`:                                     "Click Clear",
		`div:attr__class="Slider"text="Monthly";div.picker:attr__class="picker textview"`: "Click Monthly",
	} {
		for typ, text := range map[string]any{"touch": nil, "click": "s3cret", "change": "s3cret", "submit": "s3cret"} {
			if strings.Contains(chain, "s3cret") || typ == "touch" {
				a := postOne(t, click(object{"properties.$elements_chain": chain, "properties.$event_type": typ, "properties.$el_text": text}))
				assert.NotContains(t, a.Title+a.Description, "s3cret", chain)
				if a.Type == activity.TypeClick {
					assert.Equal(t, want, a.Title, chain)
				}
			}
		}
	}
	a := touch(t, object{"tag_name": "PhoneEntry", "$el_text": "s3cret", "attr__class": "UITextField"}, object{"tag_name": "UIView"})
	assert.Equal(t, "Click field", a.Title)
}
