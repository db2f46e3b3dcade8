package bridge_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/activitytest"
)

const benchReport = `{"session_id":"session-%d","type":"click","title":"Click Approve vendor",
	"description":"User clicked Approve vendor on the page of Acme Supplies",
	"url":"https://portal.acme.example/#/vendors/acme-supplies",
	"vendor":{"id":"acme-supplies","name":"Acme Supplies","status":"blocked",
		"missing_documents":["W-9 form","insurance certificate"]}}`

// BenchmarkServeActions reports to sessions whose windows are full.
func BenchmarkServeActions(b *testing.B) {
	const sessions = 1000
	br := newBridge(nil)
	h := br.Handler()
	bodies := make([]string, sessions)
	for i := range bodies {
		bodies[i] = fmt.Sprintf(benchReport, i)
		for range 30 {
			post(br, bodies[i])
		}
	}
	b.ReportAllocs()
	b.SetBytes(int64(len(bodies[0])))
	for i := 0; b.Loop(); i++ {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/demo/actions", strings.NewReader(bodies[i%sessions])))
		if w.Code != http.StatusAccepted {
			b.Fatal(w.Body)
		}
	}
}

// BenchmarkServeContext asks for a session of a full window.
func BenchmarkServeContext(b *testing.B) {
	br := newBridge(nil)
	h := br.Handler()
	for i := range 30 {
		post(br, fmt.Sprintf(benchReport, 1))
		click(b, br, "session-1", fmt.Sprint("Button ", i))
	}
	for _, accept := range []string{"application/json", "text/plain"} {
		b.Run(accept, func(b *testing.B) {
			r := httptest.NewRequest(http.MethodGet, "/context/session-1", nil)
			r.Header.Set("Accept", accept)
			b.ReportAllocs()
			for b.Loop() {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				if w.Code != http.StatusOK {
					b.Fatal(w.Body)
				}
			}
		})
	}
}

// BenchmarkAdd files batches of three actions in sessions whose windows are full.
func BenchmarkAdd(b *testing.B) {
	br := newBridge(nil)
	now := time.Now()
	actions := make([]activity.Action, 3)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		for j := range actions {
			actions[j] = activity.Action{Type: "click", Title: "Click Save",
				TimestampStart: activity.Seconds(now) + float64(3*i+j)/1e5}
		}
		if err := br.Add(context.Background(), activitytest.NewBatch("acme", fmt.Sprint(i%1000), "",
			actions...)); err != nil {
			b.Fatal(err)
		}
	}
}
