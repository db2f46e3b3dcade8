package connector

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
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

// Further outcomes of a request, as the endpoints answer them.
const (
	ignored  status = "ignored"  // nothing is to be done
	accepted status = "accepted" // will be done
)

// Bounds of a request.
const (
	maxWebhook = 1 << 20 // bytes of its body
	// storageTime is how long storage may take until the request is answered
	// 503.
	storageTime = 3 * time.Second
	// deliveryTTL is how long a delivery is remembered, so that it has its
	// effect once: longer than any desk retries.
	deliveryTTL = 24 * time.Hour
)

// deliveryPrefix is what the names of the documents of deliveries begin with.
const deliveryPrefix = "delivery/"

// Answer is the body of every answer that is not an error.
type answer struct {
	Status status `json:"status"`
}

// ServeWebhook takes the webhooks of the product's desks, which link sessions to
// conversations. It must be mounted under POST /chatbot-webhook/{product_id}.
func (c *Connector) ServeWebhook(w http.ResponseWriter, r *http.Request) {
	httpx.Handler(func(w http.ResponseWriter, r *http.Request) error {
		return c.serve(w, r, "", func(ctx context.Context, in incoming) (status, Taken, error) {
			if _, chats := in.desk.Desk.(helpdesk.Chatter); chats && in.event.Type == helpdesk.EventMessage {
				return ignored, Taken{}, nil // its place is the chat endpoint
			}
			if in.event.Type == helpdesk.EventMessage {
				return c.takeAssisted(ctx, in)
			}
			result, err := c.linkEvent(ctx, in)
			return result, Taken{}, err
		})
	}).ServeHTTP(w, r)
}

// incoming is a webhook that was received and verified.
type incoming struct {
	productID string
	desk      Desk
	event     helpdesk.Event
}

// serve receives a message to the named desk, or a webhook of any, and answers with the
// status that the function do returns. What it did is remembered together with
// its changes, so that the same delivery is answered in the same way and does
// nothing again; after an error it can be repeated.
func (c *Connector) serve(w http.ResponseWriter, r *http.Request, desk string,
	do func(ctx context.Context, in incoming) (status, Taken, error)) error {
	in, err := c.receive(w, r, desk)
	if err != nil {
		return err
	}
	result := ignored
	if in.event.Type == helpdesk.EventOpened || in.event.Type == helpdesk.EventMessage {
		if id := in.event.ConversationID; id == "" || len(id) > maxConversationID {
			return httpx.BadRequest("The webhook must name a conversation by an id of at most %d bytes.", maxConversationID)
		}
		ctx, cancel := context.WithTimeout(r.Context(), storageTime)
		defer cancel()
		if result, err = c.once(ctx, in, do); err != nil {
			return httpx.Unavailable(err)
		}
		signal(c.linkedHere(in.productID))
	}
	c.metrics.webhooks.WithLabelValues(in.productID, in.desk.Name, string(result)).Inc()
	httpx.WriteJSON(w, http.StatusOK, answer{result})
	return nil
}

// receive reads and verifies a message to the named desk of a product, or a webhook
// of any of its desks if that is empty.
func (c *Connector) receive(w http.ResponseWriter, r *http.Request, desk string) (in incoming, err error) {
	if in.productID, err = httpx.PathValue(r, "product_id"); err != nil {
		return in, err
	}
	if _, err := c.product(in.productID); err != nil {
		return in, err
	}
	if err := checkJSON(r); err != nil {
		return in, err
	}
	body, err := httpx.ReadBody(w, r, maxWebhook)
	if err != nil {
		return in, err
	}
	err = access.CheckCurrent(c.products, in.productID, func() error {
		product, err := c.product(in.productID)
		if err != nil {
			return err
		}
		desks, err := product.receivers(desk)
		if err != nil {
			return err
		}
		in.desk, in.event, err = recognize(desks, r.Header, body, c.now())
		return err
	})
	return in, err
}

// product returns what is configured for a product, or the answer for one that is not
// known.
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

// receivers returns the desks that a message to the named one can be of, or a webhook
// if that is empty.
func (p Product) receivers(desk string) ([]Desk, error) {
	if desk != "" {
		found, ok := p.find(desk)
		if _, chats := found.Desk.(helpdesk.Chatter); !ok || !chats {
			return nil, httpx.NotFound("The product has no such help desk with a chat.")
		}
		return []Desk{found}, nil
	}
	if len(p.Desks) == 0 {
		return nil, httpx.NotFound("The product has no help desk.")
	}
	return p.Desks, nil
}

// find returns the desk of that name.
func (p Product) find(name string) (Desk, bool) {
	i := slices.IndexFunc(p.Desks, func(d Desk) bool { return d.Name == name })
	if i < 0 {
		return Desk{}, false
	}
	return p.Desks[i], true
}

// checkJSON refuses a request whose body is said to be something else than JSON.
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

// recognize returns the desk that sent a webhook, and what it reports. Only the
// product's own desks are asked, so that a sender cannot choose one that accepts
// everything.
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
			return Desk{}, helpdesk.Event{}, httpx.Unauthorized("The signature of the webhook is missing or wrong.", "")
		}
		return Desk{}, helpdesk.Event{}, fmt.Errorf("connector: webhook of %s: %w", desk.Name, err)
	}
	return Desk{}, helpdesk.Event{}, httpx.BadRequest("The body is no webhook of a help desk that the product has.")
}

// once does what a delivery asks for, unless that was done before, and returns
// its status.
func (c *Connector) once(ctx context.Context, in incoming, do func(context.Context, incoming) (status, Taken, error)) (status, error) {
	name := deliveryName(in)
	docs, err := c.docs.Get(ctx, in.productID, name)
	if err != nil {
		return "", fmt.Errorf("connector: read delivery: %w", err)
	}
	if docs[0].Exists() {
		return status(docs[0].Value), nil
	}
	result, taken, err := do(ctx, in)
	if err != nil {
		return "", err
	}
	_, err = c.docs.Write(ctx, in.productID, append(taken.Changes, document.Put(docs[0], []byte(result), deliveryTTL))...)
	var conflict *document.ConflictError
	switch {
	case errors.As(err, &conflict) && conflict.Name == name: // the same delivery was taken elsewhere at the same time
		return result, nil
	case errors.As(err, &conflict) && ctx.Err() == nil:
		return c.once(ctx, in, do)
	case err != nil:
		return "", fmt.Errorf("connector: store delivery: %w", err)
	}
	if taken.Then != nil {
		taken.Then()
	}
	return result, nil
}

// deliveryName returns the name of a delivery's document: by the desk's id of it,
// or by what it says where the desk gave it none.
func deliveryName(in incoming) string {
	digest := sha256.New()
	for _, part := range []string{in.event.DeliveryID, in.event.ConversationID, in.event.Message, in.event.At.UTC().Format(time.RFC3339Nano)} {
		fmt.Fprintf(digest, "%d:%s,", len(part), part)
		if in.event.DeliveryID != "" {
			break
		}
	}
	return deliveryPrefix + in.desk.Name + "/" + hex.EncodeToString(digest.Sum(nil)[:16])
}

// linkEvent links the session of the contact that an event names. A contact that
// is named by an id of the desk's alone is looked up later, as desks want their
// answer soon.
func (c *Connector) linkEvent(ctx context.Context, in incoming) (status, error) {
	result, err := c.linkKnown(ctx, in.productID, in.desk.Name, in.event.ConversationID, in.event.Contact, in.event.At)
	if result != "" || err != nil {
		return result, err
	}
	if _, reads := in.desk.Desk.(helpdesk.ContactReader); reads && in.event.ContactID != "" && in.event.Contact.Email == "" {
		return pending, c.lookUpLater(ctx, in)
	}
	return c.linkOrWait(ctx, in.productID, in.desk.Name, in.event.ConversationID, in.event.Contact, in.event.At)
}

// linkKnown links the session that a contact has, and returns no status where
// there is none.
func (c *Connector) linkKnown(ctx context.Context, productID, desk, conversationID string, contact helpdesk.Contact, at time.Time) (status, error) {
	sessionID, err := c.sessionOf(ctx, productID, contact)
	if sessionID == "" || err != nil {
		return "", err
	}
	result, err := c.link(ctx, productID, desk, conversationID, sessionID, byWebhook, at)
	var other *LinkedError
	switch {
	case errors.As(err, &other):
		return alreadyLinked, nil
	case errors.Is(err, ErrTooManySessions):
		return ignored, nil
	case errors.Is(err, ErrUnknownSession): // it has just expired
		return "", nil
	}
	return result, err
}

// linkOrWait is linkKnown for a contact about which no more can be found out:
// without a session the link waits for one.
func (c *Connector) linkOrWait(ctx context.Context, productID, desk, conversationID string, contact helpdesk.Contact, at time.Time) (status, error) {
	result, err := c.linkContact(ctx, productID, desk, conversationID, contact, at)
	var other *LinkedError
	switch {
	case errors.As(err, &other):
		return alreadyLinked, nil
	case errors.Is(err, ErrTooManySessions), errors.Is(err, ErrUnknownSession):
		return ignored, nil
	}
	return result, err
}

// sessionOf returns the session in which a contact was last seen, empty for
// none: that of the e-mail address, or else that of the app's own user id, unless
// that is known by another address.
func (c *Connector) sessionOf(ctx context.Context, productID string, contact helpdesk.Contact) (string, error) {
	sessionID, found, err := c.dir.SessionOf(ctx, productID, contact.Email)
	if found || err != nil || contact.UserID == "" {
		return sessionID, err
	}
	recent, err := c.log.Activity().Recent(ctx, productID, contact.UserID, 1)
	if err != nil || len(recent) == 0 || recent[0].Session == "" {
		return "", err
	}
	session, known, err := c.dir.Session(ctx, productID, recent[0].Session)
	if err != nil || !known || contact.Email != "" && session.Email != "" {
		return "", err
	}
	return recent[0].Session, nil
}

// lookUp is a contact that is to be looked up, for a link that waits for it.
type lookUp struct {
	ContactID string    `json:"contact_id"`
	UserID    string    `json:"user_id,omitempty"`
	At        time.Time `json:"at"`
}

// lookUpLater stores that a conversation's contact is to be looked up. The owner
// of the conversation does it.
func (c *Connector) lookUpLater(ctx context.Context, in incoming) error {
	key := keyOf(in.desk.Name, in.event.ConversationID)
	docs, err := c.docs.Get(ctx, in.productID, taskName(key, contactTask))
	if err != nil {
		return fmt.Errorf("connector: read look-up: %w", err)
	}
	value, err := json.Marshal(lookUp{in.event.ContactID, in.event.Contact.UserID, c.moment(in.event.At)})
	if err != nil {
		return fmt.Errorf("connector: encode look-up: %w", err)
	}
	_, err = c.docs.Write(ctx, in.productID, document.Put(docs[0], value, MaxWait))
	var conflict *document.ConflictError
	if err != nil && !errors.As(err, &conflict) { // another webhook of the conversation named it at the same time
		return fmt.Errorf("connector: store look-up: %w", err)
	}
	return nil
}

// lookUpContact looks up the contact of a conversation and links its session. An
// error may be retried.
func (t *tasks) lookUpContact(ctx context.Context, desk Desk, conversationID string, doc document.Document) error {
	var l lookUp
	reader, reads := desk.Desk.(helpdesk.ContactReader)
	if json.Unmarshal(doc.Value, &l) == nil && reads {
		var contact helpdesk.Contact
		err := t.ask(ctx, desk, conversationID, func(ctx context.Context) (err error) {
			contact, err = reader.Contact(ctx, l.ContactID)
			return err
		})
		if err != nil && !isFinal(err) {
			return err
		}
		if contact.UserID == "" {
			contact.UserID = l.UserID
		}
		if _, err := t.linkEventually(ctx, t.productID, desk.Name, conversationID, contact, l.At); err != nil {
			return err
		}
	}
	return t.done(ctx, t.productID, doc)
}

// linkEventually links the session that a contact has, or waits for one.
func (c *Connector) linkEventually(ctx context.Context, productID, desk, conversationID string, contact helpdesk.Contact, at time.Time) (status, error) {
	result, err := c.linkKnown(ctx, productID, desk, conversationID, contact, at)
	if result != "" || err != nil {
		return result, err
	}
	return c.linkOrWait(ctx, productID, desk, conversationID, contact, at)
}

// isFinal reports whether a desk's error will be the same however often the
// request is made.
func isFinal(err error) bool {
	var failed *helpdesk.APIError
	return errors.As(err, &failed) && !failed.Temporary() && !failed.AccountWide()
}

// done removes what was to be done, unless it has changed since.
func (c *Connector) done(ctx context.Context, productID string, doc document.Document) error {
	_, err := c.docs.Write(ctx, productID, document.Delete(doc))
	var conflict *document.ConflictError
	if err == nil || errors.As(err, &conflict) {
		return nil
	}
	return fmt.Errorf("connector: remove what is done: %w", err)
}
