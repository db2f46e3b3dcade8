package connector

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/assistance"
	"github.com/liveactivity/liveactivity/internal/summary"
	"github.com/liveactivity/liveactivity/proactive"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// shown returns a machine that has shown an offer with these labels, for ten seconds from a time on.
func shown(t testing.TB, rules assistance.Rules, at time.Time, labels ...string) *assistance.Machine {
	t.Helper()
	m, _, err := rules.Step(assistance.Machine{}, at, assistance.Matched{SendBy: at.Add(time.Minute),
		Result: proactive.Result{TriggerID: "t", ReplyOptionLabels: labels, InteractionTimeout: 10 * time.Second}})
	require.NoError(t, err)
	m, _, err = rules.Step(m, at, assistance.Shown{OfferID: "o"})
	require.NoError(t, err)
	return &m
}

// digested is a history whose actions are all in the digest.
var digested = summary.History{Digest: &activity.Digest{}}

// The next step follows from the document, the log and the time alone.
func TestNext_takesTheMostUrgentStep(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	rules := assistance.NewCore(nil).Rules
	shown := func() *assistance.Machine { return shown(t, rules, now.Add(-time.Minute)) }
	d := newDesk()
	chat := newScriptDesk("chat")
	pages := func() []*want {
		return []*want{{session: session{ID: "s"}, found: []found{{Action: activity.Action{Type: activity.TypePageview,
			Description: "User visited a"}, kept: true}}}}
	}
	linked := []session{{ID: "s", ByWebhook: true}}
	both := append(linked, session{ID: "s2", ByWebhook: true})
	unfinished := func(v *view) { // s2, while s has waited longer
		v.wants, v.unfinished, v.calm = append(pages(), pages()...), "s2", now.Add(time.Second)
		v.wants[1].ID, v.wants[1].found[0].entry = "s2", eventlog.IDAt(now)
	}
	asked := []message{{ID: "m", Text: "Hi", At: now}}
	unsure := []message{{ID: "m", Text: "Hi", At: now, Reply: "Hello", Begun: now.Add(-time.Minute)}}
	soon := now.Add(time.Second)
	acted := func(v *view) { v.wants = pages() }
	settling := func(v *view) { v.settled = soon }
	toSumUp := []session{{ID: "s", Written: 3, History: digested}}
	strange := []session{{ID: "s"}}
	for name, tt := range map[string]struct {
		c      conversation
		change func(v *view)
		want   kind
		// summary means that the note is a summary.
		summary, doubt bool

		due  time.Duration // where nothing is next; zero for never
		none bool
		own  time.Duration // from now on, when something else may be next than a stranger's step
	}{
		"nothing": {none: true},
		"actions": {c: conversation{Sessions: linked}, change: acted, want: kindNote},
		"actions while it is calm": {c: conversation{Sessions: linked},
			change: func(v *view) { v.wants, v.calm = pages(), soon }, none: true, due: time.Second},
		"the rest of a long note while it is calm": {c: conversation{Sessions: both}, change: unfinished, want: kindNote},
		"the rest of a long note that was found first": {c: conversation{Sessions: both},
			change: func(v *view) { unfinished(v); slices.Reverse(v.wants) }, want: kindNote},
		"a note in doubt": {c: conversation{Writing: &writing{}}, want: kindNote, doubt: true},
		"a note that another has just begun": {c: conversation{Writing: &writing{Begun: now}}, change: settling,
			none: true, due: time.Second},
		"a note before its summary": {c: conversation{Sessions: toSumUp}, change: acted, want: kindNote},
		"a summary":                 {c: conversation{Sessions: toSumUp}, want: kindNote, summary: true},
		"a summary before what it replaces": {c: conversation{Sessions: toSumUp, Redact: []string{"1"}}, want: kindNote,
			summary: true},
		"a model's summary": {c: conversation{Sessions: []session{{ID: "s", Written: 3}}},
			change: func(v *view) { v.models = true }, want: kindDraft},
		"a model that is at it": {c: conversation{Sessions: []session{{ID: "s", Written: 3}}},
			change: func(v *view) { v.models, v.modelRuns = true, true }, none: true},
		"redactions":                   {c: conversation{Redact: []string{"1"}, Sessions: linked}, want: kindRedaction},
		"a stranger's redaction":       {c: conversation{Redact: []string{"1"}, Sessions: strange}, want: kindRedaction},
		"an erased person's redaction": {c: conversation{Redact: []string{"1"}}, want: kindRedaction},
		"a contact before notes": {c: conversation{Contact: &lookUp{}, Sessions: linked}, change: acted,
			want: kindContact},
		"a message before notes": {c: conversation{Messages: asked, Sessions: linked}, change: acted, want: kindWhose},
		"a message of the requester's": {c: conversation{Messages: asked},
			change: func(v *view) { v.theirs = []string{"m"} }, want: kindCompose},
		"a message while a model is asked": {c: conversation{Messages: asked},
			change: func(v *view) { v.theirs, v.modelRuns = []string{"m"}, true }, none: true, due: replyTTL},
		"an answer": {c: conversation{Messages: asked},
			change: func(v *view) { v.answer = &step{kind: kindReply, message: message{ID: "m"}} }, want: kindReply},
		"an answer in doubt": {c: conversation{Messages: unsure}, want: kindReply, doubt: true},
		"an answer that was just begun": {c: conversation{Messages: []message{{ID: "m", At: now, Begun: now}}},
			none: true, due: settleTime},
		"an answer that another has begun": {c: conversation{Messages: unsure}, change: settling, none: true,
			due: time.Second},
		"an old message": {c: conversation{Messages: []message{{ID: "m", At: now.Add(-time.Hour)}}},
			want: kindDrop},
		"a message without a model": {c: conversation{Messages: asked}, change: func(v *view) { v.replies = false },
			want: kindDrop},
		"a message that the desk cannot answer": {c: conversation{Messages: asked},
			change: func(v *view) { v.can.Replier = nil }, want: kindDrop},
		"a message where a browser linked": {c: conversation{Messages: asked, Sessions: strange}, want: kindWhose},
		"a message that failed, then a note": {c: conversation{Messages: asked, Sessions: linked},
			change: func(v *view) { v.wants, v.again[answers] = pages(), soon }, want: kindNote},
		"a message that failed": {c: conversation{Messages: asked}, change: func(v *view) { v.again[answers] = soon },
			none: true, due: time.Second},
		"an offer before everything": {c: conversation{Messages: asked},
			change: func(v *view) { v.match = &offering{} }, want: kindOffer},
		"an ignored offer after notes": {c: conversation{Machine: shown(), Sessions: linked}, change: acted, want: kindNote},
		"an ignored offer":             {c: conversation{Machine: shown()}, want: kindRemove},
		"a stranger's note after the owner's redaction": {c: conversation{Sessions: append(linked, session{ID: "s2"}),
			Redact: []string{"1"}}, change: func(v *view) { v.wants = pages(); v.wants[0].ID = "s2" }, want: kindRedaction},
		"a stranger's note after an ignored offer": {c: conversation{Machine: shown(), Sessions: strange}, change: acted,
			want: kindRemove},
		"a stranger's note before an offer that failed": {c: conversation{Machine: shown(), Sessions: strange},
			change: func(v *view) { v.wants, v.again[offers] = pages(), soon }, want: kindNote, own: time.Second},
		"a stranger's outbox": {c: conversation{Sessions: strange, Writing: &writing{}}, want: kindNote, doubt: true},
		"a stranger's note while it is calm": {c: conversation{Sessions: strange},
			change: func(v *view) { v.wants, v.strange = pages(), soon }, none: true, due: time.Second},
		"an ignored offer without assistance": {c: conversation{Machine: shown()},
			change: func(v *view) { v.rules = nil }, none: true},
	} {
		t.Run(name, func(t *testing.T) {
			v := &view{now: now, desk: d, can: chat.Capabilities(), notes: Notes{SummaryThreshold: 3}, replies: true,
				rules: &rules}
			if tt.change != nil {
				tt.change(v)
			}
			s, due, own := tt.c.next(v)
			if tt.none {
				require.Nil(t, s)
				if tt.due == 0 {
					assert.Zero(t, due)
				} else {
					assert.Equal(t, now.Add(tt.due), due)
				}
				return
			}
			require.NotNil(t, s)
			if s.strange {
				assert.Equal(t, tt.own, max(0, own.Sub(now)))
			}
			assert.Equal(t, tt.want, s.kind)
			assert.Equal(t, tt.doubt, s.doubt)
			assert.Equal(t, tt.summary, s.writing != nil && s.writing.Summary != nil)
			isErasure := s.kind == kindRedaction && len(tt.c.Sessions) == 0
			assert.Equal(t, !tt.c.owned() && s.kind <= kindRedaction && !isErasure, s.strange)
		})
	}
}
