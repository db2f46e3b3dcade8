package connector

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/helpdesk"
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
		docs, err := log.Documents().Get(t.Context(), "acme", "lease/"+leaseName)
		require.NoError(t, err)
		assert.False(t, docs[0].Exists())
		f.views(t, "s", "b")
		assert.Len(t, d.texts("7"), 2)
	})
}
