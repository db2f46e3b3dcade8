package activity

import (
	"cmp"
	"net/url"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The texts of actions are generated once, when an event arrives, and stored. Nothing parses a
// description later. A title is a prefix for the type (titlePrefix) followed by the object;
// [Action.Label] and [Digest] rely on this form.

// Bounds of labels and page names, in characters.
const (
	maxLabel = 80
	maxPage  = 40
)

// Target is the object of an action.
type Target struct {
	// Label is the text by which a person would refer to the object. Empty means no label. It need
	// not be clean: see [CleanLabel], and addresses in it lose their credentials.
	Label string
	// Element is the noun to use if there is no label: "button", "link";
	// empty means "element".
	Element string
}

// NewAction returns an action on the page rawURL with a generated title and description. The types
// above have wordings of their own; other types get a generic one. The action's URLs are the
// results of [CleanURL]. The caller fills in times, identity and index. Any arguments are valid.
func NewAction(typ string, target Target, rawURL string) Action {
	a := actionOn(typ, rawURL)
	a.Title, a.Description = words(cmp.Or(typ, "action"), target, PageName(a.CanonicalURL))
	return a
}

// actionOn returns an action on the page rawURL without title and description.
func actionOn(typ, rawURL string) Action {
	clean, canonical := CleanURL(rawURL)
	return Action{Type: typ, RawURL: clean, CanonicalURL: canonical}
}

// Property is a property of a custom event.
type Property struct{ Name, Value string }

// Bounds of the texts of custom events and errors, in characters.
const (
	maxValue   = 60 // of a property
	maxMessage = 120
)

// NewEvent returns an action for a custom event on the page rawURL. The sentence is the part of the
// description after the subject, such as "sent an invoice"; if empty, it is derived from the name.
// Name and values are cleaned like labels, and values are cut after 60 characters; properties with
// empty values are left out.
func NewEvent(name, sentence string, properties []Property, rawURL string) Action {
	a := actionOn(TypeEvent, rawURL)
	a.Title = CleanLabel(withoutSecrets(name))
	var shown []string
	for _, p := range properties {
		p.Value = withoutSecrets(p.Value)
		if p.Value = cut(foldStart(p.Value, maxValue), maxValue); p.Value == "" {
			continue
		}
		if a.Properties == nil {
			a.Properties = make(map[string]string, len(properties))
		}
		a.Properties[p.Name] = p.Value
		shown = append(shown, CleanLabel(p.Name)+": "+p.Value)
	}
	a.Description = "User " + cmp.Or(fold(sentence), "did "+a.Title)
	if len(shown) > 0 {
		a.Description += " (" + strings.Join(shown, ", ") + ")"
	}
	a.Description += onPage(PageName(a.CanonicalURL))
	return a
}

// NewError returns an action for an error with a type and a message, each of which may be empty,
// on the page rawURL. The message is cut before a stack trace, and after 120 characters.
func NewError(typ, message, rawURL string) Action {
	typ = CleanLabel(withoutSecrets(typ))
	message, _ = firstRunes(fold(withoutSecrets(withoutStack(message))), maxMessage)
	a := actionOn(TypeError, rawURL)
	a.Title = strings.TrimSuffix("Error "+typ, " ")
	a.Description = "User saw an error" + onPage(PageName(a.CanonicalURL))
	for _, part := range []string{typ, message} {
		if part != "" {
			a.Description += ": " + part
		}
	}
	return a
}

// stackForm matches the beginning of a stack trace of a browser or a server-side language, also
// with escaped line breaks.
var stackForm = regexp.MustCompile(
	`(?m)^(?:\s*at \S|\s*at .*:\d+|\s*File "|Traceback \(|goroutine \d|\S*@\S+:\d+` +
		`|(?i:stack (?:back)?trace:)|#\d+ |\s*(?:from )?\S+:\d+:in ).*|\\n +at ` +
		`| at (?:\S+ )?\(?\S+:\d+:\d+\)?`)

// withoutStack returns a message up to the stack trace that some programs append.
func withoutStack(message string) string {
	if at := stackForm.FindStringIndex(message); at != nil {
		return message[:at[0]]
	}
	return message
}

// withoutSecrets cleans addresses, and paths with a query, within a text, as [CleanURL] does. If
// there are any, white space in the text is folded, too.
func withoutSecrets(s string) string {
	if !strings.Contains(s, "://") && !queryForm.MatchString(s) {
		return s
	}
	words := strings.Fields(s)
	for i, word := range words {
		at := strings.Index(word, "://")
		if at < 0 && !queryForm.MatchString(word) {
			continue
		}
		for at > 0 && unicode.IsLetter(rune(word[at-1])) {
			at--
		}
		if at < 0 || strings.Contains(word[:at], "?") { // the address is a parameter's value
			at = 0
		}
		clean, _ := CleanURL(word[at:])
		words[i] = word[:at] + clean
	}
	return strings.Join(words, " ")
}

// queryForm matches a query with a parameter.
var queryForm = regexp.MustCompile(`\?\S*=`)

// onPage returns the end of a sentence about something on a page, "" if the page has no name.
func onPage(page string) string {
	if page == "" {
		return ""
	}
	return " on the " + page + " page"
}

// words returns the title and the description of an action on a page; page is empty if it has no
// name.
func words(typ string, target Target, page string) (title, description string) {
	if typ == TypePageview {
		if page == "" {
			return titleOfNoPage, "User landed on a page"
		}
		return titlePrefix(typ) + capitalise(page), "User landed" + onPage(page)
	}
	w := &wordings[wordingIndex(typ)]
	object, the := CleanLabel(withoutSecrets(target.Label)), ""
	switch {
	case object == "":
		if object = cmp.Or(target.Element, "element"); typ == TypeSubmit {
			object = w.noun
		}
		the = article(object)
	case typ == TypeSubmit, typ == TypeChange:
		object, the = withoutNoun(object, w.noun)+" "+w.noun, "the "
	}
	did := w.did + " "
	if w.typ == "" {
		did = "did " + article(typ) + typ + " on "
	}
	return titlePrefix(typ) + object, "User " + did + the + object + onPage(page)
}

// wordings are the words for the types of actions, in the order of a [Digest]'s sentence and of its
// stored state: the beginning of a title, the verb, and the noun for an object.
var wordings = [...]struct{ typ, title, did, noun string }{
	{TypePageview, "Page Load: ", "visited", "page"},
	{TypeClick, "Click ", "clicked", "element"},
	{TypeSubmit, "Submit ", "submitted", "form"},
	{TypeChange, "Change ", "changed", "field"},
	{"", "", "did", "thing"}, // any other type
	{TypeError, "Error ", "saw", "error"},
}

// wordingIndex returns the index of a type's wording.
func wordingIndex(typ string) int {
	for i := range wordings {
		if typ != "" && wordings[i].typ == typ {
			return i
		}
	}
	const others = 4
	return others
}

// titleOfNoPage is the title of a page view without a URL.
const titleOfNoPage = "Page Load"

// titlePrefix precedes the action's object in a title.
func titlePrefix(typ string) string {
	if w := &wordings[wordingIndex(typ)]; w.typ != "" {
		return w.title
	}
	return capitalise(typ) + " "
}

// withoutNoun removes the noun from the end of a label that the noun will follow, to prevent
// "signup form form".
func withoutNoun(label, noun string) string {
	if i := len(label) - len(noun) - 1; i > 0 && strings.EqualFold(label[i:], " "+noun) {
		return label[:i]
	}
	return label
}

// article returns the indefinite article of a noun, by its first letter, and a space.
func article(noun string) string {
	if noun != "" && strings.ContainsRune("aeiou", rune(noun[0])) {
		return "an "
	}
	return "a "
}

// PageName returns the name of the page at a canonical URL in lower case: the last path segment
// that is not an identifier, with spaces for hyphens and underscores. The root is "home", and a
// page whose path ends in an identifier is the "detail" of the segment before. Names are cut at a
// word after at most 40 characters, including the "…" of the cut. The name of "" is "".
func PageName(canonical string) string {
	if canonical == "" {
		return ""
	}
	path := canonical
	if a := splitAddress(path); a.authority {
		path = a.rest
	}
	if before, route, ok := strings.Cut(path, "#"); ok {
		path = before
		if route = strings.TrimPrefix(route, "!"); route != "" {
			path = route
		}
	}
	path = strings.Trim(path, "/")
	if path == "" {
		return "home"
	}
	suffix := ""
	for path != "" {
		before, segment := cutLast(path)
		if segment != idSegment {
			return segmentName(segment, maxPage-len(suffix)) + suffix
		}
		path, suffix = before, " detail"
	}
	return "detail"
}

// cutLast splits off the last segment of a path and drops the slashes before it.
func cutLast(path string) (before, segment string) {
	i := strings.LastIndexByte(path, '/')
	return strings.TrimRight(path[:max(i, 0)], "/"), path[i+1:]
}

// segmentName returns a segment as a name of at most limit characters.
func segmentName(segment string, limit int) string {
	if decoded, err := url.PathUnescape(segment); err == nil {
		segment = decoded
	}
	segment = strings.ToLower(spaced.Replace(segment))
	if name := cut(foldStart(segment, limit), limit); name != "" {
		return name
	}
	return "unnamed"
}

// spaced replaces hyphens and underscores by spaces.
var spaced = strings.NewReplacer("-", " ", "_", " ")

// CleanLabel folds white space, drops control characters and invisible formatting characters, and
// cuts the label at a word after at most 80 characters, including the "…" of the cut.
func CleanLabel(s string) string {
	return cut(foldStart(s, maxLabel), maxLabel)
}

// capitalise returns s with its first character in upper case.
func capitalise(s string) string {
	r, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(r)) + s[size:]
}
