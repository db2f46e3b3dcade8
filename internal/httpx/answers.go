package httpx

import (
	"encoding/json"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/liveactivity/liveactivity/internal/jsontext"
)

// Preflight answers a browser's preflight request: the page may use these methods, and send
// these headers. The answer is valid for a day, which browsers shorten to their own limit.
func Preflight(w http.ResponseWriter, methods, headers string) {
	h := w.Header()
	h.Set("Access-Control-Allow-Methods", methods)
	if headers != "" {
		h.Set("Access-Control-Allow-Headers", headers)
	}
	h.Set("Access-Control-Max-Age", "86400")
	w.WriteHeader(http.StatusNoContent)
}

// WriteJSON writes v with the status. It ignores a failed write, since the client is
// gone.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil { // a bug: every v is one of our types
		status, body = http.StatusInternalServerError, []byte(`{"detail":"The server could not encode its answer."}`)
	}
	write(w, status, jsonType, body)
}

// WriteEncoded writes a body that is already JSON, and forbids caching it.
func WriteEncoded(w http.ResponseWriter, body []byte) {
	w.Header().Set("Cache-Control", "no-store")
	write(w, http.StatusOK, jsonType, body)
}

// WriteLive writes v as JSON in the form of [jsontext.Marshal], and forbids caching it.
func WriteLive(w http.ResponseWriter, v any) error {
	body, err := jsontext.Marshal(v)
	if err == nil {
		WriteEncoded(w, body)
	}
	return err
}

// WriteText writes plain text, and forbids caching it.
func WriteText(w http.ResponseWriter, text string) {
	w.Header().Set("Cache-Control", "no-store")
	write(w, http.StatusOK, textType, []byte(text))
}

// Header values shared by all answers; never modified.
var (
	jsonType       = []string{"application/json"}
	textType       = []string{"text/plain; charset=utf-8"}
	contentOptions = []string{"nosniff"}
)

func write(w http.ResponseWriter, status int, contentType []string, body []byte) {
	h := w.Header()
	h["Content-Type"], h["X-Content-Type-Options"] = contentType, contentOptions
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	_, _ = w.Write(body) // an error means that the client is gone
}

// PrefersText reports whether a client with these Accept headers prefers text/plain to JSON.
// JSON is the default without a preference or a header. Malformed media ranges are ignored.
func PrefersText(accept []string) bool {
	var text, json preference
	for value := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		mediaRange, params, err := mime.ParseMediaType(value)
		if err != nil {
			continue
		}
		q := 1.0
		if s, ok := params["q"]; ok {
			if q, err = strconv.ParseFloat(s, 64); err != nil || !(0 <= q && q <= 1) {
				continue
			}
		}
		text.weigh("text/plain", mediaRange, q)
		json.weigh("application/json", mediaRange, q)
	}
	return text.q > json.q
}

// preference is a media type's quality according to the most specific range so far (RFC
// 9110, section 12.5.1). The zero value means not acceptable.
type preference struct {
	q           float64
	specificity int
}

// weigh adopts the quality of a range that covers the media type and is more specific than the
// previous one.
func (p *preference) weigh(mediaType, mediaRange string, q float64) {
	specificity := 0
	family, _, _ := strings.Cut(mediaType, "/")
	switch mediaRange {
	case mediaType:
		specificity = 3
	case family + "/*":
		specificity = 2
	case "*/*":
		specificity = 1
	}
	if specificity > p.specificity {
		*p = preference{q, specificity}
	}
}
