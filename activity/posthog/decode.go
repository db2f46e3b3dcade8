package posthog

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/liveactivity/liveactivity/internal/httpx"
)

var utf8BOM = []byte("\xef\xbb\xbf")

// plain returns the JSON inside a body: gunzipped, and taken out of a base64
// form field. What it is is told by its content; only a Content-Encoding that
// cannot be undone is taken from the header. At most limit bytes come out.
func plain(body []byte, contentEncoding string, limit int64) ([]byte, error) {
	switch strings.ToLower(strings.TrimSpace(contentEncoding)) {
	case "", "identity":
	case "gzip", "x-gzip":
		if !isGzip(body) && !isJSON(trim(body)) { // a proxy may have unpacked it
			return nil, httpx.BadRequest("The Content-Encoding header says gzip, but the body is not gzip.")
		}
	default:
		return nil, httpx.Errorf(http.StatusUnsupportedMediaType, "The body may be plain or gzip, no other Content-Encoding.")
	}
	body, err := gunzip(body, limit)
	if err != nil {
		return nil, err
	}
	body = trim(body)
	if len(body) == 0 {
		return nil, httpx.BadRequest("The request body is empty.")
	}
	if isJSON(body) {
		return body, nil
	}
	inner, ok := unbase64(body)
	if !ok {
		return nil, httpx.BadRequest("The request body is neither a JSON object or array, nor gzip, nor a form with base64 data.")
	}
	inner, err = gunzip(inner, limit)
	return trim(inner), err
}

// trim removes a byte order mark, and the white space around the rest.
func trim(body []byte) []byte { return bytes.TrimSpace(bytes.TrimPrefix(body, utf8BOM)) }

func isGzip(b []byte) bool { return len(b) >= 2 && b[0] == 0x1f && b[1] == 0x8b }

// isJSON reports whether b starts as a JSON object or array does.
func isJSON(b []byte) bool { return len(b) > 0 && (b[0] == '{' || b[0] == '[') }

var gzipReaders = sync.Pool{New: func() any { return new(gzip.Reader) }}

// gunzip returns body unpacked if it is gzip, else as it is.
func gunzip(body []byte, limit int64) ([]byte, error) {
	if !isGzip(body) {
		return body, nil
	}
	zr := gzipReaders.Get().(*gzip.Reader)
	defer gzipReaders.Put(zr)
	if err := zr.Reset(bytes.NewReader(body)); err != nil {
		return nil, httpx.BadRequest("The gzip header of the request body is damaged.")
	}
	var out bytes.Buffer
	out.Grow(min(4*len(body), int(limit)) + bytes.MinRead)
	_, err := out.ReadFrom(io.LimitReader(zr, limit+1))
	switch {
	case int64(out.Len()) > limit:
		return nil, httpx.Errorf(http.StatusRequestEntityTooLarge, "The request body unpacks to more than the limit of %d bytes.", limit)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, httpx.BadRequest("The gzip data of the request body breaks off before its end.")
	case err != nil:
		return nil, httpx.BadRequest("The gzip data of the request body is damaged.")
	}
	return out.Bytes(), nil
}

// unbase64 decodes the data field of a form, or a body that is base64 as a whole.
func unbase64(body []byte) ([]byte, bool) {
	text := string(body)
	if strings.HasPrefix(text, "data=") || strings.Contains(text, "&data=") {
		form, err := url.ParseQuery(text)
		if err != nil {
			return nil, false
		}
		text = string(trim([]byte(form.Get("data"))))
		if isJSON([]byte(text)) {
			return []byte(text), true
		}
	}
	// Some senders forget to escape the plus sign, and some drop the padding.
	text = strings.TrimRight(strings.ReplaceAll(text, " ", "+"), "=")
	encoding := base64.RawStdEncoding
	if strings.ContainsAny(text, "-_") {
		encoding = base64.RawURLEncoding
	}
	inner, err := encoding.DecodeString(text)
	return inner, err == nil && len(inner) > 0
}
