package connector

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/activity/tracing"
	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/internal/assistance"
	"github.com/liveactivity/liveactivity/proactive"
)

// The outbox of an offer is its machine; see internal/assistance:
//
//	trigger matches ──▶ memo.match ──▶ claimOffer: Matched ──▶ offer ──▶ settleOffer
//	                                   stored as the            once      sent       Shown
//	                                   machine's claim                    not sent   Refused
//	                                                                      in doubt   the claim stays
//
// A claim that stays is due after assistance.FindAfter: nextTick has the desk look for the
// offer, which is then Shown or Lost. An offer that is ignored is due after its time: remove
// deletes the conversation if nobody has ever written there.
//
// The server that stores a step of the machine logs and counts it, after it is stored, so a move
// counts at most once.

// assists reports whether any desk makes offers.
func (p Product) assists() bool {
	return slices.ContainsFunc(p.Desks, func(d Desk) bool { return p.rules(d.Name) != nil })
}

// rules returns the rules of assistance at the desk, nil if no offers are made there. If the desk
// cannot delete a conversation, conversations are kept.
func (p Product) rules(desk string) *assistance.Rules {
	d, _ := p.find(desk)
	can := d.capabilities()
	if p.Assistance == nil || can.Offerer == nil {
		return nil
	}
	rules := p.Assistance.Rules
	rules.KeepIdle = rules.KeepIdle || can.Remover == nil
	return &rules
}

// untrusted is a further reason why no offer is made of a match: nobody vouches for whose
// conversation it is.
const untrusted assistance.Reason = "untrusted"

// States returns the state of the assistance in each of the conversations, in the
// order of links. It is "" for the zero Link, for a product without assistance, and
// for a conversation that cannot be read. It reads all conversations in one call.
func (c *Connector) States(ctx context.Context, productID string, links ...Link) ([]assistance.State, error) {
	states := make([]assistance.State, len(links))
	product, ok, err := c.products.Product(productID)
	isLink := func(l Link) bool { return l != Link{} }
	if err != nil || !ok || product.Assistance == nil || !slices.ContainsFunc(links, isLink) {
		return states, err
	}
	names := make([]string, len(links))
	for i, l := range links {
		names[i] = l.documentName()
	}
	docs, err := c.store.docs.Get(ctx, productID, names...)
	if err != nil {
		return nil, err
	}
	for i, doc := range docs {
		if conv, err := decodeConversation(doc); err == nil && isLink(links[i]) {
			states[i] = conv.machine().State()
		}
	}
	return states, nil
}

// step applies an event to the machine of a conversation and returns the effects, which must be
// carried out only once the conversation is stored. Its only error is a *assistance.MoveError,
// which leaves the conversation unchanged.
func (c *conversation) step(rules assistance.Rules, now time.Time,
	event assistance.Event) ([]assistance.Effect, error) {
	next, effects, err := rules.Step(c.machine(), now, event)
	if err == nil {
		c.Machine = &next
		c.Removing = slices.ContainsFunc(effects, func(e assistance.Effect) bool {
			_, removes := e.(assistance.Remove)
			return removes
		})
		if _, said := event.(assistance.Message); said {
			c.Heard = true
		}
	}
	return effects, err
}

// Report applies an outcome to the assistance of a conversation. Any server may be
// called: on return the outcome is stored, and it counts for the next offer on any
// server. The error is proactive.ErrNoConversation, a *proactive.ReportError or
// storage's; after an error of storage the outcome may have been stored.
func (c *Connector) Report(ctx context.Context, productID string, of Link, outcome proactive.Outcome) error {
	product, known, err := c.products.Product(productID)
	if err != nil {
		return err
	}
	desk, _ := product.find(of.Desk)
	if !known || product.rules(of.Desk) == nil || of.ConversationID == "" {
		return proactive.ErrNoConversation
	}
	in := &incoming{productID: productID, product: product, desk: desk,
		event: helpdesk.Event{ConversationID: of.ConversationID}}
	err = c.assist(ctx, in, assistance.Reported(outcome))
	if impossible, ok := errors.AsType[*assistance.MoveError](err); ok {
		return &proactive.ReportError{Outcome: outcome, State: string(impossible.State)}
	}
	return err
}

// assist applies an event that has no effect to carry out to the assistance of a
// conversation, and stores the result. The error is the machine's, which leaves the
// conversation unchanged, or storage's.
func (c *Connector) assist(ctx context.Context, in *incoming, event assistance.Event) error {
	var before assistance.Machine
	var effects []assistance.Effect
	err := c.amend(ctx, in, func(r *record) (_ status, changes bool, err error) {
		before = r.machine()
		effects, err = r.step(*in.product.rules(in.desk.Name), c.store.now(), event)
		return "", true, err
	})
	if err == nil {
		c.assisted.record(in.productID, in.link(), before, effects)
	}
	return err
}

// advance applies an event to the machine, stores the machine and returns the effects. The
// machine is the document's, which another server's webhook may have moved in the meantime, so
// the event may be refused. The error is step's or update's.
func (j *job) advance(ctx context.Context, rules assistance.Rules,
	event assistance.Event) (effects []assistance.Effect, err error) {
	var before assistance.Machine
	err = j.update(ctx, func(c *conversation) error {
		before = c.machine()
		effects, err = c.step(rules, j.d.store.now(), event)
		return err
	})
	if err != nil {
		return nil, err
	}
	j.d.assisted.record(j.d.productID, j.lane.link(), before, effects)
	j.locked(func() { j.lane.ensureMemo().machine = j.r.Machine })
	return effects, nil
}

// claimOffer claims the offer of a match before it is sent, unless something prevents the offer.
// The machine records the claim as an offer in flight. The match is used up in any case,
// and the error is errMoot if no offer is to be made. Otherwise s.send is the offer.
func (j *job) claimOffer(ctx context.Context, s *step) error {
	j.locked(func() { j.lane.ensureMemo().match = nil })
	reason := s.match.reason
	var effects []assistance.Effect
	if linked := j.r.session(s.match.session); linked == nil || !j.r.trusts(linked) {
		reason = untrusted
	} else if reason == assistance.Offered {
		var err error
		effects, err = j.advance(ctx, *j.product.rules(j.lane.account.desk), s.match.Matched)
		if impossible, ok := errors.AsType[*assistance.MoveError](err); ok {
			reason = impossible.Reason
		} else if err != nil {
			return err
		}
	}
	// A server that got the lease later may find a match that another one has handled.
	if j.owned.Sub(s.match.at) < document.DefaultLeaseTTL/3 || reason == assistance.Offered {
		j.d.assisted.decided(j.d.productID, j.lane.link(), s.match, reason)
	}
	for _, effect := range effects {
		if send, ok := effect.(assistance.Send); ok {
			s.send = send
			return nil
		}
	}
	return errMoot
}

// offer shows an offer, unless the desk cannot take it in time: within offerTime and the moment of
// the match. errLate and a *pausedError mean that no request was made. It has no time to wait for
// another conversation's trial.
func (j *job) offer(ctx context.Context, id string, s *step) (o outcome) {
	left := min(offerTime, s.send.SendBy.Sub(j.d.store.now()))
	if left < leastOfferTime {
		o.err = errLate
		return o
	}
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	o.err = j.request(ctx, notes, func(ctx context.Context) (err error) {
		o.id, err = j.can.Offerer.Offer(ctx, id, s.send.Offer)
		return err
	})
	return o
}

// errLate reports that the moment of an offer has passed.
var errLate = errors.New("connector: the offer is late")

// errRemoved reports that a conversation was deleted.
var errRemoved = errors.New("connector: nobody reacted to the offer in it")

// remove deletes a conversation in which nobody has ever written, one that only the
// service has filled. Any other one stays, and its offer has lapsed.
//
//	somebody wrote after the offer     Engaged: the machine goes on
//	somebody wrote before it           Tick with KeepIdle: the offer has lapsed
//	nobody                             Tick, and then the deletion if the machine still asks for it
//
// The desk is asked first, then the machine is moved by compare-and-set, then the conversation is
// deleted, all within offerTime.
func (j *job) remove(ctx context.Context, id string, s *step) (o outcome) {
	ctx, cancel := context.WithTimeout(ctx, offerTime)
	defer cancel()
	engaged := func(after string) (yes bool) {
		o.err = j.request(ctx, offers, func(ctx context.Context) (err error) {
			yes, err = j.can.Remover.Engaged(ctx, id, after, j.r.Machine.Offer.Body)
			return err
		})
		return yes && o.err == nil
	}
	wrote := j.r.Heard || engaged("")
	since := wrote && engaged(s.remove.OfferID)
	rules := *j.product.rules(j.lane.account.desk)
	var effects []assistance.Effect
	switch {
	case o.err != nil:
		return o
	case since:
		_, o.err = j.advance(ctx, rules, assistance.Engaged{})
		return o
	case wrote:
		rules.KeepIdle = true
	}
	// A message may have come in the meantime, here or at another server that has
	// the lease by now, and a deletion cannot be undone.
	effects, o.err = j.advance(ctx, rules, assistance.Tick{})
	if o.err == nil && slices.Contains(effects, assistance.Effect(s.remove)) {
		o.err = j.request(ctx, offers, func(ctx context.Context) error { return j.can.Remover.Remove(ctx, id) })
		if o.yes = o.err == nil; !o.yes && !helpdesk.IsAmbiguous(o.err) && ctx.Err() == nil {
			o.err = cmp.Or(j.update(ctx, func(c *conversation) error { c.Removing = false; return nil }), o.err)
		}
	}
	return o
}

// settleOffer passes the outcome of a step of the assistance to the machine. An offer in
// doubt keeps its claim: it is looked for, and never sent again. If the desk refuses to
// look, the offer is lost.
//
// A refusal of this offer alone ends here; a failure of the account or of the conversation
// is returned. An event that the machine refuses was overtaken by a message, and is not an
// error. The result is counted once the machine is stored or has been overtaken.
func (j *job) settleOffer(ctx context.Context, s *step, o outcome) error {
	var event assistance.Event
	result, trigger := "", cmp.Or(s.send.TriggerID, s.find.TriggerID)
	var failed *helpdesk.APIError
	switch isAPI := errors.As(o.err, &failed); {
	case s.kind == kindPass:
		event = assistance.Tick{}
	case s.kind == kindRemove && o.yes:
		return j.removed()
	case s.kind == kindRemove:
	case s.kind == kindFind && o.err == nil:
		if event, result = assistance.Event(assistance.Lost{}), "lost"; o.yes {
			event, result = assistance.Shown{OfferID: o.id}, "made"
		}
	case s.kind == kindFind && isFinal(o.err) && !failed.Gone:
		j.logger().Warn("an offer is not looked for again, since the desk refuses", "err", o.err)
		event, result, o.err = assistance.Lost{}, "lost", nil
	case s.kind == kindFind:
	case o.err == nil:
		event, result = assistance.Shown{OfferID: o.id}, "made"
	case errors.Is(o.err, errLate), isPaused(o.err):
		event, result, o.err = assistance.Refused{}, "late", nil
	case isAPI && !failed.Ambiguous:
		event, result = assistance.Refused{}, "refused"
		if !failed.AccountWide() && !failed.Gone {
			j.logger().Warn("an offer was refused", "err", o.err)
			o.err = nil
		}
	default:
		result = "ambiguous"
	}
	var impossible *assistance.MoveError
	if event != nil {
		_, err := j.advance(ctx, *j.product.rules(j.lane.account.desk), event)
		if err != nil && (!errors.As(err, &impossible) || time.Until(j.lease.Until()) <= 0) {
			return err // the next owner finds the offer, and counts it
		}
	}
	if result != "" {
		j.d.assisted.offered(j.d.productID, j.lane.link(), trigger, result)
	}
	if errors.As(o.err, &impossible) { // something else happened first
		return nil
	}
	return o.err
}

// removed logs and counts a conversation that was deleted. Its error is errRemoved, which makes
// the job end the links and delete the document. The machine's last step is not stored, because
// the document is about to go.
func (j *job) removed() error {
	m := j.r.machine()
	_, effects, _ := assistance.Rules{}.Step(m, j.d.store.now(), assistance.Removed{}) // the product may have none by now
	j.d.assisted.record(j.d.productID, j.lane.link(), m, effects)
	j.d.metrics.deleted.WithLabelValues(j.d.productID, j.lane.account.desk).Inc()
	sessions := make([]string, len(j.r.Sessions))
	for i, s := range j.r.Sessions {
		sessions[i] = s.ID
	}
	j.logger().Warn("a conversation without any message was deleted: nobody reacted to the offer in it", "session_ids",
		sessions)
	return errRemoved
}

// assisted logs and counts offers and their outcomes. It is safe for concurrent use.
type assisted struct {
	metrics *connectorMetrics
	meter   tracing.Meter
	logger  *slog.Logger
}

// decided logs and counts a trigger that matched.
func (a *assisted) decided(productID string, of Link, match *offering, reason assistance.Reason) {
	trigger := match.Result.TriggerID
	if reason != assistance.Offered {
		a.metrics.suppressed.WithLabelValues(productID, trigger, string(reason)).Inc()
	}
	a.logger.Info("a trigger matched", "product_id", productID, "session_id", match.session, "desk", of.Desk,
		"conversation_id", of.ConversationID, "trigger_id", trigger, "decision", reason)
}

// record counts and logs the effects of a stored step on a machine.
func (a *assisted) record(productID string, of Link, before assistance.Machine, effects []assistance.Effect) {
	for _, effect := range effects {
		switch effect := effect.(type) {
		case assistance.Moved:
			if effect.From == assistance.Proactive && effect.To == assistance.Thinking {
				a.offered(productID, of, before.Offer.Trigger, "ignored")
			}
			a.metrics.transitions.WithLabelValues(productID, string(effect.From), string(effect.To)).Inc()
			a.logger.Info("assistance moved", "product_id", productID, "desk", of.Desk, "conversation_id", of.ConversationID,
				"from", effect.From, "to", effect.To)
		case assistance.Guide:
			a.offered(productID, of, effect.TriggerID, "accepted")
		}
	}
}

// offered logs and counts the result of an offer.
func (a *assisted) offered(productID string, of Link, trigger, result string) {
	a.metrics.offers.WithLabelValues(productID, trigger, result).Inc()
	a.logger.Info("the result of an offer", "product_id", productID, "desk", of.Desk,
		"conversation_id", of.ConversationID, "trigger_id", trigger, "result", result)
	if result == "made" {
		a.meter.Count(productID, tracing.Flow{Offers: 1})
	}
}
