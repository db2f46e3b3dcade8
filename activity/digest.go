package activity

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/liveactivity/liveactivity/internal/fair"
)

// Digest summarizes a user's actions in one sentence, without a language model:
//
//	Visited pricing, checkout and billing settings; clicked Confirm plan; submitted the payment form.
//
// Pages come first, then clicks, submits, changes, everything else and errors, each once and in the
// order of first occurrence. The text does not depend on the division of actions among calls of Add.
// Objects are named as in the titles of actions.
//
// The zero value is ready for use. A Digest is not safe for concurrent use and must not be copied
// after the first Add. It keeps the newest 50 phrases of each of the six kinds, of at most 120
// characters each; earlier ones are only counted ("Visited 12 earlier pages, pricing and
// checkout"). Decoding its JSON restores the state.
type Digest struct{ kinds [len(wordings)]phrases }

// Bounds of a [Digest].
const (
	maxPhrases = 50  // of a kind
	maxPhrase  = 120 // characters
)

// phrases are the newest phrases of a kind, each once, in the order of their first addition.
type phrases struct {
	Said    []string `json:"said,omitempty"`
	Dropped int      `json:"dropped,omitempty"` // how many went before, some of them perhaps twice
}

// Add adds actions, which must be in time order. It does not retain the slice.
func (d *Digest) Add(actions ...Action) {
	for _, a := range actions {
		d.kinds[wordingIndex(a.Type)].add(objectOf(a))
	}
}

func (p *phrases) add(phrase string) {
	phrase = cut(phrase, maxPhrase)
	if slices.Contains(p.Said, phrase) {
		return
	}
	p.Said = append(p.Said, strings.Clone(phrase))
	p.bound()
}

// bound drops the oldest phrases beyond maxPhrases and counts them.
func (p *phrases) bound() {
	if excess := len(p.Said) - maxPhrases; excess > 0 {
		p.Said = slices.Delete(p.Said, 0, excess)
		p.Dropped += excess
	}
}

// Clone returns an independent copy, or an empty digest for nil.
func (d *Digest) Clone() *Digest {
	if d == nil {
		return &Digest{}
	}
	clone := *d
	for i := range clone.kinds {
		clone.kinds[i].Said = slices.Clone(clone.kinds[i].Said)
	}
	return &clone
}

// String returns the sentence, or "" before the first Add.
func (d *Digest) String() string {
	var clauses []string
	for i, p := range d.kinds {
		objects := p.Said
		if p.Dropped > 0 {
			earlier := strconv.Itoa(p.Dropped) + " earlier " + plural(wordings[i].noun, p.Dropped)
			objects = slices.Concat([]string{earlier}, objects)
		}
		if len(objects) > 0 {
			clauses = append(clauses, wordings[i].did+" "+enumerate(objects))
		}
	}
	if len(clauses) == 0 {
		return ""
	}
	text := capitalise(strings.Join(clauses, "; "))
	if end, _ := utf8.DecodeLastRuneInString(text); !strings.ContainsRune(".!?…", end) {
		text += "."
	}
	return text
}

// Size returns the approximate memory of the digest in bytes.
func (d *Digest) Size() int64 {
	size := int64(unsafe.Sizeof(*d))
	for _, p := range d.kinds {
		size += fair.Size(cap(p.Said) * int(unsafe.Sizeof("")))
		for _, phrase := range p.Said {
			size += fair.Size(len(phrase))
		}
	}
	return size
}

// MarshalJSON implements [json.Marshaler].
func (d *Digest) MarshalJSON() ([]byte, error) { return json.Marshal(d.kinds) }

// UnmarshalJSON implements [json.Unmarshaler]. It replaces the digest's state; after an error the
// state is unchanged.
func (d *Digest) UnmarshalJSON(data []byte) error {
	var decoded Digest
	if err := json.Unmarshal(data, &decoded.kinds); err != nil {
		return fmt.Errorf("activity: decode digest: %w", err)
	}
	for i := range decoded.kinds {
		decoded.kinds[i].bound()
	}
	*d = decoded
	return nil
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

// objectOf returns the object that follows the verb for an action. It is never empty.
func objectOf(a Action) string {
	typ, title := fold(a.Type), fold(a.Title)
	object, named := strings.CutPrefix(title, titlePrefix(typ))
	switch a.Type {
	case TypePageview:
		if page := fold(PageName(a.CanonicalURL)); page != "" {
			return page
		}
		return cmp.Or(strings.TrimPrefix(object, titleOfNoPage), "a page")
	case TypeClick:
		return cmp.Or(object, "something")
	case TypeSubmit, TypeChange:
		switch {
		case named && (strings.HasSuffix(object, " form") || strings.HasSuffix(object, " field")):
			return "the " + object
		case named:
			return article(object) + object
		}
		return cmp.Or(object, "something")
	}
	switch {
	case typ == TypeError && named:
		return "the error " + object
	case title != "" && title+" " != titlePrefix(typ):
		return "“" + title + "”"
	case typ != "":
		return article(typ) + typ
	}
	return "something"
}
