package helpdesk

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/liveactivity/liveactivity/internal/jsontext"
	"github.com/liveactivity/liveactivity/internal/origin"
	"github.com/liveactivity/liveactivity/internal/schedule"
)

// API calls a vendor's JSON API. It must not be copied, and its fields must not change
// once it is in use; it is then safe for concurrent use. Desk and BaseURL are required.
//
// A request calls Authorize first, Limits after every answer, and Explain after every answer
// that is not a success. The calls of different requests may overlap.
type API struct {
	Desk    string // names the desk in errors
	BaseURL string // without a slash at the end; see CheckBaseURL

	// HTTP makes the requests; nil means a shared default client. Redirects are
	// not followed, because they would lose the body or leak credentials.
	HTTP *http.Client

	// Authorize sets the credentials of a request. If it fails, no request is made and Do
	// returns its error. Refused is called with the request's header after a 401; if it
	// returns true, the request is repeated once with new credentials from Authorize. Both may
	// be nil.
	Authorize func(ctx context.Context, header http.Header) error
	Refused   func(ctx context.Context, header http.Header) bool
	// Limits is called with every answer and returns the account's rate limits that the
	// answer states. It may be nil.
	Limits func(r Request, header http.Header) []Limit
	// Explain completes an error from the vendor's answer. It is called unless
	// the answer is a success. It may be nil.
	Explain func(e *APIError, r Request, header http.Header, body []byte)

	mu    sync.Mutex // guards the fields below
	until time.Time  // the end of the longest pause
	rate  int        // the lowest limit, in requests; zero while unknown
}

// Pause returns how long to make no request: until the pause that the desk asked for is over, or
// until a limit with no more than a twentieth left resets. That reserve is for others. It is zero
// if the desk takes requests. Do does not check it.
func (a *API) Pause() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return max(0, time.Until(a.until))
}

// Rate returns the lowest of the limits that the desk last stated, in requests. It is zero until
// the desk has stated one.
func (a *API) Rate() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.rate
}

// Bounds of an [API].
const (
	requestTimeout = 10 * time.Second // including Authorize
	maxAnswer      = 8 << 20          // bytes
)

// Request is a request to an [API].
type Request struct {
	Op     string // a phrase for errors: "write note"
	Method string
	Path   string // relative to the base URL, escaped, with the query
	Header http.Header
	Body   any // encoded as JSON; nil for none

	// ConversationID is the conversation that the request writes to, for limits per
	// conversation. It may be empty.
	ConversationID string
}

// Do makes a request and decodes the answer's JSON into answer. If answer is nil, the body of a
// success is ignored. After an error answer may be partly filled. A request whose credentials
// were refused is repeated once if there are others; no other request is repeated.
//
// Its error is an [*APIError], which wraps ctx's error if that ended during the request. Any other
// error means that no request could be made: the Body cannot be encoded, the URL is invalid, or
// Authorize failed.
func (a *API) Do(ctx context.Context, r Request, answer any) error {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = jsontext.Marshal(r.Body); err != nil {
			return fmt.Errorf("%s: %s: encode: %w", a.Desk, r.Op, err)
		}
	}
	sent := http.Header{}
	err := a.once(ctx, r, sent, body, answer)
	var failed *APIError
	if a.Refused == nil || !errors.As(err, &failed) || failed.Status != http.StatusUnauthorized ||
		!a.Refused(ctx, sent) {
		return err
	}
	return a.once(ctx, r, http.Header{}, body, answer)
}

// once makes one request. It fills header with everything it sends, for Refused. A request that
// fails without an answer is ambiguous unless no connection was made.
func (a *API) once(ctx context.Context, r Request, header http.Header, body []byte, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	address := a.BaseURL + "/" + strings.TrimPrefix(r.Path, "/")
	request, err := http.NewRequestWithContext(ctx, r.Method, address, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%s: %s: %w", a.Desk, r.Op, err)
	}
	request.Header = header
	header.Set("Accept", "application/json")
	header.Set("User-Agent", "liveactivity")
	if body != nil {
		header.Set("Content-Type", "application/json")
	}
	maps.Copy(header, r.Header)
	if a.Authorize != nil {
		if err := a.Authorize(ctx, header); err != nil {
			return err
		}
	}
	response, err := a.client().Do(request)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err // the URL can hold private data
		}
		return &APIError{Desk: a.Desk, Op: r.Op, Ambiguous: !isDial(err), Err: err}
	}
	defer func() { _ = response.Body.Close() }()
	data, readErr := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if a.Limits != nil {
		a.noteLimits(a.Limits(r, response.Header))
	}
	if response.StatusCode/100 != 2 {
		return a.failure(r, response, data)
	}
	return a.decode(r, response.StatusCode, data, readErr, answer)
}

// decode decodes a success. If the body cannot be read, the request may still
// have had its effect. A body that isn't JSON comes from something else, such as
// a proxy's login page.
func (a *API) decode(r Request, status int, data []byte, err error, answer any) error {
	if answer == nil {
		return nil
	}
	failed := &APIError{Desk: a.Desk, Op: r.Op, Ambiguous: true, Err: err}
	if err != nil { // the connection broke
		return failed
	}
	failed.Status = status
	if len(data) > maxAnswer {
		failed.Err = fmt.Errorf("the answer has more than %d bytes", maxAnswer)
		return failed
	}
	if failed.Err = json.Unmarshal(data, answer); failed.Err == nil {
		return nil
	}
	var syntax *json.SyntaxError
	failed.Misconfigured = errors.As(failed.Err, &syntax)
	return failed
}

// failure returns the error for an answer that is not a success. No desk's API redirects, so a
// redirect is a mistake in the configuration. A 5xx may have had its effect, except a 503, which
// counts as refused. Explain may correct any of this.
func (a *API) failure(r Request, response *http.Response, body []byte) error {
	e := &APIError{Desk: a.Desk, Op: r.Op, Status: response.StatusCode,
		Wait:          schedule.AskedWait(response.Header, time.Now(), maxWait),
		Ambiguous:     response.StatusCode >= 500 && response.StatusCode != http.StatusServiceUnavailable,
		Misconfigured: response.StatusCode < http.StatusBadRequest}
	if a.Explain != nil {
		a.Explain(e, r, response.Header, body)
	}
	if e.AccountWide() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.pause(e.Wait)
	}
	return e
}

// ownClient makes the requests of an API whose HTTP is nil.
var ownClient = &http.Client{Transport: newTransport()}

// newTransport returns a transport that keeps more idle connections to one host than the default
// of two: a desk is one host, and several dozen requests may be in flight to it.
func newTransport() http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 16
	return t
}

// client returns a copy of the API's client that follows no redirects. The original is not
// changed.
func (a *API) client() *http.Client {
	client := *cmp.Or(a.HTTP, ownClient)
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client
}

// CheckBaseURL returns a vendor's base URL without a trailing slash, or its problem, as
// the end of a sentence that begins with the field's name. Plain HTTP is for loopback
// hosts only, because requests carry credentials.
func CheckBaseURL(s string) (baseURL, problem string) {
	u, ok := origin.Base(s)
	switch {
	case !ok:
		return "", "must be a URL such as https://api.example.com, without user, query and fragment"
	case u.Scheme == "http" && !origin.IsLoopback(u.Host):
		return "", "must be https, for it carries credentials"
	}
	return strings.TrimRight(s, "/"), ""
}
