package assist

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/helpdesk/connector"
	"github.com/liveactivity/liveactivity/internal/assistance"
)

// Further reasons why no offer is made of a match.
const (
	noDesk        assistance.Reason = "no_desk"    // the desk of the conversation makes no offers
	untrusted     assistance.Reason = "untrusted"  // only a browser said whose conversation it is
	leaseEnds     assistance.Reason = "lease"      // another server may take over meanwhile
	overloaded    assistance.Reason = "overloaded" // too many offers are in flight
	unreadable    assistance.Reason = "unreadable" // what is known of the conversation is damaged, or of a later version
	storageFailed assistance.Reason = "storage"    // storage is away
)

const (
	requestTime = 4 * time.Second        // that a desk has at most
	leastTime   = 500 * time.Millisecond // no request is begun that has less
	minLease    = 2 * time.Second        // leaves time for requests until it is renewed
	firstRetry  = time.Second
	lastRetry   = 30 * time.Second
)

// timeLeft returns how long a request may take that begins now: it ends before
// another server can own the product.
func (s *shift) timeLeft() time.Duration { return min(requestTime, time.Until(s.lease.Until())) }

// rules returns those of a conversation.
func (s *shift) rules(c conversation) assistance.Rules {
	product, _, err := s.products(s.productID)
	if err != nil || product.Core == nil {
		return s.core.Rules
	}
	return product.rules(c.desk)
}

// step takes an event in a conversation and returns the effects to carry out, once
// the machine that follows is stored. It repeats itself when the machine was
// changed meanwhile.
func (s *shift) step(ctx context.Context, c conversation, event assistance.Event) ([]assistance.Effect, error) {
	for {
		m, doc, err := s.read(ctx, c)
		if err != nil {
			return nil, err
		}
		if event == (assistance.Tick{}) && !doc.Exists() { // it was deleted meanwhile
			s.keep(c, m)
			return nil, nil
		}
		next, effects, err := s.rules(c).Step(m, s.now(), event)
		if err != nil {
			s.keep(c, m)
			return nil, err
		}
		put, err := change(doc, next, effects)
		if err != nil {
			return nil, err
		}
		_, err = s.docs.Write(ctx, s.productID, put, s.lease.Check())
		var conflict *document.ConflictError
		switch {
		case err == nil:
			s.keep(c, next)
			s.took(c, m, effects)
			return effects, nil
		case !errors.As(err, &conflict):
			s.doubt(c) // it may have been stored
			return nil, err
		case conflict.Name == s.lease.Check().Name:
			return nil, document.ErrLost
		case ctx.Err() != nil:
			return nil, ctx.Err()
		}
	}
}

// offer makes the offer of a match, unless something is in the way.
func (s *shift) offer(ctx context.Context, sessionID string, c conversation, match assistance.Matched) (assistance.Reason, error) {
	product, _, err := s.products(s.productID)
	if err != nil {
		return storageFailed, err
	}
	desk, _ := product.desk(c.desk)
	if _, ok := desk.(helpdesk.Offerer); !ok {
		return noDesk, nil
	}
	known, _, err := s.connections.Conversation(ctx, s.productID, c.desk, c.id)
	if err != nil {
		return storageFailed, err
	}
	if !linkedByDesk(known, sessionID) {
		return untrusted, nil
	}
	if s.timeLeft() < leastTime {
		return leaseEnds, nil
	}
	effects, err := s.step(ctx, c, match)
	var impossible *assistance.MoveError
	switch {
	case errors.As(err, &impossible):
		return impossible.Reason, nil
	case unreadableMachine(err):
		return unreadable, err
	case err != nil:
		return storageFailed, err
	}
	s.begin(c)
	if !s.inFlight.TryGo(func() error { s.finish(ctx, c, effects, nil); return nil }) {
		_, err := s.step(ctx, c, assistance.Refused{})
		s.settled(c, err == nil)
		return overloaded, err
	}
	return assistance.Offered, nil
}

// linkedByDesk reports whether the desk itself said that the session belongs to
// the conversation.
func linkedByDesk(known connector.Conversation, sessionID string) bool {
	for _, l := range known.Sessions {
		if l.SessionID == sessionID {
			return l.ByWebhook
		}
	}
	return false
}

// tick lets time pass in a conversation that was begun with, and does what that
// asks for.
func (s *shift) tick(ctx context.Context, c conversation) {
	effects, err := s.step(ctx, c, assistance.Tick{})
	s.finish(ctx, c, effects, err)
}

// finish carries out the effects of a step, if that succeeded, in a conversation
// that was begun with, and gives the conversation back.
func (s *shift) finish(ctx context.Context, c conversation, effects []assistance.Effect, err error) {
	if err != nil && ctx.Err() == nil {
		s.logger.Warn("the assistance in a conversation waits for storage", "conversation_id", c.id, "err", err)
	}
	s.settled(c, err == nil && s.carryOut(ctx, c, effects))
}

// carryOut does what a step asks for, and takes what came of it. It reports whether
// nothing is left to be retried.
func (s *shift) carryOut(ctx context.Context, c conversation, effects []assistance.Effect) (ok bool) {
	ok = true
	for _, effect := range effects {
		event, err := s.do(ctx, c, effect)
		if err != nil && ctx.Err() == nil {
			s.logger.Warn("what a conversation needs could not be done", "desk", c.desk, "conversation_id", c.id, "err", err)
		}
		ok = ok && err == nil
		if event == nil {
			continue
		}
		further, err := s.step(ctx, c, event)
		if err != nil {
			var impossible *assistance.MoveError
			return ok && errors.As(err, &impossible) // what happened meanwhile was faster
		}
		ok = s.carryOut(ctx, c, further) && ok
	}
	return ok
}

// do carries out an effect and returns the event that answers it, if any. If the
// process ends before the event is stored a later tick asks for the same again: the
// machine shows what is in flight, and a conversation is forgotten before its
// machine is.
func (s *shift) do(ctx context.Context, c conversation, effect assistance.Effect) (assistance.Event, error) {
	product, _, err := s.products(s.productID)
	if err != nil {
		return nil, err
	}
	desk, _ := product.desk(c.desk)
	switch effect := effect.(type) {
	case assistance.Send:
		return s.send(ctx, c, desk, effect)
	case assistance.Find:
		return s.find(ctx, c, desk, effect)
	case assistance.Remove:
		return s.remove(ctx, c, desk, effect)
	}
	return nil, nil // replies and guidance follow messages, which no shift takes
}

// send shows an offer, unless the desk cannot take it in time.
func (s *shift) send(ctx context.Context, c conversation, desk helpdesk.Desk, send assistance.Send) (assistance.Event, error) {
	late := func() (assistance.Event, error) {
		s.offered(c, send.TriggerID, "late")
		return assistance.Refused{}, nil
	}
	wait := time.Duration(0)
	if pacer, paces := desk.(helpdesk.Pacer); paces {
		wait = max(pacer.Pause(""), pacer.Pause(c.id))
	}
	offerer, ok := desk.(helpdesk.Offerer)
	if !ok || s.now().Add(wait).After(send.SendBy) {
		return late()
	}
	select {
	case <-time.After(wait):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	left := min(s.timeLeft(), send.SendBy.Sub(s.now()))
	if left < leastTime {
		return late()
	}
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	id, err := offerer.Offer(ctx, c.id, send.Offer)
	var refused *helpdesk.APIError
	switch {
	case err == nil:
		s.offered(c, send.TriggerID, "made")
		return assistance.Shown{OfferID: id}, nil
	case errors.As(err, &refused) && !refused.Ambiguous:
		s.offered(c, send.TriggerID, "refused")
		return assistance.Refused{}, err
	}
	s.offered(c, send.TriggerID, "ambiguous")
	return nil, err
}

// find looks for an offer of which it is not known whether it was sent.
func (s *shift) find(ctx context.Context, c conversation, desk helpdesk.Desk, find assistance.Find) (assistance.Event, error) {
	offerer, ok := desk.(helpdesk.Offerer)
	if !ok {
		return assistance.Lost{}, nil
	}
	asking, cancel := context.WithTimeout(ctx, s.timeLeft())
	defer cancel()
	id, found, err := offerer.FindOffer(asking, c.id, find.Offer, find.Since)
	switch {
	case helpdesk.IsGone(err):
		return s.gone(ctx, c)
	case err != nil:
		return nil, err
	case found:
		s.offered(c, find.TriggerID, "made")
		return assistance.Shown{OfferID: id}, nil
	}
	s.offered(c, find.TriggerID, "lost")
	return assistance.Lost{}, nil
}

// remove deletes a conversation in which nothing was written after the offer.
func (s *shift) remove(ctx context.Context, c conversation, desk helpdesk.Desk, remove assistance.Remove) (assistance.Event, error) {
	remover, ok := desk.(helpdesk.Remover)
	if !ok {
		return assistance.Engaged{}, nil
	}
	asking, cancel := context.WithTimeout(ctx, s.timeLeft())
	defer cancel()
	engaged, err := remover.Engaged(asking, c.id, remove.OfferID)
	switch {
	case helpdesk.IsGone(err):
		return s.gone(ctx, c)
	case err != nil:
		return nil, err
	case engaged:
		return assistance.Engaged{}, nil
	}
	// A message may have come meanwhile, here or at the server that has the
	// product now: what follows cannot be undone.
	effects, err := s.step(asking, c, assistance.Tick{})
	if err != nil || !slices.Contains(effects, assistance.Effect(remove)) {
		return nil, err
	}
	if err := remover.Remove(asking, c.id); err != nil && !helpdesk.IsGone(err) {
		return nil, err
	}
	return s.gone(ctx, c)
}

// gone forgets a conversation that has been deleted, all but its machine: until the
// event that it returns is stored a tick comes back to it.
func (s *shift) gone(ctx context.Context, c conversation) (assistance.Event, error) {
	if err := s.connections.End(ctx, s.productID, c.desk, c.id); err != nil {
		return nil, err
	}
	return assistance.Removed{}, nil
}
