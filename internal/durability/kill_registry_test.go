package durability_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// registry is the list of products registered while the servers were killed.
type registry struct {
	mu       sync.Mutex
	products []registered
}

type registered struct {
	ProductID     string `json:"product_id"`
	Key           string `json:"key"`
	WebhookSecret string `json:"webhook_secret"`

	server string // that acknowledged it
	event  string // its only one
}

// register registers products, one after the other, until the storm is over.
func (s *storm) register(every time.Duration) {
	rng := s.dice.generator()
	s.senders.Go(func() {
		for n := 0; !s.isOver(); n++ {
			if s.registerOne(rng, fmt.Sprintf("product-%d", n)) {
				s.pause(upTo(rng, 2*every))
			}
		}
	})
}

// registerOne registers a product and uses it at once. It repeats an attempt of unknown outcome with force, as an
// operator would. After a second unknown outcome it takes another product, because an abandoned attempt with force
// may still take effect after a later one and change its secrets.
func (s *storm) registerOne(rng *rand.Rand, id string) bool {
	s.calm.RLock()
	defer s.calm.RUnlock()
	first, again := id, 0
	for force := false; ; force = !force {
		body := fmt.Sprintf(`{"product_id":%q,"force":%t}`, id, force)
		a, where, err := s.call(rng, s.timeout, http.MethodPost, "/admin/products", body, "X-Admin-Key: "+adminKey)
		switch {
		case err == nil && a.status == http.StatusCreated:
			r := registered{server: where}
			if err := json.Unmarshal(a.body, &r); err != nil || r.ProductID != id {
				s.fail(fmt.Errorf("%s: registration of %s: %s", where, id, a))
				return false
			}
			r.event = fmt.Sprintf(`{"event":"$pageview","uuid":%q,"distinct_id":"ada","properties":{"$session_id":"s1",`+
				`"$current_url":"https://app.acme.example/"}}`, "of-"+id)
			if !s.use(rng, r) {
				return false
			}
			s.registry.add(r)
			return true
		case err == nil && !a.isAway():
			s.fail(fmt.Errorf("%s: registration of %s: %s", where, id, a))
			return false
		}
		if force {
			again++
			id = fmt.Sprintf("%s-%d", first, again)
		}
		if !s.pause(backoff(rng)) {
			return false
		}
	}
}

func (r *registry) add(p registered) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.products = append(r.products, p)
}

func (r *registry) all() []registered {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.products[:len(r.products):len(r.products)]
}

// use sends the product's event and looks up the product's user.
func (s *storm) use(rng *rand.Rand, r registered) bool {
	if _, ok := s.insist(rng, http.StatusOK, http.MethodPost, r.webhookPath(), r.event, r.secret()); !ok {
		return false
	}
	a, ok := s.insist(rng, http.StatusOK, http.MethodGet, r.lookupPath(), "", r.bearer())
	if err := r.judge(a); ok && err != nil {
		s.fail(err)
		return false
	}
	return ok
}

// probe looks up the user of one of the products, or sends the product's event again. Every server
// that can answer must know the product, although strangers ask for it before it is registered.
func (r *registry) probe(s *storm, rng *rand.Rand) error {
	all := r.all()
	stranger := registered{ProductID: fmt.Sprintf("product-%d", len(all)), Key: "strange", WebhookSecret: "strange"}
	_, _, _ = s.call(rng, s.timeout, http.MethodPost, stranger.webhookPath(), "{}", stranger.secret())
	_, _, _ = s.call(rng, s.timeout, http.MethodGet, stranger.lookupPath(), "", stranger.bearer())
	if len(all) == 0 {
		return nil
	}
	p := all[rng.IntN(len(all))]
	if rng.IntN(2) == 0 {
		a, where, err := s.call(rng, s.timeout, http.MethodPost, p.webhookPath(), p.event, p.secret())
		if err == nil && a.status != http.StatusOK && !a.isAway() {
			return fmt.Errorf("%s: product %s, registered at %s: webhook: %s", where, p.ProductID, p.server, a)
		}
		return nil
	}
	a, where, err := s.call(rng, s.timeout, http.MethodGet, p.lookupPath(), "", p.bearer())
	if err != nil || a.isAway() {
		return nil
	}
	if err := p.judge(a); err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	return nil
}

func (r registered) webhookPath() string { return "/webhook/" + r.ProductID }

func (r registered) secret() string { return "X-PostHog-Secret: " + r.WebhookSecret }

func (r registered) bearer() string { return "Authorization: Bearer " + r.Key }

func (r registered) lookupPath() string { return "/users/" + r.ProductID + "/ada/live-activity" }

// judge returns an error unless a lookup finds the product's one event.
func (r registered) judge(a answer) error {
	var live struct{ Count int }
	if err := json.Unmarshal(a.body, &live); err != nil || a.status != http.StatusOK || live.Count != 1 {
		return fmt.Errorf("product %s, registered at %s: lookup: %s", r.ProductID, r.server, a)
	}
	return nil
}

// check returns an error unless every product can be used at the server.
func (r *registry) check(s *storm, sv *server) error {
	for _, p := range r.all() {
		a, err := s.demand(sv, p.lookupPath(), p.bearer())
		if err != nil {
			return err
		}
		if err := p.judge(a); err != nil {
			return fmt.Errorf("%s: %w", sv.name, err)
		}
	}
	return nil
}
