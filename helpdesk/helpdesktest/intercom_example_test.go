package helpdesktest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/helpdesk/helpdesktest"
	"github.com/liveactivity/liveactivity/helpdesk/intercom"
)

// greeter is the integration to test: it leaves a note in every new conversation.
func greeter(client *intercom.Client) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		event, err := client.Webhook(r.Header, body, time.Now())
		if err != nil {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if event.Type == helpdesk.EventOpened {
			if _, err := client.Note(context.Background(), event.ConversationID, "New: "+event.Contact.Email); err != nil {
				w.WriteHeader(http.StatusBadGateway)
			}
		}
	}
}

// An integration is tested from its webhook to its note, with and without failures of the desk.
func ExampleIntercom() {
	desk := helpdesktest.NewIntercom(nil)
	defer desk.Close()
	client, err := intercom.New(intercom.Config{
		BaseURL: desk.URL(), AccessToken: helpdesktest.IntercomAccessToken, ClientSecret: helpdesktest.IntercomClientSecret,
	}, nil)
	if err != nil {
		panic(err)
	}
	server := httptest.NewServer(greeter(client))
	defer server.Close()
	deliver := func(webhook *http.Request) {
		webhook.Body, _ = webhook.GetBody() // to deliver it more than once
		response, err := http.DefaultClient.Do(webhook)
		if err != nil {
			panic(err)
		}
		_ = response.Body.Close()
		fmt.Println("answered", response.StatusCode)
	}

	conversation, webhook := desk.Created(server.URL, helpdesktest.IntercomContact{Email: "jane@acme.example"}, "Help!")
	desk.Fail(helpdesktest.Fault{Status: http.StatusServiceUnavailable, Times: 1})
	deliver(webhook)
	deliver(webhook) // as Intercom does when an answer says no
	fmt.Println(desk.Notes(conversation))

	webhook.Header.Set(intercom.HeaderSignatureSHA1, "sha1=00")
	deliver(webhook)
	// Output:
	// answered 502
	// answered 200
	// [New: jane@acme.example]
	// answered 401
}
