package connector

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

func TestWant_takesAPartOfAnEntry(t *testing.T) {
	id := eventlog.ID{Milli: 9}
	actions := make([]activity.BatchAction, 5)
	for i := range actions {
		actions[i].Index = 10 + i
	}
	w := &want{at: cursor{Inside: id, Actions: 1, Next: 11}, to: cursor{Inside: id, Actions: 3}}
	w.takeActions(id, actions)
	require.Len(t, w.found, 2)
	assert.Equal(t, cursor{Inside: id, Actions: 3, Next: 13}, w.at)
	w.to = cursor{}
	w.takeActions(id, actions)
	require.Len(t, w.found, 4)
	assert.Equal(t, cursor{After: id, Next: 15}, w.at)
	assert.Zero(t, w.trimmed)
}

// One whose lease has passed to another changes nothing.
func TestJob_changesNothingWithoutTheLease(t *testing.T) {
	s := newLinks(t)
	s.visit(t, "s", "/a")
	s.linkAs(t, "7", "s", byWebhook)
	lease, err := document.Acquire(t.Context(), s.docs, "acme", "test", 0)
	require.NoError(t, err)
	require.NoError(t, lease.Release(t.Context()))
	docs, err := s.docs.Get(t.Context(), "acme", documentName("zendesk/7"))
	require.NoError(t, err)
	j := &job{partition: &partition{Connector: s.Connector, productID: "acme", lease: lease, logger: s.logger}, doc: docs[0]}
	var lost *document.ConflictError
	require.ErrorAs(t, j.update(t.Context(), func(c *conversation) { c.LastNote = "n" }), &lost)
	after, err := s.docs.Get(t.Context(), "acme", docs[0].Name)
	require.NoError(t, err)
	assert.Equal(t, docs, after)
}
