package servercmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/google/uuid"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/internal/command"
	"github.com/liveactivity/liveactivity/internal/jsontext"
)

// sendFlags are the flags of send.
type sendFlags struct {
	clientFlags
	WebhookSecret string `env:"LIVEACTIVITY_WEBHOOK_SECRET" placeholder:"SECRET" help:"Webhook secret, if no file has it."`
	User          string `default:"ada" placeholder:"ID" help:"The user."`
	Email         string `placeholder:"ADDRESS" help:"The user's email address."`
	Session       string `default:"test-session" placeholder:"ID" help:"The session."`
	Page          string `default:"https://app.example.com/dashboard" placeholder:"URL" help:"The page."`
	Click         string `placeholder:"LABEL" help:"Click a button with this label, instead of viewing the page."`
	command.Common
}

const sendDescription = "Reports one page view or click to a running server, as a webhook of PostHog does, and reads " +
	"it back where there is a key. Example: liveactivity-server send --config products.json --product acme " +
	"--email ada@example.com --click 'Export CSV'"

// send is the command that reports one event, and reads it back by its user.
func send(ctx context.Context, f sendFlags, c call) error {
	to := f.client(access.MCP, c)
	secret := cmp.Or(f.WebhookSecret, to.product.WebhookSecret)
	if secret == "" {
		c.wrong.Check("--webhook-secret", errors.New("is missing, and no product file has it"))
	}
	if err := c.wrong.Err(); err != nil {
		return err
	}
	if err := to.report(ctx, secret, f.event()); err != nil {
		return err
	}
	fmt.Fprintf(c.stdout, "%s accepted an event of %s\n", to.product.ProductID, cmp.Or(f.User, "session "+f.Session))
	if to.key == "" || f.User == "" {
		return nil
	}
	said, err := to.readBack(ctx, f.User)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.stdout, "read back: %s\n", printable(said))
	return nil
}

// report sends an event in PostHog's format, as a webhook with this secret. If the server
// ignored the event, the error has the reason.
func (c client) report(ctx context.Context, secret string, event map[string]any) error {
	body, err := jsontext.Marshal(event)
	if err != nil {
		return err
	}
	var answer struct {
		Accepted int
		Reasons  map[string]int
	}
	header := http.Header{"Content-Type": {"application/json"}, "X-Posthog-Secret": {secret}}
	err = c.do(ctx, http.MethodPost, c.url("/webhook/", ""), header, body, &answer)
	if err != nil || answer.Accepted > 0 {
		return err
	}
	for reason := range answer.Reasons {
		return fmt.Errorf("the event was ignored: %s", printable(reason))
	}
	return errors.New("the event was ignored")
}

// readBack returns the description of a user's newest action, read with the client's key. A
// missing action is an error, since an accepted one is readable immediately.
func (c client) readBack(ctx context.Context, user string) (string, error) {
	var read struct{ Actions []activity.Action }
	header := http.Header{"Authorization": {"Bearer " + c.key}}
	address := c.url("/users/", "/"+url.PathEscape(user)+"/live-activity?limit=1")
	err := c.do(ctx, http.MethodGet, address, header, nil, &read)
	if err == nil && len(read.Actions) == 0 {
		err = fmt.Errorf("the event was accepted, but there is no activity of %s", user)
	}
	if err != nil {
		return "", err
	}
	return read.Actions[0].Description, nil
}

// event returns the event in PostHog's format, with a new ID for each call.
func (f sendFlags) event() map[string]any {
	properties := map[string]any{"$session_id": f.Session, "$current_url": f.Page}
	event := map[string]any{"event": "$pageview", "uuid": uuid.NewString(), "distinct_id": f.User,
		"timestamp": time.Now().UTC().Format(time.RFC3339Nano), "properties": properties}
	if f.Click != "" {
		event["event"], properties["$event_type"] = "$autocapture", "click"
		properties["$elements"] = []any{map[string]any{"tag_name": "button", "$el_text": f.Click}}
	}
	if f.Email != "" {
		event["$set"] = map[string]any{"email": f.Email}
	}
	return event
}
