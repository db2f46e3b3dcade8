package helpdesktest

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/liveactivity/liveactivity/helpdesk"
)

// intercomError is an error in Intercom's format.
func intercomError(status int, code, message string) (int, any) {
	return status, object{"type": "error.list", "request_id": uuid.NewString(),
		"errors": []object{{"code": code, "message": message}}}
}

// invalidParameter is the answer to a request with an invalid parameter.
func invalidParameter(message string) (int, any) {
	return intercomError(http.StatusBadRequest, "parameter_invalid", message)
}

// intercomErrors holds the code and the message of the usual error with a status, 500 for
// all from there.
var intercomErrors = map[int][2]string{
	http.StatusUnauthorized:        {"unauthorized", "Access Token Invalid"},
	http.StatusForbidden:           {"api_plan_restricted", "Active subscription needed."},
	http.StatusNotFound:            {"not_found", "Resource Not Found"},
	http.StatusConflict:            {"conflict", "The resource is being changed by another request"},
	http.StatusTooManyRequests:     {"rate_limit_exceeded", "The rate limit for the App has been exceeded"},
	http.StatusInternalServerError: {"server_error", "Server Error"},
}

// intercomRefusal is a status with its usual error.
func intercomRefusal(status int) (int, any) {
	usual := cmp.Or(intercomErrors[min(status, http.StatusInternalServerError)],
		[2]string{"parameter_invalid", http.StatusText(status)})
	return intercomError(status, usual[0], usual[1])
}

// intercomNotFound answers a request for a missing object.
func intercomNotFound(*http.Request) (int, any) { return intercomRefusal(http.StatusNotFound) }

func (f *Intercom) handler() http.Handler {
	ofContact := func(serve func(*http.Request, *intercomContact) (int, any)) endpoint {
		return about(func(id string) *intercomContact { return f.contacts[id] }, intercomNotFound, serve)
	}
	of := func(serve func(*http.Request, *intercomConversation) (int, any)) endpoint {
		return about(f.conversation, intercomNotFound, serve)
	}
	return newAPI(&f.mu, f.admit, map[string]endpoint{
		"/":                              intercomNotFound,
		"GET /me":                        f.me,
		"GET /admins/{id}":               f.showAdmin,
		"GET /contacts":                  f.listContacts,
		"POST /contacts":                 f.createContact,
		"GET /contacts/{id}":             ofContact(f.showContact),
		"DELETE /contacts/{id}":          ofContact(f.deleteContact),
		"GET /conversations":             f.listConversations,
		"POST /conversations":            f.createConversation,
		"GET /conversations/{id}":        of(f.showConversation),
		"DELETE /conversations/{id}":     of(f.deleteConversation),
		"POST /conversations/{id}/parts": of(f.write),
		"POST /conversations/{id}/reply": of(f.write),
		"POST /conversations/redact":     f.redact,
	})
}

// admit checks a request's credentials, version and rate.
func (f *Intercom) admit(answer http.Header, r *http.Request) (refused int, body any) {
	answer.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	if r.Header.Get("Authorization") != "Bearer "+IntercomAccessToken {
		return intercomRefusal(http.StatusUnauthorized)
	}
	taken := f.requests.take()
	if f.requests.limit >= 0 {
		answer.Set("X-RateLimit-Limit", strconv.Itoa(f.requests.limit))
		answer.Set("X-RateLimit-Remaining", strconv.Itoa(f.requests.remaining()))
		answer.Set("X-RateLimit-Reset", strconv.FormatInt(f.requests.ends.Unix(), 10))
	}
	switch {
	case !taken:
		return intercomRefusal(http.StatusTooManyRequests)
	case r.Header.Get("Accept") != "application/json":
		return intercomError(http.StatusNotAcceptable, "media_type_not_acceptable",
			"The Accept header should send a media type of application/json")
	case r.Method == http.MethodPost && r.Header.Get("Content-Type") != "application/json":
		return intercomError(http.StatusUnsupportedMediaType, "content_type_not_supported",
			"The Content-Type header should send a media type of application/json")
	case intercomVersion(r) < 0:
		return intercomError(http.StatusBadRequest, "intercom_version_invalid", "The requested version could not be found")
	}
	return 0, nil
}

// intercomVersions are the versions of the API, oldest first.
var intercomVersions = []string{"2.0", "2.1", "2.2", "2.3", "2.4", "2.5", "2.6", "2.7", "2.8", "2.9", "2.10", "2.11",
	"2.12", "2.13", "2.14", "2.15", "2.16", "Unstable", "Preview"}

// intercomVersion returns the index of a request's version in intercomVersions,
// or -1 if it is missing or unknown.
func intercomVersion(r *http.Request) int {
	return slices.Index(intercomVersions, r.Header.Get("Intercom-Version"))
}

// Each function below answers one kind of request, with f.mu held.

func (f *Intercom) me(*http.Request) (int, any) {
	return http.StatusOK, object{"type": "admin", "id": IntercomAdminID, "name": "Teammate " + IntercomAdminID,
		"email_verified": true, "has_inbox_seat": true,
		"app": object{"type": "app", "id_code": "fake", "name": "Fake workspace", "region": "US"}}
}

func (f *Intercom) showAdmin(r *http.Request) (int, any) {
	if id := r.PathValue("id"); isIntercomAdmin(id) {
		return http.StatusOK, object{"type": "admin", "id": id, "name": "Teammate " + id, "has_inbox_seat": true}
	}
	return noAdmin()
}

func isIntercomAdmin(id string) bool { return id == IntercomAdminID || id == intercomAgent }

func noAdmin() (int, any) {
	return intercomError(http.StatusNotFound, "admin_not_found", "Admin for admin_id not found")
}

func (f *Intercom) listContacts(*http.Request) (int, any) {
	return http.StatusOK, object{"type": "list", "data": []any{}, "total_count": len(f.contacts)}
}

func (f *Intercom) showContact(_ *http.Request, contact *intercomContact) (int, any) {
	return http.StatusOK, object{"type": "contact", "id": contact.id, "role": contact.Role,
		"email": orNull(contact.Email), "external_id": orNull(contact.ExternalID)}
}

func (f *Intercom) createContact(r *http.Request) (int, any) {
	var in struct{ Role, Email string }
	if err := decodeStrictly(r, &in); err != nil {
		return invalidParameter(err.Error())
	}
	for _, contact := range f.contacts {
		if in.Role == contact.Role && contact.Email == in.Email {
			return intercomError(http.StatusConflict, "conflict", "A contact matching those details already exists")
		}
	}
	if in.Role != "user" || in.Email == "" {
		return invalidParameter("role or email is invalid")
	}
	return f.showContact(r, f.addContact(IntercomContact{Email: in.Email}))
}

func (f *Intercom) deleteContact(_ *http.Request, contact *intercomContact) (int, any) {
	delete(f.contacts, contact.id)
	return http.StatusOK, object{"type": "contact", "id": contact.id, "external_id": nil, "deleted": true}
}

// createConversation begins a conversation on behalf of a contact, and reports it.
func (f *Intercom) createConversation(r *http.Request) (int, any) {
	var in struct {
		From struct{ Type, ID string }
		Body string
	}
	if err := decodeStrictly(r, &in); err != nil {
		return invalidParameter(err.Error())
	}
	contact := f.contacts[in.From.ID]
	switch {
	case contact == nil || contact.Role != in.From.Type:
		return intercomError(http.StatusNotFound, "not_found", "User Not Found")
	case in.Body == "":
		return intercomError(http.StatusBadRequest, "parameter_not_found", "body is required")
	}
	c := f.begin(in.From.ID, in.Body)
	if f.endpoint != "" {
		f.deliver(f.opened(f.endpoint, c))
	}
	return http.StatusOK, object{"type": "user_message", "id": f.newID(), "created_at": c.createdAt.Unix(),
		"body": in.Body, "message_type": "inapp", "conversation_id": c.id}
}

func (f *Intercom) listConversations(*http.Request) (int, any) {
	return http.StatusOK, object{"type": "conversation.list", "conversations": []any{},
		"total_count": len(f.conversations)}
}

// maxIntercomParts is the maximum number of a conversation's parts in an
// answer.
const maxIntercomParts = 500

func (f *Intercom) showConversation(_ *http.Request, c *intercomConversation) (int, any) {
	return http.StatusOK, f.show(c, c.parts, true)
}

func (f *Intercom) deleteConversation(r *http.Request, c *intercomConversation) (int, any) {
	if retain := r.URL.Query().Get("retain_metrics"); retain != "" && retain != "true" && retain != "false" {
		return invalidParameter("retain_metrics must be a boolean")
	}
	if intercomVersion(r) < slices.Index(intercomVersions, "2.15") {
		return intercomRefusal(http.StatusNotFound)
	}
	delete(f.conversations, c.id)
	return http.StatusOK, object{"id": c.id, "object": "conversation", "deleted": true}
}

// takes reports whether an endpoint takes messages of a type.
func (f *Intercom) takes(r *http.Request, messageType string) bool {
	isReply := strings.HasSuffix(r.URL.Path, "/reply")
	switch messageType {
	case "note":
		return isReply || !f.opts.NotesByReply
	case "comment":
		return isReply
	}
	return messageType == "quick_reply" && isReply && intercomVersion(r) >= slices.Index(intercomVersions, "Unstable")
}

func (f *Intercom) write(r *http.Request, c *intercomConversation) (int, any) {
	var m struct {
		Type         string
		AdminID      string `json:"admin_id"`
		MessageType  string `json:"message_type"`
		Body         *string
		ReplyOptions []struct {
			Text string
			UUID uuid.UUID
		} `json:"reply_options"`
	}
	if err := decodeStrictly(r, &m); err != nil {
		return invalidParameter(err.Error())
	}
	var labels []string
	for _, option := range m.ReplyOptions {
		labels = append(labels, option.Text)
	}
	switch {
	case !f.takes(r, m.MessageType):
		return invalidParameter("message_type is invalid")
	case m.Type != "admin":
		return invalidParameter("type must be admin")
	case m.Body == nil || m.MessageType != "quick_reply" && *m.Body == "":
		return intercomError(http.StatusBadRequest, "parameter_not_found", "body is required")
	case (m.MessageType == "quick_reply") != (m.ReplyOptions != nil) || len(labels) > helpdesk.MaxLabels ||
		slices.Contains(labels, ""):
		return invalidParameter("reply_options is invalid")
	case !isIntercomAdmin(m.AdminID):
		return noAdmin()
	}
	part := f.add(c, m.MessageType, m.AdminID, *m.Body, labels)
	return http.StatusOK, f.show(c, []IntercomPart{part}, true)
}

func (f *Intercom) redact(r *http.Request) (int, any) {
	var b struct {
		Type   string `json:"type"`
		ID     string `json:"conversation_id"`
		PartID string `json:"conversation_part_id"`
	}
	if err := decodeStrictly(r, &b); err != nil {
		return invalidParameter(err.Error())
	}
	if b.Type != "conversation_part" {
		return invalidParameter("type is invalid")
	}
	if c := f.conversations[b.ID]; c != nil {
		for i := range c.parts {
			if p := &c.parts[i]; p.ID == b.PartID {
				p.Redacted = true
				f.setBody(p, "<p><i>This message was deleted</i></p>")
				return http.StatusOK, f.show(c, c.parts[i:i+1], true)
			}
		}
	}
	return intercomError(http.StatusNotFound, "conversation_part_or_message_not_found",
		"Conversation part or message not found")
}
