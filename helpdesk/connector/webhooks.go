package connector

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/internal/httpx"
)

// A webhook passes through these stages, and nothing is stored before its signature is verified:
//
//	receive    a product, desk or header that no desk can take is refused, the body unread; the
//	           body is read and verified, and becomes an event
//	do         the link or the message is stored, with its receipt if both are one change
//	serve      otherwise the receipt is stored alone; then the answer is sent
//
// A desk repeats a webhook until the answer is a success. So unavailable storage gets a 503, and
// work that can wait (a look-up, a reply) is left to the holder of the lease.

// Further outcomes of a request, as the endpoints answer them.
const (
	ignored  status = "ignored"  // there is nothing to do
	accepted status = "accepted" // will be done
)

// Bounds of a request.
const (
	maxWebhook = 1 << 20 // bytes of its body
	// storageTime is how long storage may take before the request is
	// answered with a 503.
	storageTime = 3 * time.Second
	// deliveryTTL is how long a delivery is remembered so that it takes effect
	// only once. It is longer than any desk retries.
	deliveryTTL = 24 * time.Hour
)

// ServeWebhook handles the webhooks of the product's desks, which link sessions to
// conversations. Mount it under POST /chatbot-webhook/{product_id}.
//
// The answer is 200 with a status once the webhook's effect is stored, or if there is none. A
// repetition within a day has no further effect and gets the same answer. A missing or wrong
// signature is a 401, an unknown product a 404, a malformed body a 400, and a webhook for which
// its conversation has no room a 413. A 503 asks the desk to repeat the webhook.
func (c *Connector) ServeWebhook(w http.ResponseWriter, r *http.Request) {
	httpx.Handler(func(w http.ResponseWriter, r *http.Request) error {
		return c.serve(w, r, "", func(ctx context.Context, in *incoming) (status, error) {
			if in.event.Type != helpdesk.EventMessage {
				if err := c.takeOpening(ctx, in); err != nil {
					return "", err
				}
				return c.linkEvent(ctx, in)
			}
			if in.desk.capabilities().Chats {
				return ignored, nil // the chat endpoint gets it
			}
			return c.takeMessage(ctx, in)
		})
	}).ServeHTTP(w, r)
}

// ServeChat returns the handler for requesters' messages in conversations of a desk,
// which get a public reply. Mount it under POST /NAME/chat/{product_id}. A message is
// stored before the answer, and replied to while Follow runs.
func (c *Connector) ServeChat(desk string) http.Handler {
	return httpx.Handler(func(w http.ResponseWriter, r *http.Request) error {
		return c.serve(w, r, desk, func(ctx context.Context, in *incoming) (status, error) {
			if in.event.Type != helpdesk.EventMessage {
				return ignored, nil
			}
			return c.takeMessage(ctx, in)
		})
	})
}

// incoming is a webhook that was received and verified. The event may refer to the memory of the
// body, which is released after the answer, so anything that is stored is a copy.
type incoming struct {
	productID string
	product   Product
	desk      Desk
	event     helpdesk.Event
	content   [sha256.Size]byte // digest of the body
	lookUp    *lookUp           // of the event's contact, once it is stored
	receipt   receipt
}

// link returns the link of the event's conversation.
func (in *incoming) link() Link { return Link{in.desk.Name, in.event.ConversationID} }

// receipt is the record of a received webhook and its answer: a document under each of
// the delivery's names. A repetition gets the same answer and has no effect. It is stored
// with the change that the webhook makes, if any, so of two simultaneous deliveries one
// gets a conflict. It belongs to one request, which may try its change several times.
type receipt struct {
	names  []string
	docs   []document.Document
	was    status // the former answer
	stored bool
}

// recall keeps the documents as they were read, and reports whether the webhook was
// received before.
func (r *receipt) recall(docs []document.Document) bool {
	r.docs = docs
	i := slices.IndexFunc(docs, document.Document.Exists)
	if i >= 0 {
		r.was = status(docs[i].Value)
	}
	return i >= 0
}

// changes returns the changes that store the receipt. A receipt that was not read counts as new.
func (r *receipt) changes(answered status) (all []document.Change) {
	for i, name := range r.names {
		doc := document.Document{Name: name}
		if r.docs != nil {
			doc = r.docs[i]
		}
		all = append(all, document.Put(doc, []byte(answered), deliveryTTL))
	}
	return all
}

// serve receives a message to the named desk, or a webhook of any desk if the name is empty,
// and answers with the status that do returns. The receipt is stored with the changes that do
// makes, or after them; after an error the webhook can be repeated.
//
// do has storageTime. It sets receipt.stored if it has stored the receipt itself, and
// receipt.was if the webhook is a repetition. A conflict over the receipt means that another
// server took the same webhook at the same time, and counts as success.
func (c *Connector) serve(w http.ResponseWriter, r *http.Request, desk string,
	do func(ctx context.Context, in *incoming) (status, error)) error {
	in, body, err := c.receive(w, r, desk)
	if err != nil {
		return err
	}
	defer body.Release() // the event may refer to it
	result := ignored
	if in.event.Type == helpdesk.EventOpened || in.event.Type == helpdesk.EventMessage {
		if id := in.event.ConversationID; id == "" || len(id) > maxConversationID {
			return httpx.BadRequest("The webhook must name a conversation by an id of at most %d bytes.", maxConversationID)
		}
		ctx, cancel := context.WithTimeout(r.Context(), storageTime)
		defer cancel()
		in.receipt.names = deliveryNames(in)
		if result, err = do(ctx, in); err == nil && in.receipt.was == "" && !in.receipt.stored {
			_, err = c.store.docs.Write(ctx, in.productID, in.receipt.changes(result)...)
		}
		var conflict *document.ConflictError
		switch {
		case errors.As(err, &conflict) && slices.Contains(in.receipt.names, conflict.Name):
			// another server took it at the same time
		case errors.Is(err, document.ErrInvalid):
			return httpx.Errorf(http.StatusRequestEntityTooLarge, "The conversation has no room for the webhook.")
		case err != nil:
			return httpx.Unavailable(err)
		case in.receipt.was != "":
			result = in.receipt.was
		}
	}
	c.metrics.webhooks.WithLabelValues(in.productID, in.desk.Name, string(result)).Inc()
	httpx.WriteJSON(w, http.StatusOK, map[string]status{"status": result})
	return nil
}

// receive reads and verifies a message to the named desk of a product, or a webhook of
// any of its desks if the name is empty. It does not read the body if no desk could
// accept it. Another server may have changed the product just now, so the product's current
// state decides about both. Without an error the caller has to release the body.
func (c *Connector) receive(w http.ResponseWriter, r *http.Request, desk string) (in *incoming, body *httpx.Body,
	err error) {
	productID, err := httpx.PathValue(r, "product_id")
	if err != nil {
		return nil, nil, err
	}
	in = &incoming{productID: productID}
	err = access.CheckCurrent(c.products, productID, func() error {
		product, desks, err := c.receivers(productID, desk)
		if err == nil && !slices.ContainsFunc(desks, func(d Desk) bool { return d.mayTake(r.Header) }) {
			err = errSignature
		}
		if err == nil && body == nil {
			if err = checkJSON(r); err == nil {
				body, err = httpx.ReadBody(w, r, maxWebhook, productID)
			}
		}
		if err != nil {
			return err
		}
		in.product, in.content = product, sha256.Sum256(body.Bytes())
		in.desk, in.event, err = recognize(desks, r.Header, body.Bytes(), c.store.now())
		return err
	})
	if err != nil && body != nil {
		body.Release()
	}
	return in, body, err
}

// errSignature is the answer to a webhook that is not signed as its desk requires. It does not say
// which part is wrong.
var errSignature = httpx.Unauthorized("The signature of the webhook is missing or wrong.", "")

// mayTake reports whether a webhook with these headers can be signed as the desk requires. It is
// always true for a desk that accepts unsigned ones.
func (d Desk) mayTake(header http.Header) bool {
	signed := d.capabilities().SignedBy
	return len(signed) == 0 || slices.ContainsFunc(signed, func(name string) bool { return header.Get(name) != "" })
}

// product returns the configuration of a product, or the HTTP error for an unknown
// one.
func (c *Connector) product(productID string) (Product, error) {
	product, known, err := c.products.Product(productID)
	switch {
	case err != nil:
		return Product{}, httpx.Unavailable(err)
	case !known:
		return Product{}, httpx.NotFound("Unknown product.")
	}
	return product, nil
}

// receivers returns a product with the desks that may have sent a message to the named desk or,
// if the name is empty, a webhook: then all of them. If there are none, the error is the HTTP
// answer.
func (c *Connector) receivers(productID, desk string) (Product, []Desk, error) {
	product, err := c.product(productID)
	if err != nil || desk == "" && len(product.Desks) > 0 {
		return product, product.Desks, err
	}
	if desk == "" {
		return product, nil, httpx.NotFound("The product has no help desk.")
	}
	found, ok := product.find(desk)
	if !ok || !found.capabilities().Chats {
		return product, nil, httpx.NotFound("The product has no such help desk with a chat.")
	}
	return product, []Desk{found}, nil
}

// checkJSON refuses a request whose headers declare a body other than JSON, or a compressed one.
// A body without a declared type is taken for JSON.
func checkJSON(r *http.Request) error {
	given := r.Header.Get("Content-Type")
	kind, _, err := mime.ParseMediaType(given)
	if given != "" && (err != nil || kind != "application/json" && !strings.HasSuffix(kind, "+json")) {
		return httpx.Errorf(http.StatusUnsupportedMediaType, "The Content-Type must be application/json.")
	}
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return httpx.Errorf(http.StatusUnsupportedMediaType, "The body must not be compressed.")
	}
	return nil
}

// recognize returns the sender and the event of a webhook. It asks only the product's
// own desks, so a sender cannot choose one that accepts everything. The first desk that recognizes
// the webhook decides: if the signature is wrong there, no other is asked.
func recognize(desks []Desk, header http.Header, body []byte, now time.Time) (Desk, helpdesk.Event, error) {
	for _, desk := range desks {
		event, err := desk.Webhook(header, body, now)
		var payload *helpdesk.PayloadError
		switch {
		case err == nil:
			return desk, event, nil
		case errors.Is(err, helpdesk.ErrUnrecognized):
			continue
		case errors.As(err, &payload):
			return Desk{}, helpdesk.Event{}, httpx.BadRequest("The webhook is malformed: %s.", payload.Problem)
		case errors.Is(err, helpdesk.ErrSignature):
			return Desk{}, helpdesk.Event{}, errSignature
		}
		return Desk{}, helpdesk.Event{}, fmt.Errorf("connector: webhook of %s: %w", desk.Name, err)
	}
	return Desk{}, helpdesk.Event{}, httpx.BadRequest("The body is no webhook of a help desk that the product has.")
}

// deliveryNames returns the names of a delivery's receipts. The first is made from the
// desk's ID of the delivery, or from its content if the desk gave no ID, the second from
// its time and body. The ID may come in a header that is not signed, but deliveries with
// the same time and body are the same, whatever their ID.
func deliveryNames(in *incoming) []string {
	at := in.event.At.UTC().Format(time.RFC3339Nano)
	parts := []string{in.event.DeliveryID}
	if in.event.DeliveryID == "" {
		parts = append(parts, in.event.ConversationID, in.event.Message, at)
	}
	names := []string{deliveryName(in, parts...)}
	if !in.event.At.IsZero() {
		names = append(names, deliveryName(in, "signed", at, string(in.content[:])))
	}
	return names
}

// deliveryName returns the name of a delivery's receipt by a digest of the parts.
func deliveryName(in *incoming, parts ...string) string {
	digest := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(digest, "%d:%s,", len(part), part)
	}
	return deliveryPrefix + in.desk.Name + "/" + hex.EncodeToString(digest.Sum(nil)[:16])
}
