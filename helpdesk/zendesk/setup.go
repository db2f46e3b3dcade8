package zendesk

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/internal/options"
	"github.com/liveactivity/liveactivity/internal/origin"
)

// ContextURL returns the address at which the service receives a product's triggers
// for new tickets. The host is public, such as "https://hooks.acme.example"; without a
// scheme it means https. The error joins all mistakes, each an [*option.Error].
func ContextURL(host, productID string) (string, error) {
	return endpoint(host, "/chatbot-webhook/", productID)
}

// ChatURL returns the address at which the service receives the triggers for users'
// replies. It takes the same arguments and returns the same errors as ContextURL.
func ChatURL(host, productID string) (string, error) {
	return endpoint(host, "/zendesk/chat/", productID)
}

// endpoint returns the URL of a path below a host, with the product's ID as its last segment.
func endpoint(host, path, productID string) (string, error) {
	m := options.Mistakes{Package: "zendesk"}
	if !strings.Contains(host, "://") {
		host = "https://" + host
	}
	u, ok := origin.Base(host)
	m.Require(ok && hostForm.MatchString(u.Hostname()),
		"host", "must be a host or its URL, such as https://hooks.acme.example")
	m.Require(productID != "" && productID != "." && productID != ".." && !strings.Contains(productID, "/"),
		"productID", "must be one path segment")
	if err := m.Err(); err != nil {
		return "", err
	}
	return strings.TrimRight(u.String(), "/") + path + url.PathEscape(productID), nil
}

// hostForm matches the hosts to which Zendesk can send: a name, or an IP address without
// brackets.
var hostForm = regexp.MustCompile(`^[A-Za-z0-9:_-]+(\.[A-Za-z0-9:_-]+)*\.?$`)

// Webhook is a webhook of the account, in Zendesk's JSON. Other fields are not kept, so a
// Webhook that was read must not be written back as a whole.
type Webhook struct {
	ID            string   `json:"id,omitempty"`
	Name          string   `json:"name"`
	Endpoint      string   `json:"endpoint"`
	HTTPMethod    string   `json:"http_method"`
	RequestFormat string   `json:"request_format"`
	Status        string   `json:"status"` // active or inactive
	Subscriptions []string `json:"subscriptions"`
}

// newWebhook returns a webhook that triggers can call.
func newWebhook(name, endpoint string) Webhook {
	return Webhook{Name: name, Endpoint: endpoint, HTTPMethod: http.MethodPost, RequestFormat: "json",
		Status: "active", Subscriptions: []string{"conditional_ticket_events"}}
}

// Trigger is a trigger of the account, in Zendesk's JSON. As for a Webhook, other fields are
// not kept.
type Trigger struct {
	ID         int64      `json:"id,omitempty"`
	Title      string     `json:"title"`
	Active     bool       `json:"active"`
	Conditions Conditions `json:"conditions"`
	Actions    []Action   `json:"actions"`
}

// Conditions define when a trigger fires: if all of All hold, and one of Any unless that is
// empty.
type Conditions struct {
	All []Condition `json:"all"`
	Any []Condition `json:"any,omitempty"`
}

// Condition is one condition of a trigger.
type Condition struct {
	Field    string `json:"field"`
	Operator string `json:"operator"`
	Value    any    `json:"value"`
}

// Action is an action of a trigger. The value of a notification_webhook is the
// webhook's ID and the body.
type Action struct {
	Field string `json:"field"`
	Value any    `json:"value"`
}

// The request bodies that the triggers send. The ticket's ID must come first and the
// user's message last; see [ParseTrigger].
const (
	NewTicketBody = `{"ticket_id": "{{ticket.id}}", "requester_email": "{{ticket.requester.email}}", ` +
		`"trigger_type": "new_ticket"}`
	UserReplyBody = `{"ticket_id": "{{ticket.id}}", "requester_email": "{{ticket.requester.email}}", ` +
		`"trigger_type": "user_reply", "user_message": "{{ticket.latest_public_comment}}"}`
)

// NewTicketTrigger returns the trigger that reports new tickets to a webhook.
func NewTicketTrigger(title, webhookID string) Trigger {
	return newTrigger(title, webhookID, NewTicketBody, Condition{"update_type", "is", "Create"})
}

// UserReplyTrigger returns the trigger that reports the public replies of end users to a
// webhook.
func UserReplyTrigger(title, webhookID string) Trigger {
	return newTrigger(title, webhookID, UserReplyBody, Condition{"update_type", "is", "Change"},
		Condition{"comment_is_public", "is", "true"}, Condition{"role", "is", "end_user"})
}

// newTrigger returns an active trigger that sends the body to a webhook when all conditions hold.
func newTrigger(title, webhookID, body string, all ...Condition) Trigger {
	return Trigger{Title: title, Active: true, Conditions: Conditions{All: all},
		Actions: []Action{{"notification_webhook", []any{webhookID, body}}}}
}

// Webhooks returns the account's webhooks.
func (c *Client) Webhooks(ctx context.Context) (all []Webhook, err error) {
	err = c.list(ctx, "list webhooks", "/api/v2/webhooks", url.Values{}, func(p *page) (more bool) {
		all = append(all, p.Webhooks...)
		return true
	})
	return all, err
}

// CreateWebhook creates a webhook for triggers and returns it with its ID. After an ambiguous
// error it may exist: look among Webhooks.
func (c *Client) CreateWebhook(ctx context.Context, name, endpoint string) (Webhook, error) {
	var answer struct {
		Webhook Webhook `json:"webhook"`
	}
	err := c.api.Do(ctx, helpdesk.Request{Op: "create webhook", Method: http.MethodPost, Path: "/api/v2/webhooks",
		Body: map[string]Webhook{"webhook": newWebhook(name, endpoint)}}, &answer)
	return answer.Webhook, err
}

// SigningSecret returns the secret that a webhook is signed with.
func (c *Client) SigningSecret(ctx context.Context, webhookID string) (string, error) {
	var answer struct {
		SigningSecret struct {
			Secret string `json:"secret"`
		} `json:"signing_secret"`
	}
	err := c.get(ctx, "read signing secret", "/api/v2/webhooks/"+url.PathEscape(webhookID)+"/signing_secret", &answer)
	return answer.SigningSecret.Secret, err
}

// Triggers returns the account's triggers, including inactive ones.
func (c *Client) Triggers(ctx context.Context) (all []Trigger, err error) {
	err = c.list(ctx, "list triggers", "/api/v2/triggers", url.Values{}, func(p *page) (more bool) {
		all = append(all, p.Triggers...)
		return true
	})
	return all, err
}

// CreateTrigger creates a trigger and returns it with its ID. After an ambiguous error it may
// exist: look among Triggers.
func (c *Client) CreateTrigger(ctx context.Context, t Trigger) (Trigger, error) {
	var answer struct {
		Trigger Trigger `json:"trigger"`
	}
	err := c.api.Do(ctx, helpdesk.Request{Op: "create trigger", Method: http.MethodPost, Path: "/api/v2/triggers",
		Body: map[string]Trigger{"trigger": t}}, &answer)
	return answer.Trigger, err
}

// describe returns conditions in words, sorted, for messages and for comparison.
func describe(conditions []Condition) string {
	var all []string
	for _, c := range conditions {
		all = append(all, fmt.Sprintf("%s %s %v", c.Field, c.Operator, c.Value))
	}
	slices.Sort(all)
	return strings.Join(all, " and ")
}
