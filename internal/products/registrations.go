package products

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
	"github.com/liveactivity/liveactivity/internal/config"
	"github.com/liveactivity/liveactivity/stream"
)

// service is the product id of what concerns no product but the service. No
// request can name it.
const service = ""

// prefix of the names of registrations.
const prefix = "product/"

// registration is a product as it is stored. Its key is known by the digest.
type registration struct {
	Product   config.Product `json:"product"`
	KeySHA256 []byte         `json:"key_sha256"`
}

// notice is the log entry that tells other servers of a registration.
type notice struct {
	Type      string `json:"type"`
	ProductID string `json:"product_id"`
}

// Attach makes the registry keep its registrations in a log's documents. It
// must come before anything else; what is registered there already is served
// after Load.
func (r *Registry) Attach(log stream.Log) { r.log = log }

// Register adds a product with fresh secrets. When there is one of that id
// already it fails with ErrExists, unless force is set: then the product is
// replaced and its old secrets are void at once, on other servers within
// moments. A product that is not registered is never replaced.
func (r *Registry) Register(ctx context.Context, p config.Product, force bool) (Credentials, error) {
	c := newCredentials()
	p.WebhookSecret, p.CaptureTokens = c.WebhookSecret, []string{c.CaptureToken}
	if r.isFixed(p.ProductID) {
		return Credentials{}, ErrFixed
	}
	digest := sha256.Sum256([]byte(c.Key))
	value, err := activity.Marshal(registration{Product: p, KeySHA256: digest[:]})
	if err != nil {
		return Credentials{}, fmt.Errorf("products: encode registration: %w", err)
	}
	data, err := activity.Marshal(notice{Type: "registration", ProductID: p.ProductID})
	if err != nil {
		return Credentials{}, fmt.Errorf("products: encode registration: %w", err)
	}
	for {
		docs, err := r.log.Documents().Get(ctx, service, prefix+p.ProductID)
		if err != nil {
			return Credentials{}, fmt.Errorf("products: read registration: %w", err)
		}
		if docs[0].Exists() && !force {
			return Credentials{}, ErrExists
		}
		err = r.log.Append(ctx, service, []stream.Entry{{Data: data}}, document.Put(docs[0], value, 0))
		var conflict *document.ConflictError
		if errors.As(err, &conflict) && ctx.Err() == nil {
			continue
		}
		if err != nil {
			return Credentials{}, fmt.Errorf("products: write registration: %w", err)
		}
		return c, r.loadAfter(ctx)
	}
}

// loadAfter takes over one's own registration. That another cannot be read is
// not its concern.
func (r *Registry) loadAfter(ctx context.Context) error {
	r.loading.Lock()
	defer r.loading.Unlock()
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
	r.loading.Lock()
	defer r.loading.Unlock()
	unreadable, err := r.load(ctx)
	if err != nil {
		return err
	}
	return errors.Join(unreadable...)
}

// load is Load with r.loading held.
func (r *Registry) load(ctx context.Context) (unreadable []error, err error) {
	began := time.Now()
	defer func() { r.looked, r.failure = began, err }()
	bounds, err := r.log.Bounds(ctx, service)
	if err != nil {
		return nil, fmt.Errorf("products: read registrations: %w", err)
	}
	const page = 100
	for after, more := "", true; more; {
		docs, err := r.log.Documents().List(ctx, service, prefix, after, page)
		if err != nil {
			return nil, fmt.Errorf("products: read registrations: %w", err)
		}
		for _, doc := range docs {
			after = doc.Name
			if err := r.take(doc); err != nil {
				unreadable = append(unreadable, err)
			}
		}
		more = len(docs) == page
	}
	r.seen = bounds.Newest
	return unreadable, nil
}

// take serves a registration, if it is news.
func (r *Registry) take(doc document.Document) error {
	productID := strings.TrimPrefix(doc.Name, prefix)
	r.mu.Lock()
	defer r.mu.Unlock()
	old, exists := r.products[productID]
	if exists && (old.version == 0 || old.version >= doc.Version) {
		return nil
	}
	var reg registration
	err := json.Unmarshal(doc.Value, &reg)
	if err != nil || productID == "" || reg.Product.ProductID != productID || len(reg.KeySHA256) != sha256.Size {
		return fmt.Errorf("%w: %s", ErrUnreadable, productID)
	}
	if exists {
		r.remove(old)
	}
	r.put(product{Product: reg.Product, version: doc.Version})
	return r.keys.AddDigest([sha256.Size]byte(reg.KeySHA256), productID)
}

// Limits of looking before a credential is refused.
const (
	refreshEvery   = 20 * time.Millisecond
	refreshTimeout = 500 * time.Millisecond
)

// refresh takes over what others had registered when it was called. Calls that
// come together share a look, and the next one has to wait a little, so that
// guessing credentials costs storage next to nothing. An error means that
// nobody knows what is registered.
func (r *Registry) refresh() error {
	called := time.Now()
	r.loading.Lock()
	defer r.loading.Unlock()
	if r.looked.After(called) {
		return r.failure
	}
	time.Sleep(time.Until(r.looked.Add(refreshEvery)))
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), refreshTimeout)
	defer cancel()
	bounds, err := r.log.Bounds(ctx, service)
	if err == nil && bounds.Newest != r.seen {
		_, err = r.load(ctx)
	}
	r.looked, r.failure = began, err
	return err
}

// Intervals of Run.
const (
	firstRetry  = time.Second
	lastRetry   = 30 * time.Second // who needs a registration sooner looks by itself
	reloadEvery = time.Minute
)

// Run keeps the registry up to date with what other servers register, until
// ctx ends. Failures are told to failed.
func (r *Registry) Run(ctx context.Context, failed func(error)) {
	timer := time.NewTimer(reloadEvery)
	defer timer.Stop()
	retry := firstRetry
	for {
		changed, wait := r.log.Changed(service), reloadEvery
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
