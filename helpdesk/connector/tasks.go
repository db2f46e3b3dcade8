package connector

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/internal/schedule"
)

// tasks does what webhooks have left to do beside notes: it looks up contacts and
// replies to messages, in order within a conversation. A task is a document of
// the inbox, so none is lost; the owner of the conversation does it.
type tasks struct {
	*Connector
	productID string
	// mayBegin reports whether what is begun now will have ended before another
	// process can own the conversations.
	mayBegin  func() bool
	scheduler *schedule.Scheduler[document.Document]

	mu    sync.Mutex
	known map[string]bool // names of the tasks that are being worked on
	late  map[string]bool // keys of those whose failure was logged
}

// contactTask is the name of the look-up of a conversation's contact; any other
// task is a message.
const contactTask = "contact"

// taskName returns the name of a task's document.
func taskName(key, task string) string { return taskPrefix + key + "/" + task }

// splitTask returns what taskName was given.
func splitTask(name string) (key, task string) {
	name = strings.TrimPrefix(name, taskPrefix)
	slash := strings.LastIndexByte(name, '/')
	return name[:max(0, slash)], name[slash+1:]
}

func (c *Connector) newTasks(productID string, mayBegin func() bool) *tasks {
	t := &tasks{Connector: c, productID: productID, mayBegin: mayBegin, known: map[string]bool{}, late: map[string]bool{}}
	t.scheduler = schedule.New(t.work, t.finished, &schedule.Options[document.Document]{
		MaxBackoff: lastTaskRetry,
		Failed:     func(key string, err error, _ time.Duration) { t.failed(key, err) },
	})
	return t
}

// failed logs that a task is retried, the first time.
func (t *tasks) failed(key string, err error) {
	t.mu.Lock()
	known := t.late[key]
	t.late[key] = true
	t.mu.Unlock()
	if !known {
		desk, conversationID := splitKey(key)
		t.logger.Warn("a contact is looked up or a message replied to late; retrying",
			"product_id", t.productID, "desk", desk, "conversation_id", conversationID, "err", err)
	}
}

// lastTaskRetry is the longest back-off of a task: somebody waits for it.
const lastTaskRetry = 10 * time.Second

// Run works until ctx ends.
func (t *tasks) Run(ctx context.Context) error { return t.scheduler.Run(ctx) }

// take starts the work on a task, unless it is being worked on.
func (t *tasks) take(doc document.Document) {
	t.mu.Lock()
	known := t.known[doc.Name]
	t.known[doc.Name] = true
	t.mu.Unlock()
	if !known {
		key, _ := splitTask(doc.Name)
		t.scheduler.Put(key, doc, len(doc.Value))
	}
}

func (t *tasks) finished(key string, docs []document.Document, _ error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.late, key)
	for _, doc := range docs {
		delete(t.known, doc.Name)
	}
}

// errLeaseEnds says that a request could outlast the lease.
var errLeaseEnds = errors.New("connector: the lease was not renewed in time")

// work does a task. It reads the document again, for an earlier attempt may have
// changed it, and it may have expired.
func (t *tasks) work(ctx context.Context, key string, items []document.Document) error {
	docs, err := t.docs.Get(ctx, t.productID, items[0].Name)
	if err != nil || !docs[0].Exists() {
		return err
	}
	product, _, err := t.products.Product(t.productID)
	if err != nil {
		return err
	}
	name, conversationID := splitKey(key)
	desk, ok := product.find(name)
	if !ok {
		return t.done(ctx, t.productID, docs[0])
	}
	if _, task := splitTask(docs[0].Name); task == contactTask {
		return t.lookUpContact(ctx, desk, conversationID, docs[0])
	}
	return t.reply(ctx, desk, conversationID, docs[0])
}

// ask makes a request to a desk if the state of the account and the lease allow it.
// While the account is away, tasks and notes share one probe.
func (t *tasks) ask(ctx context.Context, desk Desk, conversationID string, do func(ctx context.Context) error) error {
	if pacer, ok := desk.Desk.(helpdesk.Pacer); ok {
		if wait := max(pacer.Pause(""), pacer.Pause(conversationID)); wait > 0 {
			return &pausedError{wait}
		}
	}
	gate := t.gate(t.productID, desk.Name)
	if err := gate.enter(ctx, false); err != nil {
		return err
	}
	defer gate.leave()
	if !t.mayBegin() {
		return errLeaseEnds
	}
	limited, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	err := do(limited)
	if ctx.Err() == nil {
		gate.observe(err, desk.Name, t.logger.With("product_id", t.productID))
	}
	return err
}
