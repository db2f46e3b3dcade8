package zendesk

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Step is an object that Provision found or created.
type Step struct {
	Object  string // "webhook" or "trigger"
	Name    string
	ID      string // empty in a dry run that would create it
	Created bool   // or, in a dry run, would be
	// Problem is the difference, in words, of an object that was found and left as it
	// is; empty where it is as it must be.
	Problem string
}

// Provisioned is the result of Provision.
type Provisioned struct {
	Steps []Step
	// SigningSecrets are the webhooks' secrets, for Config.SigningSecret; in a dry run,
	// of the existing webhooks.
	SigningSecrets []string
}

// Provision makes sure that the account reports new tickets and users' replies of a
// product to the service at a public host: it creates two webhooks and two triggers,
// unless they exist. It changes nothing that exists. With dryRun it only describes the
// steps. It needs an administrator's credentials. After an error it returns the steps so
// far; call it again to go on.
//
// An account whose triggers mail private comments to the assignee does so with
// every note; Zendesk's own "Notify assignee of comment update" is such a trigger.
func (c *Client) Provision(ctx context.Context, host, productID string, dryRun bool) (Provisioned, error) {
	contextURL, err := ContextURL(host, productID)
	if err != nil {
		return Provisioned{}, err
	}
	chatURL, err := ChatURL(host, productID)
	if err != nil {
		return Provisioned{}, err
	}
	p := provisioner{client: c, dryRun: dryRun}
	if p.webhooks, err = c.Webhooks(ctx); err != nil {
		return p.done, err
	}
	if p.triggers, err = c.Triggers(ctx); err != nil {
		return p.done, err
	}
	err = p.pair(ctx, contextURL, "liveactivity context: "+productID, NewTicketTrigger)
	if err == nil {
		err = p.pair(ctx, chatURL, "liveactivity chat: "+productID, UserReplyTrigger)
	}
	return p.done, err
}

// provisioner is one call of Provision.
type provisioner struct {
	client   *Client
	dryRun   bool
	webhooks []Webhook
	triggers []Trigger
	done     Provisioned
}

// pair makes sure of a webhook and the trigger that calls it.
func (p *provisioner) pair(ctx context.Context, endpoint, name string,
	wanted func(title, webhookID string) Trigger) error {
	webhook, err := p.webhook(ctx, endpoint, name)
	if err != nil || webhook.ID == "" {
		if err == nil {
			p.done.Steps = append(p.done.Steps, Step{Object: "trigger", Name: name, Created: true})
		}
		return err
	}
	secret, err := p.client.SigningSecret(ctx, webhook.ID)
	if err != nil {
		return err
	}
	p.done.SigningSecrets = append(p.done.SigningSecrets, secret)
	return p.trigger(ctx, wanted(name, webhook.ID))
}

func (p *provisioner) webhook(ctx context.Context, endpoint, name string) (Webhook, error) {
	if i := slices.IndexFunc(p.webhooks, func(w Webhook) bool { return w.Endpoint == endpoint }); i >= 0 {
		found := p.webhooks[i]
		p.done.Steps = append(p.done.Steps, Step{Object: "webhook", Name: found.Name, ID: found.ID,
			Problem: found.problem()})
		return found, nil
	}
	step := Step{Object: "webhook", Name: name, Created: true}
	var created Webhook
	if !p.dryRun {
		var err error
		if created, err = p.client.CreateWebhook(ctx, name, endpoint); err != nil {
			return Webhook{}, err
		}
	}
	step.ID = created.ID
	p.done.Steps = append(p.done.Steps, step)
	return created, nil
}

func (p *provisioner) trigger(ctx context.Context, wanted Trigger) error {
	if i := slices.IndexFunc(p.triggers, func(t Trigger) bool { return t.calls() == wanted.calls() }); i >= 0 {
		found := p.triggers[i]
		p.done.Steps = append(p.done.Steps, Step{Object: "trigger", Name: found.Title,
			ID: strconv.FormatInt(found.ID, 10), Problem: found.differs(wanted)})
		return nil
	}
	step := Step{Object: "trigger", Name: wanted.Title, Created: true}
	if !p.dryRun {
		created, err := p.client.CreateTrigger(ctx, wanted)
		if err != nil {
			return err
		}
		step.ID = strconv.FormatInt(created.ID, 10)
	}
	p.done.Steps = append(p.done.Steps, step)
	return nil
}

// problem returns the difference that keeps a webhook from being called as it must be.
func (w Webhook) problem() string {
	wanted := newWebhook(w.Name, w.Endpoint)
	switch {
	case w.Status != wanted.Status:
		return "it is not active"
	case w.HTTPMethod != wanted.HTTPMethod || w.RequestFormat != wanted.RequestFormat:
		return "it must send JSON with POST"
	case !slices.Contains(w.Subscriptions, wanted.Subscriptions[0]):
		return "it is not for triggers: its subscription must be conditional_ticket_events"
	}
	return ""
}

// call is a webhook that a trigger calls and the type of trigger it sends there.
type call struct{ webhookID, kind string }

// calls returns the webhook call of a trigger, if it has our fields.
func (t Trigger) calls() call {
	for _, action := range t.Actions {
		values := asStrings(action.Value)
		if action.Field != "notification_webhook" || len(values) != 2 {
			continue
		}
		for _, kind := range []string{TriggerNewTicket, TriggerUserReply} {
			if strings.Contains(values[1], `"`+kind+`"`) {
				return call{values[0], kind}
			}
		}
	}
	return call{}
}

func asStrings(value any) []string {
	list, _ := value.([]any)
	var all []string
	for _, v := range list {
		all = append(all, fmt.Sprint(v))
	}
	return all
}

// differs returns the first difference between a trigger and the wanted one.
func (t Trigger) differs(wanted Trigger) string {
	switch {
	case !t.Active:
		return "it is not active"
	case !reflect.DeepEqual(sorted(t.Conditions.All), sorted(wanted.Conditions.All)) || len(t.Conditions.Any) > 0:
		return "its conditions are not " + describe(wanted.Conditions.All)
	case len(t.Actions) == 0 || !sameJSON(t.Actions, wanted.Actions):
		return "its action is not the one that would be created now"
	}
	return ""
}
