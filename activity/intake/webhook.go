package intake

import (
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

var errSecret = httpx.Unauthorized("The header X-Webhook-Secret or X-PostHog-Secret is missing or wrong.", "")

// Webhook returns the handler for POST /webhook/{product_id}. The first source that recognizes the
// first event decodes the body, or else the last source; there must be at least one. The header
// X-Webhook-Secret or X-PostHog-Secret must contain the product's secret, or "sha256=" and the
// hexadecimal HMAC-SHA256 of the body under it. Segment's X-Signature, the hexadecimal HMAC-SHA1 of
// the raw first event, vouches for that event only.
//
// It is also the handler for POST /webhook/{product_id}/{source}, where the product's own source of
// that name decodes the body.
//
// A 200 states the number of accepted events and the reasons for ignoring others. After a 503, the
// sender should repeat the request.
func (in *Intake) Webhook(sources ...*Source) http.Handler {
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
func (in *Intake) webhook(w http.ResponseWriter, r *http.Request, sources []*Source) (Counts, error) {
	productID, err := httpx.PathValue(r, "product_id")
	if err != nil {
		return Counts{}, err
	}
	product, err := in.product(productID)
	if err != nil {
		return Counts{}, err
	}
	if name := r.PathValue("source"); name != "" {
		if product.Sources[name] == nil {
			return Counts{}, httpx.NotFound("The product has no source of this name.")
		}
		sources = []*Source{product.Sources[name]}
	}
	proof := webhookProof{
		secrets:   slices.Concat(r.Header.Values("X-Webhook-Secret"), r.Header.Values("X-PostHog-Secret")),
		signature: r.Header.Get("X-Signature"),
	}
	if !slices.ContainsFunc(proof.secrets, func(header string) bool { return header != "" }) && proof.signature == "" {
		return Counts{}, errSecret
	}
	done := httpx.Hasten(w, httpx.BodyTime)
	t := taking{in: in, productID: productID, standing: activity.Reported}
	if err = t.receive(w, r, in.opts.MaxBody); err != nil {
		return Counts{}, err
	}
	done()
	defer t.release()
	open := sync.OnceValue(func() error { return t.open(r.Context(), sources...) })
	// Without a proof the body is not unpacked, unless the request claims a signature of the
	// first event.
	if err := t.prove(&proof, open); err != nil {
		return Counts{}, err
	}
	if err := open(); err != nil {
		return Counts{}, err
	}
	return t.take(r.Context())
}

// webhookProof is a webhook's evidence that it comes from the product.
type webhookProof struct {
	secrets   []string // each the secret, or a signature of the body
	signature string   // of the first event
}

// prove limits the events to those that the proof vouches for. It returns errSecret if the proof is
// wrong or the product has no secret. A secret that another server has just issued is valid
// immediately; see [access.CheckCurrent]. A failure to open the body is not reported here, so that
// it is not reported as a wrong secret.
func (t *taking) prove(proof *webhookProof, open func() error) error {
	return access.CheckCurrent(t.in.products, t.productID, func() error {
		product, err := t.in.product(t.productID)
		if err != nil {
			return err
		}
		secret := product.WebhookSecret
		if verify(secret, proof.secrets, t.body.Bytes()) {
			return nil
		}
		if secret == "" || proof.signature == "" {
			return errSecret
		}
		_ = open()
		if !proof.signs(secret, t.signable()) {
			return errSecret
		}
		t.limit = 1
		return nil
	})
}

// signs reports whether the signature signs one of the parts.
func (p *webhookProof) signs(secret string, parts [][]byte) bool {
	got, err := hex.DecodeString(p.signature)
	return err == nil && slices.ContainsFunc(parts, func(part []byte) bool {
		mac := hmac.New(sha1.New, []byte(secret))
		mac.Write(part)
		return len(part) > 0 && hmac.Equal(got, mac.Sum(nil))
	})
}

// signable returns the parts of a body that may be signed: the raw first event and, unless the body
// is an array, the whole body as received, since Segment signs the bytes that it sends.
func (t *taking) signable() [][]byte {
	if isJSON(t.json) && t.json[0] == '[' {
		return [][]byte{t.payload.first()}
	}
	return [][]byte{t.payload.first(), t.body.Bytes()}
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
		name, value := string(key), ""
		r.SetString(&value, maxOutlined)
		fields[name] = value
	})
	return fields
}
