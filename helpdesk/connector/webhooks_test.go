package connector

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/internal/admission"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/watchtest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
)

// scriptDesk is a desk in memory with a chat. Its webhooks are Events as JSON, with the header X-Desk
// naming it. It verifies that X-Signature is "good".
type scriptDesk struct {
	*desk
	name     string
	unsigned bool

	contacts map[string]helpdesk.Contact
	replies  []string
	mine     map[string]bool   // messages that the requester did not write
	echo     func(text string) // by a trigger that is faster than the answer to a reply; nil for none
}

func newScriptDesk(name string) *scriptDesk { return &scriptDesk{desk: newDesk(), name: name} }

func (d *scriptDesk) Capabilities() helpdesk.Capabilities {
	can := helpdesk.Capabilities{Finder: d, Redactor: d, Pacer: d, Contacts: d, Replier: d, Chats: true}
	if !d.unsigned {
		can.SignedBy = []string{"X-Signature"}
	}
	return d.without(can)
}

func (d *scriptDesk) Webhook(header http.Header, body []byte, _ time.Time) (helpdesk.Event, error) {
	var e helpdesk.Event
	switch {
	case header.Get("X-Desk") != d.name:
		return e, helpdesk.ErrUnrecognized
	case !d.unsigned && header.Get("X-Signature") != "good":
		return e, helpdesk.ErrSignature
	case json.Unmarshal(body, &e) != nil:
		return e, &helpdesk.PayloadError{Problem: "the body is not an event"}
	}
	e.DeliveryID = cmp.Or(header.Get("X-Delivery"), e.DeliveryID)
	return e, nil
}

func (d *scriptDesk) Contact(ctx context.Context, id string) (helpdesk.Contact, error) {
	var c helpdesk.Contact
	if err := d.request(ctx, "contact", "", func() { c = d.contacts[id] }); err != nil {
		return helpdesk.Contact{}, err
	}
	return c, nil
}

func (d *scriptDesk) Reply(ctx context.Context, conversationID, text string) (string, error) {
	if d.echo != nil {
		d.echo(text)
	}
	return "c1", d.request(ctx, "reply", conversationID, func() { d.replies = append(d.replies, text) })
}

func (d *scriptDesk) FindReply(ctx context.Context, conversationID, text string, _ time.Time) (bool, error) {
	return d.answers(ctx, "find", conversationID, func() bool { return slices.Contains(d.replies, text) })
}

func (d *scriptDesk) IsRequesters(ctx context.Context, conversationID, text string) (bool, error) {
	return d.answers(ctx, "whose", conversationID, func() bool { return !d.mine[text] })
}

// answers makes a request with an answer.
func (d *scriptDesk) answers(ctx context.Context, op, conversationID string, is func() bool) (bool, error) {
	var yes bool
	if err := d.request(ctx, op, conversationID, func() { yes = is() }); err != nil {
		return false, err
	}
	return yes, nil
}

func (d *scriptDesk) written() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.replies)
}

// script lets an operation fail with err, before its effect or after it, or succeed again if err is nil.
func (d *scriptDesk) script(operation string, err *helpdesk.APIError, after bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refuse, d.lose = nil, nil
	switch {
	case err != nil && after:
		d.lose = failing(operation, *err)
	case err != nil:
		d.refuse = failing(operation, *err)
	}
}

// doors are the endpoints of a connector of product acme with the desks plain,
// which has no chat, and chat.
type doors struct {
	*service
	plain, chat *scriptDesk
	away        error // of storage; nil while it is there
	mux         *http.ServeMux
}

func newDoors(t testing.TB, model func(context.Context, string) (string, error)) *doors {
	t.Helper()
	d := &doors{plain: newScriptDesk("plain"), chat: newScriptDesk("chat")}
	d.plain.lacking(func(can *helpdesk.Capabilities) { can.Replier, can.Chats = nil, false })
	d.open(t, before(musttest.New(memorylog.New(nil)), func(watchtest.Op) error { return d.away }), model)
	return d
}

// another returns the endpoints of another server on the log, with the same desks.
func (d *doors) another(t testing.TB, model func(context.Context, string) (string, error)) *doors {
	t.Helper()
	other := *d
	other.open(t, d.store.log, model)
	return &other
}

func (d *doors) open(t testing.TB, log eventlog.Log, model func(context.Context, string) (string, error)) {
	t.Helper()
	d.mux = http.NewServeMux()
	d.service = newService(t, log, Product{TakesClaims: true, Notes: promptNotes(),
		AllowedOrigins: []string{"https://app.acme.example"},
		Desks:          []Desk{{"plain", d.plain}, {"chat", d.chat}}}, &Options{Model: model})
	known := d.Connector.products
	d.configure(productsFunc(func(id string) (Product, bool, error) {
		p, _, _ := known.Product(id)
		if id == "bare" {
			p.Desks = nil
		}
		return p, id == "acme" || id == "bare", nil
	}))
	d.mux.HandleFunc("POST /chatbot-webhook/{product_id}", d.ServeWebhook)
	d.mux.Handle("POST /chat/chat/{product_id}", d.ServeChat("chat"))
	d.mux.Handle("POST /plain/chat/{product_id}", d.ServeChat("plain"))
	d.mux.HandleFunc("POST /sessions/link", d.ServeLink)
	d.mux.HandleFunc("OPTIONS /sessions/link", d.ServeLinkPreflight)
}

// post sends a body, and returns the status code and the status or the detail.
func (d *doors) post(path, body string, headers ...string) (int, string) {
	w := d.request(http.MethodPost, path, body, headers...)
	var answer struct{ Status, Detail string }
	_ = json.Unmarshal(w.Body.Bytes(), &answer)
	return w.Code, answer.Status + answer.Detail
}

func (d *doors) request(method, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	d.mux.ServeHTTP(w, r)
	return w
}

// event sends an event of a desk to a path.
func (d *doors) event(t testing.TB, path, desk string, e helpdesk.Event) (int, string) {
	t.Helper()
	body := musttest.New(json.Marshal(e))
	return d.post(path, string(body), "X-Desk: "+desk, "X-Signature: good")
}

const webhookPath = "/chatbot-webhook/acme"

func opened(id, conversation string, contact helpdesk.Contact) helpdesk.Event {
	return helpdesk.Event{Type: helpdesk.EventOpened, DeliveryID: id, ConversationID: conversation, Contact: contact,
		At: time.Now()}
}

// openedByK1 is opened by a contact that the desk calls k1.
func openedByK1(id, conversation string) helpdesk.Event {
	e := opened(id, conversation, helpdesk.Contact{})
	e.ContactID = "k1"
	return e
}

// says requires the status of the answer to an event of the desk plain.
func (d *doors) says(t testing.TB, want string, e helpdesk.Event, why ...any) {
	t.Helper()
	_, says := d.event(t, webhookPath, "plain", e)
	require.Equal(t, want, says, why...)
}

func TestServeWebhook_answersEachBody(t *testing.T) {
	good, ofChat := []string{"X-Desk: plain", "X-Signature: good"}, []string{"X-Desk: chat", "X-Signature: good"}
	const event = `{"Type":2,"DeliveryID":"d","ConversationID":"c","Contact":{"Email":"x@acme.example"}}`
	const unsigned, noWebhook, noID = "The signature of the webhook is missing or wrong.",
		"The body is no webhook of a help desk that the product has.",
		"The webhook must name a conversation by an id of at most 256 bytes."
	with := func(old, changed string) string { return strings.Replace(event, old, changed, 1) }
	for name, tt := range map[string]struct {
		path, body string
		headers    []string
		code       int
		says       string
	}{
		"linked later":             {webhookPath, event, good, 200, "pending"},
		"a ping":                   {webhookPath, `{"Type":1}`, good, 200, "ignored"},
		"nothing that matters":     {webhookPath, `{"Type":0}`, good, 200, "ignored"},
		"nobody in particular":     {webhookPath, with(`,"Contact":{"Email":"x@acme.example"}`, ""), good, 200, "ignored"},
		"a message of a chat desk": {webhookPath, with(":2", ":3"), ofChat, 200, "ignored"},
		"with a charset": {webhookPath, event, append(good, "Content-Type: application/json; charset=utf-8"),
			200, "pending"},
		"without a content type": {webhookPath, event, append(good, "Content-Type: "), 200, "pending"},
		"unknown product":        {"/chatbot-webhook/globex", event, good, 404, "Unknown product."},
		"unsigned":               {webhookPath, event, []string{"X-Desk: plain"}, 401, unsigned},
		"of another desk":        {webhookPath, event, []string{"X-Desk: third", "X-Signature: good"}, 400, noWebhook},
		"malformed": {webhookPath, `{"Type":`, good, 400,
			"The webhook is malformed: the body is not an event."},
		"without a conversation":   {webhookPath, with(`,"ConversationID":"c"`, ""), good, 400, noID},
		"with a long conversation": {webhookPath, with(`"c"`, `"`+strings.Repeat("c", 257)+`"`), good, 400, noID},
		"too large": {webhookPath, strings.Repeat(" ", 1<<20) + event, good, 413,
			"The request body is larger than the limit of 1048576 bytes."},
		"plain text": {webhookPath, event, append(good, "Content-Type: text/plain"), 415,
			"The Content-Type must be application/json."},
		"compressed": {webhookPath, event, append(good, "Content-Encoding: gzip"), 415,
			"The body must not be compressed."},
		"a message that is unsigned": {chatPath, event, []string{"X-Desk: chat"}, 401, unsigned},
		"a message of another desk":  {chatPath, event, good, 400, noWebhook},
		"no chat there": {"/plain/chat/acme", event, good, 404,
			"The product has no such help desk with a chat."},
	} {
		t.Run(name, func(t *testing.T) {
			code, says := newDoors(t, nil).post(tt.path, tt.body, tt.headers...)
			assert.Equal(t, tt.code, code)
			assert.Equal(t, tt.says, says)
		})
	}
	musttest.New(admission.Bodies().Decoded.Acquire(t.Context(), time.Now(), "acme", 1<<40, 0))() // no body keeps its room
}

func TestServeWebhook_linksTheSessionOfTheContactOnce(t *testing.T) {
	d := newDoors(t, nil)
	d.visitAs(t, "s1", "ada", "Ada@acme.example", time.Now(), "pricing")
	contact := helpdesk.Contact{Email: "ADA@Acme.Example"}
	d.says(t, "linked", opened("d1", "c1", contact))
	assert.Equal(t, "plain/c1", d.linkedTo(t, "s1"))
	d.says(t, "already_linked", opened("d2", "c1", contact), "the same again")
	d.says(t, "already_linked", opened("d3", "c2", contact), "the first link is sticky")
	assert.Equal(t, "plain/c1", d.linkedTo(t, "s1"))
}

func TestServeWebhook_waitsForTheAddressThatItWasGiven(t *testing.T) {
	d := newDoors(t, nil)
	e := opened("d", "c", helpdesk.Contact{Email: "ada@acme.example"})
	e.ContactID = "k1"
	d.says(t, "pending", e)
	assert.Nil(t, d.stored(t, "plain/c").Contact, "there is nothing to look up")
	assert.Len(t, d.waiting(t), 1)
}

func TestServeWebhook_takesADeliveryOnce(t *testing.T) {
	d := newDoors(t, nil)
	contact := helpdesk.Contact{Email: "ada@acme.example"}
	d.says(t, "pending", opened("d1", "c1", contact))
	d.visitAs(t, "s1", "ada", contact.Email, time.Now(), "pricing")
	d.says(t, "pending", opened("d1", "c1", contact), "a repeated delivery is answered as it was, and does nothing")
	assert.Empty(t, d.linkedTo(t, "s1"))
	d.says(t, "linked", opened("d2", "c1", contact))
	d.says(t, "linked", opened("d2", "c1", contact))
}

func TestServeWebhook_withoutStorageAsksToRepeatAndThenTakesIt(t *testing.T) {
	d := newDoors(t, nil)
	d.visitAs(t, "s1", "ada", "ada@acme.example", time.Now(), "pricing")
	d.away = errAway
	e := opened("d1", "c1", helpdesk.Contact{Email: "ada@acme.example"})
	body := musttest.New(json.Marshal(e))
	w := d.request(http.MethodPost, webhookPath, string(body), "X-Desk: plain", "X-Signature: good")
	assert.Equal(t, 503, w.Code)
	assert.NotEmpty(t, w.Header().Get("Retry-After"))
	assert.NotContains(t, w.Body.String(), "away")
	d.away = nil
	d.says(t, "linked", e)
	d.configure(productsFunc(func(string) (Product, bool, error) { return Product{}, false, errAway }))
	code, _ := d.event(t, webhookPath, "plain", e)
	assert.Equal(t, 503, code)
}

func TestServeWebhook_promisesNoLinkThatIsNotStored(t *testing.T) {
	d := newDoors(t, nil)
	d.open(t, before(musttest.New(memorylog.New(nil)), func(op watchtest.Op) error {
		if slices.ContainsFunc(op.Documents, func(name string) bool { return strings.HasPrefix(name, waitingPrefix) }) {
			return d.away
		}
		return nil
	}), nil)
	d.away = errAway
	e := opened("d1", "c1", helpdesk.Contact{Email: "ada@acme.example"})
	code, _ := d.event(t, webhookPath, "plain", e)
	assert.Equal(t, 503, code)
	d.away = nil
	d.says(t, "pending", e)
}

// While the account is away, one conversation tries and the others wait for it. A desk that knows
// its limits is not asked beyond them.
func TestFollow_looksContactsUpAsTheDeskAllows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoors(t, nil)
		d.plain.pauses(func(conversationID string) time.Duration {
			return map[string]time.Duration{"limited": time.Minute}[conversationID]
		})
		d.follows(t, nil)
		name := func(conversations ...string) {
			for _, conversation := range conversations {
				e := openedByK1(conversation, conversation)
				d.event(t, webhookPath, "plain", e)
			}
			synctest.Wait()
		}
		d.plain.script("contact", &helpdesk.APIError{Status: 503}, false)
		name("c1")
		name("c2", "c3")
		assert.Equal(t, 1, d.plain.count("contact"))
		d.plain.script("contact", nil, false)
		time.Sleep(time.Minute)
		asked := d.plain.count("contact")
		assert.GreaterOrEqual(t, asked, 4)
		name("limited", "c5")
		assert.Equal(t, asked+1, d.plain.count("contact"))
	})
}

// A part of a desk may be away for long.
func TestFollow_writesNotesWhileTheDeskFailsInOneKindOfRequest(t *testing.T) {
	for _, operation := range []string{"contact", "whose", "reply"} {
		synctest.Test(t, func(t *testing.T) {
			d := newDoors(t, (&fakeModel{text: "Hello"}).answer)
			d.follows(t, nil)
			sessions := []string{"s1", "s2"}
			for _, id := range sessions {
				d.visit(t, id, "home")
				musttest.New(d.link(t.Context(), "chat", "of "+id, id, byWebhook, time.Time{}))
			}
			time.Sleep(time.Minute)
			d.chat.script(operation, &helpdesk.APIError{Status: 503}, false)
			d.event(t, webhookPath, "chat", openedByK1("d0", "of s1"))
			if operation != "contact" {
				d.event(t, chatPath, "chat", userReply("d1", "of s1", "Hi"))
			}
			for n := range 18 {
				time.Sleep(7 * time.Second)
				for _, id := range sessions {
					d.visit(t, id, "pricing")
				}
				time.Sleep(time.Second)
				for _, id := range sessions {
					assert.Len(t, d.chat.texts("of "+id), n+2, operation)
				}
			}
			assert.Greater(t, d.chat.count(operation), 10, "it is tried again")
		})
	}
}

// However many conversations wait with a request of that kind, notes are written beside them.
func TestFollow_writesNotesWhileManyWaitForTheDeskInOneKindOfRequest(t *testing.T) {
	for _, operation := range []string{"contact", "whose"} {
		for _, failed := range []helpdesk.APIError{{Status: 503}, {}} {
			synctest.Test(t, func(t *testing.T) {
				d := newDoors(t, (&fakeModel{text: "Hello"}).answer)
				d.follows(t, nil)
				d.visit(t, "s", "home")
				musttest.New(d.link(t.Context(), "chat", "c", "s", byWebhook, time.Time{}))
				time.Sleep(time.Minute)
				d.chat.script(operation, &failed, false)
				for i := range 100 {
					if operation == "contact" {
						d.event(t, webhookPath, "chat", openedByK1(fmt.Sprint("d", i), fmt.Sprint("waits", i)))
					} else {
						d.event(t, chatPath, "chat", userReply(fmt.Sprint("d", i), fmt.Sprint("waits", i), "Hi"))
					}
				}
				for n := range 18 {
					time.Sleep(7 * time.Second)
					d.visit(t, "s", "pricing")
					time.Sleep(3 * time.Second)
					assert.Len(t, d.chat.texts("c"), n+2, "%s: %d", operation, failed.Status)
				}
				asked := d.chat.count(operation)
				assert.Greater(t, asked, 12, "it is tried again")
				assert.Less(t, asked, 40, "by one at a time")
				d.chat.script(operation, nil, false)
				time.Sleep(30 * time.Second)
				assert.GreaterOrEqual(t, d.chat.count(operation), asked+100)
			})
		}
	}
}

func TestServeWebhook_looksUpAContactAfterTheAnswer(t *testing.T) {
	for name, tt := range map[string]struct {
		found helpdesk.Contact
		err   *helpdesk.APIError
		want  string
	}{
		"an address":                {helpdesk.Contact{Email: "Ada@acme.example"}, nil, "plain/c1"},
		"a user id":                 {helpdesk.Contact{UserID: "ada"}, nil, "plain/c1"},
		"long ago":                  {helpdesk.Contact{UserID: "ada"}, nil, "plain/c1"},
		"nobody known":              {helpdesk.Contact{Email: "new@acme.example"}, nil, ""},
		"nothing":                   {helpdesk.Contact{}, nil, ""},
		"a contact that has gone":   {helpdesk.Contact{}, &helpdesk.APIError{Status: 404}, ""},
		"a user id of one gone":     {helpdesk.Contact{}, &helpdesk.APIError{Status: 404}, "plain/c1"},
		"an address of nobody seen": {helpdesk.Contact{Email: "x@acme.example", UserID: "y"}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDoors(t, nil)
			d.plain.contacts = map[string]helpdesk.Contact{"k1": tt.found}
			d.plain.script("contact", tt.err, false)
			e := openedByK1("d1", "c1")
			if name == "a user id of one gone" { // the webhook has named it
				e.Contact.UserID = "ada"
			}
			if name == "long ago" { // an imported conversation has its former date, and so has a payload with a fixed time
				e.At = time.Unix(1663597223, 0)
			}
			d.says(t, "pending", e)
			assert.Zero(t, d.plain.count("contact"), "not before the answer")

			d.visitAs(t, "s1", "ada", "ada@acme.example", time.Now(), "pricing")
			require.NotNil(t, d.stored(t, "plain/c1").Contact)
			d.work(t, "plain/c1")
			assert.Equal(t, tt.want, d.linkedTo(t, "s1"))
			assert.Nil(t, d.stored(t, "plain/c1").Contact, "done")
		})
	}
}

// The server that answered the webhook has died before the look-up.
func TestFollow_looksUpAContactAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoors(t, nil)
		d.plain.contacts = map[string]helpdesk.Contact{"k1": {UserID: "ada"}}
		d.visitAs(t, "s1", "ada", "", time.Now(), "pricing")
		d.says(t, "pending", openedByK1("d1", "c1"))
		d.follows(t, d.plain.desk)
		time.Sleep(time.Minute)
		assert.Equal(t, "plain/c1", d.linkedTo(t, "s1"))
		assert.Equal(t, []string{"[1] User visited pricing"}, d.plain.texts("c1"))
	})
}

func TestServeWebhook_looksUpAContactThatIsNamedDuringALookUp(t *testing.T) {
	for _, apart := range []time.Duration{0, time.Minute} { // desks may state whole seconds
		d := newDoors(t, nil)
		d.plain.contacts = map[string]helpdesk.Contact{"k2": {Email: "ada@acme.example"}}
		d.visitAs(t, "s1", "ada", "ada@acme.example", time.Now(), "pricing")
		first, newer := openedByK1("d1", "c1"), openedByK1("d2", "c1")
		first.At, newer.ContactID = newer.At.Add(-apart), "k2"
		d.says(t, "pending", first)
		d.plain.takes = func() time.Duration {
			if d.plain.count("contact") == 1 {
				d.event(t, webhookPath, "plain", newer)
			}
			return 0
		}
		d.work(t, "plain/c1")
		assert.Equal(t, "plain/c1", d.linkedTo(t, "s1"), apart)
	}
}

// The desk may be away while a contact writes again. The link keeps the moment at which the contact
// was first named.
func TestServeWebhook_linksALookedUpContactAtItsFirstWebhook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct{ between, after, want time.Duration }{
			{5 * time.Minute, time.Minute, 6 * time.Minute},
			{0, time.Minute, time.Minute},
			{14 * time.Minute, 5 * time.Minute, 5 * time.Minute},
		} {
			d := newDoors(t, nil)
			d.plain.contacts = map[string]helpdesk.Contact{"k1": {Email: "ada@acme.example"}}
			for i, pause := range []time.Duration{tt.between, tt.after} {
				e := openedByK1(fmt.Sprint("d", i), "c1")
				d.says(t, "pending", e)
				time.Sleep(pause)
			}
			d.visitAs(t, "s1", "ada", "ada@acme.example", time.Now(), "pricing")
			d.work(t, "plain/c1")
			linked := d.stored(t, "plain/c1").Sessions
			require.Len(t, linked, 1)
			assert.InDelta(t, activity.Seconds(time.Now().Add(-tt.want-promptNotes().PreLinkWindow)), linked[0].Since, 1)
		}
	})
}

// unread is a body that must not be read.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	assert.Fail(u.t, "the body was read")
	return 0, io.ErrUnexpectedEOF
}

// A body that no desk could take is not read.
func TestServeWebhook_readsNoBodyInVain(t *testing.T) {
	d := newDoors(t, nil)
	signed := Product{Desks: []Desk{{"chat", d.chat}}}
	tests := map[string]struct {
		product Product
		path    string
		status  int
		says    string
	}{
		"no desk":                {Product{}, webhookPath, 404, "The product has no help desk."},
		"no desk with a chat":    {Product{}, chatPath, 404, "no such help desk with a chat"},
		"no signature":           {signed, webhookPath, 401, "missing or wrong"},
		"no signature of a chat": {signed, chatPath, 401, "missing or wrong"},
		"a link without origin":  {signed, "/sessions/link", 403, "may not link sessions"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d.configure(always(tt.product))
			w := httptest.NewRecorder()
			d.mux.ServeHTTP(w, httptest.NewRequest(http.MethodPost, tt.path, unread{t}))
			assert.Equal(t, tt.status, w.Code)
			assert.Contains(t, w.Body.String(), tt.says)
		})
	}
}
