package connector

import (
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/internal/heaptest"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/watchtest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
)

// counted returns a log that counts appends and the operations on documents.
func counted(log eventlog.Log) (seen *watchtest.Log, operations *atomic.Int64) {
	operations = new(atomic.Int64)
	return before(log, func(op watchtest.Op) error {
		if op.Name != "read" && op.Name != "bounds" {
			operations.Add(1)
		}
		return nil
	}), operations
}

// A webhook that links a session, and the note that follows, with the lease taken.
func TestFollow_takesSevenOperationsForAFirstNote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, operations := counted(musttest.New(memorylog.New(nil)))
		d := &doors{plain: newScriptDesk("plain"), chat: newScriptDesk("chat")}
		d.plain.lacking(func(can *helpdesk.Capabilities) { *can = helpdesk.Capabilities{} })
		d.open(t, log, nil)
		d.follows(t, nil)
		d.visitAs(t, "s1", "ada", "ada@acme.example", time.Now(), "pricing")
		time.Sleep(time.Hour)
		d.visitAs(t, "s1", "ada", "ada@acme.example", time.Now(), "plans")
		synctest.Wait()
		operations.Store(0)
		d.says(t, "linked", opened("d1", "c1", helpdesk.Contact{Email: "ada@acme.example"}))
		synctest.Wait()
		require.Equal(t, []string{"[1] User visited plans"}, d.plain.texts("c1"))
		assert.LessOrEqual(t, operations.Load(), int64(7), "the lease included")
	})
}

// A product whose notes are all written asks storage for nothing and holds no lease.
func TestFollow_asksStorageForNothingAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, operations := counted(musttest.New(memorylog.New(nil)))
		d := newDesk()
		f := newService(t, log, Product{Desks: []Desk{{"zendesk", d}}, Notes: promptNotes()}, nil).follows(t, d)
		f.begins(t, "a")
		time.Sleep(time.Minute)
		require.Len(t, d.texts("7"), 1)
		before := operations.Load()
		time.Sleep(3 * time.Hour)
		assert.Equal(t, before, operations.Load())
		docs := musttest.New(log.Documents().Get(t.Context(), "acme", "lease/"+leaseName))
		assert.False(t, docs[0].Exists())
		f.views(t, "s", "b")
		assert.Len(t, d.texts("7"), 2)
	})
}

// A linked conversation takes at most 1 KiB of memory, and one with notes to write to an absent
// desk at most 512 bytes.
func TestDelivery_keepsLittleOfAConversationInMemory(t *testing.T) {
	const conversations = 10_000
	c := newLinks(t).Connector
	d := c.newDelivery("acme")
	docs := make([]document.Document, conversations)
	for i := range docs {
		r := record{conversation: conversation{Sessions: []session{{ID: fmt.Sprintf("0198c2f4-7a00-7000-8000-%012d", i),
			ByWebhook: true, Cursor: cursor{After: eventlog.IDAt(time.Now())}}}}}
		change, _, err := c.store.change(&r)
		require.NoError(t, err)
		docs[i] = document.Document{Name: Link{"zendesk", fmt.Sprint(100000 + i)}.documentName(),
			Value: change.Value, Version: 1}
	}
	perLinked := heaptest.After(func() {
		for _, doc := range docs {
			doc.Name = strings.Clone(doc.Name)
			d.takeOver(doc, eventlog.ID{})
		}
	}) / conversations
	require.Len(t, d.lanes, conversations)
	perParked := perLinked + heaptest.After(func() {
		var page []eventlog.Entry
		d.loaded = eventlog.IDAt(time.Now().Add(2 * time.Hour))
		for id := range d.bySession {
			page = append(page, eventlog.Entry{ID: eventlog.IDAt(time.Now().Add(time.Hour)), SessionID: id})
		}
		require.NoError(t, d.see(eventlog.ID{}, page))
	})/conversations
	require.Equal(t, conversations, d.accounts["zendesk"].lanes.Len())
	t.Logf("%d bytes for each linked conversation, %d for each parked one", perLinked, perParked)
	assert.LessOrEqual(t, perLinked, int64(1024))
	assert.LessOrEqual(t, perParked, int64(512))
	runtime.KeepAlive(d)
	runtime.KeepAlive(docs)
}
