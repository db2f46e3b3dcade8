package posthog_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/liveactivity/liveactivity/activity/posthog"
	"github.com/liveactivity/liveactivity/internal/element"
)

func TestParseChain(t *testing.T) {
	type chain = []posthog.Element
	for _, c := range []struct {
		name, chain string
		want        chain
	}{
		{"one element", `button:nth-child="1"nth-of-type="2"text="Buy"`, chain{{Tag: "button", Text: "Buy"}}},
		{"the target first", `span:text="Add";button:text="Add to cart";body:nth-child="2"`,
			chain{{Tag: "span", Text: "Add"}, {Tag: "button", Text: "Add to cart"}, {Tag: "body"}}},
		{"every attribute that can name it",
			`input:attr__alt="a"attr__aria-label="b"attr__contenteditable="true"attr__id="d"attr__name="e"` +
				`attr__placeholder="f"attr__role="g"attr__title="h"attr__type="i"` +
				`attr_id="d"href="/x"nth-child="1"nth-of-type="1"text="j"`,
			chain{{Tag: "input", Alt: "a", AriaLabel: "b", ContentEditable: "true", ID: "d", Name: "e", Placeholder: "f",
				Role: "g", Title: "h", Type: "i", Text: "j"}}},
		{"attr_id alone", `div:attr_id="x"`, chain{{Tag: "div", ID: "x"}}},
		{"attributes that name nothing", `a:attr__data-x="1"attr__href="/p?a=1&b=2#c"href="/p"text="Go"`,
			chain{{Tag: "a", Text: "Go"}}},
		{"value", `input:attr__type="submit"attr__value="Pay now"`, chain{{Tag: "input", Type: "submit", Value: "Pay now"}}},
		{"attributes in capitals", `div:attr__Role="textbox"attr__contentEditable=""`,
			chain{{Tag: "div", Role: "textbox", ContentEditable: "true"}}},
		{"attributes of frameworks", `a:attr__:class="x"attr__@click="y"attr__v-on:click.stop="z"text="Go"`,
			chain{{Tag: "a", Text: "Go"}}},
		{"tag in capitals", `BUTTON:text="Go"`, chain{{Tag: "BUTTON", Text: "Go"}}},
		{"native view", `NotesView:text="Go"attr__class="UITextView";UIView`,
			chain{{Tag: "NotesView", Text: "Go", Class: "UITextView"}, {Tag: "UIView"}}},

		{"Tailwind variants", `button.hover:bg-sky-700.md:w-1/2.space-y-1.5.dark:md:hover:text-white:text="Buy"`,
			chain{{Tag: "button", Class: "hover:bg-sky-700.md:w-1/2.space-y-1.5.dark:md:hover:text-white", Text: "Buy"}}},
		{"class that reads like a key", `a.text.attr__x.href:text="Buy";body:nth-child="1"`,
			chain{{Tag: "a", Class: "text.attr__x.href", Text: "Buy"}, {Tag: "body"}}},
		{"class with a key after its colon", `a.hover:text.md:href=x:text="Buy"`,
			chain{{Tag: "a", Class: "hover:text.md:href=x", Text: "Buy"}}},
		{"classes with their attribute", `a.x.y:attr__class="y x"`, chain{{Tag: "a", Class: "y x"}}},
		{"no classes, no attributes", `main;body`, chain{{Tag: "main"}, {Tag: "body"}}},
		{"no attributes after the colon", `main:;body:`, chain{{Tag: "main"}, {Tag: "body"}}},
		{"only classes", `main.a.b:c;body.d`, chain{{Tag: "main", Class: "a.b:c"}, {Tag: "body", Class: "d"}}},

		{"escaped quotes", `button:attr__title="say \"hi\"; ok"text="Say \"hi\"; then: go"`,
			chain{{Tag: "button", Title: `say "hi"; ok`, Text: `Say "hi"; then: go`}}},
		{"a value that looks like a chain", `b:text="i:text=\"x\";u:href=\"y\"";p:text="z"`,
			chain{{Tag: "b", Text: `i:text="x";u:href="y"`}, {Tag: "p", Text: "z"}}},

		{"backslashes", `b:text="C:\temp\new";i:text="y"`, chain{{Tag: "b", Text: `C:\temp\new`}, {Tag: "i", Text: "y"}}},
		{"backslash at the end of the chain", `b:text="C:\"`, chain{{Tag: "b", Text: `C:\`}}},
		{"backslash before the next attribute", `b:attr__title="C:\"text="x"`, chain{{Tag: "b", Title: `C:\`, Text: "x"}}},
		{"backslash before the next element", `b:text="C:\";i:text="y"`,
			chain{{Tag: "b", Text: `C:\`}, {Tag: "i", Text: "y"}}},
		{"backslash before the next element with classes", `b:text="C:\";i.x.y:z:text="y"`,
			chain{{Tag: "b", Text: `C:\`}, {Tag: "i", Class: "x.y:z", Text: "y"}}},
		{"backslash before the last element", `b:text="C:\";body`, chain{{Tag: "b", Text: `C:\`}, {Tag: "body"}}},
		{"two backslashes at the end", `b:text="C:\\";i:text="y"`, chain{{Tag: "b", Text: `C:\\`}, {Tag: "i", Text: "y"}}},
		{"only a backslash", `b:text="\"`, chain{{Tag: "b", Text: `\`}}},
		{"an escaped quote, then a backslash", `b:text="\"x\"\";i:text="y"`,
			chain{{Tag: "b", Text: `"x"\`}, {Tag: "i", Text: "y"}}},

		{"empty", ``, nil},
		{"only separators", `;;;`, nil},
		{"no tag", `.x:text="a";:text="b";b:text="c"`, chain{{Tag: "b", Text: "c"}, element.Unread}},
		{"value without an end", `b:text="abc`, chain{{Tag: "b"}, element.Unread}},
		{"key without a value", `b:text=`, chain{{Tag: "b"}}},
		{"junk after an attribute", `b:text="a"junk;i:text="c"`,
			chain{{Tag: "b", Text: "a"}, {Tag: "i", Text: "c"}, element.Unread}},
		{"keys of other makers", `a.small:data-attr="x \" that; y"href="/a"number="3"text="Go";b:style="z"attr__id="x"`,
			chain{{Tag: "a", Class: "small", Text: "Go"}, {Tag: "b", ID: "x"}}},
		{"what is no key", `b:text="a"tag_name="z"text="c";i:text="c"`,
			chain{{Tag: "b", Text: "a"}, {Tag: "i", Text: "c"}, element.Unread}},
		{"separator at the end", `b:text="a";`, chain{{Tag: "b", Text: "a"}}},
	} {
		t.Run(c.name, func(t *testing.T) { assert.Equal(t, c.want, posthog.ParseChain(c.chain)) })
	}
}

func TestParseChain_followsAChainOnlySoFar(t *testing.T) {
	elements := posthog.ParseChain(strings.Repeat(`div:nth-child="1"text="x";`, 10_000))
	assert.Len(t, elements, posthog.MaxElements+1)
	assert.Equal(t, []posthog.Element{{Tag: "div", Text: "x"}, element.Unread}, elements[posthog.MaxElements-1:])
}

// A chain is read to 128 KiB, and its sender chooses every byte.
func TestParseChain_takesTimeInProportion(t *testing.T) {
	const size = 128 << 10
	for name, piece := range map[string]string{
		"colons":                    `:`,
		"keys without a value":      `:attr__`,
		"keys, behind a value":      `b:text="x"attr__`,
		"keys with a quote":         `:attr__"`,
		"known keys":                `:text`,
		"separators":                `;`,
		"untagged elements":         `:text="x";`,
		"classes":                   `.a:b`,
		"escaped quotes":            `\"`,
		"what may end a value":      `\";a`,
		"keys that may end a value": `\"attr__`,
		"elements in a value":       `\";a:attr__`,
		"backslashes":               `\`,
		"quotes":                    `"`,
		"opened values":             `:text="\`,
		"equals signs":              `attr__a=`,
	} {
		for start, head := range map[string]string{"alone": ``, "in a value": `b:text="`, "in a class": `b.x`} {
			t.Run(name+" "+start, func(t *testing.T) {
				chain := head + strings.Repeat(piece, size/len(piece))
				requireQuick(t, time.Second/2, func() {
					assert.LessOrEqual(t, len(posthog.ParseChain(chain)), posthog.MaxElements+1)
				})
			})
		}
	}
}

// chainAttributes are the attributes of an element in a chain that name it.
var chainAttributes = map[string]func(posthog.Element) string{
	"text":              func(e posthog.Element) string { return e.Text },
	"attr__aria-label":  func(e posthog.Element) string { return e.AriaLabel },
	"attr__title":       func(e posthog.Element) string { return e.Title },
	"attr__alt":         func(e posthog.Element) string { return e.Alt },
	"attr__name":        func(e posthog.Element) string { return e.Name },
	"attr__placeholder": func(e posthog.Element) string { return e.Placeholder },
	"attr__id":          func(e posthog.Element) string { return e.ID },
	"attr__type":        func(e posthog.Element) string { return e.Type },
	"attr__role":        func(e posthog.Element) string { return e.Role },
}

// formatChain writes a chain as posthog-js does.
func formatChain(elements []posthog.Element, classes [][]string) string {
	var b strings.Builder
	for i, e := range elements {
		if i > 0 {
			b.WriteByte(';')
		}
		b.WriteString(e.Tag)
		for _, class := range classes[i] {
			b.WriteString("." + class)
		}
		b.WriteByte(':')
		attributes := [][2]string{{"nth-child", "1"}, {"nth-of-type", "2"}, {"href", "/x"}, {"attr__data-x", "y"}}
		for key, value := range chainAttributes {
			if v := value(e); v != "" {
				attributes = append(attributes, [2]string{key, v})
			}
		}
		slices.SortFunc(attributes, func(a, b [2]string) int { return cmp.Compare(a[0], b[0]) })
		for _, a := range attributes {
			b.WriteString(a[0] + `="` + strings.ReplaceAll(a[1], `"`, `\"`) + `"`)
		}
	}
	return b.String()
}

// The parser reads every chain of posthog-js, unless a value ends in a backslash or an equals sign
// or has a backslash before a quote. The format cannot distinguish these from the end of a value.
func TestParseChain_readsChainsOfPosthogJS(t *testing.T) {
	syllables := []string{"a", "Ü", " ", `"`, ";", ":", ".", "=", "body", "attr__", "text", "href", "nth-child", `"text="`,
		`";b:`, "\\x", "日", "\n", "'", "1"}
	value := rapid.Custom(func(t *rapid.T) string {
		v := strings.Join(rapid.SliceOfN(rapid.SampledFrom(syllables), 0, 8).Draw(t, "syllables"), "")
		return strings.TrimRight(v, "=")
	})
	class := rapid.StringMatching(`([a-z]|\[&>svg\]|md:|text:|-|/|\.|#){1,6}`)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "elements")
		elements, classes := make([]posthog.Element, n), make([][]string, n)
		for i := range elements {
			v := func(name string) string { return value.Draw(t, name) }
			elements[i] = posthog.Element{
				Tag:  rapid.SampledFrom([]string{"a", "button", "div", "my-tag", "h1"}).Draw(t, "tag"),
				Text: v("text"), AriaLabel: v("aria-label"), Title: v("title"), Alt: v("alt"), Name: v("name"),
				Placeholder: v("placeholder"), ID: v("id"), Type: v("type"), Role: v("role"),
			}
			classes[i] = rapid.SliceOfN(class, 0, 3).Draw(t, "classes")
			elements[i].Class = strings.Join(classes[i], ".")
		}
		chain := formatChain(elements, classes)
		if got := posthog.ParseChain(chain); !slices.Equal(elements, got) {
			t.Fatalf("%s\nis read as %+v\ninstead of  %+v", chain, got, elements)
		}
	})
}
