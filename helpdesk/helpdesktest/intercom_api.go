package helpdesktest

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/liveactivity/liveactivity/helpdesk"
)

// apiError is an error as Intercom answers it.
type apiError struct {
	status        int
	code, message string
}

// Error returns the body of the answer.
func (e *apiError) Error() string {
	return string(mustMarshal(object{"type": "error.list", "request_id": uuid.NewString(),
		"errors": []object{{"code": e.code, "message": e.message}}}))
}

// intercomError returns Intercom's error for a status.
func intercomError(status int) *apiError {
	e, ok := map[int]apiError{
		http.StatusUnauthorized: {code: "unauthorized", message: "Access Token Invalid"},
		http.StatusForbidden:    {code: "api_plan_restricted", message: "Active subscription needed."},
		http.StatusNotFound:     {code: "not_found", message: "Resource Not Found"},
		http.StatusConflict:     {code: "conflict", message: "The resource is being changed by another request"},
		http.StatusTooManyRequests: {
			code: "rate_limit_exceeded", message: "The rate limit for the App has been exceeded"},
	}[status]
	switch {
	case ok:
	case status >= 500:
		e = apiError{code: "server_error", message: "Server Error"}
	default:
		e = apiError{code: "parameter_invalid", message: http.StatusText(status)}
	}
	e.status = status
	return &e
}

// handler answers the API's requests.
func (f *Intercom) handler() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, answer func(r *http.Request) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { f.serveAPI(w, r, answer) })
	}
	handle("GET /me", f.me)
	handle("GET /admins/{id}", f.showAdmin)
	handle("GET /contacts", f.listContacts)
	handle("POST /contacts", f.createContact)
	handle("GET /contacts/{id}", f.showContact)
	handle("DELETE /contacts/{id}", f.deleteContact)
	handle("GET /conversations", f.listConversations)
	handle("POST /conversations", f.createConversation)
	handle("GET /conversations/{id}", f.showConversation)
	handle("DELETE /conversations/{id}", f.deleteConversation)
	handle("POST /conversations/{id}/parts", f.postPart)
	handle("POST /conversations/{id}/reply", f.postReply)
	handle("POST /conversations/redact", f.redact)
	handle("/", func(*http.Request) (any, error) { return nil, intercomError(http.StatusNotFound) })
	return mux
}

// serveAPI answers a request after the checks that all requests share.
func (f *Intercom) serveAPI(w http.ResponseWriter, r *http.Request, answer func(r *http.Request) (any, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Date", time.Now().UTC().Format(http.TimeFormat))
	var body any
	err := f.admit(w.Header(), r)
	if err == nil {
		body, err = answer(r)
	}
	if failed, ok := errors.AsType[*apiError](err); ok {
		w.WriteHeader(failed.status)
		_, _ = w.Write([]byte(failed.Error()))
		return
	}
	_ = json.NewEncoder(w).Encode(body)
}

// admit checks a request's credentials, version and rate.
func (f *Intercom) admit(answer http.Header, r *http.Request) error {
	if r.Header.Get("Authorization") != "Bearer "+IntercomAccessToken {
		return intercomError(http.StatusUnauthorized)
	}
	taken := f.requests.take(time.Now())
	if f.requests.limit >= 0 {
		answer.Set("X-RateLimit-Limit", strconv.Itoa(f.requests.limit))
		answer.Set("X-RateLimit-Remaining", strconv.Itoa(f.requests.remaining()))
		answer.Set("X-RateLimit-Reset", strconv.FormatInt(f.requests.ends.Unix(), 10))
	}
	if !taken {
		return intercomError(http.StatusTooManyRequests)
	}
	switch {
	case r.Header.Get("Accept") != "application/json":
		return &apiError{http.StatusNotAcceptable, "media_type_not_acceptable",
			"The Accept header should send a media type of application/json"}
	case r.Method == http.MethodPost && r.Header.Get("Content-Type") != "application/json":
		return &apiError{http.StatusUnsupportedMediaType, "content_type_not_supported",
			"The Content-Type header should send a media type of application/json"}
	case intercomVersion(r) < 0:
		return &apiError{http.StatusBadRequest, "intercom_version_invalid", "The requested version could not be found"}
	}
	return nil
}

// intercomVersions are the versions of the API, in their order.
var intercomVersions = []string{"2.0", "2.1", "2.2", "2.3", "2.4", "2.5", "2.6", "2.7", "2.8", "2.9", "2.10", "2.11",
	"2.12", "2.13", "2.14", "2.15", "2.16", "Unstable"}

// intercomVersion returns the place of a request's version in their order, -1
// without a known one.
func intercomVersion(r *http.Request) int {
	return slices.Index(intercomVersions, r.Header.Get("Intercom-Version"))
}

// The functions below answer one kind of request each, with f.mu held.

func (f *Intercom) me(*http.Request) (any, error) {
	return object{"type": "admin", "id": IntercomAdminID, "name": "Teammate " + IntercomAdminID,
		"email_verified": true, "has_inbox_seat": true,
		"app": object{"type": "app", "id_code": "fake", "name": "Fake workspace", "region": "US"}}, nil
}

func (f *Intercom) showAdmin(r *http.Request) (any, error) {
	if id := r.PathValue("id"); isIntercomAdmin(id) {
		return object{"type": "admin", "id": id, "name": "Teammate " + id, "has_inbox_seat": true}, nil
	}
	return nil, errNoAdmin
}

func isIntercomAdmin(id string) bool { return id == IntercomAdminID || id == intercomAgent }

var errNoAdmin = &apiError{http.StatusNotFound, "admin_not_found", "Admin for admin_id not found"}

func (f *Intercom) listContacts(*http.Request) (any, error) {
	return object{"type": "list", "data": []any{}, "total_count": len(f.contacts)}, nil
}

func (f *Intercom) showContact(r *http.Request) (any, error) {
	id := r.PathValue("id")
	contact, ok := f.contacts[id]
	if !ok {
		return nil, intercomError(http.StatusNotFound)
	}
	return object{"type": "contact", "id": id, "role": contact.role(), "email": orNull(contact.Email),
		"external_id": orNull(contact.ExternalID)}, nil
}

func (f *Intercom) createContact(r *http.Request) (any, error) {
	var in struct{ Role, Email string }
	if err := decodeStrictly(r, &in); err != nil {
		return nil, err
	}
	for _, contact := range f.contacts {
		if in.Role == contact.role() && contact.Email == in.Email {
			return nil, &apiError{http.StatusConflict, "conflict", "A contact matching those details already exists"}
		}
	}
	if in.Role != "user" || in.Email == "" {
		return nil, &apiError{http.StatusBadRequest, "parameter_invalid", "role or email is invalid"}
	}
	id := f.addContact(IntercomContact{Email: in.Email})
	return object{"type": "contact", "id": id, "role": in.Role, "email": in.Email, "external_id": nil}, nil
}

func (f *Intercom) deleteContact(r *http.Request) (any, error) {
	id := r.PathValue("id")
	if _, ok := f.contacts[id]; !ok {
		return nil, intercomError(http.StatusNotFound)
	}
	delete(f.contacts, id)
	return object{"type": "contact", "id": id, "external_id": nil, "deleted": true}, nil
}

// createConversation begins a conversation in the name of a contact, and reports it.
func (f *Intercom) createConversation(r *http.Request) (any, error) {
	var in struct {
		From struct{ Type, ID string }
		Body string
	}
	if err := decodeStrictly(r, &in); err != nil {
		return nil, err
	}
	contact, ok := f.contacts[in.From.ID]
	switch {
	case !ok || contact.role() != in.From.Type:
		return nil, &apiError{http.StatusNotFound, "not_found", "User Not Found"}
	case in.Body == "":
		return nil, &apiError{http.StatusBadRequest, "parameter_not_found", "body is required"}
	}
	c := f.begin(in.From.ID, in.Body)
	if f.endpoint != "" {
		f.deliver(f.opened(f.endpoint, c))
	}
	return object{"type": "user_message", "id": f.newID(), "created_at": c.createdAt.Unix(), "body": in.Body,
		"message_type": "inapp", "conversation_id": c.id}, nil
}

func (f *Intercom) listConversations(*http.Request) (any, error) {
	return object{"type": "conversation.list", "conversations": []any{}, "total_count": len(f.conversations)}, nil
}

// find returns the conversation that a request is about.
func (f *Intercom) find(r *http.Request) (*intercomConversation, error) {
	if c := f.conversations[r.PathValue("id")]; c != nil {
		return c, nil
	}
	return nil, intercomError(http.StatusNotFound)
}

// maxIntercomParts is how many parts of a conversation are shown.
const maxIntercomParts = 500

func (f *Intercom) showConversation(r *http.Request) (any, error) {
	c, err := f.find(r)
	if err != nil {
		return nil, err
	}
	return f.show(c, c.parts[max(0, len(c.parts)-maxIntercomParts):], true), nil
}

func (f *Intercom) deleteConversation(r *http.Request) (any, error) {
	if retain := r.URL.Query().Get("retain_metrics"); retain != "" && retain != "true" && retain != "false" {
		return nil, &apiError{http.StatusBadRequest, "parameter_invalid", "retain_metrics must be a boolean"}
	}
	c, err := f.find(r)
	if err != nil || intercomVersion(r) < slices.Index(intercomVersions, "2.15") {
		return nil, intercomError(http.StatusNotFound)
	}
	delete(f.conversations, c.id)
	return object{"id": c.id, "object": "conversation", "deleted": true}, nil
}

// intercomMessage is the body of a request that writes.
type intercomMessage struct {
	Type         string  `json:"type"`
	AdminID      string  `json:"admin_id"`
	MessageType  string  `json:"message_type"`
	Body         *string `json:"body"`
	ReplyOptions []struct {
		Text string    `json:"text"`
		UUID uuid.UUID `json:"uuid"`
	} `json:"reply_options"`
}

func (f *Intercom) postPart(r *http.Request) (any, error) {
	return f.write(r, func(m intercomMessage) bool { return m.MessageType == "note" && !f.opts.NotesByReply })
}

func (f *Intercom) postReply(r *http.Request) (any, error) {
	return f.write(r, func(m intercomMessage) bool {
		return m.MessageType == "note" || m.MessageType == "comment" || m.MessageType == "quick_reply" &&
			r.Header.Get("Intercom-Version") == "Unstable"
	})
}

// write adds a part, unless takes refuses the message.
func (f *Intercom) write(r *http.Request, takes func(intercomMessage) bool) (any, error) {
	var m intercomMessage
	if err := decodeStrictly(r, &m); err != nil {
		return nil, err
	}
	c, err := f.find(r)
	var labels []string
	for _, option := range m.ReplyOptions {
		labels = append(labels, option.Text)
	}
	switch {
	case err != nil:
		return nil, err
	case !takes(m):
		return nil, &apiError{http.StatusBadRequest, "parameter_invalid", "message_type is invalid"}
	case m.Type != "admin":
		return nil, &apiError{http.StatusBadRequest, "parameter_invalid", "type must be admin"}
	case m.Body == nil || m.MessageType != "quick_reply" && *m.Body == "":
		return nil, &apiError{http.StatusBadRequest, "parameter_not_found", "body is required"}
	case (m.MessageType == "quick_reply") != (m.ReplyOptions != nil) || len(labels) > helpdesk.MaxLabels ||
		slices.Contains(labels, ""):
		return nil, &apiError{http.StatusBadRequest, "parameter_invalid", "reply_options is invalid"}
	case !isIntercomAdmin(m.AdminID):
		return nil, errNoAdmin
	}
	part := f.add(c, m.MessageType, m.AdminID, *m.Body, labels)
	return f.show(c, []IntercomPart{part}, true), nil
}

func (f *Intercom) redact(r *http.Request) (any, error) {
	var b struct {
		Type   string `json:"type"`
		ID     string `json:"conversation_id"`
		PartID string `json:"conversation_part_id"`
	}
	if err := decodeStrictly(r, &b); err != nil {
		return nil, err
	}
	if b.Type != "conversation_part" {
		return nil, &apiError{http.StatusBadRequest, "parameter_invalid", "type is invalid"}
	}
	if c := f.conversations[b.ID]; c != nil {
		for i := range c.parts {
			if p := &c.parts[i]; p.ID == b.PartID {
				p.Redacted = true
				f.setBody(p, "<p><i>This message was deleted</i></p>")
				return f.show(c, c.parts[i:i+1], true), nil
			}
		}
	}
	return nil, &apiError{http.StatusNotFound, "conversation_part_or_message_not_found",
		"Conversation part or message not found"}
}

// decodeStrictly decodes a request's body, which must have no other fields and no
// other types.
func decodeStrictly(r *http.Request, v any) error {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return &apiError{http.StatusBadRequest, "parameter_invalid", err.Error()}
	}
	return nil
}
