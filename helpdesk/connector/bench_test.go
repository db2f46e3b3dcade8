package connector

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/helpdesk/zendesk"
)

// BenchmarkServeWebhook is a webhook of Zendesk's from its bytes to the answer, with
// its signature verified and its effect stored in memory.
func BenchmarkServeWebhook(b *testing.B) {
	for name, email := range map[string]string{"waits for its session": "nobody@acme.example", "of a linked session": "ada@acme.example"} {
		b.Run(name, func(b *testing.B) {
			d := newDoors(b, nil)
			desk, err := zendesk.New(zendesk.Config{BaseURL: "https://acme.zendesk.com", SigningSecret: zendesk.Secrets{"secret"}}, nil)
			require.NoError(b, err)
			d.products = always(Product{Notes: promptNotes(), Desks: []Desk{{"zendesk", desk}}})
			d.visitAs(b, "s1", "ada", "ada@acme.example", time.Now(), "pricing")
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				n++
				ticket := n
				if email == "ada@acme.example" {
					ticket = 1
				}
				body := fmt.Sprintf(`{"ticket_id": "%d", "requester_email": "%s", "trigger_type": "new_ticket"}`, ticket, email)
				r := httptest.NewRequest(http.MethodPost, webhookPath, strings.NewReader(body))
				r.Header.Set(zendesk.HeaderDelivery, fmt.Sprint(n))
				require.NoError(b, zendesk.Sign(r.Header, "secret", []byte(body), time.Now()))
				w := httptest.NewRecorder()
				d.mux.ServeHTTP(w, r)
				if w.Code != http.StatusOK {
					b.Fatal(w.Body)
				}
			}
		})
	}
}

// BenchmarkServeWebhook_refused is what a request costs that anybody can send.
func BenchmarkServeWebhook_refused(b *testing.B) {
	d := newDoors(b, nil)
	desk, err := zendesk.New(zendesk.Config{BaseURL: "https://acme.zendesk.com", SigningSecret: zendesk.Secrets{"secret"}}, nil)
	require.NoError(b, err)
	d.products = always(Product{Desks: []Desk{{"zendesk", desk}}})
	body, err := json.Marshal(helpdesk.Event{})
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequest(http.MethodPost, webhookPath, strings.NewReader(string(body)))
		require.NoError(b, zendesk.Sign(r.Header, "wrong", body, time.Now()))
		w := httptest.NewRecorder()
		d.mux.ServeHTTP(w, r)
		if w.Code != http.StatusUnauthorized {
			b.Fatal(w.Body)
		}
	}
}
