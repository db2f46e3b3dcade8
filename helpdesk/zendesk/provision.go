package zendesk

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/liveactivity/liveactivity/helpdesk"
)

// Change is the change that Provision or Remove made to an object or, in a dry run,
// would make.
type Change string

// The changes.
const (
	Unchanged Change = ""
	Created   Change = "created"
	Moved     Change = "moved to the new address"
	Removed   Change = "removed"
)

// Step is one object that Provision or Remove handled.
type Step struct {
	Object string // "webhook" or "trigger"
	Name   string
	ID     string // empty in a dry run that would create it
	Change Change
	// Problem describes how an existing object differs from the wanted one, if it was
	// left unchanged; empty if it is as required.
	Problem string
}

// Provisioned is the result of Provision.
type Provisioned struct {
	Steps []Step
	// SigningSecrets are the webhooks' secrets, for Config.SigningSecret; in a dry run,
	// only those for existing webhooks.
	SigningSecrets []string
}

// Provision makes the account report a product's new tickets and users' replies to the
// service at a public host: it creates two webhooks and two triggers, unless they exist.
// If a webhook that it made has another address, the address is updated; nothing else
// that exists is changed. With dryRun it only describes the steps. It needs an
// administrator's credentials. After an error it returns the steps so far; call it again
// to continue. Two concurrent calls may create an object twice.
//
// A webhook is identified by its address, or else by its name; a trigger by the webhook that it
// calls and the type that it sends. So objects that a person made or renamed are found too;
// Remove identifies objects by their names only. An error in the arguments joins all mistakes,
// each an [*option.Error].
//
// If the account has triggers that mail private comments to the assignee, every
// note is mailed; Zendesk's own "Notify assignee of comment update" is such a
// trigger.
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
	if p.webhooks, p.triggers, err = c.objects(ctx); err != nil {
		return p.done, err
	}
	names := provisionedNames(productID)
	err = p.pair(ctx, contextURL, names[0], NewTicketTrigger)
	if err == nil {
		err = p.pair(ctx, chatURL, names[1], UserReplyTrigger)
	}
	return p.done, err
}

// objects reads the account's webhooks and triggers.
func (c *Client) objects(ctx context.Context) (webhooks []Webhook, triggers []Trigger, err error) {
	if webhooks, err = c.Webhooks(ctx); err == nil {
		triggers, err = c.Triggers(ctx)
	}
	return webhooks, triggers, err
}

// provisionedNames returns the names of the objects that Provision makes for a
// product.
func provisionedNames(productID string) [2]string {
	return [2]string{"liveactivity context: " + productID, "liveactivity chat: " + productID}
}

// Remove removes the triggers and webhooks that Provision made for a product, by their
// names. With dryRun it only describes the steps. After an error it returns the steps so
// far; call it again to continue. Missing objects are no error. The result has no
// secrets.
func (c *Client) Remove(ctx context.Context, productID string, dryRun bool) (Provisioned, error) {
	p := provisioner{client: c, dryRun: dryRun}
	webhooks, triggers, err := c.objects(ctx)
	remove := func(object, name, id string) {
		if err == nil {
			err = p.step(Step{Object: object, Name: name, ID: id, Change: Removed}, func(*Step) error {
				return c.remove(ctx, "remove "+object, "/api/v2/"+object+"s/"+url.PathEscape(id))
			})
		}
	}
	for _, name := range provisionedNames(productID) {
		for _, t := range triggers { // a webhook cannot be removed while a trigger calls it
			if t.Title == name {
				remove("trigger", name, strconv.FormatInt(t.ID, 10))
			}
		}
		for _, w := range webhooks {
			if w.Name == name {
				remove("webhook", name, w.ID)
			}
		}
	}
	return p.done, err
}

// provisioner is one call of Provision or Remove: the objects that the account had when it began, and
// the steps so far. It does not see objects that are made during the call.
type provisioner struct {
	client   *Client
	dryRun   bool
	webhooks []Webhook
	triggers []Trigger
	done     Provisioned
}

// pair ensures that a webhook and the trigger that calls it exist. If a dry run would create the
// webhook, it reports the trigger as created without looking for one: a trigger refers to its
// webhook by ID.
func (p *provisioner) pair(ctx context.Context, endpoint, name string,
	wanted func(title, webhookID string) Trigger) error {
	webhook, err := p.webhook(ctx, endpoint, name)
	switch {
	case err != nil:
		return err
	case p.dryRun && webhook.ID == "":
		return p.step(Step{Object: "trigger", Name: name, Change: Created}, nil)
	}
	secret, err := p.client.SigningSecret(ctx, webhook.ID)
	if err != nil {
		return err
	}
	p.done.SigningSecrets = append(p.done.SigningSecrets, secret)
	return p.trigger(ctx, wanted(name, webhook.ID))
}

// step records a step. Unless this is a dry run, it makes the step's change first, which sets the ID of an
// object that is created.
func (p *provisioner) step(s Step, change func(*Step) error) error {
	if !p.dryRun && s.Change != Unchanged {
		if err := change(&s); err != nil {
			return err
		}
	}
	p.done.Steps = append(p.done.Steps, s)
	return nil
}

// webhook ensures that a webhook exists and returns it, without an ID if a dry run would create
// it. The secret of one that gets another address stays.
func (p *provisioner) webhook(ctx context.Context, endpoint, name string) (w Webhook, err error) {
	if i := slices.IndexFunc(p.webhooks, func(w Webhook) bool { return w.Endpoint == endpoint }); i >= 0 {
		w = p.webhooks[i]
		return w, p.step(Step{"webhook", w.Name, w.ID, Unchanged, w.problem()}, nil)
	}
	if i := slices.IndexFunc(p.webhooks, func(w Webhook) bool { return w.Name == name }); i >= 0 {
		w = p.webhooks[i]
		return w, p.step(Step{"webhook", w.Name, w.ID, Moved, w.problem()}, func(*Step) error {
			return p.client.api.Do(ctx, helpdesk.Request{Op: "move webhook", Method: http.MethodPatch,
				Path: "/api/v2/webhooks/" + url.PathEscape(w.ID),
				Body: object{"webhook": object{"endpoint": endpoint}}}, nil)
		})
	}
	err = p.step(Step{Object: "webhook", Name: name, Change: Created}, func(s *Step) (err error) {
		w, err = p.client.CreateWebhook(ctx, name, endpoint)
		s.ID = w.ID
		return err
	})
	return w, err
}

// trigger ensures that a trigger exists. One that makes the same call stays unchanged,
// and its differences become the step's problem.
func (p *provisioner) trigger(ctx context.Context, wanted Trigger) error {
	if i := slices.IndexFunc(p.triggers, func(t Trigger) bool { return t.calls() == wanted.calls() }); i >= 0 {
		found := p.triggers[i]
		return p.step(Step{"trigger", found.Title, strconv.FormatInt(found.ID, 10), Unchanged, found.differs(wanted)}, nil)
	}
	return p.step(Step{Object: "trigger", Name: wanted.Title, Change: Created}, func(s *Step) error {
		created, err := p.client.CreateTrigger(ctx, wanted)
		s.ID = strconv.FormatInt(created.ID, 10)
		return err
	})
}

// problem returns the first difference that keeps a webhook from being called as required, or
// "".
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

// calls returns a trigger's webhook call if its body names one of our trigger types; else the
// zero call, which no wanted trigger makes.
func (t Trigger) calls() call {
	for _, action := range t.Actions {
		values, _ := action.Value.([]any)
		if action.Field != "notification_webhook" || len(values) != 2 {
			continue
		}
		for _, kind := range []string{TriggerNewTicket, TriggerUserReply} {
			if strings.Contains(fmt.Sprint(values[1]), `"`+kind+`"`) {
				return call{fmt.Sprint(values[0]), kind}
			}
		}
	}
	return call{}
}

// differs returns the first difference between a trigger and the wanted one, or "". The order of
// the conditions does not matter, and further ones may choose a brand: of two products in one
// account, each has its own.
func (t Trigger) differs(wanted Trigger) string {
	ofBrand := func(c Condition) bool { return c.Field == "brand_id" }
	conditions := slices.DeleteFunc(slices.Clone(t.Conditions.All), ofBrand)
	switch {
	case !t.Active:
		return "it is not active"
	case describe(conditions) != describe(wanted.Conditions.All) || len(t.Conditions.Any) > 0:
		return "its conditions are not " + describe(wanted.Conditions.All)
	case fmt.Sprint(t.Actions) != fmt.Sprint(wanted.Actions):
		return "its action is not the one that would be created now"
	}
	return ""
}
