package connector

import (
	"cmp"
	"context"
	"path"
	"strings"
	"time"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/internal/assistance"
	"github.com/liveactivity/liveactivity/proactive"
)

// linkEvent links the session of the contact that an event names. A contact named only by an ID
// of the desk's own is looked up later, because desks expect a quick answer. For the opening of
// a conversation the receipt is stored with the link; for a message it is stored with the
// message. A repetition returns the former answer and sets in.receipt.was.
func (c *Connector) linkEvent(ctx context.Context, in *incoming) (status, error) {
	claim := linkClaim{productID: in.productID, Link: in.link(), by: byWebhook, at: in.event.At}
	if in.event.Type == helpdesk.EventOpened {
		claim.receipt = &in.receipt
	}
	result, err := c.linker.linkKnown(ctx, claim, in.event.Contact)
	if result != "" || err != nil {
		return result, err
	}
	docs, err := c.store.docs.Get(ctx, in.productID, in.receipt.names...)
	if err != nil || in.receipt.recall(docs) {
		return in.receipt.was, err
	}
	if in.desk.capabilities().Contacts != nil && in.event.ContactID != "" && in.event.Contact.Email == "" {
		return pending, c.lookUpLater(ctx, in)
	}
	return c.linker.addWaiting(ctx, claim, in.event.Contact)
}

// lookUpLater stores that the contact of a conversation has to be looked up, in place of an
// earlier one.
func (c *Connector) lookUpLater(ctx context.Context, in *incoming) error {
	in.lookUp = &lookUp{ContactID: in.event.ContactID, UserID: in.event.Contact.UserID, At: c.linker.moment(in.event.At)}
	return c.amend(ctx, in, func(r *record) (status, bool, error) {
		if earlier := r.Contact; earlier != nil && earlier.ContactID == in.lookUp.ContactID {
			in.lookUp.First = sooner(cmp.Or(earlier.First, earlier.At), in.lookUp.At)
		}
		r.Contact = in.lookUp
		return "", true, nil
	})
}

// amend changes the document of a webhook's conversation and notifies the holder of the
// lease. If change returns a status, the webhook's receipt is stored with it. change is called
// again if another change came first. It reports false if nothing has to be stored, and its error
// ends amend.
//
// It needs no lease: compare-and-set keeps it apart from the job. It changes nothing if the
// receipt is stored already. After an error the change may have been stored, unless the error
// is a conflict.
func (c *Connector) amend(ctx context.Context, in *incoming,
	change func(r *record) (result status, changes bool, err error)) error {
	return document.Retry(ctx, func() error {
		docs, err := c.store.docs.Get(ctx, in.productID, append([]string{in.link().documentName()}, in.receipt.names...)...)
		if err != nil || in.receipt.recall(docs[1:]) {
			return err
		}
		r := recordOf(docs[0]) // a document that cannot be read counts as empty
		result, changes, err := change(&r)
		if err != nil || !changes {
			return err
		}
		put, changes, err := c.store.change(&r)
		if err != nil || !changes {
			return err
		}
		all := []document.Change{put}
		if result != "" {
			all = append(all, in.receipt.changes(result)...)
		}
		err = c.store.commit(ctx, in.productID, notice{Type: noticeType, Link: in.link()}, all...)
		in.receipt.stored = result != "" && err == nil
		return err
	})
}

// takeMessage links the session of a message and adds the message to the
// conversation: as the label of an offer, or as a message to answer. In a chat every
// message is answered. Elsewhere only conversations with an offer get answers; the
// others are left to the desk.
func (c *Connector) takeMessage(ctx context.Context, in *incoming) (status, error) {
	result, err := c.linkEvent(ctx, in) // in a chat, the link may have failed at the opening
	if err != nil || in.receipt.was != "" {
		return result, err
	}
	can := in.desk.capabilities()
	if can.Chats && (len(can.SignedBy) == 0 || strings.TrimSpace(in.event.Message) == "") {
		return ignored, nil
	}
	var h heard // of the last attempt: another change of the document may come first
	err = c.amend(ctx, in, func(r *record) (status, bool, error) {
		if h, err = c.hear(ctx, in, r); can.Chats {
			result = h.answer
		}
		return result, h.changes, err
	})
	if err != nil {
		return result, err
	}
	if in.receipt.stored {
		c.assisted.record(in.productID, in.link(), h.before, h.effects)
	}
	if h.echo && in.receipt.was == "" {
		c.metrics.replies.WithLabelValues(in.productID, in.desk.Name, "echo").Inc()
	}
	return result, nil
}

// heard is the effect of a message on a conversation, once its document is stored.
type heard struct {
	answer  status // of a chat: accepted if guidance or a reply will come, else ignored
	changes bool   // the document
	echo    bool   // of the service's own reply
	before  assistance.Machine
	effects []assistance.Effect
}

// hear adds a message to the conversation. A message without words, such as an image alone, gets
// no reply. An echo of the service's own reply changes nothing, and after an error nothing must
// be stored. The guidance starts before the message is stored, so after a conflict or a
// repetition it may start again. Its error fails the webhook, which the desk repeats.
func (c *Connector) hear(ctx context.Context, in *incoming, r *record) (h heard, err error) {
	text, can := stored(in.event.Message), in.desk.capabilities()
	h.answer = ignored
	if h.echo = can.Chats && r.echoes(text, c.store.now()); h.echo {
		return h, nil
	}
	if rules := in.product.rules(in.desk.Name); rules != nil {
		h.before, h.changes = r.machine(), true
		h.effects, err = r.step(*rules, c.store.now(), assistance.Message{Text: text})
	}
	chosen, asks := r.requested(h.effects)
	switch {
	case chosen != nil && c.opts.Guide != nil:
		h.answer = accepted
		ctx, cancel := context.WithTimeout(ctx, guideTime)
		defer cancel()
		return h, c.opts.Guide(ctx, proactive.Guidance{ProductID: in.productID, Desk: in.desk.Name,
			ConversationID: in.event.ConversationID, TriggerID: chosen.TriggerID, Label: chosen.Label,
			Metadata: chosen.Metadata})
	case can.Replier == nil || c.opts.Reply == nil || strings.TrimSpace(text) == "":
		return h, err
	case can.Chats || asks:
		m := message{ID: path.Base(in.receipt.names[0]), Text: text, At: c.store.now(), Contact: in.event.Contact,
			ContactID: in.event.ContactID} // the ID is the same for a repetition
		if chosen != nil {
			m.Offer = r.Machine.Offer.Body
		}
		r.addMessage(m)
		r.Contact = cmp.Or(r.Contact, in.lookUp) // it may be over, and the message needs its result
		h.changes = true
	}
	h.answer = accepted
	return h, err
}

// takeOpening passes the text that opened a conversation to the assistance, so that no offer is
// made before somebody could have answered it. A repetition changes nothing. It is stored
// without the receipt, because the link is still to come.
func (c *Connector) takeOpening(ctx context.Context, in *incoming) error {
	if strings.TrimSpace(in.event.Message) == "" || in.product.rules(in.desk.Name) == nil {
		return nil
	}
	return c.assist(ctx, in, assistance.Message{Text: in.event.Message})
}

// stored returns the part of a message that is kept: at most maxStored bytes, cut between
// characters.
func stored(text string) string {
	if len(text) > maxStored {
		text = strings.ToValidUTF8(text[:maxStored], "")
	}
	return text
}

// requested returns the guidance for the label that a message chose, nil for none, and whether the
// message asks for an answer from somebody: a label does, and so does any message if an offer was
// shown or is being sent. All other messages are left to the desk.
func (c *conversation) requested(effects []assistance.Effect) (chosen *assistance.Guide, asks bool) {
	m := c.machine()
	for _, effect := range effects {
		switch effect := effect.(type) {
		case assistance.Guide:
			chosen, asks = &effect, true
		case assistance.Reply:
			asks = asks || m.Offer != nil || m.Claim != nil
		}
	}
	return chosen, asks
}

// guideTime bounds Options.Guide: a desk waits for the answer to its webhook.
const guideTime = time.Second
