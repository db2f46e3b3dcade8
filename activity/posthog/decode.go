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
// form field. What it is is told by its content, but a Content-Encoding that it
// does not have, or that cannot be undone, is an error. At most limit bytes
// come out.
func plain(body []byte, contentEncoding string, limit int64) ([]byte, error) {
	switch strings.ToLower(strings.TrimSpace(contentEncoding)) {
	case "", "identity":
	case "gzip", "x-gzip":
		if !isGzip(body) {
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
	inner, ok := formData(body)
	if !ok {
		inner, ok = unbase64(string(body))
		ok = ok && (isGzip(inner) || isJSON(trim(inner))) // a word, too, may be base64
	}
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

// formData returns what is in the data field of a form: base64, or JSON itself.
func formData(body []byte) ([]byte, bool) {
	if !bytes.HasPrefix(body, []byte("data=")) && !bytes.Contains(body, []byte("&data=")) {
		return nil, false
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, false
	}
	data := trim([]byte(form.Get("data")))
	if isJSON(data) {
		return data, true
	}
	return unbase64(string(data))
}

func unbase64(text string) ([]byte, bool) {
	// Some senders forget to escape the plus sign, and some drop the padding.
	text = strings.TrimRight(strings.ReplaceAll(text, " ", "+"), "=")
	encoding := base64.RawStdEncoding
	if strings.ContainsAny(text, "-_") {
		encoding = base64.RawURLEncoding
	}
	inner, err := encoding.DecodeString(text)
	return inner, err == nil && text != ""
}
