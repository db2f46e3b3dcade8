package connector

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/watchtest"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
)

// A note whose first attempt had no effect is written even if the desk has an older equal note.
func TestFollow_looksOnlyAmongNotesThatAreNewer(t *testing.T) {
	withDesk(t, promptNotes(), nil, func(t *testing.T, f *following) {
		f.begins(t, "a")
		failed := false
		f.desk.refuses(func(op, _ string) *helpdesk.APIError {
			if op != "note" || failed {
				return nil
			}
			failed = true
			return &helpdesk.APIError{Status: 502, Ambiguous: true}
		})
		f.visit(t, "s", "a") // in the same second
		time.Sleep(time.Minute)
		require.Equal(t, []string{"[1] User visited a", "[1] User visited a"}, f.desk.texts("7"))
		assert.Equal(t, f.desk.notes["7"][0].text, f.desk.notes["7"][1].text)
		assert.Equal(t, 1, f.desk.count("find"))
	})
}

// late makes the next note take effect only after that time, when the connector
// has given its answer up.
func (f *following) late(effect time.Duration) {
	var used atomic.Bool
	f.desk.takes = func() time.Duration {
		if used.Swap(true) {
			return 0
		}
		return 2 * effect
	}
}

func TestFollow_looksForALostNoteOnceItHasHadTimeToComeToBe(t *testing.T) {
	withDesk(t, promptNotes(), nil, func(t *testing.T, f *following) {
		f.visit(t, "s", "a")
		f.late(requestTime + settleTime - time.Second)
		f.linkAs(t, "7", "s", byWebhook)
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"[1] User visited a"}, f.desk.texts("7"))
	})
}

// A refusal says nothing of the attempt before, whose answer was lost.
func TestFollow_keepsItsDoubtWhenALaterAttemptIsRefused(t *testing.T) {
	withDesk(t, promptNotes(), nil, func(t *testing.T, f *following) {
		f.visit(t, "s", "a")
		f.late(requestTime + 2*settleTime)
		f.linkAs(t, "7", "s", byWebhook)
		time.Sleep(requestTime)
		synctest.Wait()
		f.desk.refuses(failing("note", helpdesk.APIError{Status: 409}))
		time.Sleep(2*settleTime - time.Second)
		synctest.Wait()
		require.Positive(t, f.desk.count("find"))
		require.Greater(t, f.desk.count("note"), 1)
		require.Empty(t, f.desk.texts("7"))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		f.desk.refuses(nil)
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"[1] User visited a"}, f.desk.texts("7"))
	})
}

// An app may write to conversations without the right to read them. Some desks find no notes.
func TestFollow_writesANoteAgainThatItMayNotLookFor(t *testing.T) {
	test := func(t *testing.T, f *following) {
		f.desk.refuses(func(op, _ string) *helpdesk.APIError {
			if f.desk.count("note") == 1 && op == "note" {
				return &helpdesk.APIError{Status: 502, Ambiguous: true}
			}
			return failing("find", helpdesk.APIError{Status: 403, OneConversation: true})(op, "")
		})
		f.begins(t, "a")
		time.Sleep(time.Minute)
		f.views(t, "s", "b")
		assert.Equal(t, []string{"[1] User visited a", "[1] User visited b"}, f.desk.texts("7"))
		assert.InDelta(t, 0, valueOf(t, f.metrics.lost.WithLabelValues("acme", "zendesk", "refused")), 0)
	}
	withDesk(t, promptNotes(), nil, test)
	withDesk(t, promptNotes(), nil, func(t *testing.T, f *following) {
		f.desk.lacking(func(can *helpdesk.Capabilities) { can.Finder = nil })
		test(t, f)
	})
}

// A success whose answer cannot be read, such as one that is too long, is no refusal.
func TestFollow_looksForANoteAfterAnUnreadableAnswer(t *testing.T) {
	withDesk(t, promptNotes(), nil, func(t *testing.T, f *following) {
		f.desk.lose = failing("note", helpdesk.APIError{Status: 200})
		f.desk.refuses(failing("find", helpdesk.APIError{Status: 409})) // for a while
		f.begins(t, "a")
		time.Sleep(time.Minute)
		f.desk.refuses(nil)
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"[1] User visited a"}, f.desk.texts("7"))
		assert.Equal(t, []note{{ID: "1", Upto: 1}}, f.stored(t, "zendesk/7").Sessions[0].Notes, "a summary can replace it")
		assert.InDelta(t, 0, valueOf(t, f.metrics.lost.WithLabelValues("acme", "zendesk", "refused")), 0)

		f.desk.lose = failing("", helpdesk.APIError{Status: 200}) // nor can the conversation
		f.visit(t, "s", "b")
		time.Sleep(time.Minute)
		f.visit(t, "s", "c")
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"[1] User visited a", "[1] User visited b", "[1] User visited c"}, f.desk.texts("7"))
	})
}

// A note at a desk that finds no notes is not tried again: each attempt could have the same answer,
// and write another note.
func TestFollow_writesANoteOnceDespiteUnreadableAnswers(t *testing.T) {
	withDesk(t, promptNotes(), nil, func(t *testing.T, f *following) {
		f.desk.lacking(func(can *helpdesk.Capabilities) { can.Finder = nil })
		f.desk.lose = failing("", helpdesk.APIError{Status: 200})
		f.begins(t, "a")
		time.Sleep(time.Hour)
		assert.Equal(t, []string{"[1] User visited a"}, f.desk.texts("7"))
	})
}

// left returns the number of a conversation's notes that are not redacted.
func (d *desk) left(conversationID string) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, note := range d.notes[conversationID] {
		if !note.redacted {
			n++
		}
	}
	return n
}

// Only the outbox knows of such a note. By the time the desk is asked, the log has nothing of it.
func TestErase_redactsANoteInDoubt(t *testing.T) {
	const written = 4 * time.Second // after which a slow note is there
	for name, threshold := range map[string]int{"a note": 0, "a summary": 1} {
		for state, slow := range map[string]time.Duration{"lost": 2 * requestTime, "in flight": 2 * written} {
			for _, another := range []bool{false, true} {
				t.Run(fmt.Sprint(name, " ", state, ", another server: ", another), func(t *testing.T) {
					notes := promptNotes()
					notes.SummaryThreshold = threshold
					withDesk(t, notes, nil, func(t *testing.T, f *following) {
						asked := 0
						f.desk.takes = func() time.Duration {
							if asked++; asked == threshold+1 {
								return slow
							}
							return 0
						}
						f.begins(t, "a")
						time.Sleep(time.Second)
						if state == "lost" {
							time.Sleep(requestTime)
						}
						if another {
							f.stop()
						}
						require.NotNil(t, f.stored(t, "zendesk/7").Writing)
						plan := f.erase(t, "s", true)
						assert.Equal(t, []int{threshold + 1, 0}, []int{plan.NotesRedacted, plan.NotesLeft})
						if another {
							f.follow(t)
						}
						time.Sleep(2 * time.Minute)
						assert.Len(t, f.desk.texts("7"), threshold+1)
						assert.Zero(t, f.desk.left("7"))
						assert.Equal(t, conversation{}, f.stored(t, "zendesk/7"))
					})
				})
			}
		}
	}
}

func TestErase_writesNoNoteInDoubtThatIsNotThere(t *testing.T) {
	withDesk(t, promptNotes(), nil, func(t *testing.T, f *following) {
		f.desk.refuses(failing("", helpdesk.APIError{Status: 502, Ambiguous: true}))
		f.begins(t, "a")
		time.Sleep(time.Second)
		assert.Equal(t, 1, f.erase(t, "s", true).NotesRedacted, "as planned")
		time.Sleep(time.Minute)
		assert.NotNil(t, f.stored(t, "zendesk/7").Writing, "while the desk is away")
		asked := f.desk.count("note")
		f.desk.refuses(nil)
		time.Sleep(time.Minute)
		assert.Positive(t, f.desk.count("find"))
		assert.Equal(t, asked, f.desk.count("note"))
		assert.Equal(t, conversation{}, f.stored(t, "zendesk/7"))
	})
}

// A person who goes on after an erasure is linked anew while a note is being written.
func TestErase_writesNothingErasedThatWaitsBehindANote(t *testing.T) {
	withDesk(t, promptNotes(), nil, func(t *testing.T, f *following) {
		f.begins(t, "a")
		f.views(t, "other", "x")
		f.links(t, "7", "other")
		f.desk.takes = func() time.Duration { return 6 * time.Second }
		f.visit(t, "other", "y")
		f.visit(t, "s", "secret")
		synctest.Wait()
		time.Sleep(time.Second)
		f.erase(t, "s", false)
		f.begins(t, "b")
		time.Sleep(time.Minute)
		texts := strings.Join(f.desk.texts("7"), "\n")
		assert.NotContains(t, texts, "secret")
		assert.Contains(t, texts, "visited b")
	})
}

func TestErase_countsANoteAsLeftThatCannotBeLookedFor(t *testing.T) {
	summary := conversation{Sessions: []session{{ID: "s"}},
		Writing: &writing{Session: "s", Text: "note", Summary: &sessionSummary{Text: "text"}}}
	same := conversation{Sessions: []session{{ID: "s", Summary: &sessionSummary{Text: "text"}}},
		Writing: &writing{Session: "s", Summary: &sessionSummary{Text: "text"}}}
	for name, c := range map[string]struct {
		of            conversation
		can           helpdesk.Capabilities
		redacts, left int
	}{
		"a summary":                                {summary, newDesk().Capabilities(), 1, 0},
		"a summary at a desk that cannot look":     {summary, helpdesk.Capabilities{Redactor: newDesk()}, 0, 1},
		"a summary at a desk that cannot redact":   {summary, helpdesk.Capabilities{Finder: newDesk()}, 0, 1},
		"a summary that says the same, so no note": {same, newDesk().Capabilities(), 0, 0},
		"a note of an erased person, counted before": {conversation{
			Writing: &writing{Session: "s", Text: "note", Erased: true}}, helpdesk.Capabilities{}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(t, musttest.New(memorylog.New(nil)), Product{}, nil)
			var plan Erasure
			r := record{document.Document{Name: linkOf("zendesk/7").documentName()}, c.of}
			require.NoError(t, plan.conversation(s.store, &r, Person{SessionIDs: []string{"s"}}, c.can))
			assert.Equal(t, []int{c.redacts, c.left}, []int{plan.NotesRedacted, plan.NotesLeft})
			toRedact := c.of.Writing.Erased || c.can.Redactor != nil && c.of.Writing.Text != ""
			assert.Equal(t, toRedact, r.Writing != nil)
		})
	}
}

func TestFollow_readsOnWhereABoundedScanEnded(t *testing.T) {
	t.Run("by the text of a session", func(t *testing.T) {
		withDesk(t, promptNotes(), nil, func(t *testing.T, f *following) {
			const visits = maxText / 100
			for range visits {
				f.visit(t, "s", strings.Repeat("x", 400))
			}
			f.linkAs(t, "7", "s", byWebhook)
			time.Sleep(time.Minute)
			texts := f.desk.texts("7")
			assert.Greater(t, len(texts), 1)
			assert.Equal(t, visits, strings.Count(strings.Join(texts, ""), "] User visited x"))
		})
	})
	t.Run("by the length of the log", func(t *testing.T) {
		withDesk(t, promptNotes(), nil, func(t *testing.T, f *following) {
			f.visit(t, "s", "first")
			for range 2*maxScan>>20 + 1 {
				f.visit(t, "other", strings.Repeat("x", 1<<20))
			}
			f.begins(t, "last")
			time.Sleep(time.Minute)
			assert.Equal(t, []string{"[1] User visited first", "[1] User visited last"}, f.desk.texts("7"))
		})
	})
}

// A session may join a conversation whose document, as it was just read, does not
// name it, or that did not exist.
func TestFollow_writesOfASessionThatJoinsWhileTheConversationIsRead(t *testing.T) {
	for _, existed := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			name := Link{"zendesk", "7"}.documentName()
			var took atomic.Bool // the read that takes a while was made
			took.Store(true)
			log := &watchtest.Log{Log: musttest.New(memorylog.New(nil))}
			log.After = func(_ context.Context, op watchtest.Op, err error) error {
				if op.Name == "get" && slices.Equal(op.Documents, []string{name}) && !took.Swap(true) {
					time.Sleep(time.Minute)
				}
				return err
			}
			d := newDesk()
			f := newService(t, log, Product{Desks: []Desk{{"zendesk", d}}, Notes: promptNotes()}, nil).follows(t, d)
			f.visit(t, "s", "a")
			f.visit(t, "late", "x")
			f.linkAs(t, "7", "s", byWebhook)
			time.Sleep(time.Second)
			want := []string{"[1] User visited a", "[1] User visited b", "[1] User visited x", "[1] User visited y"}
			if !existed {
				docs := musttest.New(f.store.docs.Get(t.Context(), "acme", name))
				musttest.New(f.store.docs.Write(t.Context(), "acme", document.Delete(docs[0])))
				want = slices.Delete(want, 1, 2)
			}
			took.Store(false)
			f.visit(t, "s", "b")
			time.Sleep(10 * time.Second)
			require.True(t, took.Load(), "the conversation is being read")
			f.linkAs(t, "7", "late", byWebhook)
			time.Sleep(2 * time.Minute)
			f.visit(t, "late", "y")
			time.Sleep(time.Minute)
			assert.ElementsMatch(t, want, d.texts("7"), "existed: %t", existed)
		})
	}
}

// A server may lose the lease in the middle of a note, and have it again.
func TestFollow_goesOnAfterStorageWasAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, log := newDesk(), &watchtest.Log{Log: musttest.New(memorylog.New(nil))}
		f := newService(t, log, Product{Desks: []Desk{{"zendesk", d}}, Notes: promptNotes()}, nil).follows(t, d)
		d.takes = func() time.Duration { return 25 * time.Second }
		f.begins(t, "a")
		log.Down.Store(true)
		time.Sleep(2 * time.Minute)
		log.Down.Store(false)
		time.Sleep(time.Minute)
		f.visit(t, "s", "b")
		time.Sleep(2 * time.Minute)
		assert.Equal(t, []string{"[1] User visited a", "[1] User visited b"}, d.texts("7"))
	})
}
