package intake

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/liveactivity/liveactivity/internal/httpx"
)

// unpacker extracts the JSON from a body. Its output is a part of the input or new memory.
type unpacker struct {
	limit int64
	room  func() error // called, perhaps repeatedly, before output beyond smallBody bytes
}

var gzipReaders = sync.Pool{New: func() any { return new(gzip.Reader) }}

var (
	errEmpty   = httpx.BadRequest("The request body is empty.")
	errNeither = httpx.BadRequest("The request body is neither a JSON object or array, " +
		"nor gzip, nor a form with base64 data.")
	errBase64   = httpx.BadRequest("The base64 data of the request body is damaged.")
	errEscape   = httpx.BadRequest("The form in the request body, which should hold base64 data, has a damaged escape.")
	errEncoding = httpx.Errorf(http.StatusUnsupportedMediaType,
		"The body may be plain or gzip, no other Content-Encoding.")
)

// unpack returns the JSON inside a body, without a leading byte order mark and white space. It
// detects the format by content, because senders state wrong content types and encodings:
//
//	it begins with   and is     and contains
//	{ or [           JSON
//	1f 8b            gzip       any of the other forms
//	data= or &data=  a form     JSON, lz-string or base64
//	anything else    base64     JSON, plain or gzip
//
// Errors are responses.
func (u *unpacker) unpack(body []byte, contentEncoding string) ([]byte, error) {
	switch strings.ToLower(strings.TrimSpace(contentEncoding)) {
	case "", "identity", "gzip", "x-gzip": // senders err about gzip
	default:
		return nil, errEncoding
	}
	outer, err := u.gunzip(body)
	if err != nil {
		return nil, err
	}
	text := trimBlank(outer)
	switch {
	case isJSON(text):
		return text, nil
	case len(text) == 0:
		return nil, errEmpty
	}
	value, isForm, err := dataField(text)
	if err != nil {
		return nil, err
	}
	if isForm {
		switch text = trimBlank(value); {
		case isJSON(text):
			return text, nil
		case isLZ64(text):
			return u.unpackLZ64(text)
		}
	}
	return u.base64(text, isForm)
}

// base64 returns the JSON inside base64, which may be part of a form and contain gzip. Malformed
// base64 is an error of its own only if the bytes before the mistake show that base64 was meant.
func (u *unpacker) base64(text []byte, isForm bool) ([]byte, error) {
	packed, damaged := decodeBase64(text)
	if damaged != nil && (len(packed) == 0 || !isForm && !isJSON(packed) && !isGzip(packed)) {
		return nil, errNeither // not base64 at all
	}
	inner, err := u.gunzip(packed)
	json := trimBlank(inner)
	switch {
	case damaged != nil:
		return nil, errBase64
	case err != nil:
		return nil, err
	case isJSON(json), isForm && len(json) > 0: // a plain word may be base64
		return json, nil
	case len(inner) > 0 && len(json) == 0:
		return nil, errEmpty
	}
	return nil, errNeither
}

// gunzip returns b, unpacked if it is gzip, including several members. It uses the size in the last
// four bytes of gzip to save copies, but allocates at most smallBody bytes at first: the sender may
// lie, and the size is only of the last member, modulo 4 GiB.
func (u *unpacker) gunzip(b []byte) ([]byte, error) {
	if !isGzip(b) {
		return b, nil
	}
	zr := gzipReaders.Get().(*gzip.Reader)
	defer gzipReaders.Put(zr)
	if err := zr.Reset(bytes.NewReader(b)); err != nil {
		return nil, httpx.BadRequest("The gzip header of the request body is damaged.")
	}
	announced := int64(binary.LittleEndian.Uint32(b[len(b)-4:]))
	out := bytes.NewBuffer(make([]byte, 0, min(announced, smallBody)+bytes.MinRead))
	_, err := io.CopyN(out, zr, smallBody)
	if err == nil && u.limit >= smallBody {
		if err = u.room(); err != nil {
			return nil, err
		}
		out.Grow(int(min(announced, u.limit)) + bytes.MinRead)
		_, err = io.CopyN(out, zr, u.limit-smallBody+1)
	}
	switch {
	case int64(out.Len()) > u.limit:
		return nil, unpackedTooLarge(u.limit)
	case err == io.EOF:
		return out.Bytes(), nil
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, httpx.BadRequest("The gzip data of the request body breaks off before its end.")
	}
	return nil, httpx.BadRequest("The gzip data of the request body is damaged.")
}

func unpackedTooLarge(limit int64) error {
	return httpx.Errorf(http.StatusRequestEntityTooLarge,
		"The request body unpacks to more than the limit of %d bytes.", limit)
}

// trimBlank returns b without a leading byte order mark and white space.
func trimBlank(b []byte) []byte {
	return bytes.TrimLeft(bytes.TrimPrefix(b, []byte("\xef\xbb\xbf")), " \t\r\n")
}

func isGzip(b []byte) bool { return len(b) >= 2 && b[0] == 0x1f && b[1] == 0x8b }

// isJSON reports whether b begins like a JSON object or array.
func isJSON(b []byte) bool { return len(b) > 0 && (b[0] == '{' || b[0] == '[') }

// dataField returns the unescaped value of the field data of a form, as a copy. It reports false for
// a body without that field. The error is a response.
func dataField(form []byte) (value []byte, ok bool, err error) {
	value, ok = bytes.CutPrefix(form, []byte("data="))
	if !ok {
		if _, value, ok = bytes.Cut(form, []byte("&data=")); !ok {
			return nil, false, nil
		}
	}
	value, _, _ = bytes.Cut(value, []byte("&"))
	unescaped, err := url.QueryUnescape(string(value))
	if err != nil {
		return nil, false, errEscape
	}
	return []byte(unescaped), true, nil
}

// decodeBase64 decodes base64 in either alphabet, with or without padding. It returns the bytes
// before the first mistake, and the error. A space counts as a plus sign, which some senders do not
// escape.
func decodeBase64(text []byte) ([]byte, error) {
	plain := make([]byte, 0, len(text))
	for _, c := range text {
		switch c {
		case ' ', '-':
			c = '+'
		case '_':
			c = '/'
		case '=', '\t', '\r', '\n':
			continue
		}
		plain = append(plain, c)
	}
	out := make([]byte, base64.RawStdEncoding.DecodedLen(len(plain)))
	n, err := base64.RawStdEncoding.Decode(out, plain)
	return out[:n], err
}
