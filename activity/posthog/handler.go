package posthog

import (
	"github.com/liveactivity/liveactivity/activity/intake"
)

// Handler takes the calls of SDKs and hands their events to a sink. Its methods are
// safe for concurrent use. Every answer is JSON; 200 means that the sink has
// recorded the events.
type Handler struct{ in *intake.Intake }

// New returns a handler that shares the intake with other sources.
func New(in *intake.Intake) *Handler { return &Handler{in} }

// sdkAnswer is the body of a 200. posthog-js expects the status 1.
type sdkAnswer struct {
	Status int `json:"status"`
	intake.Counts
}
