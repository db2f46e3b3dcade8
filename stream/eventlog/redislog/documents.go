package redislog

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/liveactivity/liveactivity/activity/document"
)

// documents is the [document.Store] of a log. Memory holds no documents: every call asks Redis.
// Each document has its own key, which Redis removes when it expires; its name stays in the
// sorted sets of names until a script finds it there.
type documents struct{ log *Log }

// Documents implements [eventlog.Log].
func (l *Log) Documents() document.Store { return documents{l} }

// Get implements [document.Store], with one command.
func (d documents) Get(ctx context.Context, productID string, names ...string) ([]document.Document, error) {
	if len(names) == 0 {
		return nil, nil // a command needs at least one key
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	client, err := d.log.redis(ctx)
	if err != nil {
		return nil, failed("get documents", err)
	}
	k := keysOf(d.log.opts.Prefix, productID)
	keys := make([]string, len(names))
	for i, name := range names {
		keys[i] = k.of("doc:" + name)
	}
	values, err := client.MGet(ctx, keys...).Result()
	if err != nil {
		return nil, failed("get documents", err)
	}
	docs := make([]document.Document, len(names))
	for i, name := range names {
		if docs[i], err = parseDocument(name, values[i]); err != nil {
			return nil, err
		}
	}
	d.saw(productID, docs)
	return docs, nil
}

// saw records the newest version of the documents, so that the next one is greater even if
// Redis has lost it. It keeps nothing of a product without documents, which may be a stranger's
// invention.
func (d documents) saw(productID string, docs []document.Document) {
	var newest document.Version
	for _, doc := range docs {
		newest = max(newest, doc.Version)
	}
	if newest > 0 {
		d.log.product(productID).sawVersion(uint64(newest))
	}
}

// parseDocument parses a stored document: its version, a space and its value. A deleted document
// has only its version, until the next commit.
func parseDocument(name string, stored any) (document.Document, error) {
	if stored == nil {
		return document.Document{Name: name}, nil
	}
	text, _ := stored.(string)
	number, value, exists := strings.Cut(text, " ")
	version, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		kind, _, _ := strings.Cut(name, "/") // the rest may be a user's ID or address
		return document.Document{}, fmt.Errorf("redislog: one of kind %.100q is not a document", kind)
	}
	if !exists {
		return document.Document{Name: name}, nil
	}
	return document.Document{Name: name, Value: []byte(value), Version: document.Version(version)}, nil
}

// Write implements [document.Store]. It shares round trips with appends of its product, in the
// order of the calls. After a storage error it is unknown whether the call had an effect.
func (d documents) Write(ctx context.Context, productID string, changes ...document.Change) (document.Version, error) {
	if err := document.Validate(changes); err != nil {
		return 0, err
	}
	c := &commit{of: document.Generation(ctx, productID)}
	c.addDocuments(changes)
	err := d.log.product(productID).commit(ctx, c)
	if err != nil {
		return 0, err
	}
	return c.version, nil
}

// Bounds of one page of a list, which one script reads.
const (
	maxListed      = 500
	maxListedBytes = 4 << 20 // of values; exceeded by one document at most
)

// List implements [document.Store]. Each page is a snapshot, but the whole list is not: a
// document written in the meantime may or may not be in it.
func (d documents) List(ctx context.Context, productID, prefix, after string, limit int) ([]document.Document, error) {
	k := keysOf(d.log.opts.Prefix, productID)
	from, to := "["+prefix, firstAfter(prefix)
	if after >= prefix {
		from = "(" + after
	}
	docs := []document.Document{}
	for len(docs) < limit {
		reply, err := d.log.product(productID).ask(ctx, listScript, []string{k.of("meta"), k.of("names"), k.of("docs")},
			from, to, min(limit-len(docs), maxListed), maxListedBytes)
		if err != nil {
			return nil, failed("list documents", err)
		}
		found, _ := reply[1].([]any)
		for i := 0; i+1 < len(found); i += 2 {
			name, _ := found[i].(string)
			doc, err := parseDocument(name, found[i+1])
			if err != nil {
				return nil, err
			}
			docs = append(docs, doc)
		}
		last, ok := reply[0].(string)
		if !ok {
			break
		}
		from = "(" + last
	}
	return docs, nil
}

// firstAfter returns the end of the names that begin with prefix, in the form that ZRANGEBYLEX
// takes: the first text, in the order of bytes, that comes after all of them, or "+" if none
// does.
func firstAfter(prefix string) string {
	for last := len(prefix) - 1; last >= 0; last-- {
		if prefix[last] < 0xff {
			return "(" + prefix[:last] + string([]byte{prefix[last] + 1})
		}
	}
	return "+"
}
