package helpdesk

import (
	"cmp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/liveactivity/liveactivity/activity"
)

// NoteText returns the text of an action note:
//
//	session_id: 0198c2f4-7a
//	timestamp: 2026-11-22 02:15:04 UTC
//
//	[1] User landed on the pricing page
//	[2] User clicked Compare plans on the pricing page
//
//	[3] User submitted the signup form on the signup page
//
// The actions are sorted by their start and numbered from 1; those with the same start
// keep their order. The timestamp is the start of the first. A blank line separates
// actions in different bins: spans of that length, aligned to the clock. If bin is zero
// or less, there are no blank lines. Each action takes at most one line. The text does
// not end in a line feed.
func NoteText(sessionID string, actions []activity.Action, bin time.Duration) string {
	actions = slices.Clone(actions)
	slices.SortStableFunc(actions, func(a, b activity.Action) int {
		return cmp.Compare(a.TimestampStart, b.TimestampStart)
	})
	var first time.Time
	if len(actions) > 0 {
		first = actions[0].Start()
	}
	var text strings.Builder
	text.WriteString(header(sessionID, first))
	for i, a := range actions {
		text.WriteByte('\n')
		if i > 0 && bin > 0 && actions[i-1].Start().UnixNano()/int64(bin) != a.Start().UnixNano()/int64(bin) {
			text.WriteByte('\n')
		}
		text.WriteString("[" + strconv.Itoa(i+1) + "] " + a.Sentence())
	}
	return text.String()
}

// FirstNote returns the text of a note with the first n actions: as many as the desk fits into
// one note, but at least one. There must be at least one action. It calls Fits about
// log2(len(actions)) times.
func FirstNote(desk Desk, sessionID string, actions []activity.Action, bin time.Duration) (n int, text string) {
	fits := func(n int) bool { return desk.Fits(NoteText(sessionID, actions[:n], bin)) }
	if n = len(actions); !fits(n) {
		n = max(1, sort.Search(n, func(i int) bool { return !fits(i + 1) }))
	}
	return n, NoteText(sessionID, actions[:n], bin)
}

// SummaryText returns the text of a summary note: the header of an action note with the time at,
// and the summary with its line breaks. White space within a line becomes one space.
func SummaryText(sessionID string, at time.Time, summary string) string {
	text := header(sessionID, at)
	for line := range strings.Lines(strings.TrimSpace(summary)) {
		text += "\n" + strings.Join(strings.Fields(line), " ")
	}
	return text
}

// IsNote reports whether a text has the header of [NoteText] and [SummaryText], even if a
// desk has changed its line feeds.
func IsNote(text string) bool {
	rest, is := strings.CutPrefix(text, sessionField)
	return is && strings.Contains(rest, timestampField)
}

// The fields of a note's header.
const (
	sessionField   = "session_id: "
	timestampField = "timestamp: "
)

// header returns the first two lines of a note and the blank line after them. Strangers choose
// session IDs: one is kept on a single line, without its invisible characters.
func header(sessionID string, at time.Time) string {
	sessionID = strings.Join(strings.Fields(strings.Map(visible, sessionID)), " ")
	return sessionField + sessionID + "\n" + timestampField + at.UTC().Format(time.DateTime+" UTC\n")
}

// visible returns -1 for a character that is invisible or changes how others are
// displayed, except for white space.
func visible(r rune) rune {
	if unicode.Is(unicode.Cf, r) || unicode.IsControl(r) && !unicode.IsSpace(r) {
		return -1
	}
	return r
}
