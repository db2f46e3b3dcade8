package registry

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/internal/productfile"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// OwnProduct is the product ID of the log and the documents of the service itself. No
// request can name it.
const OwnProduct = ""

// registrationPrefix is what the names of registrations begin with.
const registrationPrefix = "product/"

// registration is a product as it is stored. Its key is known by the digest.
// One that is marked as removed no longer has credentials, and is itself
// removed once nothing is kept of the product.
type registration struct {
	Product   productfile.Product `json:"product"`
	KeySHA256 []byte              `json:"key_sha256"`
	Removed   bool                `json:"removed,omitempty"`
}

func encodeRegistration(reg registration) ([]byte, error) {
	value, err := activity.Marshal(reg)
	if err != nil {
		return nil, fmt.Errorf("registry: encode registration: %w", err)
	}
	return value, nil
}

// isRemoved reports whether a registration is marked as removed.
func isRemoved(doc document.Document) bool {
	var reg registration
	return json.Unmarshal(doc.Value, &reg) == nil && reg.Removed
}

// notice is the log entry that notifies other servers of a registration.
type notice struct {
	Type      string `json:"type"`
	ProductID string `json:"product_id"`
}

// Register adds a product with fresh secrets. When there is one of that id
// already it fails with ErrExists, unless force is set: then the product is
// replaced and its old secrets are void at once, on other servers within
// moments. A product that is not registered is never replaced.
func (r *Registry) Register(ctx context.Context, p productfile.Product, force bool) (Credentials, error) {
	c := newCredentials()
	p.WebhookSecret, p.CaptureTokens = c.WebhookSecret, []string{c.CaptureToken}
	if r.isFixed(p.ProductID) {
		return Credentials{}, ErrFixed
	}
	digest := sha256.Sum256([]byte(c.Key))
	value, err := encodeRegistration(registration{Product: p, KeySHA256: digest[:]})
	if err != nil {
		return Credentials{}, err
	}
	err = r.change(ctx, p.ProductID, func(doc document.Document) (document.Change, error) {
		switch {
		case isRemoved(doc): // and perhaps not all of it
			if err := r.drop(ctx, p.ProductID); err != nil {
				return document.Change{}, fmt.Errorf("registry: remove what was kept: %w", err)
			}
		case doc.Exists() && !force:
			return document.Change{}, ErrExists
		}
		return document.Put(doc, value, 0), nil
	})
	if err != nil {
		return Credentials{}, err
	}
	_ = r.loadAfter(ctx) // else it is loaded when its credentials are used; only the caller has them
	return c, nil
}

// Unregister removes a product and everything that is kept of it. Its
// credentials are void at once, on other servers within moments. After an error
// but ErrFixed and ErrUnknown, some of it may be removed already: call it again.
func (r *Registry) Unregister(ctx context.Context, productID string) error {
	if r.isFixed(productID) {
		return ErrFixed
	}
	value, err := encodeRegistration(registration{Product: productfile.Product{ProductID: productID}, Removed: true})
	if err != nil {
		return err
	}
	err = r.change(ctx, productID, func(doc document.Document) (document.Change, error) {
		if !doc.Exists() {
			return document.Change{}, ErrUnknown
		}
		return document.Put(doc, value, 0), nil
	})
	if err != nil {
		return err
	}
	if err := r.loadAfter(ctx); err != nil {
		return err
	}
	if err := r.drop(ctx, productID); err != nil {
		return fmt.Errorf("registry: remove what was kept: %w", err)
	}
	err = r.change(ctx, productID, func(doc document.Document) (document.Change, error) {
		if !isRemoved(doc) { // it was registered again, or removed by another call
			return document.Change{}, errDone
		}
		return document.Delete(doc), nil
	})
	if errors.Is(err, errDone) {
		return nil
	}
	return err
}

var errDone = errors.New("registry: nothing is left to do")

// change changes the registration of a product, with a notice to other servers.
// The function decide is given the registration as it is, again if that changes
// meanwhile; its error ends the change.
func (r *Registry) change(ctx context.Context, productID string, decide func(document.Document) (document.Change, error)) error {
	data, err := activity.Marshal(notice{Type: "registration", ProductID: productID})
	if err != nil {
		return fmt.Errorf("registry: encode notice: %w", err)
	}
	for {
		docs, err := r.log.Documents().Get(ctx, OwnProduct, registrationPrefix+productID)
		if err != nil {
			return fmt.Errorf("registry: read registration: %w", err)
		}
		change, err := decide(docs[0])
		if err != nil {
			return err
		}
		err = r.log.Append(ctx, OwnProduct, []eventlog.Entry{{Data: data}}, change)
		var conflict *document.ConflictError
		switch {
		case err == nil:
			return nil
		case !errors.As(err, &conflict) || ctx.Err() != nil:
			return fmt.Errorf("registry: write registration: %w", err)
		}
	}
}

// loadAfter takes over one's own registration. That another cannot be read is
// not its concern.
func (r *Registry) loadAfter(ctx context.Context) error {
	if err := r.begin(ctx); err != nil {
		return err
	}
	defer r.end()
	_, err := r.load(ctx)
	return err
}

func (r *Registry) isFixed(productID string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	p, ok := r.products[productID]
	return ok && p.version == 0
}

// Load takes over what is registered. When it returns ErrUnreadable it has done
// so, but for the registrations that the error names.
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

// turnTimeout is how long to wait for others who look at the log.
const turnTimeout = 500 * time.Millisecond

// begin begins to look at the log. It fails when others take too long: then
// storage hangs, and each of them would wait as long again.
func (r *Registry) begin(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, turnTimeout)
	defer cancel()
	select {
	case r.loading <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("registry: wait for others who read registrations: %w", ctx.Err())
	}
}

func (r *Registry) end() { <-r.loading }

// load is Load with r.loading held.
func (r *Registry) load(ctx context.Context) (unreadable []error, _ error) {
	bounds, err := r.log.Bounds(ctx, OwnProduct)
	if err != nil {
		return nil, fmt.Errorf("registry: read registrations: %w", err)
	}
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
	r.removeAllBut(registered)
	r.seen = bounds.Newest
	return unreadable, nil
}

// removeAllBut removes the credentials of products that are no longer
// registered.
func (r *Registry) removeAllBut(registered map[string]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, p := range r.products {
		if p.version != 0 && !registered[id] {
			r.remove(p)
		}
	}
}

// take serves a registration, if it is news.
func (r *Registry) take(doc document.Document) error {
	productID := strings.TrimPrefix(doc.Name, registrationPrefix)
	r.mu.Lock()
	defer r.mu.Unlock()
	old, exists := r.products[productID]
	if exists && (old.version == 0 || old.version >= doc.Version) {
		return nil
	}
	var reg registration
	err := json.Unmarshal(doc.Value, &reg)
	if err != nil || productID == "" || reg.Product.ProductID != productID || !reg.Removed && len(reg.KeySHA256) != sha256.Size {
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
	if err := r.keys.AddDigest([sha256.Size]byte(reg.KeySHA256), productID); err != nil || wrong == nil {
		return err
	}
	return fmt.Errorf("%w: %s: %s", ErrUnreadable, productID, strings.Join(wrong, "; "))
}

// Limits of looking before a credential is refused.
const (
	refreshEvery   = 20 * time.Millisecond
	refreshTimeout = 500 * time.Millisecond
)

// look is one look at the log, shared by every caller that came before it began.
type look struct {
	done chan struct{} // closed when err is set
	err  error
}

// refresh takes over what others had registered when it was called, and returns
// when that is done. Callers share the next look, however many they are, and
// looks begin at least refreshEvery apart, so that guessing credentials costs
// storage next to nothing and one caller no more than another. An error means
// that it is unknown what is registered.
func (r *Registry) refresh() error {
	l := r.nextLook()
	<-l.done
	return l.err
}

// nextLook returns the look that has yet to begin.
func (r *Registry) nextLook() *look {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == nil {
		r.next = &look{done: make(chan struct{})}
		time.AfterFunc(time.Until(r.looked.Add(refreshEvery)), r.lookNow)
	}
	return r.next
}

// lookNow begins the next look. Until an earlier one is over, callers can join it.
func (r *Registry) lookNow() {
	busy := r.begin(context.Background())
	r.mu.Lock()
	l := r.next
	r.next, r.looked = nil, time.Now()
	r.mu.Unlock()
	defer close(l.done)
	if busy != nil {
		l.err = busy
		return
	}
	defer r.end()
	ctx, cancel := context.WithTimeout(context.Background(), refreshTimeout)
	defer cancel()
	bounds, err := r.log.Bounds(ctx, OwnProduct)
	if err == nil && bounds.Newest != r.seen {
		_, err = r.load(ctx)
	}
	l.err = err
}

// Intervals of Run.
const (
	firstRetry  = time.Second
	lastRetry   = 30 * time.Second // who needs a registration sooner looks by itself
	reloadEvery = time.Minute
)

// Run keeps the registry up to date with what other servers register, until
// ctx ends. Failures are passed to failed.
func (r *Registry) Run(ctx context.Context, failed func(error)) {
	timer := time.NewTimer(reloadEvery)
	defer timer.Stop()
	retry := firstRetry
	for {
		changed, wait := r.log.Changed(OwnProduct), reloadEvery
		if err := r.Load(ctx); err == nil {
			retry = firstRetry
		} else if ctx.Err() == nil {
			failed(err)
			wait = retry
			retry = min(2*retry, lastRetry)
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-changed: // never when nil
		case <-timer.C:
		}
	}
}
