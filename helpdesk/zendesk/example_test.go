package zendesk_test

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/helpdesk/helpdesktest"
	"github.com/liveactivity/liveactivity/helpdesk/zendesk"
)

// A note whose answer is lost is looked for before it is written again.
func ExampleClient_Note() {
	account := helpdesktest.NewZendesk(nil) // in a program: https://acme.zendesk.com
	defer account.Close()
	ticket, _ := account.NewTicket("https://hooks.example/chatbot-webhook/acme", "jane@acme.example", "Help!")
	account.Fail(helpdesktest.Fault{Method: http.MethodPut, Times: 1, Lose: true})

	client, err := zendesk.New(zendesk.Config{
		BaseURL: account.URL(), OAuthClientID: helpdesktest.ZendeskClientID,
		OAuthClientSecret: helpdesktest.ZendeskClientSecret,
	}, nil)
	if err != nil {
		panic(err)
	}
	const text = "Seen on <pricing>.\nTwice."
	began := time.Now()
	_, err = client.Note(context.Background(), ticket, text)
	if helpdesk.IsAmbiguous(err) {
		_, found, err := client.FindNote(context.Background(), ticket, text, "", began)
		fmt.Println("found:", found, err)
	}
	fmt.Println(len(account.Notes(ticket)), "note:")
	fmt.Println(account.Notes(ticket)[0])
	// Output:
	// found: true <nil>
	// 1 note:
	// Seen on <pricing>.
	// Twice.
}

// An account is set up, and once more without effect.
func ExampleClient_Provision() {
	account := helpdesktest.NewZendesk(nil)
	defer account.Close()
	client, err := zendesk.New(zendesk.Config{BaseURL: account.URL(), OAuthToken: helpdesktest.ZendeskOAuthToken}, nil)
	if err != nil {
		panic(err)
	}
	for range 2 {
		done, err := client.Provision(context.Background(), "https://hooks.acme.example", "acme", false)
		if err != nil {
			panic(err)
		}
		for _, step := range done.Steps {
			fmt.Printf("%s %q: %q\n", step.Object, step.Name, step.Change)
		}
		fmt.Println(len(done.SigningSecrets), "secrets")
	}
	// Output:
	// webhook "liveactivity context: acme": "created"
	// trigger "liveactivity context: acme": "created"
	// webhook "liveactivity chat: acme": "created"
	// trigger "liveactivity chat: acme": "created"
	// 2 secrets
	// webhook "liveactivity context: acme": ""
	// trigger "liveactivity context: acme": ""
	// webhook "liveactivity chat: acme": ""
	// trigger "liveactivity chat: acme": ""
	// 2 secrets
}
