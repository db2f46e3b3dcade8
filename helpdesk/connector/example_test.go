package connector_test

import (
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/liveactivity/liveactivity/helpdesk/connector"
	"github.com/liveactivity/liveactivity/helpdesk/zendesk"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
)

// oneDesk is the configuration of every product.
type oneDesk struct{ desk connector.Desk }

func (o oneDesk) Product(string) (connector.Product, bool, error) {
	return connector.Product{Desks: []connector.Desk{o.desk}, Notes: connector.DefaultNotes()}, true, nil
}

func (oneDesk) Refresh(string) error { return nil } // no other process changes it

// A webhook without a valid signature links nothing. Call Follow for each product, to write notes.
func ExampleConnector() {
	entries, err := memorylog.New(nil)
	account, wrong := zendesk.New(zendesk.Config{BaseURL: "https://acme.zendesk.com",
		SigningSecret: zendesk.Secrets{"a long random secret"}}, nil)
	if err := errors.Join(err, wrong); err != nil {
		log.Fatal(err)
	}
	c, err := connector.New(entries, oneDesk{connector.Desk{Name: zendesk.Name, Desk: account}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /chatbot-webhook/{product_id}", c.ServeWebhook)
	r, w := httptest.NewRequest(http.MethodPost, "/chatbot-webhook/acme", nil), httptest.NewRecorder()
	r.Header.Set("X-Zendesk-Webhook-Signature", "forged")
	mux.ServeHTTP(w, r)
	fmt.Println(w.Code)
	// Output: 401
}
