package assist

import (
	"context"
	"errors"
	"time"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/helpdesk/connector"
	"github.com/liveactivity/liveactivity/proactive"
)

// Further reasons why no offer is made of a match.
const (
	noDesk        proactive.Reason = "no_desk"    // the desk of the conversation makes no offers
	untrusted     proactive.Reason = "untrusted"  // only a browser said whose conversation it is
	leaseEnds     proactive.Reason = "lease"      // another server may take over meanwhile
	overloaded    proactive.Reason = "overloaded" // too many offers are in flight
	unreadable    proactive.Reason = "unreadable" // what is known of the conversation is damaged, or of a later version
	storageFailed proactive.Reason = "storage"    // storage is away
)

const (
	requestTime = 4 * time.Second // that a desk has; a lease outlasts it
	firstRetry  = time.Second
	lastRetry   = 30 * time.Second
)

// mayBegin reports whether a request that is begun now ends before another server
// can own the product.
func (s *shift) mayBegin() bool { return time.Until(s.lease.Until()) > 0 }

// requestUntil returns until when a request may take: the lease must outlast it.
func (s *shift) requestContext(ctx context.Context) (context.Context, context.CancelFunc) {
	until := time.Now().Add(requestTime)
	if end := s.lease.Until(); end.Before(until) {
		until = end
	}
	return context.WithDeadline(ctx, until)
}

// rules returns those of a conversation: one at a desk that cannot delete it is
// kept.
func (s *shift) rules(c conversation) proactive.Rules {
	rules := s.core.Rules
	product, _, err := s.products(s.productID)
	if err != nil {
		return rules
	}
	desk, _ := product.desk(c.desk)
	if _, ok := desk.(helpdesk.Remover); !ok {
		rules.KeepIdle = true
	}
	return rules
}

// step takes an event in a conversation and returns the effects to carry out, once
// the machine that follows is stored. It repeats itself when the machine was
// changed meanwhile.
func (s *shift) step(ctx context.Context, c conversation, event proactive.Event) ([]proactive.Effect, error) {
	for {
		m, doc, err := s.read(ctx, c)
		if err != nil {
			return nil, err
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
		if isConflict(err) && ctx.Err() == nil {
			if !s.mayBegin() {
				return nil, document.ErrLost
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		s.keep(c, next)
		return effects, nil
	}
}

// offer makes the offer of a match, unless something is in the way.
func (s *shift) offer(ctx context.Context, sessionID string, c conversation, match proactive.Matched) (proactive.Reason, error) {
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
	if time.Until(s.lease.Until()) < requestTime/2 {
		return leaseEnds, nil
	}
	effects, err := s.step(ctx, c, match)
	var impossible *proactive.MoveError
	var version *proactive.VersionError
	switch {
	case errors.As(err, &impossible):
		return impossible.Reason, nil
	case errors.Is(err, proactive.ErrSnapshot), errors.As(err, &version):
		return unreadable, err
	case err != nil:
		return storageFailed, err
	}
	if !s.inFlight.TryGo(func() error { s.carryOut(ctx, c, effects); return nil }) {
		_, err := s.step(ctx, c, proactive.Refused{})
		return overloaded, err
	}
	return proactive.Offered, nil
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

// tick lets time pass in a conversation, and does what that asks for.
func (s *shift) tick(ctx context.Context, c conversation) {
	effects, err := s.step(ctx, c, proactive.Tick{})
	ok := err == nil && s.carryOut(ctx, c, effects)
	s.settled(c, len(effects), ok)
	if err != nil && ctx.Err() == nil {
		s.logger.Warn("the assistance in a conversation waits for storage", "conversation_id", c.id, "err", err)
	}
}

// settled ends a tick. One that led to nothing that succeeded is repeated after a
// back-off.
func (s *shift) settled(c conversation, effects int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.due[c]
	if d == nil {
		return
	}
	d.busy = false
	switch {
	case d.at.IsZero():
		delete(s.due, c)
	case !ok:
		d.at = s.now().Add(min(firstRetry<<min(d.failures, 10), lastRetry))
		d.failures++
	case effects == 0 && !d.at.After(s.now()):
		d.at = s.now().Add(firstRetry)
	default:
		d.failures = 0
	}
}

// carryOut does what a step asks for, and takes what came of it. It reports whether
// nothing is left to be retried.
func (s *shift) carryOut(ctx context.Context, c conversation, effects []proactive.Effect) (ok bool) {
	ok = true
	for _, effect := range effects {
		event, err := s.do(ctx, c, effect)
		if err != nil && ctx.Err() == nil {
			s.logger.Warn("a desk could not be asked", "desk", c.desk, "conversation_id", c.id, "err", err)
		}
		ok = ok && err == nil
		if event == nil {
			continue
		}
		further, err := s.step(ctx, c, event)
		if err != nil {
			var impossible *proactive.MoveError
			return ok && errors.As(err, &impossible) // what happened meanwhile was faster
		}
		ok = s.carryOut(ctx, c, further) && ok
	}
	return ok
}

// do carries out an effect and returns the event that answers it, if any.
func (s *shift) do(ctx context.Context, c conversation, effect proactive.Effect) (proactive.Event, error) {
	product, _, err := s.products(s.productID)
	if err != nil {
		return nil, err
	}
	desk, _ := product.desk(c.desk)
	switch effect := effect.(type) {
	case proactive.Moved:
		s.moved(c, effect)
		return nil, nil
	case proactive.Send:
		return s.send(ctx, c, desk, effect)
	case proactive.Find:
		return s.find(ctx, c, desk, effect)
	case proactive.Remove:
		return s.remove(ctx, c, desk, effect)
	case proactive.Clear:
		return nil, s.connections.End(ctx, s.productID, c.desk, c.id)
	}
	return nil, nil // replies and guidance follow messages, which no shift takes
}

// send shows an offer. It is not sent unless the desk takes it in time.
func (s *shift) send(ctx context.Context, c conversation, desk helpdesk.Desk, send proactive.Send) (proactive.Event, error) {
	offerer, ok := desk.(helpdesk.Offerer)
	wait := time.Duration(0)
	if pacer, paces := desk.(helpdesk.Pacer); paces {
		wait = max(pacer.Pause(""), pacer.Pause(c.id))
	}
	if !ok || s.now().Add(wait).After(send.SendBy) || time.Until(s.lease.Until()) < wait+requestTime/4 {
		s.offered(send.TriggerID, "late")
		return proactive.Refused{}, nil
	}
	select {
	case <-time.After(wait):
	case <-ctx.Done():
		return proactive.Refused{}, nil
	}
	ctx, cancel := s.requestContext(ctx)
	defer cancel()
	id, err := offerer.Offer(ctx, c.id, send.Offer)
	var refused *helpdesk.APIError
	switch {
	case err == nil:
		s.offered(send.TriggerID, "made")
		return proactive.Shown{OfferID: id}, nil
	case errors.As(err, &refused) && !refused.Ambiguous:
		s.offered(send.TriggerID, "refused")
		return proactive.Refused{}, err
	}
	s.offered(send.TriggerID, "ambiguous")
	return nil, err
}

func (s *shift) offered(trigger, result string) {
	s.metrics.offers.WithLabelValues(s.productID, trigger, result).Inc()
}

// find looks for an offer of which it is not known whether it was sent.
func (s *shift) find(ctx context.Context, c conversation, desk helpdesk.Desk, find proactive.Find) (proactive.Event, error) {
	offerer, ok := desk.(helpdesk.Offerer)
	if !ok {
		return proactive.Lost{}, nil
	}
	ctx, cancel := s.requestContext(ctx)
	defer cancel()
	id, found, err := offerer.FindOffer(ctx, c.id, find.Offer, find.Since)
	switch {
	case helpdesk.IsGone(err):
		return proactive.Removed{}, nil
	case err != nil:
		return nil, err
	case found:
		return proactive.Shown{OfferID: id}, nil
	}
	return proactive.Lost{}, nil
}

// remove deletes a conversation in which nobody reacted to the offer.
func (s *shift) remove(ctx context.Context, c conversation, desk helpdesk.Desk, remove proactive.Remove) (proactive.Event, error) {
	remover, ok := desk.(helpdesk.Remover)
	if !ok {
		return proactive.Engaged{}, nil
	}
	ctx, cancel := s.requestContext(ctx)
	defer cancel()
	engaged, err := remover.Engaged(ctx, c.id, remove.OfferID)
	if err == nil && engaged {
		return proactive.Engaged{}, nil
	}
	if err == nil {
		err = remover.Remove(ctx, c.id)
	}
	if err != nil && !helpdesk.IsGone(err) {
		return nil, err
	}
	return proactive.Removed{}, nil
}
