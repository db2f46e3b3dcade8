// Package document stores state that outlives the log: small named values with
// a time to live, such as the owner of a session, a product's registration, a
// link to a conversation or the cursor of a job.
//
// Documents change by compare-and-set. A caller reads a document and writes it
// back with the version it read; if another write came first nothing changes,
// and the caller tries again:
//
//	err := document.Retry(ctx, func() error {
//		docs, err := store.Get(ctx, "acme", "cursor/notes")
//		if err != nil {
//			return err
//		}
//		_, err = store.Write(ctx, "acme", document.Put(docs[0], advance(docs[0].Value), time.Hour))
//		return err
//	})
//
// A product's documents are bounded in bytes. Beyond the bound, documents that yield
// are evicted first (see [Change]), then the others; of each, roughly the least recently
// written first. A document without a time to live is never evicted. So a flood of
// sessions, which anybody can send, takes nothing from links and deliveries.
//
// Documents belong to a product. One call changes any number of a product's
// documents atomically. Versions grow over the whole product and are never
// reused, so a version also serves as a fencing token: see [Lease].
//
// [Memory] is the in-memory engine; the durable ones come with the logs in
// packages boltlog and redislog.
package document

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Store keeps documents. Its methods are safe for concurrent use, and a read
// that starts after Write has returned sees the write. An engine passes the
// suite in
// [github.com/liveactivity/liveactivity/activity/document/documenttest].
//
// Any error other than *ConflictError, ErrDropped, ErrInvalid and the error of a closed
// engine means that storage is unavailable; a Write may or may not have
// happened.
type Store interface {
	// Get returns the documents of these names, in this order, from one
	// consistent snapshot. A document that does not exist, or has expired, has
	// Version zero and no value. The caller owns the values.
	Get(ctx context.Context, productID string, names ...string) ([]Document, error)

	// Write makes all of the changes or none. It returns the new version of
	// the documents put, greater than any the product has had. If a document
	// is not at the version named by its change, Write returns a
	// *ConflictError; if the product was dropped since the generation that ctx
	// carries (see WithGenerations), ErrDropped. It does not retain the values, but
	// may keep the names, which should not be parts of larger strings.
	Write(ctx context.Context, productID string, changes ...Change) (Version, error)

	// List returns the documents whose names begin with prefix and come after
	// the given name, in byte order of the names, at most limit of them.
	List(ctx context.Context, productID, prefix, after string, limit int) ([]Document, error)
}

// Each calls see with the documents whose names begin with prefix, in byte order of the names. It
// reads page by page: a document that is written in the meantime may be missing or be seen as it
// was. After an error see may have had some of the documents.
func Each(ctx context.Context, store Store, productID, prefix string, see func(Document)) error {
	const page = 256
	for after, more := "", true; more; {
		docs, err := store.List(ctx, productID, prefix, after, page)
		if err != nil {
			return err
		}
		for _, doc := range docs {
			see(doc)
			after = doc.Name
		}
		more = len(docs) == page
	}
	return nil
}

// Version distinguishes the states of a document. Zero is the version of a
// document that does not exist.
type Version uint64

// Document is a named value.
type Document struct {
	Name    string
	Value   []byte
	Version Version
}

// Exists reports whether the document exists.
func (d Document) Exists() bool { return d.Version != 0 }

// Op is the operation of a [Change].
type Op uint8

// The operations.
const (
	OpPut    Op = iota // sets the value and the time to live
	OpDelete           // removes the document
	OpCheck            // makes the call conditional on the document's version
	OpTouch            // like OpCheck, and sets the time to live
)

// Change is one change to a document that must be at version Prev, or must not
// exist if Prev is zero. [Put], [Delete], [Check] and [Touch] make changes.
type Change struct {
	Op    Op
	Name  string
	Prev  Version
	Value []byte
	TTL   time.Duration // from now; zero means no expiry
	// Yields lets the document be evicted before all documents whose last put or
	// touch did not yield, whenever those were written.
	Yields bool
}

// Put sets the value of a document that is unchanged since it was read; it
// expires after ttl, or never if ttl is zero.
func Put(d Document, value []byte, ttl time.Duration) Change {
	return Change{Op: OpPut, Name: d.Name, Prev: d.Version, Value: value, TTL: ttl}
}

// Delete removes a document that is unchanged since it was read.
func Delete(d Document) Change { return Change{Op: OpDelete, Name: d.Name, Prev: d.Version} }

// Check makes the other changes of the call conditional on a document that is
// unchanged since it was read.
func Check(d Document) Change { return Change{Op: OpCheck, Name: d.Name, Prev: d.Version} }

// Touch is Check, and sets the document to expire after ttl from now. The
// document must exist. Its version does not change.
func Touch(d Document, ttl time.Duration) Change {
	return Change{Op: OpTouch, Name: d.Name, Prev: d.Version, TTL: ttl}
}

// Limits of a document, in bytes.
const (
	MaxName  = 1024
	MaxValue = 1 << 20
)

// ErrInvalid reports changes that no store accepts.
var ErrInvalid = errors.New("document: invalid change")

// Validate returns an error wrapping [ErrInvalid] for changes that no store
// accepts: a name that is empty, too long or changed twice, a value that is
// too long, a negative time to live, or a touch or delete of a document that
// must not exist. Engines call it first.
func Validate(changes []Change) error {
	seen := make(map[string]struct{}, len(changes))
	for _, c := range changes {
		if problem := c.problem(); problem != "" {
			return fmt.Errorf("%w: %s", ErrInvalid, problem)
		}
		if _, ok := seen[c.Name]; ok {
			return fmt.Errorf("%w: a document is changed twice", ErrInvalid)
		}
		seen[c.Name] = struct{}{}
	}
	return nil
}

func (c Change) problem() string {
	switch {
	case c.Name == "":
		return "a name is empty"
	case len(c.Name) > MaxName:
		return "a name is too long"
	case len(c.Value) > MaxValue:
		return "a value is too long"
	case c.TTL < 0:
		return "a time to live is negative"
	case c.Op > OpTouch:
		return "unknown operation"
	case c.Prev == 0 && (c.Op == OpDelete || c.Op == OpTouch):
		return "a document that must not exist can be neither deleted nor touched"
	}
	return ""
}

// ConflictError reports that a document is not at the version named by a
// change.
type ConflictError struct{ Name string }

// Error states only the first part of the name: the rest may be a user's ID or address.
func (e *ConflictError) Error() string {
	kind, _, _ := strings.Cut(e.Name, "/")
	return fmt.Sprintf("document: one of kind %.100q was changed concurrently", kind)
}

// IsConflict reports whether err is a *[ConflictError] or wraps one.
func IsConflict(err error) bool {
	_, ok := errors.AsType[*ConflictError](err)
	return ok
}

// Retry calls try, which reads documents and writes them back, until it returns no conflict, and
// returns its error. A conflict is returned once ctx has ended.
func Retry(ctx context.Context, try func() error) error {
	for {
		if err := try(); !IsConflict(err) || ctx.Err() != nil {
			return err
		}
	}
}
