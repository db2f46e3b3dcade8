package registry

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// The registry learns of registrations by looking at the service's own log. A look compares
// the log's newest ID with the last one seen, which costs one read, and reads the
// registrations that the entries in between name. Run looks when the log changes; a request
// looks before it refuses an unknown credential. Looks happen one at a time, under loading,
// and change products one registration after the other, under mu.

// loadReadable is Load for a caller that does not care about unreadable
// registrations.
func (r *Registry) loadReadable(ctx context.Context) error {
	if err := r.Load(ctx); !errors.Is(err, ErrUnreadable) {
		return err
	}
	return nil
}

// isFixed reports whether a product is from the file, or the demo product.
func (r *Registry) isFixed(productID string) bool {
	p, ok := r.product(productID)
	return ok && p.version == 0
}

// Load applies all registrations. After ErrUnreadable it has applied all except those that
// the error names. After any other error it may have applied only some.
func (r *Registry) Load(ctx context.Context) error {
	if err := r.begin(ctx); err != nil {
		return err
	}
	defer r.end()
	unreadable, err := r.load(ctx)
	if err != nil {
		return err
	}
	return errors.Join(unreadable...)
}

// turnTimeout limits the wait for other callers that look at the log.
const turnTimeout = time.Second

// begin begins a look at the log; the caller must call end after it. It fails if others take
// too long: then storage hangs, and each waiting caller would wait as long again.
func (r *Registry) begin(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, turnTimeout)
	defer cancel()
	select {
	case r.loading <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("registry: wait for another reader of registrations: %w", ctx.Err())
	}
}

func (r *Registry) end() { <-r.loading }

// load is Load with r.loading held. It lists the registrations once, and from then on
// reads the log's entries about them. If storage has lost entries it lists them
// again.
func (r *Registry) load(ctx context.Context) (unreadable []error, _ error) {
	bounds, err := r.log.Bounds(ctx, OwnProduct)
	switch {
	case err != nil:
		return nil, fmt.Errorf("registry: read registrations: %w", err)
	case !r.listed || bounds.Lost != r.lost:
	case bounds.Newest == r.seen:
		return nil, nil
	case bounds.Newest.Compare(r.seen) > 0:
		unreadable, err = r.readOn(ctx, bounds.Newest)
		if _, ok := errors.AsType[*eventlog.GapError](err); !ok {
			return unreadable, err
		}
	}
	if unreadable, err = r.list(ctx); err == nil {
		r.listed, r.seen, r.lost = true, bounds.Newest, bounds.Lost
	}
	return unreadable, err
}

// readOn applies the registrations that the entries after r.seen name. If some of those
// entries are gone, it fails with a *[eventlog.GapError]. It advances r.seen after each read,
// so after an error the next look continues from there.
func (r *Registry) readOn(ctx context.Context, newest eventlog.ID) (unreadable []error, _ error) {
	var entries [64]eventlog.Entry
	for r.seen.Compare(newest) < 0 {
		n, err := r.log.Read(ctx, OwnProduct, r.seen, entries[:])
		if err != nil {
			return unreadable, fmt.Errorf("registry: read registrations: %w", err)
		}
		if n == 0 {
			return unreadable, nil // the rest has just expired
		}
		more, err := r.reread(ctx, entries[:n])
		if err != nil {
			return unreadable, err
		}
		unreadable = append(unreadable, more...)
		r.seen = entries[n-1].ID
	}
	return unreadable, nil
}

// reread applies the current state of the registrations that entries name: an entry only
// states that there was a change, and several entries about one product cost one read.
func (r *Registry) reread(ctx context.Context, entries []eventlog.Entry) (unreadable []error, _ error) {
	var names []string
	for _, entry := range entries {
		var changed notice
		if json.Unmarshal(entry.Data, &changed) == nil && changed.Type == noticeType {
			names = append(names, registrationPrefix+changed.ProductID)
		}
	}
	slices.Sort(names)
	docs, err := r.log.Documents().Get(ctx, OwnProduct, slices.Compact(names)...)
	if err != nil {
		return nil, fmt.Errorf("registry: read registrations: %w", err)
	}
	for _, doc := range docs {
		if !doc.Exists() {
			r.forget(strings.TrimPrefix(doc.Name, registrationPrefix))
		} else if err := r.take(doc); err != nil {
			unreadable = append(unreadable, err)
		}
	}
	return unreadable, nil
}

// list applies all existing registrations, and removes the others. A product registered while
// it runs has an entry after the bounds, so the next look reads it.
func (r *Registry) list(ctx context.Context) (unreadable []error, _ error) {
	const atOnce = 100
	registered := map[string]bool{}
	for after, more := "", true; more; {
		docs, err := r.log.Documents().List(ctx, OwnProduct, registrationPrefix, after, atOnce)
		if err != nil {
			return nil, fmt.Errorf("registry: read registrations: %w", err)
		}
		for _, doc := range docs {
			after = doc.Name
			registered[strings.TrimPrefix(doc.Name, registrationPrefix)] = true
			if err := r.take(doc); err != nil {
				unreadable = append(unreadable, err)
			}
		}
		more = len(docs) == atOnce
	}
	for _, id := range r.IDs() {
		if !registered[id] {
			r.forget(id)
		}
	}
	return unreadable, nil
}

// forget removes a product that is no longer registered, with its credentials.
func (r *Registry) forget(productID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p, ok := r.products[productID]; ok && p.version != 0 {
		r.remove(p)
	}
}

// take serves a registration unless it is already served. It applies any version other than
// the served one, even an older one, since storage may have lost the newer. Products of the
// file take precedence over registrations. The error is ErrUnreadable; then the product is
// served without the desks that the error names, or not at all.
func (r *Registry) take(doc document.Document) error {
	productID := strings.TrimPrefix(doc.Name, registrationPrefix)
	r.mu.Lock()
	defer r.mu.Unlock()
	old, exists := r.products[productID]
	if exists && (old.version == 0 || old.version == doc.Version) {
		return nil
	}
	var reg registration
	err := json.Unmarshal(doc.Value, &reg)
	isWhole := productID != "" && reg.Product.ProductID == productID && (reg.Removed || len(reg.KeySHA256) == sha256.Size)
	if err != nil || !isWhole {
		return fmt.Errorf("%w: %s", ErrUnreadable, productID)
	}
	if exists {
		r.remove(old)
	}
	if reg.Removed {
		return nil
	}
	p, wrong := r.open(reg.Product)
	p.version = doc.Version
	r.put(p)
	digest := [sha256.Size]byte(reg.KeySHA256)
	err = r.keys.AddDigest(digest, productID)
	r.keys.SetName(digest, reg.KeyName)
	if err != nil || wrong == nil {
		return err
	}
	return fmt.Errorf("%w: %s: %s", ErrUnreadable, productID, strings.Join(wrong, "; "))
}

// Limits for looks before a credential is refused.
const (
	refreshEvery   = 20 * time.Millisecond
	refreshTimeout = 500 * time.Millisecond
)

// refresh applies the registrations that other servers had made before the call. All callers
// share the first look that begins after their calls, and looks begin at least refreshEvery
// apart, so guessing credentials costs storage almost nothing and delays all callers equally.
// After an error the registrations are unknown. Unreadable registrations are no error: their
// credentials are unknown.
func (r *Registry) refresh() error {
	asked := time.Now()
	if err := r.begin(context.Background()); err != nil {
		return err
	}
	defer r.end()
	if !r.looked.After(asked) {
		time.Sleep(time.Until(r.looked.Add(refreshEvery)))
		r.looked = time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), refreshTimeout)
		defer cancel()
		_, r.found = r.load(ctx)
	}
	return r.found
}

// Bounds of Run's backoff. A request that needs a registration sooner looks on its
// own.
const (
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
)

// Run keeps the registry up to date with registrations by other servers, until ctx ends. It
// does not access storage until the log changes. It passes failures, including ErrUnreadable,
// to failed, and retries with backoff. Call it once.
func (r *Registry) Run(ctx context.Context, failed func(error)) {
	retry := firstRetry
	for ctx.Err() == nil {
		changed := r.log.Changed(OwnProduct) // taken before the read, so that no change is missed
		var again <-chan time.Time           // nil, so never, after a success
		if err := r.Load(ctx); err == nil {
			retry = firstRetry
		} else if ctx.Err() == nil {
			failed(err)
			again = time.After(retry)
			retry = min(2*retry, lastRetry)
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-again:
		}
	}
}
