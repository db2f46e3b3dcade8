package connector

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
)

// counted is a log that counts the operations on documents.
type counted struct {
	eventlog.Log
	operations atomic.Int64
}

func (c *counted) Append(ctx context.Context, productID string, entries []eventlog.Entry, changes ...document.Change) error {
	c.operations.Add(1)
	return c.Log.Append(ctx, productID, entries, changes...)
}

func (c *counted) Documents() document.Store { return countedStore{c.Log.Documents(), c} }

type countedStore struct {
	document.Store
	of *counted
}

func (c countedStore) Get(ctx context.Context, productID string, names ...string) ([]document.Document, error) {
	c.of.operations.Add(1)
	return c.Store.Get(ctx, productID, names...)
}

func (c countedStore) List(ctx context.Context, productID, prefix, after string, limit int) ([]document.Document, error) {
	c.of.operations.Add(1)
	return c.Store.List(ctx, productID, prefix, after, limit)
}

func (c countedStore) Write(ctx context.Context, productID string, changes ...document.Change) (document.Version, error) {
	c.of.operations.Add(1)
	return c.Store.Write(ctx, productID, changes...)
}

// A webhook that links a session, and the note that follows, with the lease taken.
func TestFollow_takesSevenOperationsForAFirstNote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoors(t, nil)
		log := &counted{Log: d.store.log}
		desk := newDesk()
		product := always(Product{Notes: promptNotes(), Desks: []Desk{{"plain", notingDesk{d.plain, desk}}}})
		s := &service{Connector: musttest.New(New(log, product, nil)), recorder: d.recorder}
		d.service.Connector = s.Connector
		f := &following{service: s}
		f.follow(t)
		defer f.stop()
		d.visitAs(t, "s1", "ada", "ada@acme.example", time.Now(), "pricing")
		time.Sleep(time.Hour)
		d.visitAs(t, "s1", "ada", "ada@acme.example", time.Now(), "plans")
		synctest.Wait()
		log.operations.Store(0)
		d.mux = http.NewServeMux()
		d.mux.HandleFunc("POST "+"/chatbot-webhook/{product_id}", s.ServeWebhook)
		_, says := d.event(t, webhookPath, "plain", opened("d1", "c1", helpdesk.Contact{Email: "ada@acme.example"}))
		require.Equal(t, "linked", says)
		synctest.Wait()
		require.Equal(t, []string{"[1] User visited plans"}, desk.texts("c1"))
		assert.LessOrEqual(t, log.operations.Load(), int64(7), "the lease included")
	})
}

// notingDesk is a scriptDesk that keeps its notes.
type notingDesk struct {
	*scriptDesk
	notes *desk
}

func (d notingDesk) Capabilities() helpdesk.Capabilities { return helpdesk.Capabilities{} }
func (d notingDesk) Note(ctx context.Context, conversationID, text string) (string, error) {
	return d.notes.Note(ctx, conversationID, text)
}

// A product whose notes are all written asks storage for nothing and holds no lease.
func TestFollow_asksStorageForNothingAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &counted{Log: musttest.New(memorylog.New(nil))}
		d := newDesk()
		f := &following{service: newService(t, log, Product{Desks: []Desk{{"zendesk", d}}, Notes: promptNotes()}, nil), desk: d}
		f.follow(t)
		defer f.stop()
		f.visit(t, "s", "a")
		f.linkAs(t, "7", "s", byWebhook)
		time.Sleep(time.Minute)
		require.Len(t, d.texts("7"), 1)
		before := log.operations.Load()
		time.Sleep(3 * time.Hour)
		assert.Equal(t, before, log.operations.Load())
		docs, err := log.Documents().Get(t.Context(), "acme", "lease/"+leaseName)
		require.NoError(t, err)
		assert.False(t, docs[0].Exists())
		f.visit(t, "s", "b")
		synctest.Wait()
		assert.Len(t, d.texts("7"), 2)
	})
}
