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
// or the log is closed and read. Every server calls it for every product; it works
// on the partitions whose leases it gets. What is not written when it ends is
// written by the next one.
func (c *Connector) Follow(ctx context.Context, productID string, source *eventlog.Source) error {
	if err := c.awaitDesks(ctx, productID); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for number := range partitions {
		group.Go(func() error {
			return document.WithLease(ctx, c.docs, productID, leasePrefix+strconv.Itoa(number), c.opts.LeaseTTL, func(ctx context.Context, lease *document.Lease) error {
				p := &partition{Connector: c, productID: productID, number: number, lease: lease, logger: c.logger.With("product_id", productID)}
				return p.work(ctx, source)
			})
		})
	}
	group.Go(func() error { return c.watchInbox(ctx, productID) })
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
	users     map[string]eventlog.ID // by key of the conversation: how far the log was searched for the user that its link waits for
}

// watchInbox looks at the inbox until ctx ends: now and then, and when a session was
// linked in this process.
func (c *Connector) watchInbox(ctx context.Context, productID string) error {
	in := &inbox{c, productID, map[string]eventlog.ID{}}
	ticker := time.NewTicker(inboxEvery)
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

// each calls see with the documents below a prefix whose conversations this process
// works on, and the conversations' keys, a page at a time.
func (in *inbox) each(ctx context.Context, prefix string, see func(docs []document.Document, keys []string) error) error {
	for after := ""; ; {
		docs, err := in.docs.List(ctx, in.productID, prefix, after, listPage)
		if err != nil || len(docs) == 0 {
			return err
		}
		after = docs[len(docs)-1].Name
		var mine []document.Document
		var keys []string
		for _, doc := range docs {
			key := strings.TrimPrefix(doc.Name, prefix)
			if in.owner(in.productID, key) != nil {
				mine, keys = append(mine, doc), append(keys, key)
			}
		}
		if len(mine) == 0 {
			continue
		}
		if err := see(mine, keys); err != nil {
			return err
		}
	}
}

// adopt takes over conversations that got a session.
func (in *inbox) adopt(ctx context.Context) error {
	return in.each(ctx, linkedPrefix, func(notices []document.Document, keys []string) error {
		names := make([]string, len(keys))
		for i, key := range keys {
			names[i] = documentName(key)
		}
		docs, err := in.docs.Get(ctx, in.productID, names...)
		if err != nil {
			return err
		}
		for i, key := range keys {
			if p := in.owner(in.productID, key); p != nil {
				p.takeOver(key, docs[i])
				err = errors.Join(err, in.remove(ctx, notices[i]))
			}
		}
		return err
	})
}

// remove removes a document of the inbox, unless it has changed.
func (in *inbox) remove(ctx context.Context, doc document.Document) error {
	_, err := in.docs.Write(ctx, in.productID, document.Delete(doc))
	var conflict *document.ConflictError
	if errors.As(err, &conflict) {
		return nil
	}
	return err
}

// resolve links the waiting links whose sessions have appeared.
func (in *inbox) resolve(ctx context.Context) error {
	users := map[string]waiting{} // by key: those that no e-mail address is known of
	err := in.each(ctx, waitingPrefix, func(docs []document.Document, keys []string) error {
		links := make([]waiting, len(docs))
		var emails []string
		for i, doc := range docs {
			if err := json.Unmarshal(doc.Value, &links[i]); err != nil {
				continue // it expires
			}
			if links[i].Email == "" {
				users[keys[i]] = links[i]
			}
			emails = append(emails, links[i].Email)
		}
		sessionIDs, err := in.dir.SessionsOf(ctx, in.productID, emails...)
		if err != nil {
			return err
		}
		for i, sessionID := range sessionIDs {
			if sessionID != "" {
				err = errors.Join(err, in.resolved(ctx, keys[i], sessionID, links[i]))
			}
		}
		return err
	})
	return errors.Join(err, in.findUsers(ctx, users))
}

// resolved links a session that a link has waited for.
func (in *inbox) resolved(ctx context.Context, key, sessionID string, w waiting) error {
	desk, conversationID := splitKey(key)
	_, err := in.link(ctx, in.productID, desk, conversationID, sessionID, byWebhook, w.At)
	var other *LinkedError
	switch {
	case errors.Is(err, ErrUnknownSession):
		return nil // it has expired meanwhile
	case errors.As(err, &other), errors.Is(err, ErrTooManySessions), err == nil:
	default:
		return err
	}
	docs, err := in.docs.Get(ctx, in.productID, waitingPrefix+key)
	if err != nil || !docs[0].Exists() {
		return err
	}
	return in.remove(ctx, docs[0])
}

// findUsers searches the log for sessions of the users that links wait for: from
// the earliest action on that the link would show, and each entry once.
func (in *inbox) findUsers(ctx context.Context, links map[string]waiting) error {
	for key := range in.users {
		if _, ok := links[key]; !ok {
			delete(in.users, key)
		}
	}
	if len(links) == 0 {
		return nil
	}
	product, _, err := in.products.Product(in.productID)
	if err != nil {
		return err
	}
	at := eventlog.ID{}
	for key, w := range links {
		if _, ok := in.users[key]; !ok {
			in.users[key] = eventlog.IDAt(w.At.Add(-product.Notes.PreLinkWindow - clockSlack))
		}
		if at == (eventlog.ID{}) || in.users[key].Compare(at) < 0 {
			at = in.users[key]
		}
	}
	page := make([]eventlog.Entry, scanPage)
	for {
		n, err := in.log.Read(ctx, in.productID, at, page)
		var gap *eventlog.GapError
		if errors.As(err, &gap) {
			at = gap.Floor
			continue
		}
		if err != nil || n == 0 {
			return err
		}
		at = page[n-1].ID
		if err := in.findIn(ctx, page[:n], links); err != nil {
			return err
		}
		for key := range links {
			in.users[key] = later(in.users[key], at)
		}
	}
}

// findIn links those of the waiting links whose users entries are of.
func (in *inbox) findIn(ctx context.Context, page []eventlog.Entry, links map[string]waiting) error {
	for _, e := range page {
		var of struct {
			SessionID string `json:"session_id"`
			UserID    string `json:"user_id"`
		}
		if json.Unmarshal(e.Data, &of) != nil || of.UserID == "" || of.SessionID == "" {
			continue
		}
		for key, w := range links {
			if w.UserID != of.UserID || e.ID.Compare(in.users[key]) <= 0 {
				continue
			}
			if err := in.resolved(ctx, key, of.SessionID, w); err != nil {
				return err
			}
			delete(links, key)
		}
	}
	return nil
}
