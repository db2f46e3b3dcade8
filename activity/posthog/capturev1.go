package posthog

import (
	"net/http"

	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/activity/intake"
	"github.com/liveactivity/liveactivity/internal/httpx"
)

// result is the outcome of an event in an answer of capture v1: "ok", or "drop",
// which the SDK reports as an error. The SDK sends the event again in neither case.
type result struct {
	Result  string `json:"result"`
	Details string `json:"details,omitempty"`
}

// resultOf returns the outcome of an event that is ignored for this reason, "" for
// none. An event that has no meaning here is all right.
func resultOf(reason string) result {
	switch reason {
	case intake.ReasonMalformed, intake.ReasonNobody:
		return result{"drop", "The event lacks something or has an invalid field."}
	case intake.ReasonToken:
		return result{"drop", "The event carries another project's token."}
	}
	return result{Result: "ok"}
}

// captureV1 handles events of capture v1: the token is in the Authorization
// header, the time of sending in another one, and the answer has the outcome of
// each event by its UUID.
func (h *Handler) captureV1(w http.ResponseWriter, r *http.Request) error {
	results := map[string]result{}
	counts, err := h.in.Capture(w, r, Source, intake.Call{
		Token: access.BearerToken(r), Scheme: "Bearer", SentAt: r.Header.Get("PostHog-Request-Timestamp"),
		Taken: func(m *intake.Meaning) { results[m.Key] = resultOf(m.Reason) },
	})
	if err != nil {
		return err
	}
	delete(results, "")
	httpx.WriteJSON(w, http.StatusOK, struct {
		sdkAnswer
		Results map[string]result `json:"results"`
	}{sdkAnswer{1, counts}, results})
	return nil
}
