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

// API calls a vendor's JSON API. Its fields must not change once it is in use, and it must
// not be copied; then it is safe for concurrent use. Desk and BaseURL are required.
//
// After an answer that asks for a pause of the whole account, such as a 429 with
// Retry-After, no request is made before that time: Do fails at once with the same error.
//
// A request calls Authorize first, Limits after every answer, and then Explain for one that is
// not a success. Calls of different requests overlap.
type API struct {
	Desk    string // names the desk in errors
	BaseURL string // without a slash at the end; see CheckBaseURL

	// HTTP makes the requests; a client of its own by default. Redirects are not
	// followed, as they would lose the body or leak credentials.
	HTTP *http.Client
	// Retries is how often a request is repeated at most that definitely had no
	// effect, or that may be repeated, with exponential back-off from 1 to 30
	// seconds and not before the time that the desk asked for. It is zero for
	// desks in the service, which retries by itself.
	Retries int

	// Authorize sets the credentials of a request. After its error no request is made, and the
	// error is Do's. Refused is called with its header after a 401; when it returns true the
	// request is made once more, with credentials that Authorize sets anew. Both may be nil.
	Authorize func(ctx context.Context, header http.Header) error
	Refused   func(ctx context.Context, header http.Header) bool
	// Limits is called with every answer and returns the account's rate limits, as far as the
	// answer states them. It may be nil.
	Limits func(r Request, header http.Header) []Limit
	// Explain completes the error of an answer that is not a success, from the
	// vendor's own body. It may be nil.
	Explain func(e *APIError, r Request, header http.Header, body []byte)

	mu     sync.Mutex // guards the fields below
	until  time.Time  // before it requests are refused
	answer APIError   // that named the time
	near   time.Time  // before it a request would come near a rate limit
	rate   int        // the lowest limit, in requests; zero while unknown
}

// Pause returns how long to make no request: the desk has asked for none, or no more than a
// twentieth is left of one of its Limits, which is for others. It is zero if the desk takes requests.
func (a *API) Pause() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return max(0, time.Until(a.until), time.Until(a.near))
}

// Rate returns the lowest of the Limits that the desk has last stated, in requests; zero while it
// has stated none.
func (a *API) Rate() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.rate
}

// Bounds of an [API].
const (
	requestTimeout = 10 * time.Second // with Authorize
	maxAnswer      = 8 << 20          // bytes
)

// pauses are those before a request is repeated.
var pauses = schedule.Backoff{Min: time.Second, Max: 30 * time.Second}

// Request is a request to an [API].
type Request struct {
	Op     string // in words, for errors: "write note"
	Method string
	Path   string // below the base URL, escaped, with its query
	Header http.Header
	Body   any // encoded as JSON; nil for none

	// ConversationID is the conversation that is written into, for limits of its own.
	// It may be empty.
	ConversationID string

	// Repeatable says that the request may be made again though it may have
	// had an effect. GET, PUT and DELETE need not be so: say it for each.
	Repeatable bool
}

// Do makes a request and decodes the answer's JSON into answer, unless that is
// nil: then the body of a success is not looked at. After an error answer may be filled in part.
//
// Its error is an [*APIError], which wraps ctx's if that has ended during the request; while Do
// waits to repeat it, it is the last request's. It is another error where no request could be
// made: a Body that cannot be encoded, an invalid URL, or an error of Authorize.
func (a *API) Do(ctx context.Context, r Request, answer any) error {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = jsontext.Marshal(r.Body); err != nil {
			return fmt.Errorf("%s: %s: encode: %w", a.Desk, r.Op, err)
		}
	}
	for tries := 0; ; tries++ {
		err := a.authorized(ctx, r, body, answer)
		var failed *APIError
		if err == nil || tries >= a.Retries || !errors.As(err, &failed) || !failed.mayRepeat(r) {
			return err
		}
		select {
		case <-time.After(max(failed.Wait, pauses.After(tries+1))):
		case <-ctx.Done():
			return err
		}
	}
}

// WriteOnce calls write, again up to Retries times while its error is ambiguous and find
// does not see the effect: find looks for a write since a time. Where find fails, too, the
// error is write's. The time is by this host's clock. Without Retries find is not called, and the
// caller has to look.
func (a *API) WriteOnce(write func() (id string, err error),
	find func(since time.Time) (id string, found bool, err error)) (id string, err error) {
	began := time.Now()
	for tries := 0; ; tries++ {
		id, err := write()
		if tries >= a.Retries || !IsAmbiguous(err) {
			return id, err
		}
		id, found, lookErr := find(began)
		if found {
			return id, nil
		}
		if lookErr != nil {
			return "", err
		}
	}
}

// authorized makes a request, and once more when its credentials were refused
// and there are others.
func (a *API) authorized(ctx context.Context, r Request, body []byte, answer any) error {
	sent := http.Header{}
	err := a.once(ctx, r, sent, body, answer)
	var failed *APIError
	if a.Refused == nil || !errors.As(err, &failed) || failed.Status != http.StatusUnauthorized ||
		!a.Refused(ctx, sent) {
		return err
	}
	return a.once(ctx, r, http.Header{}, body, answer)
}

// once makes one request, unless the desk has asked to wait. The header is filled with all that
// was sent, for Refused. A request that fails without an answer is ambiguous unless no
// connection was made.
func (a *API) once(ctx context.Context, r Request, header http.Header, body []byte, answer any) error {
	if err := a.refuse(r.Op); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, r.Method, a.BaseURL+r.Path, bytes.NewReader(body))
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
		return &APIError{Desk: a.Desk, Op: r.Op, Ambiguous: !isDial(err), Err: withoutURL(err)}
	}
	defer func() { _ = response.Body.Close() }()
	data, readErr := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if a.Limits != nil {
		a.limited(a.Limits(r, response.Header))
	}
	if response.StatusCode/100 != 2 {
		return a.failure(r, response, data)
	}
	return a.decode(r, response.StatusCode, data, readErr, answer)
}

// decode decodes a success. One that cannot be read may have had its effect. An
// answer that isn't JSON comes from something else, such as a proxy's login page.
func (a *API) decode(r Request, status int, data []byte, err error, answer any) error {
	if answer == nil {
		return nil
	}
	failed := &APIError{Desk: a.Desk, Op: r.Op, Ambiguous: true, Err: err}
	if err != nil { // it broke off
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

// failure returns the error of an answer that is not a success. No API of a desk redirects: a
// redirect is a mistake in the configuration. A 5xx may have had its effect, but a 503 counts as
// refused. Explain may correct all of that.
func (a *API) failure(r Request, response *http.Response, body []byte) error {
	e := &APIError{Desk: a.Desk, Op: r.Op, Status: response.StatusCode,
		Wait:          retryAfter(response.Header, time.Now()),
		Ambiguous:     response.StatusCode >= 500 && response.StatusCode != http.StatusServiceUnavailable,
		Misconfigured: response.StatusCode < http.StatusBadRequest}
	if a.Explain != nil {
		a.Explain(e, r, response.Header, body)
	}
	a.observe(e)
	return e
}

// ownClient makes the requests of an API without a client.
var ownClient = &http.Client{Transport: newTransport()}

// newTransport returns a transport that keeps more idle connections to one host than the default
// of two: a desk is one host, and up to some dozens of requests go there side by side.
func newTransport() http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 16
	return t
}

// client returns a copy of the client that follows no redirects. The given one is not changed.
func (a *API) client() *http.Client {
	client := *cmp.Or(a.HTTP, ownClient)
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client
}

// withoutURL drops the URL from a client's error: it is in the operation's name,
// and a URL can hold private data.
func withoutURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// CheckBaseURL returns a vendor's base URL without a slash at its end, or the problem with
// it, which completes a sentence that begins with the field's name. Plain HTTP is
// for loopback hosts only: requests carry credentials.
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
