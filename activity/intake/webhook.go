package intake

import (
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/hex"
	"net/http"
	"slices"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/internal/httpx"
)

var errSecret = httpx.Unauthorized("The X-Webhook-Secret header is missing or wrong.", "")

// Webhook returns the handler of webhooks, to be mounted under POST /webhook/{product_id}. It
// goes by the first source that recognizes the first event, else by the last one; there must be
// one. The X-Webhook-Secret or X-PostHog-Secret header must hold the product's secret, or
// "sha256=" and the hexadecimal HMAC-SHA256 of the body under it. Segment's X-Signature, the
// hexadecimal HMAC-SHA1 of the first event as it stands, vouches for that one alone.
//
// The answer of 200 says how many events were accepted and why others were not; a sender that
// gets 503 sends the same again.
func (in *Intake) Webhook(sources ...*Source) http.Handler {
	return in.webhooks(func(*http.Request, string) ([]*Source, error) { return sources, nil })
}

// NamedWebhook is [Intake.Webhook] for products with sources of their own, to be mounted under
// POST /webhook/{product_id}/{source}. The function returns a product's source of a name, nil
// for none; it is called concurrently.
func (in *Intake) NamedWebhook(source func(productID, name string) *Source) http.Handler {
	return in.webhooks(func(r *http.Request, productID string) ([]*Source, error) {
		name, err := httpx.PathValue(r, "source")
		if err != nil {
			return nil, err
		}
		if s := source(productID, name); s != nil {
			return []*Source{s}, nil
		}
		return nil, httpx.NotFound("The product has no source of this name.")
	})
}

func (in *Intake) webhooks(sources func(*http.Request, string) ([]*Source, error)) http.Handler {
	return httpx.Handler(func(w http.ResponseWriter, r *http.Request) error {
		counts, err := in.webhook(w, r, sources)
		if err == nil {
			httpx.WriteJSON(w, http.StatusOK, webhookAnswer{"ok", counts})
		}
		return err
	})
}

type webhookAnswer struct {
	Status string `json:"status"`
	Counts
}

// webhook takes one request. The product and the presence of a proof are checked before the
// body is read, the proof itself after, as it may be a signature of the body.
func (in *Intake) webhook(
	w http.ResponseWriter, r *http.Request, of func(*http.Request, string) ([]*Source, error)) (Counts, error,
) {
	productID, err := httpx.PathValue(r, "product_id")
	if err != nil {
		return Counts{}, err
	}
	if _, err := in.product(productID); err != nil {
		return Counts{}, err
	}
	sources, err := of(r, productID)
	if err != nil {
		return Counts{}, err
	}
	proof := webhookProof{
		secrets:   slices.Concat(r.Header.Values("X-Webhook-Secret"), r.Header.Values("X-PostHog-Secret")),
		signature: r.Header.Get("X-Signature"),
	}
	if !slices.ContainsFunc(proof.secrets, func(header string) bool { return header != "" }) && proof.signature == "" {
		return Counts{}, errSecret
	}
	done := httpx.Hasten(w)
	b, err := in.Receive(w, r)
	if err != nil {
		return Counts{}, err
	}
	done()
	defer b.Release()
	t := taking{productID: productID, standing: activity.Reported}
	// A body without a proof is not unpacked, unless it claims a signature of its first event.
	if t.limit, err = in.prove(r.Context(), productID, &proof, b, sources); err != nil {
		return Counts{}, err
	}
	json, err := b.JSON(r.Context())
	if err != nil {
		return Counts{}, err
	}
	t.source = recognize(json, sources)
	if t.payload, err = t.source.parse(json); err != nil {
		return Counts{}, err
	}
	return in.take(r.Context(), b, &t)
}

// webhookProof is the evidence that a webhook is the product's.
type webhookProof struct {
	secrets   []string // each the secret, or a signature of the body
	signature string   // of the first event
}

// prove returns how many of the body's events the proof vouches for, 0 for all, or errSecret,
// which it also returns for a product without a secret. A secret that another server has just
// issued is good at once: see [access.CheckCurrent].
func (in *Intake) prove(
	ctx context.Context, productID string, proof *webhookProof, b *Body, sources []*Source,
) (limit int, err error) {
	err = access.CheckCurrent(in.products, productID, func() error {
		product, err := in.product(productID)
		if err != nil {
			return err
		}
		secret := product.WebhookSecret
		limit = 0
		if verify(secret, proof.secrets, b.Bytes()) {
			return nil
		}
		limit = 1
		if secret == "" || proof.signature == "" || !proof.signs(ctx, secret, b, sources) {
			return errSecret
		}
		return nil
	})
	return limit, err
}

// signs reports whether the signature signs the first event, as the body's source reads it: a
// batch under another source's name would be no event there. Segment signs the bytes that it
// sends, so the event as it stands is tried, and for a body of one event the body with its
// white space. Of a body that cannot be unpacked, the bytes that arrived are tried, so its
// error is not reported as a wrong secret.
func (p *webhookProof) signs(ctx context.Context, secret string, b *Body, sources []*Source) bool {
	got, err := hex.DecodeString(p.signature)
	if err != nil {
		return false
	}
	isSigned := func(part []byte) bool {
		mac := hmac.New(sha1.New, []byte(secret))
		mac.Write(part)
		return len(part) > 0 && hmac.Equal(got, mac.Sum(nil))
	}
	json, err := b.JSON(ctx)
	if err != nil {
		return isSigned(b.Bytes())
	}
	read, _ := recognize(json, sources).parse(json)
	return isSigned(read.first()) || json[0] == '{' && isSigned(b.Bytes())
}

// recognize returns the source of the first event, the last one if no other recognizes it.
// sources must not be empty.
func recognize(json []byte, sources []*Source) *Source {
	for _, s := range sources {
		if s.form.Recognizes == nil {
			continue
		}
		if p, err := s.parse(json); err == nil && s.form.Recognizes(outline(p.first())) {
			return s
		}
	}
	return sources[len(sources)-1]
}

// An outline has so many fields, and of their values so many bytes.
const maxOutline, maxOutlined = 64, 64

// outline returns the fields of an event, at most 64, with the beginning of those that
// are strings.
func outline(event []byte) map[string]string {
	fields := map[string]string{}
	r := &Reader{}
	r.Reset(event)
	r.Object(func(key []byte) {
		if len(fields) == maxOutline {
			r.Skip()
			return
		}
		name := string(key)
		fields[name] = r.String(maxOutlined)
	})
	return fields
}
