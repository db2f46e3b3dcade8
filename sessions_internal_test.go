package liveactivity

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/sessions"
	"github.com/liveactivity/liveactivity/helpdesk/connector"
	"github.com/liveactivity/liveactivity/helpdesk/intercom"
	"github.com/liveactivity/liveactivity/helpdesk/zendesk"
	"github.com/liveactivity/liveactivity/internal/musttest"
)

// bothDesks is a product with both desks.
func bothDesks() connector.Product {
	return connector.Product{Notes: connector.DefaultNotes(), Desks: []connector.Desk{
		{Name: "intercom", Desk: musttest.New(intercom.New(intercom.Config{BaseURL: "https://api.intercom.io"}, nil))},
		{Name: "zendesk", Desk: musttest.New(zendesk.New(zendesk.Config{BaseURL: "https://acme.zendesk.com/"}, nil))},
	}}
}

// detailOf returns a session of so many long actions.
func detailOf(actions int) SessionDetail {
	detail := SessionDetail{Session: sessions.Session{SessionID: "s1"}}
	for i := range actions {
		detail.Recent = append(detail.Recent, activity.Action{Description: strings.Repeat("<", 490), TimestampStart: float64(i)})
	}
	return detail
}

func TestSessionDetail_hasAnAddressForAConversationOnly(t *testing.T) {
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
		detail.show(bothDesks(), link)
		assert.Equal(t, want, detail.ConversationURL, link)
		notes := 2
		if link.Desk == "zendesk" || link.Desk == "intercom" {
			notes = 1
		}
		assert.Len(t, detail.Notes, notes, link)
	}
}

// What does not fit into one note is shown in as many as it would be written in.
func TestSessionDetail_showsSeveralNotes(t *testing.T) {
	product := bothDesks()
	detail := detailOf(50)
	detail.show(product, connector.Link{})
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
		detail.show(product, connector.Link{})
		assert.NotNil(t, detail.Notes)
		assert.Empty(t, detail.Notes, "there is nothing to write")
	}
}
