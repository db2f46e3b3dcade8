package connector

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/directory"
	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/watchtest"
	"github.com/liveactivity/liveactivity/proactive"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
)

// flooded returns the numbers of notes of actions, of summaries and of redactions in a conversation
// of 46 page views in 18 seconds.
func flooded(t *testing.T, notes Notes, lacks func(*helpdesk.Capabilities)) (counts [3]int) {
	withDesk(t, notes, nil, func(t *testing.T, f *following) {
		f.desk.lacking(lacks)
		f.begins(t, "home")
		time.Sleep(time.Minute)
		for i := range 46 {
			f.visit(t, "s", []string{"pricing", "docs", "plans"}[i%3])
			time.Sleep(18 * time.Second / 46)
		}
		time.Sleep(5 * time.Minute)
		for _, text := range f.desk.texts("7") {
			if strings.Contains(text, "[1]") {
				counts[0]++
			} else {
				counts[1]++
			}
		}
		counts[2] = len(f.desk.texts("7")) - f.desk.left("7")
	})
	return counts
}

// An app that may not redact writes its notes in time, and tries each redaction once.
func TestNotes_areOnTimeWhereRedactingIsForbidden(t *testing.T) {
	withDesk(t, promptNotes(), nil, func(t *testing.T, f *following) {
		f.desk.refuses(failing("redact", helpdesk.APIError{Status: http.StatusForbidden, OneConversation: true}))
		f.begins(t, "home")
		for i := range 30 {
			f.visit(t, "s", []string{"pricing", "docs", "plans"}[i%3])
			time.Sleep(time.Second)
			assert.GreaterOrEqual(t, len(f.desk.texts("7")), i+1)
		}
		time.Sleep(time.Hour)
		assert.Equal(t, 20, f.desk.count("redact"))
	})
}

// A part of a desk may be away for long. Notes do not wait for it, and it is not forgotten.
func TestNotes_areOnTimeWhileTheDeskCannotRedact(t *testing.T) {
	withDesk(t, summaries(3), nil, func(t *testing.T, f *following) {
		f.desk.refuses(failing("redact", helpdesk.APIError{Status: http.StatusServiceUnavailable}))
		f.begins(t, "home")
		for i := range 20 {
			time.Sleep(9 * time.Second)
			f.visit(t, "s", []string{"pricing", "docs", "plans"}[i%3])
			time.Sleep(time.Second)
			synctest.Wait()
			assert.Greater(t, strings.Count(strings.Join(f.desk.texts("7"), "\n"), "visited"), i+1)
		}
		assert.Greater(t, f.desk.count("redact"), 5, "it is tried again")
		f.desk.refuses(nil)
		time.Sleep(time.Minute)
		assert.Equal(t, 3, len(f.desk.texts("7"))-f.desk.left("7"))
	})
}

// By default, an agent finds a few notes, and a summary in their place where the desk
// can redact. Written at once, there are as many notes as page views.
func TestNotes_leaveAnAgentCalm(t *testing.T) {
	assert.Equal(t, [3]int{3, 1, 2}, flooded(t, DefaultNotes(), nil))
	noRedactor := func(can *helpdesk.Capabilities) { can.Redactor = nil }
	assert.Equal(t, [3]int{3, 1, 0}, flooded(t, DefaultNotes(), noRedactor))
	assert.Equal(t, [3]int{47, 1, 20}, flooded(t, promptNotes(), nil))
}

// A contact who waits for an answer gets no offer for assistance_idle_s, whether the question
// opened the conversation or came later.
func TestOffers_areNotMadeWhileTheContactWaitsForAnAnswer(t *testing.T) {
	const question = "My invoice is wrong"
	for name, opening := range map[string]string{"the opening message": question, "a later message": ""} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, &proactive.Config{Enabled: true, AssistanceIdleS: new(60)})
				s := w.start(Options{})
				w.visit("/home")
				conversation := w.chatAs(s, jane, opening)
				if opening == "" {
					w.says(s, conversation, question)
				}
				w.desk.AgentReply(conversation, "Let me see")
				time.Sleep(20 * time.Second)
				w.pingPong()
				assert.Empty(t, w.offers(conversation))
				assert.Empty(t, w.replies(conversation), "people answer")
				assert.Equal(t, 1.0, count(t, s, "liveactivity_assistance_transitions_total", "reactive_assistance"), "once")
				time.Sleep(40 * time.Second)
				w.pingPong()
				assert.Len(t, w.offers(conversation), 1, "for assistance_idle_s at most")
			})
		})
	}
}

// Anybody can send sessions. A flood of them displaces neither a conversation's link nor its
// document, and a quiet customer's next action is noted.
func TestNotes_surviveAFloodOfSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &proactive.Config{})
		w.log = musttest.New(memorylog.New(&memorylog.Options{Retention: eventlog.Retention{StateMaxBytes: 1 << 20}}))
		w.recorder = musttest.New(eventlog.NewRecorder(w.log, nil))
		s := w.start(Options{})
		w.visit("/home")
		conversation := w.chat(s)
		for n := range 2000 {
			w.visitAs(fmt.Sprint("flood", n), fmt.Sprintf("flood%d@example.com", n), "/home")
		}
		_, known, err := musttest.New(directory.New(w.log.Documents(), time.Hour)).Session(t.Context(), acme, "flood0")
		require.NoError(t, err)
		require.False(t, known, "the flood must not fit")
		w.visit("/checkout")
		time.Sleep(time.Minute)
		notes := w.desk.Notes(conversation)
		require.Len(t, notes, 2)
		require.Contains(t, notes[1], "checkout")
	})
}

// notedAt returns the times of conversation 7's notes, in seconds since a time.
func (f *following) notedAt(since time.Time) (at []int) {
	synctest.Wait()
	f.desk.mu.Lock()
	defer f.desk.mu.Unlock()
	for _, n := range f.desk.notes["7"] {
		at = append(at, int(n.at.Sub(since).Seconds()))
	}
	return at
}

// withCalm runs a test of a conversation with a note at its link, 30 seconds before the next.
func withCalm(t *testing.T, test func(t *testing.T, f *following, linked time.Time)) {
	notes := DefaultNotes()
	notes.SummaryThreshold = 0
	withDesk(t, notes, nil, func(t *testing.T, f *following) {
		f.begins(t, "a")
		linked := time.Now()
		require.Equal(t, []int{0}, f.notedAt(linked))
		test(t, f, linked)
	})
}

// A note has everything since the note before. The host's clock may be behind or ahead of Redis's.
func TestCalm_holdsEverythingSinceTheNoteBeforeByAnyClock(t *testing.T) {
	for _, by := range []time.Duration{0, 5 * time.Second, -5 * time.Second, -time.Minute} {
		t.Run(by.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var gets atomic.Int64
				log := &watchtest.Log{Log: musttest.New(memorylog.New(nil)), Skew: by}
				log.Before = func(_ context.Context, op watchtest.Op) error {
					if op.Name == "get" && gets.Add(1) > 1000 { // a loop without a pause keeps a bubble's clock from going on
						return errAway
					}
					return nil
				}
				notes := DefaultNotes()
				notes.SummaryThreshold = 0
				d := newDesk()
				f := newService(t, log, Product{Desks: []Desk{{"zendesk", d}}, Notes: notes, TakesClaims: true}, nil).follows(t, d)
				time.Sleep(time.Minute)
				f.begins(t, "a")
				linked := time.Now()
				time.Sleep(time.Second / 2)
				for range 50 {
					time.Sleep(time.Second)
					f.visit(t, "s", "b")
				}
				time.Sleep(time.Minute)
				assert.Equal(t, []int{0, 30, 60}, f.notedAt(linked))
				assert.Equal(t, 29, strings.Count(d.texts("7")[1], "visited b"))
				assert.Less(t, gets.Load(), int64(1000))
				time.Sleep(time.Minute)
				f.visit(t, "s", "c")
				time.Sleep(time.Minute)
				assert.Equal(t, []int{0, 30, 60, 173}, f.notedAt(linked), "after a rest a note waits for the debounce time only")
			})
		})
	}
}

func TestCalm_survivesARestart(t *testing.T) {
	withCalm(t, func(t *testing.T, f *following, linked time.Time) {
		f.stop()
		f.service = newService(t, f.store.log, Product{Desks: []Desk{{"zendesk", f.desk}}, Notes: DefaultNotes()}, nil)
		f.follow(t)
		f.visit(t, "s", "b")
		time.Sleep(time.Minute)
		assert.Equal(t, []int{0, 30}, f.notedAt(linked))
	})
}

// A clock that is set back does not prolong the calm.
func TestCalm_isOverIfItsClockWasSetBack(t *testing.T) {
	withCalm(t, func(t *testing.T, f *following, linked time.Time) {
		f.stop()
		log := &watchtest.Log{Log: f.store.log, Skew: -time.Hour}
		f.service = newService(t, log, Product{Desks: []Desk{{"zendesk", f.desk}}, Notes: DefaultNotes()}, nil)
		f.follow(t)
		time.Sleep(time.Second)
		for range 3 {
			f.visitAs(t, "s", "", "", time.Now().Add(time.Hour), "b")
			time.Sleep(20 * time.Second)
		}
		time.Sleep(time.Minute)
		assert.Equal(t, []int{0, 4, 34, 64}, f.notedAt(linked))
		var delays dto.Metric
		require.NoError(t, f.metrics.delay.WithLabelValues("acme", "zendesk").(prometheus.Metric).Write(&delays))
		assert.Zero(t, delays.GetHistogram().GetSampleSum(), "by that clock no note is late")
	})
}

// A desk need not state the IDs of its notes.
func TestCalm_needsNoIDOfANote(t *testing.T) {
	withCalm(t, func(t *testing.T, f *following, linked time.Time) {
		f.desk.mute = true
		for range 70 {
			f.visit(t, "s", "b")
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
		assert.Equal(t, []int{0, 30, 60, 90}, f.notedAt(linked))
		assert.InDelta(t, 4, valueOf(t, f.metrics.notes.WithLabelValues("acme", "zendesk", "actions")), 0)
	})
}

func TestCalm_isAConversationsAndNoneOfItsSessionsStarves(t *testing.T) {
	withCalm(t, func(t *testing.T, f *following, linked time.Time) {
		f.visit(t, "other", "x")
		f.linkAs(t, "7", "other", byWebhook)
		time.Sleep(time.Second / 2)
		for range 70 {
			f.visit(t, "s", "b")
			f.visit(t, "other", "y")
			time.Sleep(time.Second)
		}
		time.Sleep(2 * time.Minute)
		assert.Equal(t, []int{0, 30, 60, 90, 120}, f.notedAt(linked))
		texts := strings.Join(f.desk.texts("7"), "\n")
		assert.Equal(t, []int{70, 70}, []int{strings.Count(texts, "visited b"), strings.Count(texts, "visited y")})
		for i, session := range []string{"x", "b", "y", "b"} {
			assert.Contains(t, f.desk.texts("7")[i+1], "visited "+session, "it has waited longest")
		}
	})
}

func TestCalm_isNotSpentByUnprovenLinks(t *testing.T) {
	withCalm(t, func(t *testing.T, f *following, linked time.Time) {
		time.Sleep(time.Minute)
		f.visit(t, "forged", "x")
		f.linkAs(t, "7", "forged", byStranger)
		synctest.Wait()
		f.visit(t, "forged", "y")
		f.visit(t, "s", "b")
		time.Sleep(2 * time.Minute)
		require.Equal(t, []int{0, 60, 63, 93}, f.notedAt(linked))
		assert.Contains(t, f.desk.texts("7")[2], "visited b")
		f.visit(t, "forged", "z")
		time.Sleep(4 * time.Second)
		f.visit(t, "forged", "z")
		time.Sleep(time.Minute)
		assert.Equal(t, []int{183, 213}, f.notedAt(linked)[4:], "it waits for itself")
	})
}

// A signed user's note delays the conversation's next note. A stranger's note delays strangers'
// notes only.
func TestCalm_isOneForAllButStrangers(t *testing.T) {
	now := time.Now().Round(0)
	for want, s := range map[[2]bool]session{{true, false}: {Signed: true}, {false, true}: {}} {
		c := conversation{Sessions: []session{s}, Writing: &writing{}}
		c.written("1", now)
		assert.Equal(t, want, [2]bool{c.NotedAt.Equal(now), c.StrangeAt.Equal(now)})
	}
}

func TestCalm_letsTheRestOfALongNoteFollowAtOnce(t *testing.T) {
	withCalm(t, func(t *testing.T, f *following, linked time.Time) {
		f.desk.size = 150
		for range 10 {
			f.visit(t, "s", "a page with a long name")
		}
		time.Sleep(time.Minute)
		at := f.notedAt(linked)
		require.Greater(t, len(at), 2)
		for _, second := range at[1:] {
			assert.Equal(t, 30, second)
		}
	})
}

// Anybody can claim to be somebody else. A model is told of no such claims. A summary of them
// goes on from the one before it, and blanks no note.
func TestSummary_ofClaimsAsksNoModelAndRedactsNothing(t *testing.T) {
	for standing, want := range map[activity.Standing]struct{ asked, redacted int }{activity.Claimed: {0, 0},
		activity.Reported: {2, 7}, activity.Signed: {2, 7}} {
		notes := summaries(3)
		asked := 0
		model := func(context.Context, string) (string, error) { asked++; return fmt.Sprint("Summary ", asked), nil }
		withDesk(t, notes, &Options{Model: model}, func(t *testing.T, f *following) {
			f.stop()
			f.configure(always(Product{Desks: []Desk{{"zendesk", f.desk}}, Notes: notes})) // which takes no claims
			f.follow(t)
			f.records(t, activity.Event{ID: "1", Time: time.Now(), SessionID: "s", UserID: "ada", Standing: standing})
			f.linkAs(t, "7", "s", byWebhook)
			for _, page := range []string{"a", "b", "c", "d", "e", "f"} {
				f.click(t, "s", page)
				synctest.Wait()
			}
			assert.Equal(t, want.asked, asked, standing)
			summary := f.sessions(t, "7")[0].Summary
			assert.Equal(t, asked == 0, summary == "Clicked a, b, c, d, e and f.", summary)
			all := len(f.desk.texts("7"))
			assert.Equal(t, []int{8, want.redacted}, []int{all, all - f.desk.left("7")}, standing)
		})
	}
}
