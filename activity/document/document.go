// Package document keeps what must be remembered beyond the log: small named
// values with a time to live, such as whom a session belongs to, a product's
// registration, a link to a conversation or the cursor of a job.
//
// A document is changed by compare-and-set. Whoever changes one reads it first
// and names the version it read; when somebody else was faster nothing happens,
// and the change is made again from what is there now:
//
//	for {
//		docs, err := store.Get(ctx, "acme", "cursor/notes")
//		if err != nil {
//			return err
//		}
//		next := advance(docs[0].Value)
//		_, err = store.Write(ctx, "acme", document.Put(docs[0], next, time.Hour))
//		var conflict *document.ConflictError
//		if !errors.As(err, &conflict) {
//			return err
//		}
//	}
//
// Documents belong to a product. One call changes as many of a product's
// documents as it likes, all or none. Versions grow over the whole product and
// are never given twice, so a version is also a fencing token: see [Lease].
//
// [Memory] is the engine that keeps everything in RAM; the lasting ones come
// with the logs of packages boltlog and redislog.
package document

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Store keeps documents. Its methods are safe for concurrent use, and who reads
// after a Write returned sees it. An engine passes the suite in
// [github.com/liveactivity/liveactivity/activity/document/documenttest].
//
// Any error but *ConflictError, ErrInvalid and a closed engine's own means that
// storage cannot be reached; a Write may then have happened or not.
type Store interface {
	// Get returns the documents of these names, in this order, as they are at
	// one moment. One that does not exist, or not any more, has Version zero
	// and no value. The values are the caller's.
	Get(ctx context.Context, productID string, names ...string) ([]Document, error)

	// Write makes all of the changes or none. It returns the version that the
	// documents put have now, which is greater than any the product has given.
	// When a document is not at the version that its change names, Write
	// returns a *ConflictError. It does not keep the values.
	Write(ctx context.Context, productID string, changes ...Change) (Version, error)

	// List returns the documents whose names begin with prefix and come after
	// the given name, in byte order of the names, at most limit of them.
	List(ctx context.Context, productID, prefix, after string, limit int) ([]Document, error)
}

// Version tells the states of a document apart. Zero is that of a document
// that does not exist.
type Version uint64

// Document is a named value.
type Document struct {
	Name    string
	Value   []byte
	Version Version
}

// Exists reports whether there is such a document.
func (d Document) Exists() bool { return d.Version != 0 }

// Op is what a [Change] does.
type Op uint8

// The operations.
const (
	OpPut    Op = iota // sets the value and the time to live
	OpDelete           // removes the document
	OpCheck            // only holds the other changes to the document's version
	OpTouch            // as OpCheck, and sets the time to live
)

// Change is one change to a document that is at version Prev: zero for one
// that must not exist. [Put], [Delete], [Check] and [Touch] make them.
type Change struct {
	Op    Op
	Name  string
	Prev  Version
	Value []byte
	TTL   time.Duration // from now; zero for ever
}

// Put sets the value of the document as it was read, and lets it live for ttl;
// zero means for ever.
func Put(d Document, value []byte, ttl time.Duration) Change {
	return Change{Op: OpPut, Name: d.Name, Prev: d.Version, Value: value, TTL: ttl}
}

// Delete removes the document as it was read.
func Delete(d Document) Change { return Change{Op: OpDelete, Name: d.Name, Prev: d.Version} }

// Check lets the other changes happen only while the document is as it was read.
func Check(d Document) Change { return Change{Op: OpCheck, Name: d.Name, Prev: d.Version} }

// Touch is Check, and lets the document live for ttl from now. It must exist.
// Its version stays.
func Touch(d Document, ttl time.Duration) Change {
	return Change{Op: OpTouch, Name: d.Name, Prev: d.Version, TTL: ttl}
}

// Limits of a document, in bytes.
const (
	MaxName  = 1024
	MaxValue = 1 << 20
)

// ErrInvalid is the error of changes that no store can make.
var ErrInvalid = errors.New("document: invalid change")

// Validate returns an error wrapping [ErrInvalid] for changes that no store can
// make: a name that is empty, too long or changed twice, a value that is too
// long, a negative time to live, touching or deleting what must not exist.
// Engines call it first.
func Validate(changes []Change) error {
	seen := make(map[string]struct{}, len(changes))
	for _, c := range changes {
		if problem := c.problem(); problem != "" {
			return fmt.Errorf("%w: %s", ErrInvalid, problem)
		}
		if _, ok := seen[c.Name]; ok {
			return fmt.Errorf("%w: one document is changed twice", ErrInvalid)
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
		return "there is no such operation"
	case c.Prev == 0 && (c.Op == OpDelete || c.Op == OpTouch):
		return "what must not exist can be neither deleted nor touched"
	}
	return ""
}

// ConflictError says that a document is not at the version that a change named.
type ConflictError struct{ Name string }

func (e *ConflictError) Error() string {
	return fmt.Sprintf("document: %.100q was changed by somebody else", e.Name)
}
