package helpdesktest

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// zendeskErrors holds the usual body of an error with a status.
var zendeskErrors = map[int]string{
	http.StatusUnauthorized: `{"error":"Couldn't authenticate you"}`,
	http.StatusForbidden: `{"error":{"title":"Forbidden","message":"You do not have access to this page. Please contact ` +
		`the account owner of this help desk for further help."}}`,
	http.StatusNotFound: jsonError("RecordNotFound", "Not found"),
	http.StatusConflict: jsonError("UpdateConflict", "Safe Update prevented the update due to outdated ticket data. "+
		"Please fetch the latest ticket data and try again."),
	http.StatusTooManyRequests:    jsonError("APIRateLimitExceeded", "Number of allowed API requests per minute exceeded"),
	http.StatusServiceUnavailable: `<html><head><title>Zendesk</title></head><body>We'll be back shortly.</body></html>`,
}

// zendeskError is the usual body of an error with this status.
func zendeskError(status int) string {
	return cmp.Or(zendeskErrors[status], jsonError("InternalServerError", http.StatusText(status)))
}

func jsonError(code, description string) string {
	return fmt.Sprintf(`{"error":%q,"description":%q}`, code, description)
}

func (z *Zendesk) handler() http.Handler {
	ofTicket := func(serve func(*http.Request, *zendeskTicket) (int, any)) endpoint {
		return about(z.ticket, notFound, serve)
	}
	ofWebhook := func(serve func(*http.Request, *zendeskWebhook) (int, any)) endpoint {
		return z.byAdmin(about(z.webhook, noWebhook, serve))
	}
	return newAPI(&z.mu, z.admit, map[string]endpoint{
		"/":                                        noEndpoint,
		"POST /oauth/tokens":                       z.mint,
		"GET /api/v2/users/me":                     z.me,
		"DELETE /api/v2/users/{id}":                z.byAdmin(about(z.user, notFound, z.deleteUser)),
		"POST /api/v2/tickets":                     z.createTicket,
		"GET /api/v2/tickets/{id}":                 ofTicket(z.showTicket),
		"PUT /api/v2/tickets/{id}":                 ofTicket(z.update),
		"DELETE /api/v2/tickets/{id}":              z.byAdmin(ofTicket(z.deleteTicket)),
		"GET /api/v2/tickets/{id}/comments":        ofTicket(z.listComments),
		"PUT /api/v2/comment_redactions/{id}":      z.redact,
		"GET /api/v2/webhooks":                     z.byAdmin(z.listWebhooks),
		"POST /api/v2/webhooks":                    z.byAdmin(z.createWebhook),
		"PATCH /api/v2/webhooks/{id}":              ofWebhook(z.moveWebhook),
		"DELETE /api/v2/webhooks/{id}":             ofWebhook(z.deleteWebhook),
		"GET /api/v2/webhooks/{id}/signing_secret": ofWebhook(z.signingSecret),
		"GET /api/v2/triggers":                     z.byAdmin(z.listTriggers),
		"POST /api/v2/triggers":                    z.byAdmin(z.createTrigger),
		"DELETE /api/v2/triggers/{id}":             z.byAdmin(about(z.trigger, notFound, z.deleteTrigger)),
	})
}

// admit checks a request's credentials, rate and type. Paths may end in .json.
func (z *Zendesk) admit(answer http.Header, r *http.Request) (refused int, body any) {
	z.header = answer
	z.header.Set("X-Zendesk-Request-Id", fmt.Sprintf("%x", z.nextID()))
	r.URL.Path = strings.TrimSuffix(r.URL.Path, ".json")
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case r.URL.Path == "/oauth/tokens":
	case !z.authorized(r):
		return refusal(http.StatusUnauthorized)
	case !z.withinLimit():
		return refusal(http.StatusTooManyRequests)
	case r.Method != http.MethodGet && r.Method != http.MethodDelete && kind != "application/json":
		return http.StatusUnsupportedMediaType, jsonError("UnsupportedMediaType", "Content-Type must be application/json")
	}
	return 0, nil
}

// byAdmin refuses requests from agents.
func (z *Zendesk) byAdmin(serve endpoint) endpoint {
	return func(r *http.Request) (int, any) {
		if z.opts.Agent {
			return refusal(http.StatusForbidden)
		}
		return serve(r)
	}
}

// authorized checks the credentials as the vendor documents them.
func (z *Zendesk) authorized(r *http.Request) bool {
	basic := base64.StdEncoding.EncodeToString([]byte(ZendeskEmail + "/token:" + ZendeskAPIToken))
	scheme, value, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	switch scheme {
	case "Basic":
		return value == basic
	case "Bearer":
		return value == ZendeskOAuthToken || time.Now().Before(z.tokens[value])
	}
	return false
}

// Each function below answers one kind of request, with z.mu held.

func noEndpoint(*http.Request) (int, any) {
	return http.StatusNotFound, jsonError("InvalidEndpoint", "Not found")
}

func notFound(*http.Request) (int, any) { return refusal(http.StatusNotFound) }

func noWebhook(*http.Request) (int, any) {
	return http.StatusNotFound, `{"errors":[{"code":"WebhookNotFound","title":"Webhook not found"}]}`
}

func invalidWebhook() (int, any) {
	return http.StatusBadRequest, `{"errors":[{"code":"InvalidWebhook","title":"Invalid webhook"}]}`
}

func (z *Zendesk) me(*http.Request) (int, any) {
	me := z.userOf(ZendeskEmail, "")
	return http.StatusOK, object{"user": object{"id": me.id, "email": me.email, "role": me.role,
		"suspended": false, "only_private_comments": false}}
}

func (z *Zendesk) mint(r *http.Request) (int, any) {
	var in struct {
		GrantType    string `json:"grant_type"`
		ClientID     string `json:"client_id"`
		ClientSecret string `json:"client_secret"`
		Scope        string `json:"scope"`
	}
	switch err := json.NewDecoder(r.Body).Decode(&in); {
	case err != nil || in.GrantType != "client_credentials" || in.Scope == "":
		return http.StatusBadRequest, `{"error":"invalid_request","error_description":"The request is missing a ` +
			`required parameter."}`
	case in.ClientID != ZendeskClientID || in.ClientSecret != ZendeskClientSecret:
		return http.StatusUnauthorized, `{"error":"invalid_client","error_description":"Client authentication failed."}`
	}
	z.minted++
	token := fmt.Sprintf("minted-%d", z.minted)
	z.tokens[token] = time.Now().Add(z.opts.TokenLifetime)
	return http.StatusOK, object{"access_token": token, "token_type": "bearer", "scope": in.Scope,
		"expires_in": int(z.opts.TokenLifetime.Seconds())}
}

// withinLimit applies the account's limit and states the remainder in the
// answer's headers.
func (z *Zendesk) withinLimit() bool {
	ok := z.requests.take()
	if z.requests.limit < 0 {
		return true
	}
	resets := strconv.Itoa(z.requests.resets())
	for name, value := range map[string]int{"X-Rate-Limit": z.requests.limit, "Ratelimit-Limit": z.requests.limit,
		"X-Rate-Limit-Remaining": z.requests.remaining(), "Ratelimit-Remaining": z.requests.remaining()} {
		z.header.Set(name, strconv.Itoa(value))
	}
	z.header.Set("Ratelimit-Reset", resets)
	if !ok {
		z.header.Set("Retry-After", resets)
	}
	return ok
}

// withinUpdates applies the limits on writes, and returns the name of an exceeded one, or "".
func (z *Zendesk) withinUpdates(ticket *zendeskTicket) (exceeded string) {
	of, ok := &ticket.updates, ticket.updates.take()
	if of.limit >= 0 {
		z.header.Set("Zendesk-Ratelimit-Per-Ticket-Updates",
			fmt.Sprintf("total=%d; remaining=%d; resets=%d", of.limit, of.remaining(), of.resets()))
	}
	if exceeded = "a single ticket"; ok {
		of, exceeded = &z.updates, "tickets"
		if ok = of.take(); ok {
			return ""
		}
	}
	z.header.Set("Retry-After", strconv.Itoa(of.resets()))
	return exceeded
}

// createTicket opens a ticket on behalf of its requester and fires the triggers. It creates the
// requester unless a user with the address exists.
func (z *Zendesk) createTicket(r *http.Request) (int, any) {
	var in struct {
		Ticket struct {
			Subject   string
			Comment   struct{ Body string }
			Requester struct{ Name, Email string }
		}
	}
	if err := decodeStrictly(r, &in); err != nil || in.Ticket.Comment.Body == "" || in.Ticket.Requester.Name == "" ||
		!strings.Contains(in.Ticket.Requester.Email, "@") {
		return invalidRecord("base", "Ticket is not valid")
	}
	ticket := z.open(in.Ticket.Requester.Email, asHTML(expanded(in.Ticket.Comment.Body)))
	z.fire(ticket, "Create")
	return http.StatusCreated, object{"ticket": ticket.json(), "audit": object{"id": z.nextID()}}
}

// fire makes each active trigger whose only condition is this update type call its webhook.
func (z *Zendesk) fire(ticket *zendeskTicket, updateType string) {
	for _, trigger := range z.triggers {
		conditions := trigger.Conditions.All
		if !trigger.Active || len(conditions) != 1 || conditions[0]["field"] != "update_type" ||
			conditions[0]["value"] != updateType {
			continue
		}
		value := trigger.Actions[0].Value
		body := strings.NewReplacer("{{ticket.id}}", strconv.FormatInt(ticket.id, 10), "{{ticket.requester.email}}",
			ticket.requester.email).Replace(value[1])
		if hook := z.webhook(value[0]); hook != nil && hook.Status == "active" {
			z.deliver(z.sign(hook.Endpoint, []byte(body)))
		}
	}
}

// deleteUser removes a user, unless the user is the requester of a ticket that
// is not closed.
func (z *Zendesk) deleteUser(_ *http.Request, user *zendeskUser) (int, any) {
	for _, ticket := range z.tickets {
		if ticket.requester == user && ticket.status != "closed" {
			return http.StatusUnprocessableEntity, jsonError("RecordInvalid",
				"The user is the requester of tickets that are not closed.")
		}
	}
	delete(z.users, user.id)
	return http.StatusOK, object{"user": object{"id": user.id, "active": false}}
}

func (z *Zendesk) showTicket(_ *http.Request, ticket *zendeskTicket) (int, any) {
	return http.StatusOK, object{"ticket": ticket.json()}
}

func (z *Zendesk) deleteTicket(_ *http.Request, ticket *zendeskTicket) (int, any) {
	delete(z.tickets, ticket.id)
	return http.StatusNoContent, nil
}

// update adds a comment, or solves the ticket.
func (z *Zendesk) update(r *http.Request, ticket *zendeskTicket) (int, any) {
	if exceeded := z.withinUpdates(ticket); exceeded != "" {
		return http.StatusTooManyRequests, jsonError("TooManyRequests",
			"You have exceeded the rate limit for updating "+exceeded+".")
	}
	var in struct {
		Ticket struct {
			Comment *struct {
				Body     string
				HTMLBody string `json:"html_body"`
				Public   *bool
			}
			Status     string
			AssigneeID int64 `json:"assignee_id"`
		}
	}
	err := decodeStrictly(r, &in)
	comment := in.Ticket.Comment
	switch {
	case ticket.status == "closed":
		return invalidRecord("status", "Status: closed prevents ticket update")
	case err == nil && in.Ticket.Status == "solved" && z.users[in.Ticket.AssigneeID] != nil:
		ticket.status = "solved"
		return z.showTicket(r, ticket)
	case err != nil || comment == nil:
		return http.StatusBadRequest, jsonError("InvalidValue", "Unprocessable JSON")
	}
	html := sanitized(expanded(comment.HTMLBody))
	if comment.HTMLBody == "" {
		html = asHTML(expanded(comment.Body))
	}
	if strings.TrimSpace(plainText(html)) == "" {
		return invalidRecord("comment", "Comment: cannot be blank")
	}
	public := comment.Public == nil || *comment.Public // public by default
	written := z.write(ticket, z.userOf(ZendeskEmail, ""), html, public)
	return http.StatusOK, object{"ticket": ticket.json(), "audit": object{
		"id": z.nextID(), "ticket_id": ticket.id, "author_id": written.authorID,
		"created_at": written.At.UTC().Format(time.RFC3339),
		"events": []any{object{"id": z.nextID(), "type": "Change", "field_name": "status",
			"value": ticket.status}, written.json()},
	}}
}

func (z *Zendesk) listComments(r *http.Request, ticket *zendeskTicket) (int, any) {
	var all []object
	for _, c := range ticket.comments {
		if !c.Public || !z.opts.Messaging {
			all = append(all, c.json())
		}
	}
	if r.URL.Query().Get("sort") == "-created_at" {
		slices.Reverse(all)
	}
	return paged(r, "comments", all)
}

func (z *Zendesk) redact(r *http.Request) (int, any) {
	if !z.opts.MayRedact {
		return refusal(http.StatusForbidden)
	}
	var in struct {
		TicketID int64  `json:"ticket_id"`
		HTMLBody string `json:"html_body"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		return http.StatusBadRequest, jsonError("InvalidValue", "Unprocessable JSON")
	}
	if ticket := z.tickets[in.TicketID]; ticket != nil {
		for i := range ticket.comments {
			if c := &ticket.comments[i]; c.ID == r.PathValue("id") {
				c.setHTML(blanked(in.HTMLBody))
				return http.StatusOK, object{"comment": c.json()}
			}
		}
	}
	return refusal(http.StatusNotFound)
}

func (z *Zendesk) listWebhooks(r *http.Request) (int, any) { return paged(r, "webhooks", z.webhooks) }

func (z *Zendesk) createWebhook(r *http.Request) (int, any) {
	var in struct{ Webhook zendeskWebhook }
	hook := &in.Webhook
	if err := decodeStrictly(r, &in); err != nil || hook.ID != "" || hook.Name == "" || hook.HTTPMethod != "POST" ||
		hook.RequestFormat != "json" ||
		hook.Status != "active" && hook.Status != "inactive" || len(hook.Subscriptions) == 0 ||
		!strings.HasPrefix(hook.Endpoint, "http") {
		return invalidWebhook()
	}
	hook.ID = fmt.Sprintf("01HW%d", z.nextID())
	hook.secret = "secret-of-" + hook.ID
	z.webhooks = append(z.webhooks, hook)
	return http.StatusCreated, object{"webhook": hook}
}

// moveWebhook changes the endpoint of a webhook.
func (z *Zendesk) moveWebhook(r *http.Request, hook *zendeskWebhook) (int, any) {
	var in struct{ Webhook struct{ Endpoint string } }
	if json.NewDecoder(r.Body).Decode(&in) != nil || !strings.HasPrefix(in.Webhook.Endpoint, "http") {
		return invalidWebhook()
	}
	hook.Endpoint = in.Webhook.Endpoint
	return http.StatusNoContent, nil
}

// deleteWebhook removes a webhook, unless a trigger calls it.
func (z *Zendesk) deleteWebhook(_ *http.Request, hook *zendeskWebhook) (int, any) {
	if slices.ContainsFunc(z.triggers, func(t *zendeskTrigger) bool { return t.Actions[0].Value[0] == hook.ID }) {
		return invalidWebhook()
	}
	z.webhooks = slices.DeleteFunc(z.webhooks, func(other *zendeskWebhook) bool { return other == hook })
	return http.StatusNoContent, nil
}

func (z *Zendesk) signingSecret(_ *http.Request, hook *zendeskWebhook) (int, any) {
	return http.StatusOK, object{"signing_secret": object{"secret": hook.secret, "algorithm": "SHA256"}}
}

func (z *Zendesk) listTriggers(r *http.Request) (int, any) { return paged(r, "triggers", z.triggers) }

func (z *Zendesk) createTrigger(r *http.Request) (int, any) {
	var in struct{ Trigger zendeskTrigger }
	err := decodeStrictly(r, &in)
	t := &in.Trigger
	if err != nil || t.ID != 0 || t.Conditions.Any != nil || t.Title == "" || len(t.Conditions.All) == 0 ||
		len(t.Actions) != 1 || t.Actions[0].Field != "notification_webhook" ||
		len(t.Actions[0].Value) != 2 || z.webhook(t.Actions[0].Value[0]) == nil {
		return invalidRecord("base", "Trigger is not valid")
	}
	t.ID, t.Conditions.Any = z.nextID(), []any{}
	z.triggers = append(z.triggers, t)
	return http.StatusCreated, object{"trigger": t}
}

func (z *Zendesk) deleteTrigger(_ *http.Request, trigger *zendeskTrigger) (int, any) {
	z.triggers = slices.DeleteFunc(z.triggers, func(other *zendeskTrigger) bool { return other == trigger })
	return http.StatusNoContent, nil
}

func (t *zendeskTicket) json() object {
	return object{"id": t.id, "status": t.status, "requester_id": t.requester.id}
}

func (c Comment) json() object {
	return object{"id": json.Number(c.ID), "type": "Comment", "author_id": c.authorID, "public": c.Public,
		"html_body": c.HTML, "plain_body": c.Text, "body": strings.Join(strings.Fields(c.Text), " "),
		"created_at": c.At.UTC().Format(time.RFC3339)}
}

// paged returns the page of a list that a request asks for.
func paged[T any](r *http.Request, name string, all []T) (int, any) {
	query := r.URL.Query()
	size, err := strconv.Atoi(query.Get("page[size]"))
	if err != nil || size < 1 || size > 100 {
		size = 100
	}
	from, _ := strconv.Atoi(query.Get("page[after]"))
	from = min(max(from, 0), len(all))
	to := min(from+size, len(all))
	return http.StatusOK, object{name: append([]T{}, all[from:to]...),
		"meta": object{"has_more": to < len(all), "after_cursor": strconv.Itoa(to)}}
}

// invalidRecord is the answer for an object with an invalid field.
func invalidRecord(field, problem string) (int, any) {
	return http.StatusUnprocessableEntity, object{"error": "RecordInvalid", "description": "Record validation errors",
		"details": object{field: []object{{"description": problem}}}}
}

// refusal is a status with its usual body.
func refusal(status int) (int, any) { return status, zendeskError(status) }
