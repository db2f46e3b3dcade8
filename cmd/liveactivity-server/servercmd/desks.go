package servercmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/helpdesk/connector"
	"github.com/liveactivity/liveactivity/helpdesk/zendesk"
	"github.com/liveactivity/liveactivity/internal/command"
	"github.com/liveactivity/liveactivity/internal/jsontext"
)

// checkFlags are the flags of check.
type checkFlags struct {
	Config  string `env:"LIVEACTIVITY_CONFIG" placeholder:"FILE" help:"Product file (JSON). Required."`
	Product string `placeholder:"ID" help:"The product to check; all of the file by default."`
	// PublicURL is checked only if it is set.
	PublicURL string `env:"LIVEACTIVITY_PUBLIC_URL" placeholder:"URL" help:"The server's public URL, to test it, too."`
	// LLMModel is not called; check only needs to know whether there is one.
	LLMModel string `env:"LIVEACTIVITY_LLM_MODEL" placeholder:"NAME" help:"The server's language model, if it has one."`
	command.Common
}

const checkDescription = "Tests the credentials and permissions at each help desk of a product file, with requests " +
	"that change nothing. With --public-url it also tests that address, and whether Zendesk's webhooks and triggers " +
	"lead there with the secrets of the file. The exit status is 1 if anything is missing. " +
	"Example: liveactivity-server check --config products.json --public-url https://live.example.com"

// check is the command that asks the help desks of a product file whether the service can work
// with them. It fails if anything is missing, after it has checked everything.
func check(ctx context.Context, f checkFlags, c call) error {
	file, err := c.load(f.Config, f.Product)
	if err != nil {
		return err
	}
	missing := 0
	replies := f.LLMModel != "" || c.added.Model != nil || c.added.Reply != nil
	for _, product := range file.Products {
		missing += checkProduct(ctx, product, c.added, f.PublicURL, c.stdout)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if advice := product.Identity.Advice(); replies && advice != "" {
			fmt.Fprintf(c.stdout, "  note     With a language model, %s.\n", advice)
		}
		if advice := product.LinkAdvice(); advice != "" {
			fmt.Fprintf(c.stdout, "  note     Without a signature, %s.\n", advice)
		}
	}
	switch missing {
	case 0:
		return nil
	case 1:
		return errors.New("one thing is missing, see above")
	}
	return fmt.Errorf("%d things are missing, see above", missing)
}

// checkProduct checks a product, prints the findings and returns the number of problems. It
// prints no findings of a part during which ctx ended.
func checkProduct(ctx context.Context, product liveactivity.Product, added *liveactivity.Options, public string,
	stdout io.Writer,
) (missing int) {
	fmt.Fprintf(stdout, "product %s\n", product.ProductID)
	desks, err := product.OpenDesks(added.Desks)
	if err != nil { // LoadFile has checked it
		fmt.Fprintf(stdout, "  missing  %v\n", err)
		return 1
	}
	if len(desks) == 0 {
		fmt.Fprintln(stdout, "  ok       It has no help desk.")
	}
	report := func(part string, findings []helpdesk.Finding) {
		if ctx.Err() != nil {
			return
		}
		fmt.Fprintf(stdout, "  %s\n", part)
		for _, finding := range findings {
			word := "ok     "
			if !finding.OK {
				word = "missing"
				missing++
			}
			fmt.Fprintf(stdout, "    %s  %s\n", word, finding.Text)
		}
	}
	if public != "" {
		report("address", checkAddress(ctx, public, product, len(desks) > 0))
	}
	for _, desk := range desks {
		findings := checkDesk(ctx, desk)
		if account, ok := desk.Desk.(provisioner); ok && public != "" {
			findings = append(findings, checkAccount(ctx, account, public, product)...)
		}
		report(desk.Name, findings)
	}
	return missing
}

// checkDesk asks a desk whether the service can work with it. A desk without a Checker counts
// as usable.
func checkDesk(ctx context.Context, desk connector.Desk) []helpdesk.Finding {
	checker := desk.Desk.Capabilities().Checker
	if checker == nil {
		return []helpdesk.Finding{{OK: true, Text: "This kind of desk cannot be checked."}}
	}
	return checker.Check(ctx)
}

// provisionFlags are the flags of zendesk provision.
type provisionFlags struct {
	Config    string `env:"LIVEACTIVITY_CONFIG" placeholder:"FILE" help:"Product file (JSON). Required."`
	Product   string `placeholder:"ID" help:"The product of the Zendesk account to set up. Required."`
	PublicURL string `env:"LIVEACTIVITY_PUBLIC_URL" placeholder:"URL" help:"The server's URL for Zendesk. Required."`
	DryRun    bool   `help:"Only print the changes."`
	Remove    bool   `help:"Remove the webhooks and triggers."`
	command.Common
}

// provisioner is a desk whose account can be set up, and whose webhooks can be read, such as
// Zendesk. With dryRun it changes nothing.
type provisioner interface {
	Provision(ctx context.Context, host, productID string, dryRun bool) (zendesk.Provisioned, error)
	Remove(ctx context.Context, productID string, dryRun bool) (zendesk.Provisioned, error)
	Webhooks(ctx context.Context) ([]zendesk.Webhook, error)
}

const provisionDescription = "Sets up a product's Zendesk account: creates the webhooks and triggers that are " +
	"missing, and prints the signing secrets as lines for the product file. " +
	"Webhooks that it made for another address get the " +
	"new one; nothing else that exists is changed, so it can be run again. The credentials must be an administrator's."

// provision is the command that sets up a product's Zendesk account or, with --remove, removes
// that setup. It prints the completed steps even if a later one fails.
func provision(ctx context.Context, f provisionFlags, c call) error {
	c.wrong.Require("--product", f.Product, "the id of a product of the file")
	switch _, err := zendesk.ContextURL(f.PublicURL, "acme"); {
	case f.Remove:
	case f.PublicURL == "":
		c.wrong.Require("--public-url", "", "the URL that Zendesk reaches the server at")
	case err != nil || !strings.Contains(f.PublicURL, "://"):
		c.wrong.Check("--public-url", errors.New("must be a URL such as https://live.example.com"))
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
		if account, ok := desk.Desk.(provisioner); ok {
			if f.Remove {
				done, err := account.Remove(ctx, f.Product, f.DryRun)
				printProvisioned(c.stdout, done, f.DryRun, false)
				return err
			}
			done, err := account.Provision(ctx, f.PublicURL, f.Product, f.DryRun)
			printProvisioned(c.stdout, done, f.DryRun, err == nil)
			return err
		}
	}
	return fmt.Errorf("--product: the product %s has no zendesk in its integration_config", f.Product)
}

// load returns a product file, reduced to the product with that ID if one is given. Its error
// includes all mistakes in the flags so far. Without an error, a requested product exists.
func (c call) load(path, productID string) (file liveactivity.File, err error) {
	if c.wrong.Require("--config", path, "the product file"); path == "" {
		return file, c.wrong.Err()
	}
	file, _, err = loadFile(path, c.added)
	c.wrong.Add(err)
	if productID != "" && err == nil {
		isOther := func(p liveactivity.Product) bool { return p.ProductID != productID }
		file.Products = slices.DeleteFunc(file.Products, isOther)
		if len(file.Products) == 0 {
			c.wrong.Check("--product", errors.New("names no product of the file"))
		}
	}
	return file, c.wrong.Err()
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
