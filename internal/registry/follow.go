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
	"github.com/liveactivity/liveactivity/internal/outage"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// The registry learns of registrations by looking at the service's own log. A look compares
// the log's newest ID with the last one seen, which costs one read, and reads the
// registrations that the entries in between name. Run looks when the log changes; a request
// looks before it refuses an unknown credential. Looks happen one at a time, under loading,
// and change products under mu.

// Load applies all registrations that can be read. After an error it may have applied only
// some.
func (r *Registry) Load(ctx context.Context) error {
	if err := r.begin(ctx); err != nil {
		return err
	}
	defer r.end()
	return r.load(ctx)
}

// Loaded returns a channel that is closed once all registrations have been applied.
func (r *Registry) Loaded() <-chan struct{} { return r.loaded }

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
func (r *Registry) load(ctx context.Context) error {
	bounds, err := r.log.Bounds(ctx, OwnProduct)
	switch {
	case err != nil:
		return fmt.Errorf("registry: read registrations: %w", err)
	case !r.listed || bounds.Lost != r.lost:
	case bounds.Newest == r.seen:
		return nil
	case bounds.Newest.Compare(r.seen) > 0:
		err = r.readOn(ctx, bounds.Newest)
		if _, ok := errors.AsType[*eventlog.GapError](err); !ok {
			return err
		}
	}
	if err := r.list(ctx); err != nil {
		return err
	}
	if !r.listed {
		close(r.loaded)
	}
	r.listed, r.seen, r.lost = true, bounds.Newest, bounds.Lost
	return nil
}

// readOn applies the registrations that the entries after r.seen name. If some of those
// entries are gone, it fails with a *[eventlog.GapError]. It advances r.seen after each read,
// so after an error the next look continues from there.
func (r *Registry) readOn(ctx context.Context, newest eventlog.ID) error {
	var entries [64]eventlog.Entry
	for r.seen.Compare(newest) < 0 {
		n, err := r.log.Read(ctx, OwnProduct, r.seen, entries[:])
		if err != nil {
			return fmt.Errorf("registry: read registrations: %w", err)
		}
		if n == 0 {
			return nil // the rest has just expired
		}
		if err := r.reread(ctx, entries[:n]); err != nil {
			return err
		}
		r.seen = entries[n-1].ID
	}
	return nil
}

// reread applies the current state of the registrations that entries name: an entry only
// states that there was a change, and several entries about one product cost one read.
func (r *Registry) reread(ctx context.Context, entries []eventlog.Entry) error {
	var names []string
	for _, entry := range entries {
		var changed struct {
			ProductID string `json:"product_id"`
		}
		if json.Unmarshal(entry.Data, &changed) == nil && changed.ProductID != "" {
			names = append(names, registrationPrefix+changed.ProductID)
		}
	}
	slices.Sort(names)
	docs, err := r.log.Documents().Get(ctx, OwnProduct, slices.Compact(names)...)
	if err != nil {
		return fmt.Errorf("registry: read registrations: %w", err)
	}
	for _, doc := range docs {
		r.take(doc)
	}
	return nil
}

// list applies all existing registrations, and removes the others. A product registered while
// it runs has an entry after the bounds, so the next look reads it.
func (r *Registry) list(ctx context.Context) error {
	listed := map[string]bool{}
	err := document.Each(ctx, r.log.Documents(), OwnProduct, registrationPrefix, func(doc document.Document) {
		listed[doc.Name] = true
		r.take(doc)
	})
	if err != nil {
		return fmt.Errorf("registry: read registrations: %w", err)
	}
	for _, id := range r.IDs() {
		if name := registrationPrefix + id; !listed[name] {
			r.take(document.Document{Name: name})
		}
	}
	return nil
}

// take serves a registration unless it is already served, and ends one that no longer exists.
// It applies any version other than the served one, even an older one, since storage may have
// lost the newer. Products of the file take precedence over registrations, and so do their keys
// and capture tokens. A registration that is damaged or unknown to this program is logged: it is
// served without the desks that cannot be opened and without credentials of the file, or not at all.
func (r *Registry) take(doc document.Document) {
	productID := strings.TrimPrefix(doc.Name, registrationPrefix)
	r.mu.Lock()
	defer r.mu.Unlock()
	old, exists := r.products[productID]
	if exists && (old.version == 0 || old.version == doc.Version) {
		return
	}
	var reg registration
	err := json.Unmarshal(doc.Value, &reg)
	isWhole := productID != "" && reg.Product.ProductID == productID && (reg.Removed || len(reg.KeySHA256) == sha256.Size)
	if doc.Exists() && (err != nil || !isWhole) {
		r.notServed(productID, "it is damaged")
		return
	}
	if exists {
		r.remove(old)
	}
	if reg.Removed || !doc.Exists() {
		return
	}
	p, wrong := r.open(reg.Product)
	p.version, p.since = doc.Version, since(doc)
	r.put(p)
	digest := [sha256.Size]byte(reg.KeySHA256)
	if err := r.keys.AddDigest(digest, productID); err != nil {
		wrong = append(wrong, err.Error())
	} else {
		r.keys.SetName(digest, reg.KeyName)
	}
	for _, token := range p.CaptureTokens {
		if r.tokens[token] != productID {
			wrong = append(wrong, "another product has its capture token")
		}
	}
	if wrong != nil {
		r.notServed(productID, strings.Join(wrong, "; "))
	}
}

func (r *Registry) notServed(productID, why string) {
	r.deskOptions.Logger.Warn("a registration cannot be served as it is", "product_id", productID, "err", why)
}

// Limits for looks before a credential is refused.
const (
	refreshEvery   = 20 * time.Millisecond
	refreshTimeout = 500 * time.Millisecond
)

// refresh applies the registrations that other servers had made before the call. All callers
// share the first look that begins after their calls, and looks begin at least refreshEvery
// apart, so guessing credentials costs storage almost nothing and delays all callers equally.
// After an error the registrations are unknown.
func (r *Registry) refresh() error {
	asked := time.Now()
	if err := r.begin(context.Background()); err != nil {
		return err
	}
	defer r.end()
	if !r.refreshedAt.After(asked) {
		time.Sleep(time.Until(r.refreshedAt.Add(refreshEvery)))
		r.refreshedAt = time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), refreshTimeout)
		defer cancel()
		r.refreshErr = r.load(ctx)
	}
	return r.refreshErr
}

// retryAfter is the pause before Run repeats a failed look. A request that needs a registration
// sooner looks on its own.
const retryAfter = time.Second

// Run keeps the registry up to date with registrations by other servers, until ctx ends. It
// does not access storage until the log changes or, after a failure, retryAfter has passed. It
// logs failures. Call it once.
func (r *Registry) Run(ctx context.Context) {
	var warnings outage.Pace
	for ctx.Err() == nil {
		changed := r.log.Changed(OwnProduct) // taken before the read, so that no change is missed
		var again <-chan time.Time           // nil, so never, after a success
		if err := r.Load(ctx); err != nil && ctx.Err() == nil {
			r.deskOptions.Logger.Log(ctx, warnings.Level(err), "registrations cannot be read", "err", err)
			again = time.After(retryAfter)
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-again:
		}
	}
}
