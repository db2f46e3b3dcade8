package connector_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/helpdesk/connector"
	"github.com/liveactivity/liveactivity/proactive"
)

// press records Jane's click at a time, or a mark of it.
func (w *world) press(id, label, mark string, at time.Time) {
	w.t.Helper()
	a := activity.NewAction(activity.TypeClick, activity.Target{Label: label}, "https://app.example.com/checkout")
	if mark != "" {
		a.Marks = []string{mark}
	}
	_, err := w.recorder.Record(w.t.Context(), acme, []activity.Event{{ID: id, Time: at, SessionID: "s1", UserID: "u-s1", Email: jane,
		Action: &a, Markable: mark == ""}})
	require.NoError(w.t, err)
}

// A click that comes again with marks has one line in a note that is still to be written,
// and one in the next note after that. Nothing counts as trimmed, and an offer is made.
func TestMarks_reachNotesAndTriggers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &proactive.Config{Enabled: true, IdleTeardown: "keep",
			Triggers: []proactive.TriggerConfig{{ID: "dead_click", Body: "Did it not work?"}}})
		defer w.close()
		w.notes.Debounce, w.notes.Interval = 5*time.Second, 0
		s := w.start(connector.Options{})
		w.visit("/checkout")
		conversation := w.chat(s)
		time.Sleep(time.Minute)
		before := len(w.desk.Notes(conversation))

		at := time.Now()
		w.press("1", "Pay", "", at)
		time.Sleep(3 * time.Second)
		w.press("2", "Pay", activity.MarkDead, at)
		synctest.Wait()
		offers := w.offers(conversation)
		require.Len(t, offers, 1)
		assert.Contains(t, offers[0].Text, "Did it not work?")
		time.Sleep(time.Minute)
		notes := w.desk.Notes(conversation)[before:]
		require.Len(t, notes, 1)
		assert.Equal(t, 1, strings.Count(notes[0], "User clicked Pay on the checkout page"))
		assert.Contains(t, notes[0], "[1] User clicked Pay on the checkout page, and nothing happened")

		at = time.Now()
		w.press("3", "Help", "", at)
		w.press("3a", "Plan", "", at.Add(time.Second))
		time.Sleep(30 * time.Second)
		w.press("4", "Help", activity.MarkRage, at)
		w.press("5", "Buy", "", time.Now())
		time.Sleep(time.Minute)
		notes = w.desk.Notes(conversation)[before+1:]
		require.Len(t, notes, 2)
		assert.Contains(t, notes[1], "[1] User clicked Help on the checkout page, repeatedly")
		assert.Contains(t, notes[1], "[2] User clicked Buy on the checkout page")
		families, err := s.registry.Gather()
		require.NoError(t, err)
		for _, f := range families {
			for _, m := range f.GetMetric() {
				assert.False(t, f.GetName() == "liveactivity_notes_lost_total" && m.GetCounter().GetValue() > 0, "%v", m)
			}
		}
	})
}
