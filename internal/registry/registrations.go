package registry

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/internal/jsontext"
	"github.com/liveactivity/liveactivity/internal/productfile"
	"github.com/liveactivity/liveactivity/internal/schedule"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// OwnProduct is the product ID of the service's own log and documents. No request can
// name it.
const OwnProduct = ""

// registrationPrefix is the prefix of registrations' names.
const registrationPrefix = "product/"

// registration is a product as stored, with the digest of its key. The product's other
// secrets are stored in plain text, because the service needs them. A removed registration
// has no credentials; it is deleted after the product's data.
type registration struct {
	Product   productfile.Product `json:"product"`
	KeySHA256 []byte              `json:"key_sha256"`
	KeyName   string              `json:"key_name,omitempty"`
	Removed   bool                `json:"removed,omitempty"`
	Since     document.Version    `json:"since,omitempty"` // the first one's version; zero for the first
}

// Equal registrations have equal encodings; isStored relies on this.
func encodeRegistration(reg registration) ([]byte, error) {
	value, err := jsontext.Marshal(reg)
	if err != nil {
		return nil, fmt.Errorf("registry: encode registration: %w", err)
	}
	return value, nil
}

// isRemoved reports whether a registration is marked as removed. It is false for a document
// that does not exist or cannot be read.
func isRemoved(doc document.Document) bool {
	var reg registration
	return json.Unmarshal(doc.Value, &reg) == nil && reg.Removed
}

// since returns the version of a product's first registration, which later ones with force keep;
// zero if the document is not a registration or is marked as removed.
func since(doc document.Document) document.Version {
	var old registration
	if json.Unmarshal(doc.Value, &old) != nil || old.Removed {
		return 0
	}
	return cmp.Or(old.Since, doc.Version)
}

// rotating returns the document's registration with the credentials of reg. If the document is
// unreadable or marked as removed, it returns reg. If reg's key has no name, the old name stays.
func (reg registration) rotating(doc document.Document) registration {
	var old registration
	if json.Unmarshal(doc.Value, &old) != nil || old.Removed {
		return reg
	}
	old.Product.WebhookSecret, old.Product.CaptureTokens = reg.Product.WebhookSecret, reg.Product.CaptureTokens
	old.KeySHA256, old.KeyName = reg.KeySHA256, cmp.Or(reg.KeyName, old.KeyName)
	return old
}

// Register adds a product with fresh secrets and a key with that name. If there is already a
// product with that ID, it fails with ErrExists, unless force is set: then the product is
// replaced and its old secrets become invalid immediately, on other servers within moments. If
// p has nothing but an ID, only the secrets are rotated. A product of the file is never
// replaced: ErrFixed. The product must be valid; its own secrets are replaced. After any other
// error the product may be registered with secrets that nobody has: register it again with
// force. While storage fails after the change, Register waits until ctx ends.
func (r *Registry) Register(
	ctx context.Context, p productfile.Product, keyName string, force bool,
) (Credentials, error) {
	isBare := reflect.DeepEqual(p, productfile.Product{ProductID: p.ProductID})
	c := newCredentials()
	p.WebhookSecret, p.CaptureTokens = c.WebhookSecret, []string{c.CaptureToken}
	if r.isFixed(p.ProductID) {
		return Credentials{}, ErrFixed
	}
	digest := sha256.Sum256([]byte(c.Key))
	fresh := registration{Product: p, KeySHA256: digest[:], KeyName: keyName}
	err := r.change(ctx, p.ProductID, func(doc document.Document) (document.Change, error) {
		switch {
		case isRemoved(doc): // and some data may be left
			if err := r.log.Drop(ctx, p.ProductID, doc.Version); err != nil {
				return document.Change{}, fmt.Errorf("registry: remove the product's data: %w", err)
			}
		case doc.Exists() && !force:
			return document.Change{}, ErrExists
		}
		reg := fresh
		if isBare {
			reg = fresh.rotating(doc)
		}
		reg.Since = since(doc)
		value, err := encodeRegistration(reg)
		return document.Put(doc, value, 0), err
	})
	if err != nil {
		return Credentials{}, err
	}
	// The old secrets are valid here until this succeeds. At the end of ctx they are left to the next look.
	for r.Load(ctx) != nil && schedule.Sleep(ctx, refreshEvery) == nil {
	}
	return c, nil
}

// Unregister removes a product and all its data. Its credentials become invalid immediately,
// on other servers within moments. After an error other than ErrFixed and ErrUnknown, some of
// it may already be removed: call it again. The order matters: first the credentials, so that
// nothing new arrives; then the data; last the document, because it records that data may be
// left.
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
	if err := r.Load(ctx); err != nil {
		return err
	}
	docs, err := r.log.Documents().Get(ctx, OwnProduct, registrationPrefix+productID)
	switch {
	case err != nil:
		return fmt.Errorf("registry: read registration: %w", err)
	case !isRemoved(docs[0]):
		return nil // others have already dropped it
	}
	if err := r.log.Drop(ctx, productID, docs[0].Version); err != nil {
		return fmt.Errorf("registry: remove the product's data: %w", err)
	}
	err = r.change(ctx, productID, func(doc document.Document) (document.Change, error) {
		if doc.Version != docs[0].Version { // registered again, or removed by another call
			return document.Change{}, ErrUnknown
		}
		return document.Delete(doc), nil
	})
	if errors.Is(err, ErrUnknown) {
		return nil
	}
	return err
}

// change changes a product's registration and appends a notice to other servers, atomically. It
// passes the current registration to decide, and calls decide again if the registration has
// changed in the meantime; an error from decide ends the change and is returned unchanged. If
// the answer to a put is lost, change checks the stored document and succeeds if the put is
// there.
func (r *Registry) change(ctx context.Context, productID string,
	decide func(document.Document) (document.Change, error),
) error {
	notice, err := jsontext.Marshal(map[string]string{"type": "registration", "product_id": productID})
	if err != nil {
		return fmt.Errorf("registry: encode notice: %w", err)
	}
	return document.Retry(ctx, func() error {
		docs, err := r.log.Documents().Get(ctx, OwnProduct, registrationPrefix+productID)
		if err != nil {
			return fmt.Errorf("registry: read registration: %w", err)
		}
		change, err := decide(docs[0])
		if err != nil {
			return err
		}
		err = r.log.Append(ctx, OwnProduct, []eventlog.Entry{{Data: notice}}, change)
		if err == nil || !document.IsConflict(err) && change.Op == document.OpPut && r.isStored(change) {
			return nil // at most the answer was lost
		}
		return fmt.Errorf("registry: write registration: %w", err)
	})
}

// isStored reports whether a change that may have failed took effect: no other registration has
// its digest. It uses its own timeout, as the caller's may have expired.
func (r *Registry) isStored(change document.Change) bool {
	ctx, cancel := context.WithTimeout(context.Background(), refreshTimeout)
	defer cancel()
	docs, err := r.log.Documents().Get(ctx, OwnProduct, change.Name)
	return err == nil && docs[0].Exists() && bytes.Equal(docs[0].Value, change.Value)
}
