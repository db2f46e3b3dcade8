package connector

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

const (
	inboxEvery   = 500 * time.Millisecond // how often new links are looked for
	waitingEvery = 2                      // times that, how often waiting links are
	desksEvery   = 5 * time.Second        // how often a product without desks is asked for some
)

// Follow keeps the conversations of a product supplied with notes until ctx ends,
// or the log is closed and read and the notes that waited for the debounce time are
// written, as far as their desks answer. Every server calls it for every product;
// it works on the partitions whose leases it gets. What is not written when it ends
// is written by the next one.
func (c *Connector) Follow(ctx context.Context, productID string, source *eventlog.Source) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		err := source.AwaitClose(ctx) // what is idle does not notice it
		for c.ownsAny(productID) && ctx.Err() == nil {
			time.Sleep(finishTick)
		}
		return err
	})
	group.Go(func() error {
		if err := c.awaitDesks(ctx, productID); err != nil {
			return err
		}
		for number := range partitions {
			group.Go(func() error {
				return document.WithLease(ctx, c.docs, productID, leasePrefix+strconv.Itoa(number), c.opts.LeaseTTL, func(ctx context.Context, lease *document.Lease) error {
					p := &partition{Connector: c, productID: productID, number: number, lease: lease, logger: c.logger.With("product_id", productID)}
					return p.work(ctx, source)
				})
			})
		}
		return c.watchInbox(ctx, productID)
	})
	return group.Wait()
}

// awaitDesks returns when the product has a desk.
func (c *Connector) awaitDesks(ctx context.Context, productID string) error {
	for {
		product, _, err := c.products.Product(productID)
		if err == nil && len(product.Desks) > 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(desksEvery):
		}
	}
}

// partitionKey names a partition among those of all products.
type partitionKey struct {
	productID string
	number    int
}

// owns records whether this process works on a partition.
func (c *Connector) owns(p *partition, does bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := partitionKey{p.productID, p.number}
	if does {
		c.owned[key] = p
	} else if c.owned[key] == p {
		delete(c.owned, key)
	}
}

// ownsAny reports whether this process works on a partition of the product.
func (c *Connector) ownsAny(productID string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.owned {
		if key.productID == productID {
			return true
		}
	}
	return false
}

// owner returns the partition of a conversation if this process works on it, or
// nil.
func (c *Connector) owner(productID, key string) *partition {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.owned[partitionKey{productID, partitionOf(key)}]
}

// inbox is what is looked at for a product beside its log: conversations that got a
// session, and links that wait for theirs.
type inbox struct {
	*Connector
	productID string
	searched  map[string]eventlog.ID // by name of a waiting link: how far the log was searched for its user
}

// watchInbox looks at the inbox until ctx ends: now and then, and when a session was
// linked in this process.
func (c *Connector) watchInbox(ctx context.Context, productID string) error {
	in := &inbox{c, productID, map[string]eventlog.ID{}}
	ticker := time.NewTicker(c.inbox)
	defer ticker.Stop()
	here := c.linkedHere(productID)
	for round := 0; ; {
		err := in.adopt(ctx)
		if round%waitingEvery == 0 {
			err = errors.Join(err, in.resolve(ctx))
		}
		if err != nil && ctx.Err() == nil {
			c.logger.Warn("new links are seen late", "product_id", productID, "err", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-here:
		case <-ticker.C:
			round++
		}
	}
}

// each calls see with the documents below a prefix.
func (in *inbox) each(ctx context.Context, prefix string, see func(docs []document.Document) error) error {
	for after := ""; ; {
		docs, err := in.docs.List(ctx, in.productID, prefix, after, listLimit)
		if err != nil || len(docs) == 0 {
			return err
		}
		if err := see(docs); err != nil {
			return err
		}
		after = docs[len(docs)-1].Name
	}
}

// adopt takes over conversations of this process that got a session, and tasks of
// its conversations.
func (in *inbox) adopt(ctx context.Context) error {
	err := in.each(ctx, linkedPrefix, func(notices []document.Document) error {
		for _, notice := range notices {
			key := strings.TrimPrefix(notice.Name, linkedPrefix)
			p := in.owner(in.productID, key)
			if p == nil {
				continue
			}
			docs, err := in.docs.Get(ctx, in.productID, documentName(key))
			if err != nil {
				return err
			}
			p.takeOver(key, docs[0])
			// A process that was paused may own nothing any more without knowing it: the
			// notice stays for the one that does.
			if err := in.remove(ctx, notice, p.lease.Check()); err != nil {
				return err
			}
		}
		return nil
	})
	return errors.Join(err, in.each(ctx, taskPrefix, func(docs []document.Document) error {
		for _, doc := range docs {
			key, _ := splitTask(doc.Name)
			if p := in.owner(in.productID, key); p != nil {
				p.tasks.take(doc)
			}
		}
		return nil
	}))
}

// remove removes a document of the inbox, unless it has changed or a check fails.
func (in *inbox) remove(ctx context.Context, doc document.Document, checks ...document.Change) error {
	_, err := in.docs.Write(ctx, in.productID, append(checks, document.Delete(doc))...)
	var conflict *document.ConflictError
	if errors.As(err, &conflict) {
		return nil
	}
	return err
}

// resolve links the waiting links whose sessions have appeared. Every process does
// it: the first one wins.
func (in *inbox) resolve(ctx context.Context) error {
	var ofUsers []*waitingDocument // those with a user id
	err := in.each(ctx, waitingPrefix, func(docs []document.Document) error {
		links := make([]waitingDocument, len(docs))
		emails := make([]string, len(docs))
		for i, doc := range docs {
			links[i].doc = doc
			if err := json.Unmarshal(doc.Value, &links[i].waiting); err != nil {
				continue // it expires
			}
			if emails[i] = links[i].Email; links[i].UserID != "" {
				ofUsers = append(ofUsers, &links[i])
			}
		}
		sessionIDs, err := in.dir.SessionsOf(ctx, in.productID, emails...)
		for i, sessionID := range sessionIDs {
			if sessionID != "" {
				err = errors.Join(err, in.resolved(ctx, &links[i], sessionID))
			}
		}
		return err
	})
	return errors.Join(err, in.findUsers(ctx, ofUsers))
}

// waitingDocument is a waiting link and its document.
type waitingDocument struct {
	waiting
	doc document.Document
}

// resolved links a session that a link has waited for.
func (in *inbox) resolved(ctx context.Context, w *waitingDocument, sessionID string) error {
	desk, conversationID := splitKey(w.Conversation)
	_, err := in.link(ctx, in.productID, desk, conversationID, sessionID, byWebhook, w.At)
	var other *LinkedError
	switch {
	case errors.Is(err, ErrUnknownSession):
		return nil // it has expired meanwhile
	case errors.As(err, &other), errors.Is(err, ErrTooManySessions), err == nil:
		return in.remove(ctx, w.doc)
	}
	return err
}

// findUsers searches the log for sessions of the users that links wait for: from
// the earliest action on that the link would show, and each entry once.
func (in *inbox) findUsers(ctx context.Context, links []*waitingDocument) error {
	if len(links) == 0 {
		clear(in.searched)
		return nil
	}
	product, _, err := in.products.Product(in.productID)
	if err != nil {
		return err
	}
	before, at := in.searched, eventlog.ID{}
	in.searched = make(map[string]eventlog.ID, len(links))
	for _, w := range links {
		from, ok := before[w.doc.Name]
		if !ok {
			from = eventlog.IDAt(w.At.Add(-product.Notes.PreLinkWindow - clockSlack))
		}
		in.searched[w.doc.Name] = from
		if at == (eventlog.ID{}) || from.Compare(at) < 0 {
			at = from
		}
	}
	into := make([]eventlog.Entry, scanEntries)
	for {
		n, err := in.log.Read(ctx, in.productID, at, into)
		var gap *eventlog.GapError
		if errors.As(err, &gap) {
			at = gap.TrimmedTo
			continue
		}
		if err != nil || n == 0 {
			return err
		}
		if err := in.findIn(ctx, into[:n], links); err != nil {
			return err
		}
		at = into[n-1].ID
		for name, searched := range in.searched {
			in.searched[name] = later(searched, at)
		}
	}
}

// findIn links the users that entries are of to the conversations that wait for
// them.
func (in *inbox) findIn(ctx context.Context, entries []eventlog.Entry, links []*waitingDocument) error {
	for _, e := range entries {
		of, err := e.Decode()
		if err != nil || of == nil || of.UserID == "" || of.SessionID == "" {
			continue
		}
		for _, w := range links {
			if w.UserID != of.UserID || e.ID.Compare(in.searched[w.doc.Name]) <= 0 {
				continue
			}
			known, _, err := in.dir.Session(ctx, in.productID, of.SessionID)
			if err == nil && w.isOf(known.Email) {
				err = in.resolved(ctx, w, of.SessionID)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}
