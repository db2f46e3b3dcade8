package agent

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/internal/prompt"
)

// Characters of the parts of a text.
const (
	maxName     = 254 // of a user ID or an address
	maxAddress  = 300 // of a URL
	maxLine     = 1000
	leastBody   = 60 // the product's prompt leaves at least this, or is left out
	leftOutRoom = len("(99999 earlier left out)\n")
)

// cutMark ends a line that is cut.
const cutMark = " …"

// Render writes the text of the context, whose other fields are set: at most maxChars
// characters, [DefaultChars] for zero. The product's prompt comes first, unless it leaves no
// room. Then come, quoted, a line about the person and the page, and a line for each action,
// oldest first. If there is too little room, the oldest actions are left out; the text states
// their number, together with the earlier actions missing from c.Actions. If nothing is known
// within the retention ttl, the text is one sentence.
//
// found has the records of c.Actions. The unverified sessions have a lower standing than the
// context, and their lines are marked. last is the session of the page. Render sets Text and
// Truncated.
func (c *Context) Render(found recent.Records, earlier, maxChars int, ttl time.Duration, last string,
	unverified []string) {
	const start, end = prompt.Guard + "\n" + prompt.Begin + "\n", prompt.End
	room := cmp.Or(maxChars, DefaultChars) - len(start+end)
	c.Text = ""
	if n := utf8.RuneCountInString(c.Prompt) + len("\n\n"); c.Prompt != "" && n <= room-leastBody {
		c.Text = c.Prompt + "\n\n"
		room -= n
	}
	if c.LastSeen == 0 {
		c.Text += "No activity of this person is known from the last " + span(ttl) + "."
		return
	}
	lines := c.lines(found, last, unverified)
	if over := size(lines...) - room; over > 0 || earlier > 0 {
		c.Truncated = len(found) > 0
		lines = shortened(lines, room, over, earlier)
	}
	c.Text += start + strings.Join(lines, "\n") + "\n" + end
}

// lines returns the quoted lines of the text, however long.
func (c *Context) lines(found recent.Records, last string, unverified []string) []string {
	lines := []string{c.head(slices.Contains(unverified, last))}
	for i := range found {
		lines = append(lines, c.line(&c.Actions[i], slices.Contains(unverified, found[i].Session)))
	}
	if len(found) == 0 {
		lines = append(lines, "Nothing new since then.")
	}
	return lines
}

// size returns how many characters lines have, with their line feeds.
func size(lines ...string) (n int) {
	for _, line := range lines {
		n += utf8.RuneCountInString(line) + 1
	}
	return n
}

// shortened returns the lines without the oldest actions; over is the number of characters by
// which they exceed the room, and earlier the number of actions left out before. The newest
// action stays; it and the head are cut if necessary.
func shortened(lines []string, room, over, earlier int) []string {
	head, lines := lines[0], lines[1:]
	over += leftOutRoom
	for ; over > 0 && len(lines) > 1; lines = lines[1:] {
		over -= size(lines[0])
		earlier++
	}
	if over > 0 { // the last line is cut, and so may the head be
		left := room - leftOutRoom - size(cutMark, cutMark)
		head = prompt.Line(max(room/4, left-size(lines[0])), head)
		lines = []string{prompt.Line(left-utf8.RuneCountInString(head), lines[0])}
	}
	if earlier > 0 {
		head += "\n(" + strconv.Itoa(earlier) + " earlier left out)"
	}
	return append([]string{head}, lines...)
}

// line returns an action in words: "2 min ago: User clicked Export CSV on the dashboard page".
func (c *Context) line(a *activity.Action, isUnverified bool) string {
	mark := " ago: "
	if isUnverified {
		mark = " ago, not verified: "
	}
	ago := time.Duration(c.AsOf*1e6-float64(a.Start().UnixMicro())) * time.Microsecond
	return span(ago) + mark + prompt.Line(maxLine, a.Sentence())
}

// head returns the line about the person and the page: "ada@example.com (user user_42, signed)
// is on the billing page (https://app.example.com/billing): there for 2 min, here for 14 min,
// last seen 5 s ago". The page of an unverified session is marked.
func (c *Context) head(isUnverified bool) string {
	email, user := prompt.Line(maxName, c.Email), prompt.Line(maxName, c.UserID)
	who, about := cmp.Or(email, "A visitor"), c.Identity
	switch {
	case user != "" && email != "":
		about = "user " + user + ", " + about
	case user != "":
		who = "User " + user
	}
	if c.Identity == activity.Claimed.String() {
		about += ", not verified"
	}
	place := "a page without an address"
	if page := prompt.Line(maxName, c.Page); page != "" {
		place = "the " + page + " page (" + prompt.Line(maxAddress, c.CanonicalURL) + ")"
	}
	if isUnverified {
		place += ", not verified"
	}
	return who + " (" + about + ") is on " + place + ": there for " + seconds(c.OnPageS) + ", here for " +
		seconds(c.HereS) + ", last seen " + seconds(c.AsOf-c.LastSeen) + " ago"
}

func seconds(s float64) string { return span(time.Duration(s * float64(time.Second))) }

// span returns a span of time in words, in its largest units: "8 s", "12 min", "1 h 5 min". A
// negative one counts as zero.
func span(d time.Duration) string {
	hours, minutes := int(d/time.Hour), int(d/time.Minute)%60
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", max(0, d)/time.Second)
	case hours == 0:
		return fmt.Sprintf("%d min", minutes)
	case minutes == 0:
		return fmt.Sprintf("%d h", hours)
	}
	return fmt.Sprintf("%d h %d min", hours, minutes)
}
