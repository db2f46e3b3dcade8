package intake

import (
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/hex"
	"net/http"
	"slices"
	"sync"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/internal/httpx"
)

var errSecret = httpx.Unauthorized("The X-Webhook-Secret header is missing or wrong.", "")

// Webhook returns the handler for POST /webhook/{product_id}. The first source that recognizes the
// first event decodes the body, or else the last source; there must be at least one. The header
// X-Webhook-Secret or X-PostHog-Secret must contain the product's secret, or "sha256=" and the
// hexadecimal HMAC-SHA256 of the body under it. Segment's X-Signature, the hexadecimal HMAC-SHA1 of
// the raw first event, vouches for that event only.
//
// A 200 states the number of accepted events and the reasons for ignoring others. After a 503, the
// sender should repeat the request.
func (in *Intake) Webhook(sources ...*Source) http.Handler {
	return in.webhooks(func(*http.Request, string) ([]*Source, error) { return sources, nil })
}

// NamedWebhook returns the handler for POST /webhook/{product_id}/{source}, which is like
// [Intake.Webhook] with a product's own source. The function returns that source by name, or nil,
// and is called concurrently.
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

// webhook handles one request. It checks the product and the presence of a proof before it reads the
// body, and the proof itself after, since that may be a signature of the body.
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
	// Without a proof the body is not unpacked, unless the request claims a signature of the
	// first event.
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

// webhookProof is a webhook's evidence that it comes from the product.
type webhookProof struct {
	secrets   []string // each the secret, or a signature of the body
	signature string   // of the first event
}

// prove returns the number of events that the proof vouches for, 0 for all. It returns errSecret if
// the proof is wrong or the product has no secret. A secret that another server has just issued is
// valid immediately; see [access.CheckCurrent].
func (in *Intake) prove(
	ctx context.Context, productID string, proof *webhookProof, b *Body, sources []*Source,
) (limit int, err error) {
	parts := sync.OnceValue(func() [][]byte { return signable(ctx, b, sources) })
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
		if secret == "" || proof.signature == "" || !proof.signs(secret, parts) {
			return errSecret
		}
		return nil
	})
	return limit, err
}

// signs reports whether the signature signs one of the parts.
func (p *webhookProof) signs(secret string, parts func() [][]byte) bool {
	got, err := hex.DecodeString(p.signature)
	return err == nil && slices.ContainsFunc(parts(), func(part []byte) bool {
		mac := hmac.New(sha1.New, []byte(secret))
		mac.Write(part)
		return len(part) > 0 && hmac.Equal(got, mac.Sum(nil))
	})
}

// signable returns the parts of a body that may be signed: the raw first event as the body's source
// finds it, since a batch has another name in another source and, if the body is one event, the
// whole body with its white space, since Segment signs the bytes that it sends. If the body cannot
// be unpacked, that is the received bytes, so that its error is not reported as a wrong secret.
func signable(ctx context.Context, b *Body, sources []*Source) [][]byte {
	defer b.endPass()
	json, err := b.JSON(ctx)
	if err != nil {
		return [][]byte{b.Bytes()}
	}
	read, _ := recognize(json, sources).parse(json)
	if json[0] == '{' {
		return [][]byte{read.first(), b.Bytes()}
	}
	return [][]byte{read.first()}
}

// recognize returns the source that recognizes the first event, or else the last source. sources must
// not be empty.
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

// maxOutline is the number of fields in an outline, maxOutlined the number of bytes of a value.
const maxOutline, maxOutlined = 64, 64

// outline returns at most maxOutline fields of an event, with the beginnings of string values.
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
