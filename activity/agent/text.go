package agent

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/internal/buffers"
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
// characters, [DefaultChars] for zero. The product's prompt comes first, unless it leaves no
// room, and then, quoted, a line about the person and the page, and a line of each action,
// oldest first. The oldest are left out first, which the text says. If nothing is known within
// the retention ttl, the text is a sentence. Actions are those found. The unverified sessions are
// of a lower standing than the context, and their lines are marked; the page is from the session
// last. It sets Text and Truncated.
func (c *Context) Render(found recent.Records, maxChars int, ttl time.Duration, last string, unverified []string) {
	const start, end = prompt.Guard + "\n" + prompt.Begin + "\n", prompt.End
	room := cmp.Or(maxChars, DefaultChars) - len(start+end)
	buf := buffers.Get()
	defer buffers.Put(buf)
	text := *buf
	if n := utf8.RuneCountInString(c.Prompt) + len("\n\n"); c.Prompt != "" && n <= room-leastBody {
		text = append(append(text, c.Prompt...), "\n\n"...)
		room -= n
	}
	if c.LastSeen == 0 {
		text = append(text, "Nothing is known of what this person did: no activity in the last "...)
		text = append(appendSpan(text, ttl), '.')
	} else {
		text = append(c.appendLines(append(text, start...), found, room, last, unverified), end...)
	}
	c.Text, *buf = string(text), text
}

// appendLines appends the quoted lines of the text, of at most room characters with their
// line feeds.
func (c *Context) appendLines(dst []byte, found recent.Records, room int, last string, unverified []string) []byte {
	from := len(dst)
	dst = append(c.appendHead(dst, slices.Contains(unverified, last)), '\n')
	for i := range found {
		isUnverified := slices.Contains(unverified, found[i].Session)
		dst = append(c.appendLine(dst, &c.Actions[i], isUnverified), '\n')
	}
	if len(c.Actions) == 0 {
		dst = append(dst, "Nothing new since then.\n"...)
	}
	if len(dst)-from <= room {
		return dst
	}
	if over := utf8.RuneCount(dst[from:]) - room; over > 0 {
		dst = append(dst[:from], c.shortened(string(dst[from:]), room, over)...)
	}
	return dst
}

// shortened returns the lines without the oldest actions, which are over the room by so many
// characters. The newest action stays; it and the head are cut if need be.
func (c *Context) shortened(lines string, room, over int) string {
	head, lines, _ := strings.Cut(lines, "\n")
	c.Truncated = len(c.Actions) > 0
	over += leftOutRoom
	earlier := 0
	for ; over > 0 && earlier+1 < len(c.Actions); earlier++ {
		line, rest, _ := strings.Cut(lines, "\n")
		over -= utf8.RuneCountInString(line) + 1
		lines = rest
	}
	if over > 0 { // the last line is cut, and so may the head be
		left := room - leftOutRoom - utf8.RuneCountInString(cutMark+"\n"+cutMark+"\n")
		head = prompt.Line(max(room/4, left-utf8.RuneCountInString(lines)), head)
		lines = prompt.Line(left-utf8.RuneCountInString(head), strings.TrimSuffix(lines, "\n")) + "\n"
	}
	if earlier > 0 {
		head += "\n(" + strconv.Itoa(earlier) + " earlier left out)"
	}
	return head + "\n" + lines
}

// appendLine appends an action in words: "2 min ago: User clicked Export CSV on the dashboard page".
func (c *Context) appendLine(dst []byte, a *activity.Action, isUnverified bool) []byte {
	mark := " ago: "
	if isUnverified {
		mark = " ago, not verified: "
	}
	dst = appendSpan(dst, time.Duration(c.AsOf*1e6-float64(a.Start().UnixMicro()))*time.Microsecond)
	return append(append(dst, mark...), prompt.Line(maxLine, a.Sentence())...)
}

// appendHead appends the line about the person and the page: "ada@example.com (user user_42,
// signed) is on the billing page (https://app.example.com/billing): there for 2 min, here
// for 14 min, last seen 5 s ago". The page of an unverified session is marked.
func (c *Context) appendHead(dst []byte, isUnverified bool) []byte {
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
	dst = append(dst, who+" ("+about+") is on "...)
	if page := prompt.Line(maxName, c.Page); page != "" {
		dst = append(dst, "the "+page+" page ("+prompt.Line(maxAddress, c.CanonicalURL)+")"...)
	} else {
		dst = append(dst, "a page without an address"...)
	}
	if isUnverified {
		dst = append(dst, ", not verified"...)
	}
	for _, part := range [...]struct {
		before  string
		seconds float64
	}{{": there for ", c.OnPageS}, {", here for ", c.HereS}, {", last seen ", c.AsOf - c.LastSeen}} {
		dst = appendSpan(append(dst, part.before...), time.Duration(part.seconds*float64(time.Second)))
	}
	return append(dst, " ago"...)
}

// appendSpan appends a span of time in words, in its largest units: "8 s", "12 min", "1 h 5 min".
// One below zero is none.
func appendSpan(dst []byte, d time.Duration) []byte {
	if d < time.Minute {
		return append(strconv.AppendInt(dst, int64(max(0, d)/time.Second), 10), " s"...)
	}
	hours, minutes := int64(d/time.Hour), int64(d/time.Minute)%60
	if hours > 0 {
		dst = append(strconv.AppendInt(dst, hours, 10), " h"...)
		if minutes == 0 {
			return dst
		}
		dst = append(dst, ' ')
	}
	return append(strconv.AppendInt(dst, minutes, 10), " min"...)
}
