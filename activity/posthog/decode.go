package posthog

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/liveactivity/liveactivity/internal/httpx"
)

var utf8BOM = []byte("\xef\xbb\xbf")

// peekSize is how far into a body is looked to find out what it is.
const peekSize = 4 << 10

// unpacked is the JSON inside a body, unpacked while it is read: memory does not
// grow with it. Its errors are answers. Close must be called in the end.
type unpacked struct {
	io.Reader
	limit   int64
	gzips   []*gzip.Reader
	buffers []*bufio.Reader
}

var (
	gzipReaders   = sync.Pool{New: func() any { return new(gzip.Reader) }}
	bufferReaders = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, peekSize) }}
)

// unpack returns the JSON inside a body: gunzipped, and taken out of a base64
// form field. What it is is decided by its content, but a Content-Encoding that it
// does not have, or that cannot be undone, is an error. At most limit bytes
// come out.
func unpack(body []byte, contentEncoding string, limit int64) (*unpacked, error) {
	if err := checkEncoding(contentEncoding); err != nil {
		return nil, err
	}
	u := &unpacked{limit: limit}
	inner, err := u.layers(body)
	if err != nil {
		u.Close()
		return nil, err
	}
	u.Reader = inner
	return u, nil
}

// checkEncoding refuses an encoding that is not known. Whether a body is gzip its
// content says.
func checkEncoding(contentEncoding string) error {
	switch strings.ToLower(strings.TrimSpace(contentEncoding)) {
	case "", "identity", "gzip", "x-gzip":
		return nil
	}
	return httpx.Errorf(http.StatusUnsupportedMediaType, "The body may be plain or gzip, no other Content-Encoding.")
}

// Close releases the buffers of the decoder.
func (u *unpacked) Close() {
	for _, zr := range u.gzips {
		gzipReaders.Put(zr)
	}
	for _, br := range u.buffers {
		br.Reset(nil)
		bufferReaders.Put(br)
	}
	u.gzips, u.buffers = nil, nil
}

// layers takes off what is around the JSON.
func (u *unpacked) layers(body []byte) (io.Reader, error) {
	outer, err := u.gunzip(bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	head, err := skipBlank(outer)
	switch {
	case isJSON(head):
		return outer, nil
	case len(head) == 0 && (err == nil || err == io.EOF):
		return nil, httpx.BadRequest("The request body is empty.")
	case len(head) == 0:
		return nil, err
	}
	text, isForm := io.Reader(outer), isForm(head)
	if isForm {
		text = &formValue{r: outer}
	}
	field := u.buffered(text)
	head, _ = skipBlank(field)
	switch {
	case isForm && isJSON(head):
		return field, nil
	case isForm && isLZ64(head):
		return u.buffered(&limitedReader{newLZReader(field), u.limit, u.limit}), nil
	}
	inner, err := u.gunzip(base64.NewDecoder(base64.RawStdEncoding, &base64Text{r: field}))
	if err != nil {
		return nil, err
	}
	something, _ := inner.Peek(1)
	head, err = skipBlank(inner)
	switch {
	case isJSON(head), isForm && len(head) > 0: // a word, too, may be base64
		return inner, nil
	case len(something) > 0 && len(head) == 0 && err == io.EOF:
		return nil, httpx.BadRequest("The request body is empty.")
	case len(something) > 0 && len(head) == 0 && errors.As(err, new(*httpx.Error)):
		return nil, err
	}
	return nil, httpx.BadRequest("The request body is neither a JSON object or array, nor gzip, nor a form with base64 data.")
}

func (u *unpacked) buffered(r io.Reader) *bufio.Reader {
	br := bufferReaders.Get().(*bufio.Reader)
	br.Reset(&stickyReader{r: r})
	u.buffers = append(u.buffers, br)
	return br
}

// gunzip returns what comes from r, unpacked if it is gzip.
func (u *unpacked) gunzip(r io.Reader) (*bufio.Reader, error) {
	br := u.buffered(r)
	if head, _ := br.Peek(2); !isGzip(head) {
		return br, nil
	}
	zr := gzipReaders.Get().(*gzip.Reader)
	u.gzips = append(u.gzips, zr)
	if err := zr.Reset(br); err != nil {
		return nil, httpx.BadRequest("The gzip header of the request body is damaged.")
	}
	return u.buffered(&limitedReader{gzipErrors{zr}, u.limit, u.limit}), nil
}

// skipBlank drops a byte order mark and white space, and returns what follows of
// the next peekSize bytes, with the error that ends them.
func skipBlank(br *bufio.Reader) ([]byte, error) {
	if head, _ := br.Peek(len(utf8BOM)); bytes.Equal(head, utf8BOM) {
		_, _ = br.Discard(len(utf8BOM))
	}
	for {
		head, err := br.Peek(max(1, br.Buffered()))
		if len(head) == 0 {
			return nil, err
		}
		rest := bytes.TrimLeft(head, " \t\r\n")
		_, _ = br.Discard(len(head) - len(rest))
		if len(rest) > 0 {
			return br.Peek(peekSize)
		}
	}
}

func isGzip(b []byte) bool { return len(b) >= 2 && b[0] == 0x1f && b[1] == 0x8b }

// isJSON reports whether b starts as a JSON object or array does.
func isJSON(b []byte) bool { return len(b) > 0 && (b[0] == '{' || b[0] == '[') }

// isForm reports whether b starts as a form with a data field does.
func isForm(b []byte) bool { return bytes.HasPrefix(b, dataField) || bytes.Contains(b, andDataField) }

var dataField, andDataField = []byte("data="), []byte("&data=")

// limitedReader ends with an answer where more than limit bytes come.
type limitedReader struct {
	r           io.Reader
	left, limit int64
}

func (l *limitedReader) Read(p []byte) (int, error) {
	n, err := l.r.Read(p[:min(int64(len(p)), l.left+1)])
	if l.left -= int64(n); l.left < 0 {
		return 0, httpx.Errorf(http.StatusRequestEntityTooLarge, "The request body unpacks to more than the limit of %d bytes.", l.limit)
	}
	return n, err
}

// stickyReader returns the error that ended it again and again; a bufio.Reader
// returns it once.
type stickyReader struct {
	r   io.Reader
	err error
}

func (s *stickyReader) Read(p []byte) (n int, err error) {
	if s.err == nil {
		n, s.err = s.r.Read(p)
	}
	return n, s.err
}

// gzipErrors makes answers of the errors of gzip.
type gzipErrors struct{ r *gzip.Reader }

func (g gzipErrors) Read(p []byte) (int, error) {
	n, err := g.r.Read(p)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = httpx.BadRequest("The gzip data of the request body breaks off before its end.")
	case err != nil && err != io.EOF:
		err = httpx.BadRequest("The gzip data of the request body is damaged.")
	}
	return n, err
}

// formValue reads the data field of a form, unescaped.
type formValue struct {
	r     *bufio.Reader
	found bool
}

func (f *formValue) Read(p []byte) (int, error) {
	if !f.found {
		if err := f.find(); err != nil {
			return 0, err
		}
	}
	for n := range p {
		c, err := f.next()
		if err != nil {
			return n, err
		}
		p[n] = c
	}
	return len(p), nil
}

// find reads up to the value of the field.
func (f *formValue) find() error {
	for {
		head, _ := f.r.Peek(len(dataField))
		if f.found = bytes.Equal(head, dataField); f.found {
			_, err := f.r.Discard(len(dataField))
			return err
		}
		for c := byte(0); c != '&'; {
			var err error
			if c, err = f.r.ReadByte(); err != nil {
				return err
			}
		}
	}
}

func (f *formValue) next() (byte, error) {
	c, err := f.r.ReadByte()
	switch {
	case err != nil:
		return 0, err
	case c == '&':
		_ = f.r.UnreadByte() // the value stays at its end
		return 0, io.EOF
	case c == '+':
		return ' ', nil
	case c != '%':
		return c, nil
	}
	digits, _ := f.r.Peek(2)
	if len(digits) < 2 || unhex[digits[0]] < 0 || unhex[digits[1]] < 0 {
		return 0, httpx.BadRequest("The form in the request body, which should hold base64 data, has a damaged escape.")
	}
	c = byte(unhex[digits[0]]<<4 | unhex[digits[1]])
	_, _ = f.r.Discard(2)
	return c, nil
}

// unhex are the values of hexadecimal digits, -1 for other bytes.
var unhex = func() (values [256]int) {
	for c := range values {
		values[c] = strings.IndexByte("0123456789abcdef", byte(c)|0x20)
		if c < '0' {
			values[c] = -1
		}
	}
	return values
}()

// base64Text gives base64 of any kind the form that one decoder takes: standard
// alphabet, no padding. Some senders forget to escape the plus sign.
type base64Text struct{ r io.Reader }

func (t *base64Text) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	out := p[:0]
	for _, c := range p[:n] {
		switch c {
		case ' ':
			c = '+'
		case '-':
			c = '+'
		case '_':
			c = '/'
		case '=', '\t':
			continue
		}
		out = append(out, c)
	}
	return len(out), err
}
