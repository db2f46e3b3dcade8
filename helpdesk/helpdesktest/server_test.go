package helpdesktest_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/helpdesk/helpdesktest"
)

// both runs a test against a fake that listens and one that is in memory.
func both(t *testing.T, test func(t *testing.T, fake *helpdesktest.Zendesk)) {
	for name, inMemory := range map[string]bool{"network": false, "memory": true} {
		t.Run(name, func(t *testing.T) {
			fake := helpdesktest.NewZendesk(&helpdesktest.ZendeskOptions{InMemory: inMemory})
			defer fake.Close()
			test(t, fake)
		})
	}
}

// call makes a request with the fake's credentials and returns the answer with its body.
func call(ctx context.Context, fake *helpdesktest.Zendesk, method, path, body string) (*http.Response, string, error) {
	r, err := http.NewRequestWithContext(ctx, method, fake.URL()+path, strings.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	r.Header.Set("Authorization", "Bearer "+helpdesktest.ZendeskOAuthToken)
	r.Header.Set("Content-Type", "application/json")
	response, err := fake.Client().Do(r)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = response.Body.Close() }()
	got, err := io.ReadAll(response.Body)
	return response, string(got), err
}

// comment is the body that writes a note.
const comment = `{"ticket":{"comment":{"html_body":"note","public":false}}}`

func TestServer_keepsRequestsInOrder(t *testing.T) {
	both(t, func(t *testing.T, fake *helpdesktest.Zendesk) {
		ticket, _ := fake.NewTicket("https://hooks.example", "jane@acme.example", "Help!")
		began := time.Now()
		for _, path := range []string{"/api/v2/users/me.json?x=1", "/nowhere"} {
			_, _, err := call(t.Context(), fake, http.MethodGet, path, "")
			require.NoError(t, err)
		}
		_, _, err := call(t.Context(), fake, http.MethodPut, "/api/v2/tickets/"+ticket+".json", comment)
		require.NoError(t, err)
		all := fake.Requests()
		require.Len(t, all, 3)
		assert.Equal(t, "/api/v2/users/me.json?x=1", all[0].Path)
		assert.Equal(t, []int{200, 404, 200}, []int{all[0].Status, all[1].Status, all[2].Status})
		assert.Equal(t, http.MethodPut, all[2].Method)
		assert.JSONEq(t, comment, string(all[2].Body))
		assert.Equal(t, "Bearer "+helpdesktest.ZendeskOAuthToken, all[2].Header.Get("Authorization"))
		assert.False(t, all[0].At.Before(began))
	})
}

func TestServer_Fail_injectsFaults(t *testing.T) {
	for name, test := range map[string]struct {
		fault           helpdesktest.Fault
		status, written int // of the request that it hits; zero for no answer
		requests        int
	}{
		"status":       {helpdesktest.Fault{Status: 503, RetryAfter: 1500 * time.Millisecond}, 503, 0, 1},
		"lost":         {helpdesktest.Fault{Lose: true}, 0, 1, 1},
		"refused":      {helpdesktest.Fault{Refuse: true}, 0, 0, 0},
		"slow":         {helpdesktest.Fault{Delay: 20 * time.Millisecond}, 200, 1, 1},
		"slow and 500": {helpdesktest.Fault{Delay: 20 * time.Millisecond, Status: 500}, 500, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, fake *helpdesktest.Zendesk) {
				ticket, _ := fake.NewTicket("https://hooks.example", "jane@acme.example", "Help!")
				path := "/api/v2/tickets/" + ticket + ".json"
				fault := test.fault
				fault.Method, fault.Path, fault.Times = http.MethodPut, "/tickets/", 1
				fake.Fail(fault)
				_, _, err := call(t.Context(), fake, http.MethodGet, path, "")
				require.NoError(t, err, "another method")
				before := len(fake.Requests())

				began := time.Now()
				response, body, err := call(t.Context(), fake, http.MethodPut, path, comment)
				assert.GreaterOrEqual(t, time.Since(began), fault.Delay)
				if test.status == 0 {
					require.Error(t, err)
				} else {
					require.NoError(t, err)
					assert.Equal(t, test.status, response.StatusCode)
					assert.NotEmpty(t, body)
				}
				if fault.RetryAfter > 0 {
					assert.Equal(t, "2", response.Header.Get("Retry-After"), "rounded up")
				}
				assert.Len(t, fake.Notes(ticket), test.written)
				assert.Len(t, fake.Requests(), before+test.requests)

				response, _, err = call(t.Context(), fake, http.MethodPut, path, comment)
				require.NoError(t, err, "only once")
				assert.Equal(t, 200, response.StatusCode)
			})
		})
	}
}

func TestServer_Heal_endsFaults(t *testing.T) {
	both(t, func(t *testing.T, fake *helpdesktest.Zendesk) {
		status := func() int {
			response, _, err := call(t.Context(), fake, http.MethodGet, "/api/v2/users/me.json", "")
			require.NoError(t, err)
			return response.StatusCode
		}
		fake.Fail(helpdesktest.Fault{Status: 500, Times: 2})
		fake.Fail(helpdesktest.Fault{Status: 503})
		assert.Equal(t, []int{500, 500, 503, 503}, []int{status(), status(), status(), status()})
		fake.Heal()
		assert.Equal(t, 200, status())
	})
}

func TestServer_inMemory_waitsNoLongerThanTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := helpdesktest.NewZendesk(&helpdesktest.ZendeskOptions{InMemory: true})
		ticket, _ := fake.NewTicket("https://hooks.example", "jane@acme.example", "Help!")
		fake.Fail(helpdesktest.Fault{Delay: time.Hour})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		_, _, err := call(ctx, fake, http.MethodPut, "/api/v2/tickets/"+ticket+".json", comment)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, time.Minute, time.Since(began))
		assert.Len(t, fake.Notes(ticket), 1, "it had its effect")
		assert.Zero(t, fake.Requests()[0].Status)

		_, _, err = call(ctx, fake, http.MethodGet, "/", "")
		require.True(t, errors.Is(err, context.DeadlineExceeded), "a context that has ended makes no request")
		assert.Len(t, fake.Requests(), 1)
	})
}
