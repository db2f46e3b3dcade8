package connector

import (
	"context"
	"strings"
	"time"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/internal/assistance"
	"github.com/liveactivity/liveactivity/proactive"
)

// linkEvent links the session of the contact that an event names. A contact that is named by an
// ID of the desk's alone is looked up later, as desks want their answer soon. Only the opening
// of a conversation has its receipt stored with the link; a message has it stored with the
// message. A repetition returns the former answer, and in.receipt.was is set.
func (c *Connector) linkEvent(ctx context.Context, in *incoming) (status, error) {
	claim := in.claim()
	if in.event.Type == helpdesk.EventOpened {
		claim.receipt = &in.receipt
	}
	result, err := c.linker.linkKnown(ctx, claim, in.event.Contact)
	if result != "" || err != nil {
		return result, err
	}
	docs, err := c.store.docs.Get(ctx, in.productID, in.receipt.names...)
	if err != nil || in.receipt.take(docs) {
		return in.receipt.was, err
	}
	if in.desk.capabilities().Contacts != nil && in.event.ContactID != "" && in.event.Contact.Email == "" {
		return pending, c.lookUpLater(ctx, in)
	}
	return c.linker.linkContact(ctx, claim, in.event.Contact)
}

// lookUpLater stores that a conversation's contact is to be looked up, in place of an earlier one.
func (c *Connector) lookUpLater(ctx context.Context, in *incoming) error {
	return c.amend(ctx, in, false, func(r *record) (status, bool, error) {
		r.Contact = &lookUp{in.event.ContactID, in.event.Contact.UserID, c.linker.moment(in.event.At)}
		return pending, true, nil
	})
}

// amend changes the document of a webhook's conversation, together with the webhook's
// receipt if that is final, and gives its owner notice. The change is made again if
// another one came first; it reports false where nothing is to be stored, and its error ends amend.
//
// It needs no lease: compare-and-set keeps it apart from the job. Nothing is changed where the
// receipt is stored already. After an error the change may have been stored, unless it is a
// conflict.
func (c *Connector) amend(ctx context.Context, in *incoming, final bool,
	change func(r *record) (result status, changes bool, err error)) error {
	return document.Retry(ctx, func() error {
		docs, err := c.store.docs.Get(ctx, in.productID, append([]string{documentName(in.key())}, in.receipt.names...)...)
		if err != nil || in.receipt.take(docs[1:]) {
			return err
		}
		r := recordOf(docs[0]) // one that cannot be read begins anew
		result, changes, err := change(&r)
		if err != nil || !changes {
			return err
		}
		put, changes, err := c.store.change(&r)
		if err != nil || !changes {
			return err
		}
		all := []document.Change{put}
		if final {
			all = append(all, in.receipt.changes(result)...)
		}
		err = c.store.commit(ctx, in.productID, notice{Type: noticeType, Desk: in.desk.Name,
			ConversationID: in.event.ConversationID}, all...)
		in.receipt.stored = final && err == nil
		return err
	})
}

// takeMessage links the session of a message and takes the message into the
// conversation: as the label of an offer, or as a message to answer. A chat answers
// every message. Elsewhere only conversations with an offer get answers; the others
// are the desk's business.
func (c *Connector) takeMessage(ctx context.Context, in *incoming) (status, error) {
	result, err := c.linkEvent(ctx, in) // for a chat the link may have failed when it began
	if err != nil || in.receipt.was != "" {
		return result, err
	}
	chat := in.desk.capabilities().Chatter
	if chat != nil && (!chat.Verifies() || strings.TrimSpace(in.event.Message) == "") {
		return ignored, nil
	}
	var h heard // of the newest attempt: another change of the document may come first
	err = c.amend(ctx, in, true, func(r *record) (status, bool, error) {
		if h, err = c.hear(ctx, in, r); chat != nil {
			result = h.answer
		}
		return result, h.changes, err
	})
	if err != nil {
		return result, err
	}
	if in.receipt.stored {
		c.assisted.took(in.productID, in.key(), h.before, h.effects)
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

// hear takes a message into the conversation. A message without words, such as an image alone, gets
// no reply. An echo of the service's own reply changes nothing, and after an error nothing is to be
// stored. The guidance starts before the message is stored, so it may start again after a conflict
// or a repetition.
func (c *Connector) hear(ctx context.Context, in *incoming, r *record) (h heard, err error) {
	text, can := stored(in.event.Message), in.desk.capabilities()
	h.answer = ignored
	if h.echo = can.Chatter != nil && r.echoes(text, c.store.now()); h.echo {
		return h, nil
	}
	if in.product.offers(in.desk.Name) {
		h.before, h.changes = r.machine(), true
		h.effects, err = r.step(in.product.rules(in.desk.Name), c.store.now(), assistance.Message{Text: text})
	}
	chosen, asks := r.heard(h.effects, c.opts.Guide != nil)
	switch {
	case chosen != nil:
		h.answer = accepted
		return h, c.guide(ctx, proactive.Guidance{ProductID: in.productID, Desk: in.desk.Name,
			ConversationID: in.event.ConversationID, TriggerID: chosen.TriggerID, Label: chosen.Label,
			Metadata: chosen.Metadata})
	case can.Replier == nil || c.opts.Reply == nil || strings.TrimSpace(text) == "":
		return h, err
	case can.Chatter != nil || asks:
		r.ask(message{ID: messageID(in), Text: text, At: c.store.now(), Contact: in.event.Contact,
			ContactID: in.event.ContactID})
		h.changes = true
	}
	h.answer = accepted
	return h, err
}

// takeOpening takes the text that opened a conversation into the assistance: no offer
// is made before somebody can have answered it. A repetition changes nothing. It is stored without
// the receipt, since the link is still to come.
func (c *Connector) takeOpening(ctx context.Context, in *incoming) error {
	if strings.TrimSpace(in.event.Message) == "" || !in.product.offers(in.desk.Name) {
		return nil
	}
	return c.assist(ctx, in, assistance.Message{Text: in.event.Message})
}

// stored returns as much of a message as is kept: maxStored bytes, cut between characters.
func stored(text string) string {
	if len(text) > maxStored {
		text = strings.ToValidUTF8(text[:maxStored], "")
	}
	return text
}

// heard returns the guidance that a message chose, if the program guides, and whether
// the message asks for an answer: a label that nobody guides, and any message where an offer was
// shown or is being sent. Elsewhere messages are the desk's business.
func (c *conversation) heard(effects []assistance.Effect, guides bool) (chosen *assistance.Guide, asks bool) {
	m := c.machine()
	for _, effect := range effects {
		switch effect := effect.(type) {
		case assistance.Guide:
			if guides {
				chosen = &effect
			} else {
				asks = true
			}
		case assistance.Reply:
			asks = asks || m.Trigger() != "" || m.InFlight()
		}
	}
	return chosen, asks
}

// guideTime bounds Options.Guide: a desk waits for the answer to its webhook.
const guideTime = time.Second

// guide starts the help that a user chose. Its error is the webhook's: the desk repeats that,
// and so the call.
func (c *Connector) guide(ctx context.Context, g proactive.Guidance) error {
	ctx, cancel := context.WithTimeout(ctx, guideTime)
	defer cancel()
	return c.opts.Guide(ctx, g)
}

// messageID returns the ID of a message, which is its delivery's. It is the same for a repetition.
func messageID(in *incoming) string {
	name := in.receipt.names[0]
	return name[strings.LastIndexByte(name, '/')+1:]
}
