package helpdesk_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/helpdesk"
)

// scripted answers requests in order, and repeats the last answer.
type scripted struct {
	answers  []func(r *http.Request) (*http.Response, error)
	requests []*http.Request
	bodies   []string
}

func (s *scripted) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	s.requests, s.bodies = append(s.requests, r), append(s.bodies, string(body))
	answer := s.answers[min(len(s.requests), len(s.answers))-1]
	return answer(r)
}

func answer(status int, body string, header ...string) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) {
		w := httptest.NewRecorder()
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
		return w.Result(), nil
	}
}

func failure(err error) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

func silence(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func newAPI(answers ...func(*http.Request) (*http.Response, error)) (*helpdesk.API, *scripted) {
	s := &scripted{answers: answers}
	return &helpdesk.API{Desk: "desk", BaseURL: "https://desk.test/api", HTTP: &http.Client{Transport: s}}, s
}

var write = helpdesk.Request{Op: "write note", Method: http.MethodPost, Path: "/notes?x=1",
	Body: map[string]string{"text": "<b>"}}

// fails makes a request, which must fail, and returns the error.
func fails(t *testing.T, api *helpdesk.API) (failed *helpdesk.APIError) {
	t.Helper()
	require.ErrorAs(t, api.Do(t.Context(), write, nil), &failed)
	return failed
}

func TestAPI_sendsJSONAndDecodesTheAnswer(t *testing.T) {
	api, desk := newAPI(answer(201, `{"id": 7}`))
	api.Authorize = func(_ context.Context, header http.Header) error {
		header.Set("Authorization", "Bearer t")
		return nil
	}
	withHeader := write
	withHeader.Header = http.Header{"Desk-Version": {"2"}}
	var got struct{ ID int }
	require.NoError(t, api.Do(t.Context(), withHeader, &got))
	assert.Equal(t, 7, got.ID)
	r := desk.requests[0]
	assert.Equal(t, "POST https://desk.test/api/notes?x=1", r.Method+" "+r.URL.String())
	assert.Equal(t, `{"text":"<b>"}`, desk.bodies[0])
	for name, want := range map[string]string{"Content-Type": "application/json", "Accept": "application/json",
		"Desk-Version": "2", "Authorization": "Bearer t"} {
		assert.Equal(t, want, r.Header.Get(name), name)
	}
}

func TestAPI_sendsItsCredentialsToNoOtherHost(t *testing.T) {
	for _, path := range []string{"notes", ".evil.example/notes", "@evil.example/notes", ":80/notes"} {
		api, desk := newAPI(answer(200, `{}`))
		api.BaseURL = "https://desk.test"
		require.NoError(t, api.Do(t.Context(), helpdesk.Request{Method: http.MethodGet, Path: path}, nil))
		assert.Equal(t, "desk.test", desk.requests[0].URL.Host, path)
	}
}

func TestAPI_sendsNoContentTypeWithoutABody(t *testing.T) {
	api, desk := newAPI(answer(200, `not JSON, and not asked for`))
	require.NoError(t, api.Do(t.Context(), helpdesk.Request{Op: "read", Method: http.MethodGet, Path: "/"}, nil))
	assert.Empty(t, desk.requests[0].Header.Get("Content-Type"))
	assert.Empty(t, desk.bodies[0])
}

func TestAPI_boundsTheTimeThatADeskCanAskFor(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"7": 7 * time.Second, "0.5": 500 * time.Millisecond, "999999999": time.Hour, "-1": 0, "NaN": 0, "soon": 0, "1e400": 0,
		"Fri, 01 Jan 2100 00:00:00 GMT": time.Hour, "Fri, 01 Jan 1999 00:00:00 GMT": 0,
	} {
		api, _ := newAPI(answer(429, "", "Retry-After", value))
		assert.Equal(t, want, fails(t, api).RetryAfter(), value)
	}
}

func TestAPI_countsADateByTheClockOfTheDesk(t *testing.T) {
	for _, skew := range []time.Duration{-2 * time.Hour, -time.Second, 0, 2 * time.Hour} {
		theirs := time.Now().Add(skew).UTC()
		api, _ := newAPI(answer(503, "", "Retry-After", theirs.Add(40*time.Second).Format(http.TimeFormat),
			"Date", theirs.Format(http.TimeFormat)))
		assert.Equal(t, 40*time.Second, fails(t, api).Wait, skew)
	}
}

// An account-wide wait also holds for other conversations.
func TestAPI_pausesUntilTheTimeThatTheDeskNamed(t *testing.T) {
	for _, test := range []struct {
		status    int
		own, held bool
	}{{429, false, true}, {503, false, true}, {500, false, true}, {429, true, false}, {409, false, false},
		{404, false, false}} {
		synctest.Test(t, func(t *testing.T) {
			api, _ := newAPI(answer(test.status, "", "Retry-After", "5"))
			api.Explain = func(e *helpdesk.APIError, _ helpdesk.Request, _ http.Header, _ []byte) {
				e.OneConversation = test.own
			}
			require.Error(t, api.Do(t.Context(), write, nil))
			time.Sleep(5*time.Second - time.Nanosecond)
			pause := time.Duration(0)
			if test.held {
				pause = time.Nanosecond
			}
			assert.Equal(t, pause, api.Pause(), test)
			time.Sleep(time.Nanosecond)
			assert.Zero(t, api.Pause())
		})
	}
}

func TestAPI_saysWhetherAFailedRequestMayHaveHadItsEffect(t *testing.T) {
	dial := &net.OpError{Op: "dial", Err: errors.New("refused")}
	for name, test := range map[string]struct {
		answer    func(*http.Request) (*http.Response, error)
		ambiguous bool
	}{
		"connection refused":  {failure(dial), false},
		"no such host":        {failure(&net.DNSError{Name: "desk.test"}), false},
		"connection reset":    {failure(&net.OpError{Op: "read", Err: errors.New("reset")}), true},
		"connection ended":    {failure(io.ErrUnexpectedEOF), true},
		"no answer in time":   {silence, true},
		"internal error":      {answer(500, ""), true},
		"bad gateway":         {answer(502, ""), true},
		"gateway timeout":     {answer(504, ""), true},
		"unavailable":         {answer(503, ""), false},
		"limited":             {answer(429, ""), false},
		"collision":           {answer(409, ""), false},
		"refused":             {answer(422, ""), false},
		"a redirect":          {answer(302, ""), false},
		"success not decoded": {answer(200, "{"), true},
		"success too long":    {answer(200, "7"+strings.Repeat(" ", 8<<20)), true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api, desk := newAPI(test.answer)
				var v any
				err := api.Do(t.Context(), write, &v)
				require.Error(t, err)
				assert.Equal(t, test.ambiguous, helpdesk.IsAmbiguous(err))
				assert.NotContains(t, err.Error(), "desk.test/", "an error does not hold the URL")
				assert.Len(t, desk.requests, 1, "nothing is repeated")
			})
		})
	}
}

func TestAPI_getsNewCredentialsOnce(t *testing.T) {
	api, desk := newAPI(answer(401, ""))
	token := 0
	api.Authorize = func(_ context.Context, header http.Header) error {
		header.Set("Authorization", string(rune('a'+token)))
		return nil
	}
	api.Refused = func(_ context.Context, header http.Header) bool {
		assert.Equal(t, string(rune('a'+token)), header.Get("Authorization"))
		token++
		return true
	}
	assert.Equal(t, 401, fails(t, api).Status)
	require.Len(t, desk.requests, 2)
	assert.Equal(t, "a", desk.requests[0].Header.Get("Authorization"))
	assert.Equal(t, "b", desk.requests[1].Header.Get("Authorization"))
	assert.Equal(t, desk.bodies[0], desk.bodies[1])

	api, desk = newAPI(answer(401, ""))
	api.Refused = func(context.Context, http.Header) bool { return false }
	require.Error(t, api.Do(t.Context(), write, nil))
	assert.Len(t, desk.requests, 1)
}

func TestAPI_sendsNothingWithoutCredentials(t *testing.T) {
	api, desk := newAPI(answer(200, ""))
	none := errors.New("none")
	api.Authorize = func(context.Context, http.Header) error { return none }
	require.ErrorIs(t, api.Do(t.Context(), write, nil), none)
	assert.Empty(t, desk.requests)
}

// Answers may arrive in another order than their requests were made in.
func TestAPI_pausesWhileNoMoreThanATwentiethOfALimitIsLeft(t *testing.T) {
	type limits = []helpdesk.Limit
	for name, test := range map[string]struct {
		stated []limits
		pause  time.Duration
		rate   int
	}{
		"nothing stated":      {[]limits{nil}, 0, 0},
		"enough left":         {[]limits{{{100, 6, 7 * time.Second}}}, 0, 100},
		"a twentieth left":    {[]limits{{{100, 5, 7 * time.Second}}}, 7 * time.Second, 100},
		"no total, some left": {[]limits{{{0, 1, 7 * time.Second}}}, 0, 0},
		"no total, none left": {[]limits{{{0, 0, 7 * time.Second}}}, 7 * time.Second, 0},
		"a late answer": {[]limits{{{100, 0, 7 * time.Second}}, {{100, 60, 7 * time.Second}}, {{100, 0, time.Second}}},
			7 * time.Second, 100},
		"several limits": {[]limits{{{700, 500, time.Minute}, {30, 0, time.Second}, {100, 2, 9 * time.Second}}},
			9 * time.Second, 30},
		"a higher limit since": {[]limits{{{30, 20, 0}}, {{100, 90, 0}}, nil}, 0, 100},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api, _ := newAPI(answer(200, ""))
				for _, stated := range test.stated {
					api.Limits = func(helpdesk.Request, http.Header) []helpdesk.Limit { return stated }
					require.NoError(t, api.Do(t.Context(), write, nil), "a pause refuses no request")
				}
				assert.Equal(t, test.pause, api.Pause())
				assert.Equal(t, test.rate, api.Rate())
				time.Sleep(test.pause)
				assert.Zero(t, api.Pause())
			})
		})
	}
}

func TestAPI_readsLimitsAndExplainsAnswers(t *testing.T) {
	api, _ := newAPI(answer(418, "short and stout", "Left", "3"))
	var observed, explained string
	api.Limits = func(r helpdesk.Request, header http.Header) []helpdesk.Limit {
		observed = r.Op + " " + header.Get("Left")
		return nil
	}
	api.Explain = func(e *helpdesk.APIError, r helpdesk.Request, _ http.Header, body []byte) {
		e.Code, explained = "teapot", r.Op+" "+string(body)
	}
	require.EqualError(t, api.Do(t.Context(), write, nil), "desk: write note: 418 I'm a teapot: teapot")
	assert.Equal(t, "write note 3", observed)
	assert.Equal(t, "write note short and stout", explained)
}

func TestAPI_takesAForeignAnswerForAFailureOfTheAccount(t *testing.T) {
	for name, test := range map[string]struct {
		answer             func(*http.Request) (*http.Response, error)
		ambiguous, account bool
	}{
		"a redirect":             {answer(302, ""), false, true},
		"a page":                 {answer(200, "<html>Please log in"), true, true},
		"nothing":                {answer(200, ""), true, true},
		"an answer broken off":   {brokenOff, true, true},
		"another type of answer": {answer(200, `"created"`), true, false},
		"a refusal":              {answer(400, ""), false, false},
	} {
		api, _ := newAPI(test.answer)
		var decoded struct{ ID string }
		var failed *helpdesk.APIError
		require.ErrorAs(t, api.Do(t.Context(), write, &decoded), &failed, name)
		assert.Equal(t, test.ambiguous, failed.Ambiguous, name)
		assert.Equal(t, test.account, failed.AccountWide(), name)
		assert.Equal(t, name == "an answer broken off", failed.Temporary(), name)
	}
}

// brokenOff answers with a body that ends too soon.
func brokenOff(r *http.Request) (*http.Response, error) {
	response, err := answer(200, "")(r)
	response.Body = io.NopCloser(io.MultiReader(strings.NewReader(`{"id":"`), iotest.ErrReader(io.ErrUnexpectedEOF)))
	return response, err
}

func TestAPI_followsNoRedirect(t *testing.T) {
	var hits atomic.Int32
	desk := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hits.Add(1)
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	}))
	defer desk.Close()
	for name, client := range map[string]*http.Client{"its own client": nil, "a given client": desk.Client()} {
		hits.Store(0)
		api := helpdesk.API{Desk: "desk", BaseURL: desk.URL, HTTP: client}
		assert.Equal(t, 307, fails(t, &api).Status, name)
		assert.EqualValues(t, 1, hits.Load(), name)
	}
}

func TestAPI_waitsTenSecondsForAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, _ := newAPI(silence)
		began := time.Now()
		require.ErrorIs(t, api.Do(t.Context(), write, nil), context.DeadlineExceeded)
		assert.Equal(t, 10*time.Second, time.Since(began))
	})
}

func TestAPIError_ofAWrongConfigurationIsAccountWide(t *testing.T) {
	for _, status := range []int{404, 409, 422} {
		assert.False(t, (&helpdesk.APIError{Status: status}).AccountWide(), status)
		assert.True(t, (&helpdesk.APIError{Status: status, Misconfigured: true}).AccountWide(), status)
	}
}

func TestAPIError_namesTheRequestForTheVendorsSupport(t *testing.T) {
	e := &helpdesk.APIError{Desk: "zendesk", Op: "write note", Status: 500, Code: "InternalError", RequestID: "1f"}
	assert.EqualError(t, e, "zendesk: write note: 500 Internal Server Error: InternalError (request 1f)")
}

func TestAPIError_isTemporaryOnlyWhereTheSameRequestMaySucceed(t *testing.T) {
	for _, status := range []int{0, 407, 408, 409, 421, 423, 425, 429, 500, 503} {
		assert.True(t, (&helpdesk.APIError{Status: status}).Temporary(), status)
		assert.False(t, (&helpdesk.APIError{Status: status, Gone: true}).Temporary(), status)
		one := status == 409 || status == 423
		assert.Equal(t, !one, (&helpdesk.APIError{Status: status}).AccountWide(), status)
	}
	for _, status := range []int{400, 401, 402, 403, 404, 405, 406, 410, 412, 413, 415, 418, 422, 424, 426, 428,
		431, 451} {
		assert.False(t, (&helpdesk.APIError{Status: status}).Temporary(), status)
	}
}

func TestAPIError_ofOneConversationIsNotAccountWide(t *testing.T) {
	for _, status := range []int{403, 429} {
		assert.True(t, (&helpdesk.APIError{Status: status}).AccountWide(), status)
		assert.False(t, (&helpdesk.APIError{Status: status, OneConversation: true}).AccountWide(), status)
	}
}

// Logs hold no addresses, but vendors' messages do.
func TestAPIError_omitsAddresses(t *testing.T) {
	err := &helpdesk.APIError{Desk: "zendesk", Op: "write note", Status: 422, Code: "RecordInvalid",
		Message: "Requester: <ada+1@example.com> is suspended, bob@example.com: too"}
	assert.EqualError(t, err,
		"zendesk: write note: 422 Unprocessable Entity: RecordInvalid Requester: <…@…> is suspended, …@…: too")
}

func TestCheckBaseURL_wantsHTTPSExceptOnLoopback(t *testing.T) {
	for _, good := range []string{"https://acme.zendesk.com", "https://acme.zendesk.com/",
		"https://acme.example:8443/path", "http://localhost:80", "http://127.0.0.1:1", "http://[::1]:1"} {
		got, problem := helpdesk.CheckBaseURL(good)
		assert.Empty(t, problem, good)
		assert.Equal(t, strings.TrimSuffix(good, "/"), got)
	}
	for _, bad := range []string{"", "acme.zendesk.com", "https://", "https://:443", "/api", "https://a b",
		"javascript:alert(1)",
		"ftp://acme.example", "http://acme.zendesk.com", "http://10.0.0.1", "http://localhost.evil.example",
		"https://u:s3cr3t@acme.example", "https://acme.example?s3cr3t", "https://acme.example?",
		"https://acme.example#s3cr3t"} {
		got, problem := helpdesk.CheckBaseURL(bad)
		assert.NotEmpty(t, problem, bad)
		assert.Empty(t, got, bad)
		assert.NotContains(t, problem, "s3cr3t")
	}
}
