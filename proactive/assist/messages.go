package assist

import (
	"context"
	"fmt"
	"time"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/helpdesk/connector"
	"github.com/liveactivity/liveactivity/internal/assistance"
)

// Message takes what a contact wrote into a conversation: the label of an offer,
// or anything else. It returns the changes that take it into account, to be
// written with what shows that the message was received. It is a
// [connector.Options] Message.
//
// A label starts the guidance. Anything else in a conversation in which an offer
// was made is answered by the connector. In one without any the message only
// keeps offers away for a while: people talk there. A desk's chat answers all but
// a label that starts the guidance.
func (a *Assistant) Message(ctx context.Context, m connector.Message) (connector.Taken, error) {
	product, known, err := a.products(m.ProductID)
	if err != nil || !known || !product.canOffer() {
		return connector.Taken{}, err
	}
	c := conversation{m.ProductID, m.Desk, m.ConversationID}
	machine, doc, err := a.read(ctx, c)
	if unreadableMachine(err) {
		a.logger.Error("no offers are made in a conversation", "product_id", m.ProductID, "conversation_id", m.ConversationID, "err", err)
		return connector.Taken{}, nil
	}
	if err != nil {
		return connector.Taken{}, err
	}
	next, effects, err := product.rules(c.desk).Step(machine, a.now(), assistance.Message{Text: m.Text})
	if err != nil {
		return connector.Taken{}, fmt.Errorf("assist: take message: %w", err)
	}
	put, err := change(doc, next, effects)
	if err != nil {
		return connector.Taken{}, err
	}
	taken := connector.Taken{Changes: []document.Change{put}, Then: func() { a.took(c, machine, effects) }}
	for _, effect := range effects {
		more, err := a.react(ctx, c, m, next, effect)
		if err != nil {
			return connector.Taken{}, err
		}
		taken.Changes = append(taken.Changes, more...)
		if _, guides := effect.(assistance.Guide); guides && a.opts.Guide != nil {
			taken.Guided = true
		}
	}
	return taken, nil
}

// guideTime bounds Options.Guide: a desk waits for the answer to its webhook.
const guideTime = time.Second

// react returns the changes that carry out an effect of a message. What is written
// in a conversation without any offer is the desk's business, not ours.
func (a *Assistant) react(ctx context.Context, c conversation, m connector.Message, machine assistance.Machine, effect assistance.Effect) ([]document.Change, error) {
	switch effect := effect.(type) {
	case assistance.Guide:
		if a.opts.Guide == nil {
			return a.connections.ReplyLater(m)
		}
		ctx, cancel := context.WithTimeout(ctx, guideTime)
		defer cancel()
		return nil, a.opts.Guide(ctx, Guidance{ProductID: c.productID, Desk: c.desk, ConversationID: c.id,
			TriggerID: effect.TriggerID, Label: effect.Label, Metadata: effect.Metadata})
	case assistance.Reply:
		if machine.Trigger() != "" || machine.InFlight() {
			return a.connections.ReplyLater(m)
		}
	}
	return nil, nil
}
