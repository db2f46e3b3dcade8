package agent

import (
	"cmp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/prompt"
)

// Characters of the parts of a text.
const (
	maxName     = 254 // of a user ID or an address
	maxAddress  = 300 // of a URL
	maxLine     = 1000
	leastBody   = 60 // which the product's prompt leaves, or it is left out
	leftOutRoom = len("(99999 earlier left out)\n")
)

// cutMark ends a line that is cut.
const cutMark = " …"

// Render writes the text of the context, whose other fields are set: at most maxChars
// characters. The product's prompt comes first, unless it leaves no room, and then, quoted,
// a line about the person and the page, and a line of each action, oldest first. The oldest
// are left out first, which the text says. Where nothing is known within the retention ttl, the text is a
// sentence. The function unverified reports whether an action is of a lower standing than
// the context.
func (a *Answer) Render(maxChars int, ttl time.Duration, unverified func(*activity.Record) bool) {
	const around = len("\n<data>\n</data>")
	room := cmp.Or(maxChars, DefaultChars) - utf8.RuneCountInString(prompt.Guard) - around
	above := ""
	if n := utf8.RuneCountInString(a.Prompt) + len("\n\n"); a.Prompt != "" && n <= room-leastBody {
		above = a.Prompt + "\n\n"
		room -= n
	}
	if a.LastSeen == 0 {
		a.Text = above + "Nothing is known of what this person did: no activity in the last " + activity.Span(ttl) + "."
		return
	}
	lines := a.body(room, unverified)
	a.Text = above + prompt.Guard + "\n" + strings.TrimSuffix(prompt.Data(MaxChars, lines...), "\n")
}

// body returns the lines of the text, of at most room characters with their line feeds.
func (a *Answer) body(room int, unverified func(*activity.Record) bool) []string {
	head := a.head()
	if len(a.Recent) == 0 {
		const none = "Nothing new since then."
		return []string{prompt.Line(room-size(none)-size(cutMark), head), none}
	}
	left := room - size(head)
	lines := make([]string, len(a.Recent))
	from := len(lines)
	for from > 0 && left >= 0 {
		from--
		lines[from] = a.line(from, unverified)
		left -= size(lines[from])
	}
	if left >= 0 {
		return append([]string{head}, lines...)
	}
	a.Truncated = true
	for ; from < len(lines) && left < leftOutRoom; from++ {
		left += size(lines[from])
	}
	if from == len(lines) { // the newest one is cut, and so is the head
		from--
		head = prompt.Line(room/4, head)
		lines[from] = prompt.Line(room-size(head)-leftOutRoom-size(cutMark), a.line(from, unverified))
	}
	if from == 0 {
		return []string{head, lines[0]}
	}
	return append([]string{head, "(" + strconv.Itoa(from) + " earlier left out)"}, lines[from:]...)
}

// size returns the room that a line takes.
func size(line string) int { return utf8.RuneCountInString(line) + 1 }

// line returns an action in words: "2 min ago: User clicked Export CSV on the dashboard page".
func (a *Answer) line(i int, unverified func(*activity.Record) bool) string {
	r := &a.Recent[i]
	mark := " ago: "
	if unverified(r) {
		mark = " ago, not verified: "
	}
	var made [256]byte
	b := activity.AppendSpan(made[:0], time.Duration(a.AsOf*1e6-float64(r.Start))*time.Microsecond)
	return string(append(append(b, mark...), prompt.Line(maxLine, r.Sentence())...))
}

// head returns the line about the person and the page: "ada@example.com (user user_42,
// signed) is on the billing page (https://app.example.com/billing): there for 2 min, here
// for 14 min, last seen 5 s ago".
func (a *Answer) head() string {
	var b strings.Builder
	email, user := prompt.Line(maxName, a.Email), prompt.Line(maxName, a.UserID)
	about := []string{a.Identity}
	if user != "" && email != "" {
		about = []string{"user " + user, a.Identity}
	}
	if a.Identity == activity.Claimed.String() {
		about = append(about, "not verified")
	}
	b.WriteString(cmp.Or(email, prefixed("User ", user), "A visitor") + " (" + strings.Join(about, ", ") + ") is on ")
	if page := prompt.Line(maxName, a.Page); page != "" {
		b.WriteString("the " + page + " page (" + prompt.Line(maxAddress, a.CanonicalURL) + ")")
	} else {
		b.WriteString("a page without an address")
	}
	seconds := func(s float64) string { return activity.Span(time.Duration(s * float64(time.Second))) }
	b.WriteString(": there for " + seconds(a.OnPageS) + ", here for " + seconds(a.HereS) +
		", last seen " + seconds(a.AsOf-a.LastSeen) + " ago")
	return b.String()
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}
