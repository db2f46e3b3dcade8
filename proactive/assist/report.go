package assist

import (
	"context"
	"errors"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/helpdesk/connector"
	"github.com/liveactivity/liveactivity/internal/assistance"
	"github.com/liveactivity/liveactivity/proactive"
)

// reported are the events of the outcomes. None of them has an effect to carry out.
var reported = map[proactive.Outcome]assistance.Event{
	proactive.Dismissed:  assistance.Dismissed{},
	proactive.Progressed: assistance.Progressed{},
	proactive.Finished:   assistance.Finished{},
	proactive.Abandoned:  assistance.Abandoned{},
}

// Report steps the machine of a conversation with an outcome. Any server may be called,
// also one that does not own the conversation: on return the machine is stored, and the
// next offer anywhere is decided by it. A concurrent change is stepped from, not
// overwritten. The error is proactive.ErrNoConversation, a *proactive.ReportError, or
// the storage's; then nothing has changed, but after an error of the storage the step
// may have been stored.
func (a *Assistant) Report(ctx context.Context, productID string, of connector.Link, outcome proactive.Outcome) error {
	product, known, err := a.products(productID)
	if err != nil {
		return err
	}
	c := conversation{productID, of.Desk, of.ConversationID}
	if desk, _ := product.desk(c.desk); !known || product.Core == nil || desk == nil || c.id == "" {
		return proactive.ErrNoConversation
	}
	for {
		machine, doc, err := a.read(ctx, c)
		if err != nil {
			return err
		}
		event, possible := reported[outcome]
		if !possible {
			return &proactive.ReportError{Outcome: outcome, State: string(machine.State())}
		}
		next, effects, err := product.rules(c.desk).Step(machine, a.now(), event)
		var impossible *assistance.MoveError
		if errors.As(err, &impossible) {
			return &proactive.ReportError{Outcome: outcome, State: string(impossible.State)}
		}
		put, err := change(doc, next, effects)
		if err != nil {
			return err
		}
		_, err = a.docs.Write(ctx, productID, put)
		var conflict *document.ConflictError
		if errors.As(err, &conflict) && ctx.Err() == nil {
			continue
		}
		if err == nil {
			a.took(c, machine, effects)
		}
		return err
	}
}
