package presence

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/directory"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/activity/sessions"
	"github.com/liveactivity/liveactivity/helpdesk/connector"
	"github.com/liveactivity/liveactivity/helpdesk/intercom"
	"github.com/liveactivity/liveactivity/helpdesk/zendesk"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// bothDesks is a product with both desks.
func bothDesks() connector.Product {
	return connector.Product{Notes: connector.DefaultNotes(), Desks: []connector.Desk{
		{Name: "intercom", Desk: musttest.New(intercom.New(intercom.Config{BaseURL: "https://api.intercom.io"}, nil))},
		{Name: "zendesk", Desk: musttest.New(zendesk.New(zendesk.Config{BaseURL: "https://acme.zendesk.com/"}, nil))},
	}}
}

// detailOf returns a session of so many long actions.
func detailOf(actions int) Detail {
	detail := Detail{Session: sessions.Session{SessionID: "s1"}}
	for i := range actions {
		detail.Recent = append(detail.Recent, activity.Action{Description: strings.Repeat("<", 490),
			TimestampStart: float64(i)})
	}
	return detail
}

func TestDetail_hasAnAddressForAConversationOnly(t *testing.T) {
	for link, want := range map[connector.Link]string{
		{}:                                      "",
		{Desk: "zendesk", ConversationID: "17"}: "https://acme.zendesk.com/agent/tickets/17",
		{Desk: "zendesk", ConversationID: "17/../../x"}:  "",
		{Desk: "zendesk", ConversationID: `1"><script>`}: "",
		{Desk: "zendesk"}:                                         "",
		{Desk: "intercom", ConversationID: "17"}:                  "",
		{Desk: "a desk that was there once", ConversationID: "1"}: "",
	} {
		detail := detailOf(1)
		detail.Show(bothDesks(), link, detail.Recent)
		assert.Equal(t, want, detail.ConversationURL, link)
		notes := 2
		if link.Desk == "zendesk" || link.Desk == "intercom" {
			notes = 1
		}
		assert.Len(t, detail.Notes, notes, link)
	}
}

// Actions that exceed one note are shown in as many notes as a desk would get.
func TestDetail_showsSeveralNotes(t *testing.T) {
	product := bothDesks()
	detail := detailOf(50)
	detail.Show(product, connector.Link{}, detail.Recent)
	lines := map[string]int{}
	for _, note := range detail.Notes {
		lines[note.Desk] += strings.Count(note.Text, "] ")
		for _, desk := range product.Desks {
			require.True(t, desk.Name != note.Desk || desk.Fits(note.Text))
		}
	}
	assert.Equal(t, map[string]int{"intercom": 50, "zendesk": 50}, lines)
	assert.Greater(t, len(detail.Notes), 3)

	for _, product := range []connector.Product{product, {}} {
		detail := detailOf(0)
		detail.Show(product, connector.Link{}, detail.Recent)
		assert.NotNil(t, detail.Notes)
		assert.Empty(t, detail.Notes, "there is nothing to write")
	}
}

// A note is for the session's present user. Nobody knows whose the actions of an unidentified user are,
// but they are not those of a user whom a webhook or a signature vouches for.
func TestDetail_hasOtherPeoplesActionsInNoNote(t *testing.T) {
	for standing, want := range map[activity.Standing][]string{activity.Claimed: {"carol", "visitor", ""},
		activity.Reported: {"carol", ""}} {
		known, detail := directory.Session{}, Detail{By: []string{"bob", "carol", "visitor", ""}}
		for i, user := range detail.By[:2] {
			known.Learn(activity.Event{UserID: user, Identified: true, Standing: standing, Time: time.Unix(int64(i), 0)})
		}
		for _, user := range detail.By {
			detail.Recent = append(detail.Recent, activity.Action{Title: user})
		}
		var got []string
		for _, a := range detail.Own(&known) {
			got = append(got, a.Title)
		}
		assert.Equal(t, want, got)
		known = directory.Session{Standing: standing}
		assert.Len(t, detail.Own(&known), 4, "nobody is identified")
	}
}

// A type of entry that the view does not know moves its cursor and nothing else.
func TestView_ignoresOtherTypesOfEntries(t *testing.T) {
	v := musttest.New(New(nil, func(string) (document.Version, bool) { return 1, true }, nil, nil))
	v.begin("acme", eventlog.ID{}, nil)
	link := eventlog.Entry{ID: eventlog.ID{Milli: 7}, SessionID: "s1",
		Data: []byte(`{"type":"link","session_id":"s1","actions":[{}]}`)}
	require.NoError(t, v.take(t.Context(), "acme", link.ID, []eventlog.Entry{link}))
	assert.Empty(t, musttest.New(v.sessions.List("acme", sessions.Query{}, time.Now())).Sessions)
	assert.Equal(t, link.ID, v.products["acme"].cursor)
}
