package servercmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/helpdesk/connector"
	"github.com/liveactivity/liveactivity/internal/command"
)

// A rehearsal tests the whole path with a made-up user: it checks the desk's credentials,
// reports a click to the running server, begins a conversation at the desk, waits for the
// service's note in it, and cleans up. At the desk it touches only its own conversation and
// user. Each step is a function that returns a sentence for its line of output, or an error,
// with advice if there is a likely cause.

// rehearseFlags are the flags of zendesk test and intercom test.
type rehearseFlags struct {
	clientFlags
	Timeout string `default:"1m" help:"How long to wait for the note."`
	command.Common
}

// Timing of a rehearsal.
const (
	noteInterval   = 2 * time.Second // between reads of the conversation; desks limit requests
	cleanUpTimeout = 30 * time.Second
)

// rehearseWith returns the command that begins a test conversation at a product's desk with
// that name, waits for the note, and removes the conversation.
func rehearseWith(desk string) subcommand {
	name := desk + " test"
	description := "Tests the whole way with a test conversation: reports a click of a made-up user to the running " +
		"server, has the same user open a conversation in the real desk, and waits until the service's note with the " +
		"click is there. Removes the conversation and the user at the end, also after a failure. The exit status is " +
		"1 where a step fails. Example: " + program + " " + name + " --config products.json --product acme"
	return newSubcommand(name, description, func(ctx context.Context, f rehearseFlags, c call) error {
		c.wrong.Require("--product", f.Product, "the id of a product of the file")
		c.wrong.Require("--config", f.Config, "the product file")
		r := rehearsal{client: f.client(access.MCP, c), timeout: c.wrong.Duration("--timeout", f.Timeout), out: c.stdout}
		if err := c.wrong.Err(); err != nil {
			return err
		}
		if r.product.WebhookSecret == "" {
			return fmt.Errorf("--product: the product %s has no webhook_secret, by which the test reports", f.Product)
		}
		desks, err := r.product.OpenDesks(c.added.Desks)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(desks, func(d connector.Desk) bool { return d.Name == desk })
		if i < 0 {
			return fmt.Errorf("--product: the product %s has no %s in its integration_config", f.Product, desk)
		}
		r.desk = desks[i]
		return r.run(ctx)
	})
}

// rehearsal is a test conversation. begun is zero until there is something to clean up.
type rehearsal struct {
	client
	desk    connector.Desk
	timeout time.Duration
	out     io.Writer

	begun   helpdesk.Rehearsal
	counted map[string]float64 // webhooks that the server had answered earlier, by status
}

// run takes the steps until one fails, and always cleans up, even after an interruption,
// since the cleanup has its own timeout.
func (r *rehearsal) run(ctx context.Context) error {
	id := "liveactivity-test-" + uuid.NewString()[:8]
	email := id + "@example.com" // reserved by RFC 2606: nobody has the address
	err := r.steps(ctx, id, email)
	if r.begun != (helpdesk.Rehearsal{}) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTimeout)
		defer cancel()
		err = errors.Join(err, r.step("clean-up", func() (string, error) { return r.cleanUp(ctx, email) }))
	}
	return err
}

// steps takes the steps before the cleanup.
func (r *rehearsal) steps(ctx context.Context, id, email string) error {
	click := sendFlags{User: id, Email: email, Session: id, Page: "https://example.com/" + id, Click: "Test " + id}
	for _, step := range []struct {
		name string
		do   func() (string, error)
	}{
		{"account", func() (string, error) { return r.account(ctx) }},
		{"activity", func() (string, error) { return r.activity(ctx, click) }},
		{"conversation", func() (string, error) { return r.begin(ctx, email) }},
		{"note", func() (string, error) { return r.awaitNote(ctx, click) }},
	} {
		if err := r.step(step.name, step.do); err != nil {
			return err
		}
	}
	return nil
}

// adviceError is a failure with its likely causes and their remedies.
type adviceError struct {
	error
	advice []string
}

func advise(err error, advice ...string) error { return &adviceError{err, advice} }

// step takes a step and prints its outcome, its duration, and the advice of an
// *adviceError. The returned error only names the step.
func (r *rehearsal) step(name string, do func() (string, error)) error {
	begun := time.Now()
	said, err := do()
	word := "ok"
	if err != nil {
		word, said = "failed", err.Error()
	}
	fmt.Fprintf(r.out, "%-7s %-12s %5.1fs  %s\n", word, name, time.Since(begun).Seconds(), printable(said))
	if advised, ok := errors.AsType[*adviceError](err); ok {
		for _, advice := range advised.advice {
			fmt.Fprintf(r.out, "%30s%s\n", "- ", printable(advice))
		}
	}
	if err != nil {
		return fmt.Errorf("the step %s failed, see above", name)
	}
	return nil
}

// account checks whether the desk's credentials work. One positive finding is enough: the next
// steps reveal the rest.
func (r *rehearsal) account(ctx context.Context) (string, error) {
	var said []string
	works := false
	for _, finding := range checkDesk(ctx, r.desk) {
		works = works || finding.OK
		said = append(said, finding.Text)
	}
	text := strings.Join(said, " ")
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case !works:
		return "", advise(errors.New(text), "If the desk is not just away, correct integration_config in the product file.")
	}
	return text, nil
}

// activity reports a click to the server, and reads it back if the client has a
// key.
func (r *rehearsal) activity(ctx context.Context, click sendFlags) (string, error) {
	err := r.report(ctx, r.product.WebhookSecret, click.event())
	var answered *statusError
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return "", err
	case !errors.As(err, &answered):
		return "", advise(err, "Start the server, or say with --url where it is.")
	case answered.status == http.StatusUnauthorized:
		return "", advise(err, "The server has another webhook_secret than the file: restart it with this file.")
	case answered.status == http.StatusNotFound:
		return "", advise(err, "The server does not serve this product: restart it with this file, or correct --url.")
	default:
		return "", err
	}
	said := "The server at " + r.base + " accepted a click of " + click.Email
	if r.key == "" {
		return said + ".", nil
	}
	_, err = r.readBack(ctx, click.User)
	return said + ", and it was read back.", err
}

// begin begins the conversation. An interruption still waits for the answer, which identifies
// the parts to remove.
func (r *rehearsal) begin(ctx context.Context, email string) (said string, err error) {
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	r.counted, _ = r.webhooks(ctx) // only for advice
	const message = "A test of liveactivity, which is removed in a moment"
	r.begun, err = r.desk.Desk.Capabilities().Rehearser.BeginRehearsal(context.WithoutCancel(ctx), email, message)
	switch {
	case helpdesk.IsAmbiguous(err):
		return "", advise(err, "It may have been created all the same: look for one of "+email+", and delete it.")
	case err != nil:
		return "", advise(err, "The credentials must be allowed to create conversations and users, too.")
	}
	return fmt.Sprintf("Conversation %s of %s was created.", r.begun.ConversationID, email), nil
}

// awaitNote waits until a note in the conversation shows the click. It retries after temporary
// errors of the desk until the timeout; any other error ends the wait.
func (r *rehearsal) awaitNote(ctx context.Context, click sendFlags) (string, error) {
	waiting, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	for {
		notes, err := r.desk.Desk.Capabilities().Rehearser.Notes(waiting, r.begun.ConversationID)
		for _, note := range notes {
			if strings.Contains(note, click.Session) && strings.Contains(note, click.Click) {
				return "The note with the click is there.", nil
			}
		}
		var failed *helpdesk.APIError
		if err != nil && waiting.Err() == nil && !(errors.As(err, &failed) && failed.Temporary()) {
			return "", err
		}
		select {
		case <-time.After(noteInterval):
			continue
		case <-waiting.Done():
		}
		if ctx.Err() != nil {
			return "", errors.New("interrupted")
		}
		err = fmt.Errorf("there is no note after %s", r.timeout)
		return "", advise(err, r.whyNoNote(ctx)...)
	}
}

// cleanUp removes the conversation and its user, and returns a sentence about the parts that
// the desk cannot remove.
func (r *rehearsal) cleanUp(ctx context.Context, email string) (string, error) {
	begun, removed := "the user "+email, "The user is removed."
	if id := r.begun.ConversationID; id != "" {
		begun, removed = "conversation "+id+" and "+begun, "The conversation and its user are removed."
	}
	left, err := r.desk.Desk.Capabilities().Rehearser.EndRehearsal(ctx, r.begun)
	switch {
	case err != nil:
		return "", advise(err, "Delete "+begun+" by hand.")
	case len(left) > 0:
		return strings.Join(left, " "), nil
	}
	return removed, nil
}
