package activity

import (
	"cmp"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxLabel is the most characters a label has.
const maxLabel = 80

// Target is what an action was done to.
type Target struct {
	// Label is the text a person would call it by, as it came; it is cleaned
	// by [CleanLabel]. Empty means no label.
	Label string
	// Element is the noun to use if there is no label: "button", "link";
	// empty means "element".
	Element string
}

// NewAction puts in words what was done on the page rawURL. There is proper
// wording for the types above; other types get by. The action has rawURL as
// [CleanURL] leaves it. Times, identity and index are the caller's to fill in.
func NewAction(typ string, target Target, rawURL string) Action {
	clean, canonical := CleanURL(rawURL)
	a := Action{Type: typ, RawURL: clean, CanonicalURL: canonical}
	a.Title, a.Description = words(typ, target, PageName(canonical))
	return a
}

// words returns the title and the description of what was done on the page,
// which may have no name.
func words(typ string, target Target, page string) (title, description string) {
	if typ == TypePageview {
		if page == "" {
			return titleOfNoPage, "User landed on a page"
		}
		return titlePrefix(typ) + capitalise(page), "User landed on the " + page + " page"
	}
	title, did := phrase(typ, CleanLabel(target.Label), cmp.Or(target.Element, "element"))
	if page == "" {
		return title, "User " + did
	}
	return title, "User " + did + " on the " + page + " page"
}

// titleOfNoPage is the title of a page view without an address.
const titleOfNoPage = "Page Load"

// titlePrefix is what comes in a title before what the action was done to.
func titlePrefix(typ string) string {
	switch typ {
	case TypePageview:
		return "Page Load: "
	case TypeClick:
		return "Click "
	case TypeSubmit:
		return "Submit "
	case TypeChange:
		return "Change "
	}
	return capitalise(typ) + " "
}

// phrase returns the title and the middle of the sentence.
func phrase(typ, label, element string) (title, did string) {
	prefix := titlePrefix(typ)
	switch typ {
	case TypeClick:
		if label != "" {
			return prefix + label, "clicked " + label
		}
		return prefix + element, "clicked " + withArticle(element)
	case TypeSubmit:
		if label != "" {
			label = withoutNoun(label, "form")
			return prefix + label + " form", "submitted the " + label + " form"
		}
		return prefix + "form", "submitted a form"
	case TypeChange:
		if label != "" {
			label = withoutNoun(label, "field")
			return prefix + label + " field", "changed the " + label + " field"
		}
		return prefix + element, "changed " + withArticle(element)
	}
	what := label
	if what == "" {
		what = withArticle(element)
	}
	return prefix + cmp.Or(label, element), "did a " + typ + " on " + what
}

// withoutNoun takes the noun off the end of a label that is about to be
// followed by it.
func withoutNoun(label, noun string) string {
	if i := len(label) - len(noun) - 1; i > 0 && strings.EqualFold(label[i:], " "+noun) {
		return label[:i]
	}
	return label
}

func withArticle(noun string) string {
	if noun != "" && strings.ContainsRune("aeiou", rune(noun[0])) {
		return "an " + noun
	}
	return "a " + noun
}

// PageName returns what to call the page at a canonical URL, in lower case:
// its last path segment that is not an identifier, hyphens and underscores
// read as spaces. The root is "home"; a page that ends in an identifier is the
// "detail" of the segment before it. The name of "" is "".
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
			return segmentName(segment) + suffix
		}
		path, suffix = before, " detail"
	}
	return "detail"
}

// cutLast cuts the last segment off a path, and the slashes before it.
func cutLast(path string) (before, segment string) {
	i := strings.LastIndexByte(path, '/')
	return strings.TrimRight(path[:max(i, 0)], "/"), path[i+1:]
}

func segmentName(segment string) string {
	if decoded, err := url.PathUnescape(segment); err == nil {
		segment = decoded
	}
	if name := CleanLabel(strings.ToLower(spaced.Replace(segment))); name != "" {
		return name
	}
	return "unnamed"
}

// spaced reads hyphens and underscores as spaces.
var spaced = strings.NewReplacer("-", " ", "_", " ")

// CleanLabel folds white space, drops control and invisible formatting
// characters, and cuts the label at a word after at most 80 characters,
// counting the "…" that marks the cut.
func CleanLabel(s string) string {
	return cut(foldStart(s, maxLabel), maxLabel)
}

func capitalise(s string) string {
	r, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(r)) + s[size:]
}
