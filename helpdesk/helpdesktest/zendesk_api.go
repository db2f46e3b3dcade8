package helpdesktest

import (
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

// zendeskError is the body of an error that a fault injects.
func zendeskError(status int) string {
	code, description := "InternalServerError", http.StatusText(status)
	switch status {
	case http.StatusUnauthorized:
		return `{"error":"Couldn't authenticate you"}`
	case http.StatusForbidden:
		return `{"error":{"title":"Forbidden","message":"You do not have access to this page. Please contact the ` +
			`account owner of this help desk for further help."}}`
	case http.StatusNotFound:
		code, description = "RecordNotFound", "Not found"
	case http.StatusConflict:
		code, description = "UpdateConflict", "Safe Update prevented the update due to outdated ticket data. Please "+
			"fetch the latest ticket data and try again."
	case http.StatusTooManyRequests:
		code, description = "APIRateLimitExceeded", "Number of allowed API requests per minute exceeded"
	case http.StatusServiceUnavailable:
		return `<html><head><title>Zendesk</title></head><body>We'll be back shortly.</body></html>`
	}
	return jsonError(code, description)
}

func jsonError(code, description string) string {
	return fmt.Sprintf(`{"error":%q,"description":%q}`, code, description)
}

// handle is the API.
func (z *Zendesk) handle(w http.ResponseWriter, r *http.Request) {
	z.mu.Lock()
	defer z.mu.Unlock()
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("X-Zendesk-Request-Id", fmt.Sprintf("%x", z.nextID()))
	path := strings.TrimSuffix(r.URL.Path, ".json")
	if r.Method == http.MethodPost && path == "/oauth/tokens" {
		z.mint(w, r)
		return
	}
	if !z.authorized(r) {
		refuse(w, http.StatusUnauthorized)
		return
	}
	if !z.withinLimit(w) {
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodDelete {
		if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/json" {
			fail(w, http.StatusUnsupportedMediaType, jsonError("UnsupportedMediaType",
				"Content-Type must be application/json"))
			return
		}
	}
	z.route(w, r, strings.Split(strings.TrimPrefix(path, "/api/v2/"), "/"))
}

func (z *Zendesk) route(w http.ResponseWriter, r *http.Request, parts []string) {
	switch call := r.Method + " " + parts[0]; {
	case call == "GET users" && len(parts) == 2 && parts[1] == "me":
		me := z.userOf(ZendeskEmail, "")
		reply(w, http.StatusOK, object{"user": object{"id": me.id, "email": me.email, "role": me.role,
			"suspended": false, "only_private_comments": false}})
	case call == "POST tickets" && len(parts) == 1:
		z.createTicket(w, r)
	case parts[0] == "tickets" && len(parts) > 1:
		z.serveTicket(w, r, parts[1:])
	case call == "DELETE users" && len(parts) == 2:
		z.deleteUser(w, parts[1])
	case call == "PUT comment_redactions" && len(parts) == 2:
		z.redact(w, r, parts[1])
	case (parts[0] == "webhooks" || parts[0] == "triggers") && z.opts.Agent:
		refuse(w, http.StatusForbidden)
	case call == "GET webhooks" && len(parts) == 1:
		reply(w, http.StatusOK, paged(r, "webhooks", z.webhooks))
	case call == "POST webhooks" && len(parts) == 1:
		z.createWebhook(w, r)
	case (call == "PATCH webhooks" || call == "DELETE webhooks") && len(parts) == 2:
		z.changeWebhook(w, r, parts[1])
	case call == "DELETE triggers" && len(parts) == 2:
		z.deleteTrigger(w, parts[1])
	case call == "GET webhooks" && len(parts) == 3 && parts[2] == "signing_secret":
		z.signingSecret(w, parts[1])
	case call == "GET triggers" && len(parts) == 1:
		reply(w, http.StatusOK, paged(r, "triggers", z.triggers))
	case call == "POST triggers" && len(parts) == 1:
		z.createTrigger(w, r)
	default:
		fail(w, http.StatusNotFound, jsonError("InvalidEndpoint", "Not found"))
	}
}

func (z *Zendesk) serveTicket(w http.ResponseWriter, r *http.Request, parts []string) {
	ticket := z.ticket(parts[0])
	switch {
	case ticket == nil:
		refuse(w, http.StatusNotFound)
	case r.Method == http.MethodGet && len(parts) == 1:
		reply(w, http.StatusOK, object{"ticket": ticket.json()})
	case r.Method == http.MethodPut && len(parts) == 1:
		z.update(w, r, ticket)
	case r.Method == http.MethodDelete && len(parts) == 1 && z.opts.Agent:
		refuse(w, http.StatusForbidden)
	case r.Method == http.MethodDelete && len(parts) == 1:
		delete(z.tickets, ticket.id)
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodGet && len(parts) == 2 && parts[1] == "comments":
		z.listComments(w, r, ticket)
	default:
		fail(w, http.StatusNotFound, jsonError("InvalidEndpoint", "Not found"))
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

func (z *Zendesk) mint(w http.ResponseWriter, r *http.Request) {
	var in struct {
		GrantType    string `json:"grant_type"`
		ClientID     string `json:"client_id"`
		ClientSecret string `json:"client_secret"`
		Scope        string `json:"scope"`
	}
	switch err := json.NewDecoder(r.Body).Decode(&in); {
	case err != nil || in.GrantType != "client_credentials" || in.Scope == "":
		fail(w, http.StatusBadRequest, `{"error":"invalid_request","error_description":"The request is missing a `+
			`required parameter."}`)
		return
	case in.ClientID != ZendeskClientID || in.ClientSecret != ZendeskClientSecret:
		fail(w, http.StatusUnauthorized, `{"error":"invalid_client","error_description":"Client authentication failed."}`)
		return
	}
	z.minted++
	token := fmt.Sprintf("minted-%d", z.minted)
	z.tokens[token] = time.Now().Add(z.opts.TokenLifetime)
	reply(w, http.StatusOK, object{"access_token": token, "token_type": "bearer", "scope": in.Scope,
		"expires_in": int(z.opts.TokenLifetime.Seconds())})
}

// withinLimit applies the limit of the account and says how much is left of it.
func (z *Zendesk) withinLimit(w http.ResponseWriter) bool {
	now := time.Now()
	ok := z.requests.take(now)
	if z.requests.limit < 0 {
		return true
	}
	h := w.Header()
	total, remaining, resets := strconv.Itoa(z.requests.limit), strconv.Itoa(z.requests.remaining()),
		strconv.Itoa(z.requests.resets(now))
	h.Set("X-Rate-Limit", total)
	h.Set("Ratelimit-Limit", total)
	h.Set("X-Rate-Limit-Remaining", remaining)
	h.Set("Ratelimit-Remaining", remaining)
	h.Set("Ratelimit-Reset", resets)
	if !ok {
		tooMany(w, resets, zendeskError(http.StatusTooManyRequests))
	}
	return ok
}

func tooMany(w http.ResponseWriter, retryAfter, body string) {
	w.Header().Set("Retry-After", retryAfter)
	fail(w, http.StatusTooManyRequests, body)
}

// withinUpdates applies the limits of writes.
func (z *Zendesk) withinUpdates(w http.ResponseWriter, ticket *zendeskTicket) bool {
	now := time.Now()
	ok := ticket.updates.take(now)
	if limit := ticket.updates.limit; limit >= 0 {
		resets := ticket.updates.resets(now)
		w.Header().Set("Zendesk-Ratelimit-Per-Ticket-Updates",
			fmt.Sprintf("total=%d; remaining=%d; resets=%d", limit, ticket.updates.remaining(), resets))
		if !ok {
			tooMany(w, strconv.Itoa(resets), jsonError("TooManyRequests",
				"You have exceeded the rate limit for updating a single ticket."))
			return false
		}
	}
	if !z.updates.take(now) {
		tooMany(w, strconv.Itoa(z.updates.resets(now)), jsonError("TooManyRequests",
			"You have exceeded the rate limit for updating tickets."))
		return false
	}
	return true
}

// createTicket opens a ticket in the name of its requester, who is created unless there
// is one with the address, and fires the triggers.
func (z *Zendesk) createTicket(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Ticket struct {
			Subject string `json:"subject"`
			Comment struct {
				Body string `json:"body"`
			} `json:"comment"`
			Requester struct {
				Name  string `json:"name"`
				Email string `json:"email"`
			} `json:"requester"`
		} `json:"ticket"`
	}
	if err := decodeStrictly(r, &in); err != nil || in.Ticket.Comment.Body == "" || in.Ticket.Requester.Name == "" ||
		!strings.Contains(in.Ticket.Requester.Email, "@") {
		failRecord(w, "base", "Ticket is not valid")
		return
	}
	ticket := z.open(in.Ticket.Requester.Email, asHTML(expanded(in.Ticket.Comment.Body)))
	z.fire(ticket, "Create")
	reply(w, http.StatusCreated, object{"ticket": ticket.json(), "audit": object{"id": z.nextID()}})
}

// fire has each active trigger whose only condition is this type of update call its webhook.
func (z *Zendesk) fire(ticket *zendeskTicket, updateType string) {
	for _, trigger := range z.triggers {
		conditions := trigger["conditions"].(object)["all"].([]map[string]string)
		if trigger["active"] != true || len(conditions) != 1 || conditions[0]["field"] != "update_type" ||
			conditions[0]["value"] != updateType {
			continue
		}
		value := trigger["actions"].([]zendeskAction)[0].Value
		body := strings.NewReplacer("{{ticket.id}}", strconv.FormatInt(ticket.id, 10), "{{ticket.requester.email}}",
			ticket.requester.email).Replace(value[1])
		for _, hook := range z.webhooks {
			if hook.ID == value[0] && hook.Status == "active" {
				z.deliver(z.sign(hook.Endpoint, []byte(body)))
			}
		}
	}
}

// deleteUser removes a user who is the requester of no ticket.
func (z *Zendesk) deleteUser(w http.ResponseWriter, id string) {
	number, _ := strconv.ParseInt(id, 10, 64)
	user := z.users[number]
	switch {
	case z.opts.Agent:
		refuse(w, http.StatusForbidden)
		return
	case user == nil:
		refuse(w, http.StatusNotFound)
		return
	}
	for _, ticket := range z.tickets {
		if ticket.requester == user && ticket.status != "closed" {
			fail(w, http.StatusUnprocessableEntity,
				jsonError("RecordInvalid", "The user is the requester of tickets that are not closed."))
			return
		}
	}
	delete(z.users, number)
	reply(w, http.StatusOK, object{"user": object{"id": number, "active": false}})
}

// zendeskAction is an action of a trigger.
type zendeskAction struct {
	Field string   `json:"field"`
	Value []string `json:"value"`
}

// update adds a comment, or solves the ticket.
func (z *Zendesk) update(w http.ResponseWriter, r *http.Request, ticket *zendeskTicket) {
	if !z.withinUpdates(w, ticket) {
		return
	}
	var in struct {
		Ticket struct {
			Comment *struct {
				Body     string `json:"body"`
				HTMLBody string `json:"html_body"`
				Public   *bool  `json:"public"`
			} `json:"comment"`
			Status     string `json:"status"`
			AssigneeID int64  `json:"assignee_id"`
		} `json:"ticket"`
	}
	err := decodeStrictly(r, &in)
	if err == nil && in.Ticket.Status == "solved" && z.users[in.Ticket.AssigneeID] != nil {
		ticket.status = "solved"
		reply(w, http.StatusOK, object{"ticket": ticket.json()})
		return
	}
	if err != nil || in.Ticket.Comment == nil {
		fail(w, http.StatusBadRequest, jsonError("InvalidValue", "Unprocessable JSON"))
		return
	}
	comment := *in.Ticket.Comment
	html := sanitized(expanded(comment.HTMLBody))
	if comment.HTMLBody == "" {
		html = asHTML(expanded(comment.Body))
	}
	switch {
	case ticket.status == "closed":
		failRecord(w, "status", "Status: closed prevents ticket update")
		return
	case strings.TrimSpace(plainText(html)) == "":
		fail(w, http.StatusUnprocessableEntity, `{"error":"RecordInvalid","description":"Record validation `+
			`errors","details":{"comment":[{"description":"Comment: cannot be blank","error":"BlankValue"}]}}`)
		return
	}
	public := comment.Public == nil || *comment.Public // public unless it says otherwise
	written := z.write(ticket, z.userOf(ZendeskEmail, ""), html, public)
	event := written.json()
	event["type"] = "Comment"
	reply(w, http.StatusOK, object{"ticket": ticket.json(), "audit": object{
		"id": z.nextID(), "ticket_id": ticket.id, "author_id": written.author.id,
		"created_at": written.at.UTC().Format(time.RFC3339),
		"events": []any{object{"id": z.nextID(), "type": "Change", "field_name": "status",
			"value": ticket.status}, event},
	}})
}

func (z *Zendesk) listComments(w http.ResponseWriter, r *http.Request, ticket *zendeskTicket) {
	var all []object
	for _, c := range ticket.comments {
		if !c.public || !z.opts.Messaging {
			all = append(all, c.json())
		}
	}
	if r.URL.Query().Get("sort") == "-created_at" {
		slices.Reverse(all)
	}
	reply(w, http.StatusOK, paged(r, "comments", all))
}

func (z *Zendesk) redact(w http.ResponseWriter, r *http.Request, commentID string) {
	if !z.opts.MayRedact {
		refuse(w, http.StatusForbidden)
		return
	}
	var in struct {
		TicketID int64  `json:"ticket_id"`
		HTMLBody string `json:"html_body"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		fail(w, http.StatusBadRequest, jsonError("InvalidValue", "Unprocessable JSON"))
		return
	}
	if ticket := z.tickets[in.TicketID]; ticket != nil {
		for _, c := range ticket.comments {
			if strconv.FormatInt(c.id, 10) == commentID {
				c.html = blanked(in.HTMLBody)
				reply(w, http.StatusOK, object{"comment": c.json()})
				return
			}
		}
	}
	refuse(w, http.StatusNotFound)
}

func (z *Zendesk) createWebhook(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Webhook zendeskWebhook `json:"webhook"`
	}
	hook := &in.Webhook
	if err := decodeStrictly(r, &in); err != nil || hook.ID != "" || hook.Name == "" || hook.HTTPMethod != "POST" ||
		hook.RequestFormat != "json" ||
		hook.Status != "active" && hook.Status != "inactive" || len(hook.Subscriptions) == 0 ||
		!strings.HasPrefix(hook.Endpoint, "http") {
		fail(w, http.StatusBadRequest, `{"errors":[{"code":"InvalidWebhook","title":"Invalid webhook","detail":"A `+
			`field is missing or not valid."}]}`)
		return
	}
	hook.ID = fmt.Sprintf("01HW%d", z.nextID())
	hook.secret = fmt.Sprintf("secret-of-%s", hook.ID)
	z.webhooks = append(z.webhooks, hook)
	reply(w, http.StatusCreated, object{"webhook": hook})
}

// changeWebhook removes a webhook that no trigger calls, or changes its endpoint.
func (z *Zendesk) changeWebhook(w http.ResponseWriter, r *http.Request, id string) {
	var in struct {
		Webhook struct {
			Endpoint string `json:"endpoint"`
		} `json:"webhook"`
	}
	i := slices.IndexFunc(z.webhooks, func(hook *zendeskWebhook) bool { return hook.ID == id })
	isCalled := slices.ContainsFunc(z.triggers, func(trigger object) bool {
		return strings.Contains(fmt.Sprint(trigger["actions"]), id)
	})
	switch {
	case i < 0:
		fail(w, http.StatusNotFound, `{"errors":[{"code":"WebhookNotFound","title":"Webhook not found"}]}`)
		return
	case r.Method == http.MethodPatch && (json.NewDecoder(r.Body).Decode(&in) != nil ||
		!strings.HasPrefix(in.Webhook.Endpoint, "http")), r.Method == http.MethodDelete && isCalled:
		fail(w, http.StatusBadRequest, `{"errors":[{"code":"InvalidWebhook","title":"Invalid webhook"}]}`)
		return
	case r.Method == http.MethodDelete:
		z.webhooks = slices.Delete(z.webhooks, i, i+1)
	default:
		z.webhooks[i].Endpoint = in.Webhook.Endpoint
	}
	w.WriteHeader(http.StatusNoContent)
}

func (z *Zendesk) deleteTrigger(w http.ResponseWriter, id string) {
	i := slices.IndexFunc(z.triggers, func(trigger object) bool { return fmt.Sprint(trigger["id"]) == id })
	if i < 0 {
		fail(w, http.StatusNotFound, jsonError("RecordNotFound", "Not found"))
		return
	}
	z.triggers = slices.Delete(z.triggers, i, i+1)
	w.WriteHeader(http.StatusNoContent)
}

func (z *Zendesk) signingSecret(w http.ResponseWriter, id string) {
	for _, hook := range z.webhooks {
		if hook.ID == id {
			reply(w, http.StatusOK, object{"signing_secret": object{"secret": hook.secret,
				"algorithm": "SHA256"}})
			return
		}
	}
	fail(w, http.StatusNotFound, `{"errors":[{"code":"WebhookNotFound","title":"Webhook not found"}]}`)
}

func (z *Zendesk) createTrigger(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Trigger struct {
			Title      string `json:"title"`
			Active     bool   `json:"active"`
			Conditions struct {
				All []map[string]string `json:"all"`
			} `json:"conditions"`
			Actions []zendeskAction `json:"actions"`
		} `json:"trigger"`
	}
	err := decodeStrictly(r, &in)
	t := in.Trigger
	known := func(id string) bool {
		return slices.ContainsFunc(z.webhooks, func(w *zendeskWebhook) bool { return w.ID == id })
	}
	if err != nil || t.Title == "" || len(t.Conditions.All) == 0 || len(t.Actions) != 1 ||
		t.Actions[0].Field != "notification_webhook" ||
		len(t.Actions[0].Value) != 2 || !known(t.Actions[0].Value[0]) {
		failRecord(w, "base", "Trigger is not valid")
		return
	}
	trigger := object{"id": z.nextID(), "title": t.Title, "active": t.Active,
		"conditions": object{"all": t.Conditions.All, "any": []any{}}, "actions": t.Actions}
	z.triggers = append(z.triggers, trigger)
	reply(w, http.StatusCreated, object{"trigger": trigger})
}

func (t *zendeskTicket) json() object {
	return object{"id": t.id, "status": t.status, "requester_id": t.requester.id}
}

func (c *zendeskComment) json() object {
	text := plainText(c.html)
	return object{"id": c.id, "type": "Comment", "author_id": c.author.id, "public": c.public,
		"html_body":  c.html,
		"plain_body": text, "body": strings.Join(strings.Fields(text),
			" "), "created_at": c.at.UTC().Format(time.RFC3339)}
}

// paged returns the page of a list that a request asks for.
func paged[T any](r *http.Request, name string, all []T) object {
	query := r.URL.Query()
	size, err := strconv.Atoi(query.Get("page[size]"))
	if err != nil || size < 1 || size > 100 {
		size = 100
	}
	from, _ := strconv.Atoi(query.Get("page[after]"))
	from = min(max(from, 0), len(all))
	to := min(from+size, len(all))
	return object{name: append([]T{}, all[from:to]...),
		"meta": object{"has_more": to < len(all), "after_cursor": strconv.Itoa(to)}}
}

func reply(w http.ResponseWriter, status int, body any) {
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		panic(err) // for a value that cannot be encoded
	}
}

// failRecord answers that a field of an object is not valid.
func failRecord(w http.ResponseWriter, field, problem string) {
	fail(w, http.StatusUnprocessableEntity, fmt.Sprintf(
		`{"error":"RecordInvalid","description":"Record validation errors","details":{%q:[{"description":%q}]}}`,
		field, problem))
}

// refuse answers with the usual body of a status.
func refuse(w http.ResponseWriter, status int) { fail(w, status, zendeskError(status)) }

func fail(w http.ResponseWriter, status int, body string) {
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body))
}
