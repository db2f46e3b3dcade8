package oauth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/internal/musttest"
)

// answeredBy returns a fetcher whose requests a handler answers, without a network.
func answeredBy(serve func(w http.ResponseWriter, r *http.Request)) *fetcher {
	f := newFetcher()
	f.http.Transport = roundTripper(serve)
	return f
}

type roundTripper http.HandlerFunc

func (serve roundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	serve(w, r)
	return w.Result(), r.Context().Err()
}

func described(id string) []byte {
	body, err := json.Marshal(map[string]any{"client_id": id, "client_name": "Claude",
		"redirect_uris": []string{"https://claude.ai/cb"}, "token_endpoint_auth_method": "none"})
	if err != nil {
		panic(err)
	}
	return body
}

func detailOf(err error) string {
	var e *clientError
	if errors.As(err, &e) {
		return e.detail
	}
	return fmt.Sprint(err)
}

func TestFetcher_takesADocument(t *testing.T) {
	f := answeredBy(func(w http.ResponseWriter, r *http.Request) {
		body := described(r.URL.String())
		switch r.URL.Path {
		case "/large":
			body = append(body, strings.Repeat(" ", maxDocument)...)
		case "/other":
			body = described("https://claude.ai/client")
		case "/none":
			w.WriteHeader(http.StatusNotFound)
		case "/text":
			body = []byte("<html>")
		case "/evil":
			body = bytes.Replace(body, []byte("https://claude.ai/cb"), []byte("javascript://claude.ai/cb"), 1)
		}
		_, _ = w.Write(body)
	})
	const says = "The client's metadata document "
	for path, want := range map[string]string{
		"/client": "<nil>", "/none": says + "cannot be fetched from its public https address",
		"/large": says + "is larger than 5 KB",
		"/other": says + "names another client_id",
		"/text":  says + "is not a JSON object of client metadata",
		"/evil": says + "is not valid: redirect_uris[0] must be https, http on a loopback " +
			"address, or the own scheme of an app",
	} {
		c, err := f.client(t.Context(), "https://claude.ai"+path)
		assert.Equal(t, want, detailOf(err), path)
		if err == nil {
			assert.Equal(t, client{"Claude", []string{"https://claude.ai/cb"}}, c)
		}
	}
}

func TestFetcher_followsRedirectsOnOneHostOnly(t *testing.T) {
	asked := 0
	const id = "https://claude.ai/client"
	target := ""
	f := answeredBy(func(w http.ResponseWriter, r *http.Request) {
		if asked++; asked < 20 && (r.URL.String() == id || r.URL.Path == "/client" && target == id) {
			w.Header().Set("Location", target)
			w.WriteHeader(http.StatusFound)
		} else {
			_, _ = w.Write(described(id))
		}
	})
	for to, want := range map[string]int{"https://claude.ai/other": 2, "https://evil.example/other": 1,
		"https://claude.ai:444/other": 1, "http://claude.ai/other": 1, id: maxRedirects + 1} {
		asked, target = 0, to
		_, err := f.fetch(t.Context(), id)
		assert.Equal(t, want == 2, err == nil, to)
		assert.Equal(t, want, asked, to)
	}
}

// A document is fetched once, however often it is asked for. So is a failure.
func TestFetcher_cachesDocuments(t *testing.T) {
	release, requests := make(chan struct{}), atomic.Int64{}
	f := answeredBy(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		<-release
		if r.URL.Path == "/client" {
			_, _ = w.Write(described(r.URL.String()))
		}
	})
	var asking sync.WaitGroup
	for range 20 {
		asking.Go(func() {
			_, err := f.client(context.Background(), "https://claude.ai/client")
			assert.NoError(t, err)
			_, err = f.client(context.Background(), "https://claude.ai/empty")
			assert.Error(t, err)
		})
	}
	close(release)
	asking.Wait()
	assert.LessOrEqual(t, requests.Load(), int64(2))
}

func TestFetcher_forgetsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		f := answeredBy(func(w http.ResponseWriter, r *http.Request) {
			asked++
			switch r.URL.Path {
			case "/good":
				_, _ = w.Write(described(r.URL.String()))
			case "/slow":
				<-r.Context().Done()
			}
		})
		ask := func(path string, want int) {
			_, _ = f.client(t.Context(), "https://claude.ai"+path)
			assert.Equal(t, want, asked, path)
		}
		ask("/good", 1)
		ask("/bad", 2)
		time.Sleep(failureTTL)
		ask("/good", 2)
		ask("/bad", 3)
		time.Sleep(documentTTL)
		ask("/good", 4)
		began := time.Now()
		ask("/slow", 5)
		assert.Equal(t, 5*time.Second, time.Since(began))
	})
}

// A refusal because of other running fetches is no verdict on a client. The client's document is fetched again at once.
func TestFetcher_remembersNoBusyMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := answeredBy(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write(described(r.URL.String())) })
		require.True(t, f.running.TryAcquire(maxFetches))
		_, err := f.client(t.Context(), "https://claude.ai/client")
		require.ErrorIs(t, err, errBusy)
		f.running.Release(maxFetches)
		_, err = f.client(t.Context(), "https://claude.ai/client")
		require.NoError(t, err)
	})
}

// A stranger cannot make the server ask its own network, neither by address nor by name.
func TestFetcher_asksPublicAddressesOnly(t *testing.T) {
	var asked atomic.Bool
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Store(true)
		_, _ = w.Write(described("https://" + r.Host + r.URL.Path))
	}))
	defer s.Close()
	f, anywhere := newFetcher(), fetcherBy(func(string, string, syscall.RawConn) error { return nil })
	for _, f := range []*fetcher{f, anywhere} {
		f.http.Transport.(*http.Transport).TLSClientConfig = s.Client().Transport.(*http.Transport).TLSClientConfig
	}
	_, port, _ := strings.Cut(s.URL, "127.0.0.1")
	for _, host := range []string{"127.0.0.1", "localhost", "127.1", "2130706433", "0.0.0.0", "[::1]",
		"[::ffff:127.0.0.1]", "10.0.0.1", "172.16.0.1", "192.168.1.1",
		"169.254.169.254", "100.64.0.1", "[fe80::1]", "[fd00::1]", "[::]", "[64:ff9b::7f00:1]", "224.0.0.1",
		"255.255.255.255"} {
		_, err := f.fetch(t.Context(), "https://"+host+port+"/client")
		assert.Contains(t, detailOf(err), "cannot be fetched", host)
		if strings.Contains(host, ":") || strings.Count(host, ".") == 3 {
			assert.Contains(t, err.Error(), "prohibited", host)
		}
	}
	assert.False(t, asked.Load())
	_, err := anywhere.fetch(t.Context(), s.URL+"/client")
	assert.NoError(t, err, "nothing else keeps it away")
}

func TestIsDocumentURL(t *testing.T) {
	for id, want := range map[string]bool{
		"https://claude.ai/oauth/mcp": true, "https://claude.ai/a?b=c": true, "https://claude.ai:8443/a": true,
		"https://claude.ai": false, "https://claude.ai/": false,
		"http://claude.ai/a": false, "https://claude.ai/a#b": false, "https://u:p@claude.ai/a": false,
		"https://claude.ai/a/../b": false, "https://claude.ai/./b": false,
		"https://claude.ai/%2e%2e/b": false, "https:///a": false, "client_00": false, "": false,
		"https://claude.ai/" + strings.Repeat("a", maxURL): false,
	} {
		assert.Equal(t, want, isDocumentURL(id), id)
	}
}

// A client with a metadata document signs in without a registration.
func TestServer_knowsAClientByItsDocument(t *testing.T) {
	docs := musttest.New(document.NewMemory(nil))
	server := musttest.New(New("https://live.example.com", access.NewKeyring(), docs, nil))
	server.documents = answeredBy(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/client" {
			_, _ = w.Write(described(r.URL.String()))
		}
	})
	mux := http.NewServeMux()
	server.Mount(mux.Handle)
	for i, asked := range [][2]string{{"/client", "https://claude.ai/cb"}, {"/client", "https://evil.example/"},
		{"/none", "https://claude.ai/cb"}} {
		q := url.Values{"client_id": {"https://app.example" + asked[0]}, "redirect_uri": {asked[1]},
			"response_type": {"code"}, "code_challenge_method": {"S256"}, "code_challenge": {strings.Repeat("a", 43)}}
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/oauth/authorize?"+q.Encode(), nil))
		if i > 0 {
			assert.Equal(t, http.StatusBadRequest, w.Code)
			assert.Empty(t, w.Header().Get("Location"))
			continue
		}
		assert.Equal(t, http.StatusOK, w.Code)
		assert.Contains(t, w.Body.String(), "<h1>Connect Claude</h1>")
		assert.Contains(t, w.Body.String(), "<b>app.example</b> vouches for the name.")
	}
	left, err := docs.List(t.Context(), "", "", "", 10)
	require.NoError(t, err)
	assert.Empty(t, left)
}
