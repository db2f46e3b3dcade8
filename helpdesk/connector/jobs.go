package connector

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/internal/schedule"
)

// jobs does what the documents of a product's inbox ask for beside notes: it
// looks up contacts and replies to messages, in order within a conversation. It
// is for the owner of the conversations, and holds nothing that is not stored.
type jobs struct {
	*Connector
	productID string
	scheduler *schedule.Scheduler[document.Document]

	mu    sync.Mutex
	known map[string]bool // names of the documents that are being worked on
}

// isJob reports whether a document of the inbox is one for jobs.
func isJob(name string) bool {
	return strings.HasPrefix(name, contactPrefix) || strings.HasPrefix(name, messagePrefix)
}

// jobKey returns the key of the conversation that a job is about.
func jobKey(name string) string {
	if key, ok := strings.CutPrefix(name, contactPrefix); ok {
		return key
	}
	key := strings.TrimPrefix(name, messagePrefix)
	return key[:max(0, strings.LastIndexByte(key, '/'))]
}

func (c *Connector) newJobs(productID string) *jobs {
	j := &jobs{Connector: c, productID: productID, known: map[string]bool{}}
	j.scheduler = schedule.New(j.work, j.finished, &schedule.Options[document.Document]{
		MaxBackoff: 10 * time.Second,
		Failed: func(key string, err error, pause time.Duration) {
			desk, conversationID := splitKey(key)
			c.logger.Warn("a contact was not looked up or a message not replied to; retrying",
				"product_id", productID, "desk", desk, "conversation_id", conversationID, "pause", pause, "err", err)
		},
	})
	return j
}

// Run works until ctx ends.
func (j *jobs) Run(ctx context.Context) error { return j.scheduler.Run(ctx) }

// take starts the work on a document, unless it is being worked on.
func (j *jobs) take(doc document.Document) {
	j.mu.Lock()
	known := j.known[doc.Name]
	j.known[doc.Name] = true
	j.mu.Unlock()
	if !known {
		j.scheduler.Put(jobKey(doc.Name), doc, len(doc.Value))
	}
}

func (j *jobs) finished(_ string, docs []document.Document, _ error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, doc := range docs {
		delete(j.known, doc.Name)
	}
}

// work does one job. It reads the document again, for an earlier attempt may have
// changed it, and it may have expired.
func (j *jobs) work(ctx context.Context, key string, items []document.Document) error {
	docs, err := j.docs.Get(ctx, j.productID, items[0].Name)
	if err != nil || !docs[0].Exists() {
		return err
	}
	product, _, err := j.products.Product(j.productID)
	if err != nil {
		return err
	}
	name, conversationID := splitKey(key)
	desk, ok := product.find(name)
	switch {
	case !ok:
		return j.done(ctx, j.productID, docs[0])
	case strings.HasPrefix(docs[0].Name, contactPrefix):
		return j.lookUpContact(ctx, j.productID, desk, conversationID, docs[0])
	}
	return j.reply(ctx, j.productID, desk, conversationID, docs[0])
}
