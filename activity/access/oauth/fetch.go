package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"
)

// Client ID metadata documents: a client ID that is an https URL names the document in which
// the client describes itself. Strangers choose the URL and this server goes there, so a fetch
// is bounded in time, size, redirects and number, and reaches public addresses only, tested
// after name resolution. Requests for one document share a fetch, and later ones its cached
// result, good or bad.

// Bounds of fetching metadata documents.
const (
	maxDocument  = 5 << 10 // bytes
	fetchTime    = 5 * time.Second
	maxRedirects = 3                // on the same host
	maxFetches   = 16               // at a time
	maxDocuments = 1000             // cached; the least recently used goes first
	documentTTL  = 10 * time.Minute // of a cached document, from the start of its fetch
	failureTTL   = 30 * time.Second // of a cached failure, from its end
)

// clientError is a mistake of a client that is shown to its user only. The client does not learn
// of it, because its address is not known.
type clientError struct {
	detail string // a sentence without its full stop
	cause  error
}

func (e *clientError) Error() string { return fmt.Sprintf("oauth: %s: %v", e.detail, e.cause) }
func (e *clientError) Unwrap() error { return e.cause }

// errBusy reports that all of maxFetches turns were taken.
var errBusy = errors.New("other fetches are running")

// fetcher fetches and caches metadata documents. It is safe for concurrent use.
type fetcher struct {
	http    *http.Client
	cache   *lru.Cache[string, fetched]
	one     singleflight.Group  // by URL
	running *semaphore.Weighted // maxFetches at a time
}

// fetched is the result of a fetch: a client, or else a *[clientError]. It is shared by the
// requests that get it from the cache, so it never changes.
type fetched struct {
	client client
	err    error
	until  time.Time // not used from then on
}

// newFetcher returns a fetcher of documents at public addresses.
func newFetcher() *fetcher { return fetcherBy(ssrf.New(ssrf.WithAnyPort()).Safe) }

// fetcherBy returns a fetcher that connects to the addresses that control allows. The dialer
// calls control after resolution, with each address it is about to use, so a name that resolves
// differently the next time leads nowhere else. The fetcher uses no proxy, which would resolve
// names by itself, and keeps no connections, which are of no use for one document of a host.
func fetcherBy(control func(network, address string, c syscall.RawConn) error) *fetcher {
	cache, _ := lru.New[string, fetched](maxDocuments) // fails for sizes below 1
	dialer := &net.Dialer{Timeout: fetchTime, Control: control}
	return &fetcher{cache: cache, running: semaphore.NewWeighted(maxFetches), http: &http.Client{
		Timeout: fetchTime,
		Transport: &http.Transport{DialContext: dialer.DialContext, ForceAttemptHTTP2: true, DisableKeepAlives: true,
			TLSHandshakeTimeout: fetchTime, MaxResponseHeaderBytes: 16 << 10},
		CheckRedirect: func(next *http.Request, via []*http.Request) error {
			if len(via) > maxRedirects || next.URL.Scheme != "https" || next.URL.Host != via[0].URL.Host {
				return errors.New("a redirect to another host, or one too many")
			}
			return nil
		},
	}}
}

// isDocumentURL reports whether a client ID is the URL of its metadata document: https,
// with a path, and without anything that could be read in two ways.
func isDocumentURL(id string) bool {
	u, err := url.Parse(id)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || len(id) > maxURL || u.User != nil ||
		strings.Contains(id, "#") {
		return false
	}
	segments := strings.Split(u.Path, "/")
	return len(u.Path) > 1 && !slices.Contains(segments, ".") && !slices.Contains(segments, "..")
}

// client returns the client of a metadata document, from the cache or from its address. The
// error is a *[clientError]. It may take fetchTime even if ctx ends earlier: ctx only carries
// values.
func (f *fetcher) client(ctx context.Context, id string) (client, error) {
	// A fetch serves several requests, so it ends by its own time only.
	result, _, _ := f.one.Do(id, func() (any, error) {
		if known, ok := f.cache.Get(id); ok && time.Now().Before(known.until) {
			return known, nil
		}
		known := fetched{until: time.Now().Add(documentTTL)}
		if known.client, known.err = f.fetch(context.WithoutCancel(ctx), id); known.err != nil {
			known.until = time.Now().Add(failureTTL)
		}
		if !errors.Is(known.err, errBusy) { // busy says nothing about this client
			f.cache.Add(id, known)
		}
		return known, nil
	})
	known := result.(fetched)
	return known.client, known.err
}

// fetch is client without the cache. Its five seconds include the wait for one of maxFetches
// turns.
func (f *fetcher) fetch(ctx context.Context, id string) (c client, err error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	if err := f.running.Acquire(ctx, 1); err != nil {
		return c, &clientError{"Too many metadata documents are being fetched; please try again", errBusy}
	}
	defer f.running.Release(1)
	body, err := f.get(ctx, id)
	switch {
	case err != nil:
		return c, &clientError{"The client's metadata document cannot be fetched from its public https address", err}
	case len(body) > maxDocument:
		return c, &clientError{"The client's metadata document is larger than 5 KB", nil}
	}
	return parseDocument(id, body)
}

// get returns the body at a URL, at most one byte more than a document may have, so that the
// caller can detect a body that is too large. Any status but 200 is an error.
func (f *fetcher) get(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	response, err := f.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, errors.New(response.Status)
	}
	return io.ReadAll(io.LimitReader(response.Body, maxDocument+1))
}

// parseDocument returns the client that a document at the URL id describes. The document must
// name that URL as its client_id, or anybody could serve a copy of another client's.
func parseDocument(id string, body []byte) (c client, err error) {
	var d struct {
		ClientID string `json:"client_id"`
		registration
	}
	if err := json.Unmarshal(body, &d); err != nil {
		return c, &clientError{"The client's metadata document is not a JSON object of client metadata", err}
	}
	if d.ClientID != id {
		return c, &clientError{"The client's metadata document names another client_id", nil}
	}
	c, problem := newClient(d.ClientName, d.RedirectURIs)
	if problem != "" {
		problem = strings.TrimSuffix(problem, ".")
		return c, &clientError{"The client's metadata document is not valid: " + problem, nil}
	}
	return c, nil
}
