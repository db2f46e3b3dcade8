package amplitude

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/liveactivity/liveactivity/activity/intake"
	"github.com/liveactivity/liveactivity/internal/httpx"
)

// Handler takes the calls of SDKs and hands their events to a sink. It is safe for
// concurrent use. Every answer is JSON; 200 means that the sink has recorded the events.
type Handler struct{ in *intake.Intake }

// New returns a handler that shares the intake with other sources.
func New(in *intake.Intake) *Handler { return &Handler{in} }

// Patterns returns the patterns, as [http.ServeMux] takes them, under which to mount the
// handler: everything below /amplitude.
func Patterns() []string { return []string{"/amplitude", "/amplitude/{call...}"} }

// calls are the last segments of the paths for events. An SDK's serverUrl may or may
// not include Amplitude's own path.
var calls = []string{"amplitude", "2", "httpapi", "batch"}

// ServeHTTP handles the calls of Amplitude's SDKs, from pages of any origin that the
// product named in the call does not exclude.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	to := intake.Route{}
	path := strings.TrimRight(r.URL.Path, "/")
	if slices.Contains(calls, path[strings.LastIndexByte(path, '/')+1:]) {
		to = intake.Route{Method: http.MethodPost, Serve: h.capture}
	}
	to.ServeHTTP(w, r)
}

// capture takes events.
func (h *Handler) capture(w http.ResponseWriter, r *http.Request) error {
	counts, err := h.in.Capture(w, r, Source, intake.Call{})
	if err == nil {
		httpx.WriteJSON(w, http.StatusOK, answer{http.StatusOK, counts.Accepted + counts.Ignored, max(0, r.ContentLength),
			time.Now().UnixMilli(), counts})
	}
	return refusal(err)
}

// answer is the body of a 200, as in Amplitude's HTTP V2 API, with the counts.
type answer struct {
	Code       int   `json:"code"`
	Ingested   int   `json:"events_ingested"`
	Size       int64 `json:"payload_size_bytes"`
	UploadTime int64 `json:"server_upload_time"` // in milliseconds
	intake.Counts
}

// refusal returns a copy of an error with the fields that SDKs look for first: otherwise they
// send the event again. It does not modify the error, which may be shared.
func refusal(err error) error {
	answer, ok := errors.AsType[*httpx.Error](err)
	if !ok {
		return err
	}
	told := *answer
	told.Fields = map[string]any{"code": told.Status, "error": told.Detail}
	if told.Status == http.StatusUnauthorized {
		told.Fields["error"] = "Invalid API key: it is not a capture token."
	}
	return &told
}
