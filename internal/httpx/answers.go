package httpx

import (
	"cmp"
	"encoding/json"
	"mime"
	"net/http"
	"slices"
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
// JSON is the default without a preference or a header.
func PrefersText(accept []string) bool {
	return quality(accept, "text/plain") > quality(accept, "application/json")
}

// quality returns the quality of a media type for a client with these Accept headers: the one of
// the most specific range that covers it (RFC 9110, section 12.5.1), and zero without one. It
// ignores malformed ranges.
func quality(accept []string, mediaType string) (q float64) {
	family, _, _ := strings.Cut(mediaType, "/")
	covering, best := []string{"*/*", family + "/*", mediaType}, -1
	for value := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		mediaRange, params, err := mime.ParseMediaType(value)
		given, errQ := strconv.ParseFloat(cmp.Or(params["q"], "1"), 64)
		if err != nil || errQ != nil || !(0 <= given && given <= 1) {
			continue
		}
		if specificity := slices.Index(covering, mediaRange); specificity > best {
			best, q = specificity, given
		}
	}
	return q
}
