package intercom_test

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/helpdesk/helpdesktest"
	"github.com/liveactivity/liveactivity/helpdesk/intercom"
)

// A note for the agents is written, and taken back.
func Example() {
	desk := helpdesktest.NewIntercom(nil) // in place of Intercom
	defer desk.Close()
	conversationID, _ := desk.Created("", helpdesktest.IntercomContact{Email: "jane@acme.example"}, "Hello")

	client, err := intercom.New(intercom.Config{BaseURL: desk.URL(), AccessToken: helpdesktest.IntercomAccessToken}, nil)
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	noteID, err := client.Note(ctx, conversationID, "Looked at the pricing page twice.\nOn the free plan.")
	if err != nil {
		panic(err)
	}
	fmt.Println(desk.Notes(conversationID)[0])
	if err := client.Redact(ctx, conversationID, noteID); err != nil {
		panic(err)
	}
	fmt.Println(len(desk.Notes(conversationID)), "notes left")
	// Output:
	// Looked at the pricing page twice.
	// On the free plan.
	// 0 notes left
}

// After a request without an answer, look before writing again: Intercom would
// take the same note twice.
func ExampleClient_FindNote() {
	desk := helpdesktest.NewIntercom(nil)
	defer desk.Close()
	conversationID, _ := desk.Created("", helpdesktest.IntercomContact{}, "Hello")
	client, err := intercom.New(intercom.Config{BaseURL: desk.URL(), AccessToken: helpdesktest.IntercomAccessToken}, nil)
	if err != nil {
		panic(err)
	}
	desk.Fail(helpdesktest.Fault{Method: http.MethodPost, Lose: true, Times: 1})

	ctx, began := context.Background(), time.Now()
	if _, err = client.Note(ctx, conversationID, "On the free plan."); helpdesk.IsAmbiguous(err) {
		_, found, err := client.FindNote(ctx, conversationID, "On the free plan.", "", began)
		fmt.Println("it was written:", found, err)
	}
	// Output: it was written: true <nil>
}
