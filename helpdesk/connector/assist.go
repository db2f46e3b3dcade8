package connector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/helpdesk"
)

// Message is what a contact wrote into a conversation.
type Message struct {
	ProductID, Desk, ConversationID string

	Text string // plain text, at most 64 KiB

	in incoming
}

// Taken is what a message leads to.
type Taken struct {
	// Changes are written together with what shows that the message was received.
	Changes []document.Change
	// Then is called once they are written; nil for nothing.
	Then func()
	// Guided says that the message chose a label and that the guidance has begun: a
	// chat does not answer it, too.
	Guided bool
}

// takeAssisted links the session of a message and hands the message to
// Options.Message.
func (c *Connector) takeAssisted(ctx context.Context, in incoming) (status, Taken, error) {
	result, err := c.linkEvent(ctx, in)
	if err != nil || c.opts.Message == nil {
		return result, Taken{}, err
	}
	taken, err := c.opts.Message(ctx, in.message())
	return result, taken, err
}

// message returns a message as Options.Message takes it.
func (in incoming) message() Message {
	return Message{ProductID: in.productID, Desk: in.desk.Name, ConversationID: in.event.ConversationID, Text: stored(in.event.Message), in: in}
}

// ReplyLater returns the changes that have a message answered in public, like those
// of a desk's chat, while Follow runs: none without Options.Reply, at a desk that
// cannot, or in a chat, which answers every message by itself.
func (c *Connector) ReplyLater(m Message) ([]document.Change, error) {
	_, replies := m.in.desk.Desk.(helpdesk.Replier)
	if _, chats := m.in.desk.Desk.(helpdesk.Chatter); !replies || chats || c.opts.Reply == nil {
		return nil, nil
	}
	change, err := c.storeMessage(m.in)
	if err != nil {
		return nil, err
	}
	return []document.Change{change}, nil
}

// storeMessage returns the change that stores a message until it is answered.
func (c *Connector) storeMessage(in incoming) (document.Change, error) {
	at := c.now()
	value, err := json.Marshal(message{Text: stored(in.event.Message), At: at})
	if err != nil {
		return document.Change{}, fmt.Errorf("connector: encode message: %w", err)
	}
	return document.Put(document.Document{Name: messageName(in, at)}, value, replyTTL), nil
}

// End frees the sessions of a conversation that has been deleted: they can be
// linked again. What is not written of them is dropped. It may be repeated.
func (c *Connector) End(ctx context.Context, productID, desk, conversationID string) error {
	key := keyOf(desk, conversationID)
	for {
		docs, err := c.docs.Get(ctx, productID, documentName(key))
		if err != nil {
			return fmt.Errorf("connector: read conversation: %w", err)
		}
		if !docs[0].Exists() {
			return nil
		}
		conv, _ := decodeConversation(docs[0]) // one that cannot be read names no sessions
		for _, s := range conv.Sessions {
			if err := c.unlink(ctx, productID, key, s.ID); err != nil {
				return err
			}
		}
		_, err = c.docs.Write(ctx, productID, document.Delete(docs[0]))
		var conflict *document.ConflictError
		if errors.As(err, &conflict) && ctx.Err() == nil {
			continue // a note was written, or a session joined
		}
		if err != nil {
			return fmt.Errorf("connector: end conversation: %w", err)
		}
		c.metrics.links.WithLabelValues(productID, desk, "ended").Inc()
		return nil
	}
}

// Actions returns what a session did last as sentences, oldest first, at most 50.
func (c *Connector) Actions(ctx context.Context, productID, sessionID string) ([]string, error) {
	return c.actionsOf(ctx, productID, []Linked{{SessionID: sessionID}})
}
