package console_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/internal/console"
	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/jsontext"
)

const (
	fakeProduct = "acme"
	fakeKey     = "lak_fake"
)

// fake answers in the service's place with a test's data. It stands in for states that the service
// takes long to reach or does not keep.
type fake struct {
	mu       sync.Mutex
	rows     []map[string]any // newest first, once act's are sorted
	acted    bool             // since they were sorted
	byID     map[string]map[string]any
	details  map[string]map[string]any
	flow     map[string]any
	status   int                      // of every answer, but for 0
	readers  map[chan []byte]struct{} // frames of the stream
	requests []*http.Request
	lastIDs  []string
	id       int
}

func newFake() *fake {
	return &fake{details: map[string]map[string]any{}, byID: map[string]map[string]any{},
		readers: map[chan []byte]struct{}{}}
}

func (f *fake) handler() http.Handler {
	page := console.Handler()
	mux := httpx.NewMux(nil)
	mux.Handle("GET /{$}", page)
	mux.Handle("GET /console/{file}", page)
	mux.Handle("GET /sessions/{product_id}", f.guarded(f.list))
	mux.Handle("GET /sessions/{product_id}/{session_id}", f.guarded(f.detail))
	mux.Handle("GET /flow/{product_id}", f.guarded(func(w http.ResponseWriter, _ *http.Request) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		httpx.WriteJSON(w, http.StatusOK, f.flow)
		return nil
	}))
	mux.Handle("GET /stream/{product_id}", f.guarded(f.stream))
	mux.Handle("POST /mcp", f.guarded(f.tool))
	return mux
}

// guarded refuses the requests that the service refuses, and those that the test wants refused.
func (f *fake) guarded(next httpx.Handler) http.Handler {
	return httpx.Handler(func(w http.ResponseWriter, r *http.Request) error {
		f.mu.Lock()
		status := f.status
		f.requests = append(f.requests, r)
		f.mu.Unlock()
		switch {
		case status == http.StatusServiceUnavailable:
			return httpx.Unavailable(nil)
		case status != 0:
			return httpx.Errorf(status, "Refused by the test.")
		case r.Header.Get("Authorization") != "Bearer "+fakeKey:
			return httpx.Unauthorized("Invalid or missing API key", "Bearer")
		case r.PathValue("product_id") != fakeProduct && r.PathValue("product_id") != "":
			return httpx.Errorf(http.StatusForbidden, "API key does not match product_id")
		}
		return next(w, r)
	})
}

func (f *fake) answer(status int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status = status
}

func (f *fake) list(w http.ResponseWriter, r *http.Request) error {
	const examined = 10_000 // by one call
	query := r.URL.Query()
	limit, _ := strconv.Atoi(query.Get("limit"))
	from, _ := strconv.Atoi(query.Get("after"))
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.acted {
		slices.SortStableFunc(f.rows, func(a, b map[string]any) int {
			return cmp.Compare(b["last_seen"].(float64), a["last_seen"].(float64))
		})
		f.acted = false
	}
	found, at := []map[string]any{}, from
	for ; at < min(len(f.rows), from+examined) && len(found) < limit; at++ {
		for _, name := range []string{"email", "user_id", "session_id"} {
			if value, _ := f.rows[at][name].(string); strings.HasPrefix(strings.ToLower(value),
				strings.ToLower(query.Get("q"))) {
				found = append(found, f.rows[at])
				break
			}
		}
	}
	var next any
	if at < len(f.rows) {
		next = strconv.Itoa(at)
	}
	httpx.WriteJSON(w, http.StatusOK, map[string]any{"sessions": found, "next": next})
	return nil
}

func (f *fake) detail(w http.ResponseWriter, r *http.Request) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if detail, ok := f.details[r.PathValue("session_id")]; ok {
		httpx.WriteJSON(w, http.StatusOK, detail)
		return nil
	}
	return httpx.NotFound("Unknown session.")
}

// tool is get_live_user_activity.
func (f *fake) tool(w http.ResponseWriter, r *http.Request) error {
	var call struct {
		Params struct {
			Arguments struct {
				UserID string `json:"user_id"`
			}
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
		return httpx.BadRequest("%s", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	found := recent.LiveActivity{ProductID: fakeProduct, UserID: call.Params.Arguments.UserID, AsOf: 1795187991.25,
		Actions: []activity.Action{}}
	for _, detail := range f.details {
		if detail["session"].(map[string]any)["user_id"] == found.UserID {
			found.Actions = append(found.Actions, detail["recent"].([]activity.Action)...)
		}
	}
	found.Count = len(found.Actions)
	answer, err := jsontext.Marshal(found)
	if err != nil {
		return err
	}
	httpx.WriteJSON(w, http.StatusOK, map[string]any{"jsonrpc": "2.0", "id": 1, "result": map[string]any{
		"content":           []any{map[string]any{"type": "text", "text": string(answer)}},
		"structuredContent": json.RawMessage(answer)}})
	return nil
}

func (f *fake) stream(w http.ResponseWriter, r *http.Request) error {
	frames := make(chan []byte, 1000)
	f.mu.Lock()
	f.readers[frames] = struct{}{}
	f.lastIDs = append(f.lastIDs, r.Header.Get("Last-Event-ID"))
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.readers, frames)
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = w.Write([]byte("retry: 1000\n"))
	for flush := w.(http.Flusher); ; {
		flush.Flush()
		select {
		case <-r.Context().Done():
			return nil
		case frame, ok := <-frames:
			if !ok {
				return nil
			}
			_, _ = w.Write(frame)
		}
	}
}

// send puts a frame on the streams that are open.
func (f *fake) send(event, data string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.id++
	frame := fmt.Appendf(nil, "id: %d\nevent: %s\ndata: %s\n\n", f.id, event, data)
	for reader := range f.readers {
		select {
		case reader <- frame:
		default: // a test's browser is that far behind
		}
	}
}

// drop ends the streams that are open.
func (f *fake) drop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for reader := range f.readers {
		close(reader)
		delete(f.readers, reader)
	}
}

// act lets a session do something now: it moves to the front, and the stream says so.
func (f *fake) act(sessionID, userID, email, description, url string, index int) {
	at := activity.Seconds(time.Now())
	action := activity.BatchAction{SessionID: sessionID, UserID: userID, Email: email,
		Action: activity.Action{Type: activity.TypeClick, Title: description,
			Description: description, TimestampStart: at, TimestampEnd: at, RawURL: url, CanonicalURL: url, Index: index}}
	batch, err := jsontext.Marshal(activity.Batch{Type: activity.BatchType, ProductID: fakeProduct, SessionID: sessionID,
		UserID: userID, Email: email, Count: 1, ForwardedAt: at, Actions: []activity.BatchAction{action}})
	if err != nil {
		panic(err) // strings and numbers always encode
	}
	f.mu.Lock()
	if len(f.byID) != len(f.rows) { // the test has put others
		f.byID = map[string]map[string]any{}
		for _, row := range f.rows {
			f.byID[row["session_id"].(string)] = row
		}
	}
	row := f.byID[sessionID]
	if row == nil {
		row = map[string]any{"session_id": sessionID, "first_seen": at}
		f.rows, f.byID[sessionID] = append(f.rows, row), row
	}
	row["user_id"], row["email"], row["page"], row["canonical_url"] = userID, email, activity.PageName(url), url
	row["last_action"], row["last_seen"], row["actions"] = description, at, index+1
	f.acted = true
	f.mu.Unlock()
	f.send("message", string(batch))
}

// row is a session as the list has it.
func row(sessionID, userID, email, action, url string, first, last time.Duration) map[string]any {
	now := time.Now()
	return map[string]any{"session_id": sessionID, "user_id": userID, "email": email, "page": activity.PageName(url),
		"canonical_url": url,
		"last_action":   cmp.Or(action, "User looked"), "first_seen": activity.Seconds(now.Add(-first)),
		"last_seen": activity.Seconds(now.Add(-last)), "actions": 7}
}

// sessions returns so many sessions, each last seen a second before the one before it. The ID and
// the email contain its number.
func sessions(n int, id, email string) (rows []map[string]any) {
	for i := range n {
		rows = append(rows, row(fmt.Sprintf(id, i), "", fmt.Sprintf(email, i), "", "https://app.example.com/", time.Hour,
			time.Duration(i)*time.Second))
	}
	return rows
}

// people fills the list with a person of many actions, a visitor, and a person with long texts.
func people(f *fake) {
	const app = "https://app.example.com"
	ada := row("0198c2f4-7a11", "user_42", "ada.lovelace@example.com",
		"User clicked Export CSV on the billing history page", app+"/account/billing-history", 14*time.Minute, 3*time.Second)
	ada["conversation_id"], ada["state"] = "215468", "proactive_assistance"
	visitor := row("0198c2f4-7a13", "", "", "User landed on the home page", app+"/", 20*time.Second, 12*time.Second)
	long := row("0198c2f4-7a15", "user_99", "katherine.johnson@langley.example",
		"User clicked Recalculate trajectory on the projects detail page", app+"/projects/:id", 2*time.Hour+5*time.Minute,
		48*time.Second)
	long["conversation_id"], long["state"] = "215470", "conservative_assistance"
	f.rows = append(f.rows, ada, visitor, long)
	f.details["0198c2f4-7a11"] = visit(ada)
	f.flow = figures()
}

// visit is a session with a person's actions.
func visit(session map[string]any) map[string]any {
	const app = "https://app.example.com"
	steps := []struct{ typ, label, url string }{
		{activity.TypePageview, "", app + "/dashboard"}, {activity.TypeClick, "Reports", app + "/dashboard"},
		{activity.TypePageview, "", app + "/projects/42"}, {activity.TypeClick, "Share", app + "/projects/42"},
		{activity.TypeSubmit, "invite", app + "/projects/42"},
		{activity.TypePageview, "", app + "/account/billing-history"},
		{activity.TypeChange, "period", app + "/account/billing-history"},
		{activity.TypeClick, "Export CSV", app + "/account/billing-history"}, {activity.TypePageview, "", app + "/pricing"},
		{activity.TypePageview, "", app + "/account/billing-history"},
		{activity.TypeClick, "Export CSV", app + "/account/billing-history"},
		{activity.TypeClick, "Export CSV", app + "/account/billing-history"},
	}
	var found []activity.Action
	lines := []string{"session_id: " + session["session_id"].(string), "timestamp: 2026-11-22 14:31:07 UTC", ""}
	begin := activity.Seconds(time.Now()) - 14*60
	for i, step := range steps {
		a := activity.NewAction(step.typ, activity.Target{Label: step.label}, step.url)
		a.TimestampStart, a.Index = begin+float64(i*i)*5.8, i
		a.TimestampEnd = a.TimestampStart + 2
		found = append(found, a)
		lines = append(lines, fmt.Sprintf("[%d] %s", i+1, a.Description))
	}
	text := strings.Join(lines, "\n")
	html := strings.ReplaceAll(text, "\n", "<br>")
	return map[string]any{"session": session, "recent": found,
		"conversation_url": "https://app.intercom.com/a/apps/x/conversations/215468",
		"notes":            []any{map[string]any{"desk": "intercom", "text": text, "html": html}}}
}

func figures() map[string]any {
	var minutes []any
	begin := time.Now().Unix()/60*60 - 59*60
	for i := range 60 {
		wave := (i*i*7+i*13)%37 + (30-abs(30-i))*3
		minutes = append(minutes, map[string]any{"minute": begin + int64(i)*60, "accepted": 40 + wave*2,
			"ignored": 6 + wave/5, "duplicate": wave / 9,
			"actions": 36 + wave*2 - wave/3, "summaries": wave / 40, "notes": wave / 6, "offers": wave % 3 / 2})
	}
	return map[string]any{"product_id": fakeProduct, "as_of": activity.Seconds(time.Now()), "minutes": minutes,
		"readers": 3, "lag_s": 0.4, "parked": 2,
		"desks": []map[string]any{{"desk": "intercom", "parked": 0, "retrying": 0},
			{"desk": "zendesk", "parked": 2, "retrying": 1}},
		"storage": map[string]any{"engine": "redis", "log_bytes": 831 << 20, "log_max_bytes": 4 << 30,
			"state_bytes": 96 << 20, "state_max_bytes": 4 << 30}}
}

func abs(n int) int { return max(n, -n) }
