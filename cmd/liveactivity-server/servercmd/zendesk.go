package servercmd

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/liveactivity/liveactivity/helpdesk/zendesk"
	"github.com/liveactivity/liveactivity/internal/command"
	"github.com/liveactivity/liveactivity/internal/jsontext"
)

// provisionFlags are the flags of zendesk provision.
type provisionFlags struct {
	Config    string `env:"LIVEACTIVITY_CONFIG" placeholder:"FILE" help:"Product file (JSON). Required."`
	Product   string `placeholder:"ID" help:"The product of the Zendesk account to set up. Required."`
	PublicURL string `env:"LIVEACTIVITY_PUBLIC_URL" placeholder:"URL" help:"The server's URL for Zendesk. Required."`
	DryRun    bool   `help:"Only print the changes."`
	Remove    bool   `help:"Remove the webhooks and triggers."`
	command.Common
}

const provisionDescription = "Sets up a product's Zendesk account: creates the webhooks and triggers that are " +
	"missing, and prints the signing secrets as lines for the product file. " +
	"Webhooks that it made for another address get the " +
	"new one; nothing else that exists is changed, so it can be run again. The credentials must be an administrator's."

// provision is the command that sets up a product's Zendesk account or, with --remove, removes
// that setup. It prints the completed steps even if a later one fails.
func provision(ctx context.Context, f provisionFlags, c call) error {
	c.wrong.Require("--product", f.Product, "the id of a product of the file")
	if !f.Remove {
		c.checkURL("--public-url", f.PublicURL, "https://live.example.com")
	}
	file, err := c.load(f.Config, f.Product)
	if err != nil {
		return err
	}
	desks, err := file.Products[0].OpenDesks(c.added.Desks)
	if err != nil {
		return err
	}
	for _, desk := range desks {
		if account, ok := desk.Desk.(*zendesk.Client); ok {
			if f.Remove {
				done, err := account.Remove(ctx, f.Product, f.DryRun)
				if printProvisioned(c.stdout, done, f.DryRun, false); len(done.Steps) == 0 && err == nil {
					fmt.Fprintf(c.stdout, "nothing to remove for the product %s\n", f.Product)
				}
				return err
			}
			done, err := account.Provision(ctx, f.PublicURL, f.Product, f.DryRun)
			printProvisioned(c.stdout, done, f.DryRun, err == nil)
			return err
		}
	}
	return fmt.Errorf("--product: the product %s has no zendesk in its integration_config", f.Product)
}

// printProvisioned prints the steps and the remaining manual work: the secrets to put into
// the file and, if complete, a standard trigger of Zendesk's to change.
func printProvisioned(w io.Writer, done zendesk.Provisioned, dryRun, complete bool) {
	for _, step := range done.Steps {
		state := cmp.Or(string(step.Change), "is there")
		if step.Change != zendesk.Unchanged && dryRun {
			state = "would be " + state
		}
		if step.ID != "" {
			state += ", id " + step.ID
		}
		fmt.Fprintf(w, "%s %q: %s\n", step.Object, step.Name, state)
		if step.Problem != "" {
			fmt.Fprintf(w, "  it is left as it is, but %s\n", step.Problem)
		}
	}
	if len(done.SigningSecrets) > 0 {
		fmt.Fprint(w, "\nPut this into the product's zendesk in the product file, and restart the server:\n\n")
		secrets, _ := jsontext.Marshal(done.SigningSecrets) // strings can always be encoded
		fmt.Fprintf(w, "  \"signing_secret\": %s\n", secrets)
	}
	if complete && !dryRun {
		fmt.Fprint(w, `
Zendesk's trigger "Notify assignee of comment update" mails every private comment
to the assignee of a ticket, and so every note. To stop that add the condition
"Comment > Is > Public" to it, in Admin Center under Objects and rules > Triggers.
`)
	}
}
