package proactive

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/liveactivity/liveactivity/activity"
)

// PingPong matches when the user goes from one page to another and back: A → B →
// A. It ignores a page and one below it, such as a list and its details. It uses
// only the CanonicalURLs.
type PingPong struct {
	// MinCycles is how many times in a row the user must have come back; 1. Two
	// cycles are A → B → A → B → A.
	MinCycles int
}

// ID implements [Trigger].
func (PingPong) ID() string { return "canonical_url_ping_pong" }

// Evaluate implements [Trigger].
func (p PingPong) Evaluate(c TriggerContext) (Result, bool) {
	return Result{}, alternates(c.CanonicalURLs, 2*max(1, p.MinCycles)+1)
}

// DeadEnd matches when the user has alternated between the same two pages, four
// times on each. As for a [PingPong], neither is below the other. Put it before a
// PingPong, which would match much earlier.
type DeadEnd struct{}

// ID implements [Trigger].
func (DeadEnd) ID() string { return "dead_end" }

// Evaluate implements [Trigger].
func (DeadEnd) Evaluate(c TriggerContext) (Result, bool) {
	return Result{}, alternates(c.CanonicalURLs, 2*4)
}

// alternates reports whether the newest n pages alternate between two, neither
// below the other. It ignores empty and immediately repeated URLs.
func alternates(urls []string, n int) bool {
	var turns [2]string // the newest page, and the one before it
	pages, previous := 0, ""
	for _, url := range slices.Backward(urls) {
		switch {
		case url == "" || url == previous:
			continue
		case pages < 2:
			turns[pages] = url
		case url != turns[pages%2]:
			return false
		}
		previous = url
		if pages++; pages == n {
			return !Under(turns[0], turns[1]) && !Under(turns[1], turns[0])
		}
	}
	return false
}

// Dwell matches when the user has stayed on one page and done little there. It
// is [Timed].
type Dwell struct {
	After      time.Duration // 60 s; less than 120 s
	MaxActions int           // on the page, including the page view; 5
}

// ID implements [Trigger].
func (Dwell) ID() string { return "user_page_dwell" }

// Evaluate implements [Trigger].
func (d Dwell) Evaluate(c TriggerContext) (Result, bool) {
	due, ok := d.Again(c)
	return Result{}, ok && !c.Now.Before(due)
}

// Again implements [Timed]: it returns when the user will have stayed long enough, and
// false if there are too many actions or the page is unknown.
func (d Dwell) Again(c TriggerContext) (time.Time, bool) {
	after, most := cmp.Or(max(0, d.After), time.Minute), cmp.Or(max(0, d.MaxActions), 5)
	page, first := c.Page(), len(c.Actions)
	if page == "" {
		return time.Time{}, false
	}
	for first > 0 && (c.Actions[first-1].CanonicalURL == page || c.Actions[first-1].CanonicalURL == "") {
		first--
	}
	stay := c.Actions[first:]
	if len(stay) == 0 || len(stay) > most {
		return time.Time{}, false
	}
	return stay[0].At.Add(after), true
}

// RageClicks returns a trigger that matches the third click on the same label
// within two seconds.
func RageClicks() Trigger { return repeated("rage_clicks", activity.TypeClick, 2*time.Second) }

// RepeatedSubmits returns a trigger that matches the third submit of the same
// form within a minute.
func RepeatedSubmits() Trigger { return repeated("repeated_submits", activity.TypeSubmit, time.Minute) }

// repeated returns a trigger that matches when the newest action has the given type and
// was done three times within that duration, regardless of other actions in between.
func repeated(id, typ string, within time.Duration) Trigger {
	return Predicate(id, func(c TriggerContext) bool {
		if len(c.Actions) == 0 {
			return false
		}
		newest, times := &c.Actions[len(c.Actions)-1], 0
		for i := len(c.Actions) - 1; i >= 0 && newest.At.Sub(c.Actions[i].At) <= within; i-- {
			if c.Actions[i].same(*newest) {
				times++
			}
		}
		return newest.Type == typ && times >= 3
	})
}

// ErrorSeen returns a trigger that matches when the user sees an error. The product's
// events must list "$exception".
func ErrorSeen() Trigger {
	return Predicate("error_seen", func(c TriggerContext) bool {
		n := len(c.Actions)
		return n > 0 && c.Actions[n-1].Type == activity.TypeError
	})
}

// DeadClick returns a trigger that matches when a click on the current page, within the
// last ten seconds, had no effect. The product's events must list "$dead_click".
func DeadClick() Trigger {
	return Predicate("dead_click", func(c TriggerContext) bool {
		for i := len(c.Actions) - 1; i >= 0 && c.Actions[i].CanonicalURL == c.Page(); i-- {
			a := &c.Actions[i]
			if c.Now.Sub(a.At) <= 10*time.Second && slices.Contains(a.Marks, activity.MarkDead) {
				return true
			}
		}
		return false
	})
}

// BackOnPricing returns a trigger that matches when the user returns to the
// pricing pages from elsewhere. These are the pages under prefix or, if it is
// empty, under /pricing; see [Under].
func BackOnPricing(prefix string) Trigger {
	prefix = cmp.Or(prefix, "/pricing")
	return Predicate("back_on_pricing", func(c TriggerContext) bool {
		if !Under(c.Page(), prefix) {
			return false
		}
		left := false
		for i := len(c.CanonicalURLs) - 1; i >= 0; i-- {
			there := Under(c.CanonicalURLs[i], prefix)
			if there && left {
				return true
			}
			left = left || !there && c.CanonicalURLs[i] != ""
		}
		return false
	})
}

// Predicate returns a trigger that matches whenever the function returns true.
func Predicate(id string, holds func(TriggerContext) bool) Trigger { return predicate{id, holds} }

type predicate struct {
	id    string
	holds func(TriggerContext) bool
}

func (p predicate) ID() string { return p.id }

func (p predicate) Evaluate(c TriggerContext) (Result, bool) { return Result{}, p.holds(c) }

// Within returns the trigger limited to pages under a prefix; see [Under]. The
// user's current page decides. An empty prefix means no limit.
func Within(prefix string, t Trigger) Trigger {
	if prefix == "" {
		return t
	}
	return keepTimed(t, mapped{t, func(c TriggerContext, r Result, ok bool) (Result, bool) {
		return r, ok && Under(c.Page(), prefix)
	}})
}

// Saying returns the trigger with another text. Where a field of result is zero the
// trigger's own value stays, and so does its metadata.
func Saying(result Result, t Trigger) Trigger {
	return keepTimed(t, mapped{t, func(_ TriggerContext, r Result, ok bool) (Result, bool) {
		r.Body = cmp.Or(result.Body, r.Body)
		if result.ReplyOptionLabels != nil {
			r.ReplyOptionLabels = result.ReplyOptionLabels
		}
		r.InteractionTimeout = cmp.Or(result.InteractionTimeout, r.InteractionTimeout)
		r.Cooldown = cmp.Or(result.Cooldown, r.Cooldown)
		return r, ok
	}})
}

// mapped is a trigger whose outcome is changed by a function.
type mapped struct {
	Trigger
	outcome func(TriggerContext, Result, bool) (Result, bool)
}

func (m mapped) Evaluate(c TriggerContext) (Result, bool) {
	r, ok := m.Trigger.Evaluate(c)
	return m.outcome(c, r, ok)
}

// keepTimed returns the trigger made from another, as a Timed one if the other
// is.
func keepTimed(of, made Trigger) Trigger {
	if timed, ok := of.(Timed); ok {
		return timedTrigger{made, timed}
	}
	return made
}

type timedTrigger struct {
	Trigger
	timed Timed
}

func (t timedTrigger) Again(c TriggerContext) (time.Time, bool) { return t.timed.Again(c) }

// Under reports whether a canonical URL is a prefix or a page below it. A prefix
// that begins with a slash applies to the path, on every host: "/pricing" covers
// "https://acme.example/pricing" and ".../pricing/plans", but not
// ".../pricing-faq". Any other prefix applies to the whole URL.
func Under(canonicalURL, prefix string) bool {
	if canonicalURL == "" || prefix == "" {
		return false
	}
	if strings.HasPrefix(prefix, "/") {
		if _, rest, ok := strings.Cut(canonicalURL, "://"); ok {
			at := strings.IndexAny(rest, "/#")
			if at < 0 {
				return prefix == "/"
			}
			canonicalURL = rest[at:]
		}
	}
	prefix = strings.TrimRight(prefix, "/")
	rest, ok := strings.CutPrefix(canonicalURL, prefix)
	return ok && (rest == "" || rest[0] == '/' || rest[0] == '#')
}
