package activity

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Digest sums up what a user did in one sentence, without a language model:
//
//	Visited pricing, checkout and billing settings; clicked Confirm plan; submitted the payment form.
//
// It says everything once, in the order in which it was first done: the pages
// viewed, then what was clicked, submitted and changed, then everything else.
// The same actions, however divided into calls of Add, give the same text.
//
// The zero value is ready for use. A Digest is not safe for concurrent use, and
// must not be copied after the first Add. It keeps at most 50 phrases of each
// of the five kinds, of at most 120 characters; what went before is only
// counted ("Visited 12 earlier pages, pricing and checkout").
type Digest struct {
	pages, clicks, submits, changes, others phrases
}

// Bounds of a [Digest].
const (
	maxPhrases = 50  // of a kind
	maxPhrase  = 120 // characters
)

// Add adds actions, in the order in which they were done. It does not keep the
// slice.
func (d *Digest) Add(actions ...Action) {
	for _, a := range actions {
		page := fold(PageName(a.CanonicalURL))
		if a.Type == TypePageview && page != "" {
			d.pages.add(saying{verb: "visited", object: page})
			continue
		}
		if said := say(a, page); said.verb != "" {
			d.kind(a.Type).add(said)
		}
	}
}

func (d *Digest) kind(typ string) *phrases {
	switch typ {
	case TypeClick:
		return &d.clicks
	case TypeSubmit:
		return &d.submits
	case TypeChange:
		return &d.changes
	}
	return &d.others
}

// String returns the sentence; "" while nothing was added.
func (d *Digest) String() string {
	clauses := slices.Concat(
		d.pages.clauses("visited", "page"),
		d.clicks.clauses("clicked", "element"),
		d.submits.clauses("submitted", "form"),
		d.changes.clauses("changed", "field"),
		d.others.clauses("did", "thing"),
	)
	if len(clauses) == 0 {
		return ""
	}
	text := capitalise(strings.Join(clauses, "; "))
	if end, _ := utf8.DecodeLastRuneInString(text); !strings.ContainsRune(".!?…", end) {
		text += "."
	}
	return text
}

// saying is what was done, in words: "clicked", "Export CSV".
type saying struct{ verb, object string }

// phrases are the newest sayings of a kind, each once.
type phrases struct {
	said    []saying
	dropped int // how many went before
}

func (p *phrases) add(s saying) {
	s.verb, s.object = cut(s.verb, maxPhrase), cut(s.object, maxPhrase)
	if slices.Contains(p.said, s) {
		return
	}
	if len(p.said) == maxPhrases {
		p.said = slices.Delete(p.said, 0, 1)
		p.dropped++
	}
	p.said = append(p.said, saying{strings.Clone(s.verb), strings.Clone(s.object)})
}

// clauses returns one clause for each verb. What was dropped is counted with the
// kind's own verb, first of all.
func (p *phrases) clauses(verb, noun string) []string {
	objects := map[string][]string{}
	var verbs []string
	add := func(verb, object string) {
		if _, ok := objects[verb]; !ok {
			verbs = append(verbs, verb)
			objects[verb] = nil
		}
		if object != "" {
			objects[verb] = append(objects[verb], object)
		}
	}
	if p.dropped > 0 {
		add(verb, strconv.Itoa(p.dropped)+" earlier "+plural(noun, p.dropped))
	}
	for _, s := range p.said {
		add(s.verb, s.object)
	}
	clauses := make([]string, len(verbs))
	for i, verb := range verbs {
		clauses[i] = strings.TrimSuffix(verb+" "+enumerate(objects[verb]), " ")
	}
	return clauses
}

// enumerate returns "a", "a and b", "a, b and c".
func enumerate(list []string) string {
	if len(list) < 2 {
		return strings.Join(list, "")
	}
	last := len(list) - 1
	return strings.Join(list[:last], ", ") + " and " + list[last]
}

func plural(noun string, n int) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}

// say puts in words what the action on the page was: from its description or,
// where it has none, from its title, or else from its type.
func say(a Action, page string) saying {
	if text := fold(a.Description); text != "" {
		return parseSentence(strings.TrimSuffix(text, " on the "+page+" page"))
	}
	if title := fold(a.Title); title != "" {
		return sayTitle(a.Type, title)
	}
	switch typ := fold(a.Type); {
	case typ == "":
		return saying{"did", "something"}
	case knownVerbs[typ] != "":
		return saying{knownVerbs[typ], "something"}
	default:
		return saying{"did", withArticle(typ)}
	}
}

// knownVerbs are the verbs by action type.
var knownVerbs = map[string]string{
	TypePageview: "visited", TypeClick: "clicked", TypeSubmit: "submitted", TypeChange: "changed",
}

// sayTitle turns a title ("Click Export CSV", "Submit signup form") into words.
// One that does not begin with what its type says names what it was done to.
func sayTitle(typ, title string) saying {
	verb := knownVerbs[typ]
	switch typ {
	case TypePageview:
		page, ok := strings.CutPrefix(title, "Page Load: ")
		if title == "Page Load" {
			page = "a page"
		} else if ok {
			page = uncapitalise(page)
		}
		return saying{verb, page}
	case TypeClick, TypeSubmit, TypeChange:
		object, ours := strings.CutPrefix(title, capitalise(typ)+" ")
		if ours && (strings.HasSuffix(object, " form") || strings.HasSuffix(object, " field")) && typ != TypeClick {
			object = "the " + object
		}
		return saying{verb, object}
	}
	return parseSentence(title)
}

// parseSentence divides a sentence into verb and object. "User" in front of it
// and a full stop at its end are left out.
func parseSentence(text string) saying {
	for _, subject := range []string{"User ", "The user ", "user ", "the user "} {
		if rest, ok := strings.CutPrefix(text, subject); ok {
			text = rest
			break
		}
	}
	if !strings.HasSuffix(text, "..") {
		text = strings.TrimSuffix(text, ".")
	}
	text = uncapitalise(strings.TrimSpace(text))
	verb, object, _ := strings.Cut(text, " ")
	for {
		word, rest, _ := strings.Cut(object, " ")
		if !slices.Contains(particles, word) {
			return saying{verb, object}
		}
		verb, object = verb+" "+word, rest
	}
}

// particles are words that belong to the verb before them: "signed up for".
var particles = strings.Fields("about at away back by down for from in into of off on out over through to up with within")

// uncapitalise makes the first letter of a sentence small, unless the first
// word is an abbreviation.
func uncapitalise(s string) string {
	first, size := utf8.DecodeRuneInString(s)
	second, _ := utf8.DecodeRuneInString(s[size:])
	if !unicode.IsUpper(first) || !unicode.IsLower(second) {
		return s
	}
	return string(unicode.ToLower(first)) + s[size:]
}
