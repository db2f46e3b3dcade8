package posthog

import (
	"net/http"

	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/internal/httpx"
)

// What becomes of an event in an answer of capture v1. What is dropped the SDK
// reports as an error; it never sends an event of either kind again.
const (
	resultOK   = "ok"
	resultDrop = "drop"
)

// result is what became of an event.
type result struct {
	Result  string `json:"result"`
	Details string `json:"details,omitempty"`
}

// captureV1 takes events of capture v1: the token is in the Authorization
// header, the time of sending in another, and the answer says for each event, by
// its uuid, what became of it. An event that means nothing here is all right.
func (h *Handler) captureV1(w http.ResponseWriter, r *http.Request) error {
	token := access.BearerToken(r)
	productID, ok, err := h.products.ProductOfToken(token)
	switch {
	case err != nil:
		return httpx.Unavailable(err)
	case !ok:
		return httpx.Unauthorized("The project token is missing or unknown.", "Bearer")
	}
	if err := h.guard.check(w, r, productID); err != nil {
		return err
	}
	b, err := h.intake.receive(w, r)
	if err != nil {
		return err
	}
	defer b.release()
	s, err := b.survey(r.Context())
	if err != nil {
		return err
	}
	req, err := b.request(r.Context(), productID, s)
	if err != nil {
		return err
	}
	if err := h.checkTokens(productID, token, req); err != nil {
		return err
	}
	req.env.SentAt = text(first(r.Header.Get("PostHog-Request-Timestamp"), string(req.env.SentAt)))
	counts, err := h.record(r, productID, req)
	if err != nil {
		return err
	}
	httpx.WriteJSON(w, http.StatusOK, struct {
		answer
		Results map[string]result `json:"results"`
	}{answer{Status: 1, counts: counts}, results(req.details)})
	return nil
}

// results returns what became of the events, by their uuids.
func results(events []detail) map[string]result {
	results := make(map[string]result, len(events))
	for _, p := range events {
		switch {
		case p.uuid == "":
		case p.reason == reasonMalformed:
			results[p.uuid] = result{resultDrop, "The event lacks something or has an invalid field."}
		case p.reason == reasonToken:
			results[p.uuid] = result{resultDrop, "The event carries another project's token."}
		default:
			results[p.uuid] = result{Result: resultOK}
		}
	}
	return results
}
