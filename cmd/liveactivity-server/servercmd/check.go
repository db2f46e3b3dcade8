package servercmd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/helpdesk/connector"
	"github.com/liveactivity/liveactivity/helpdesk/zendesk"
	"github.com/liveactivity/liveactivity/internal/command"
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
	if f.PublicURL != "" {
		c.checkURL("--public-url", f.PublicURL, "https://live.example.com")
	}
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
		if account, ok := desk.Desk.(*zendesk.Client); ok && public != "" {
			findings = append(findings, checkAccount(ctx, account, public, product)...)
		}
		report(desk.Name, findings)
	}
	if advice := product.OfferAdvice(desks); advice != "" {
		fmt.Fprintf(stdout, "  note     Proactive is enabled, and %s.\n", advice)
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

// The checks of a public address run from outside, as a help desk would reach it. An
// existing webhook refuses an unsigned request with a 401, so a 401 is the expected answer,
// and nothing is written.

// statusOf returns the status of an answer, 0 for none, and a description of its
// problem.
func statusOf(err error) (status int, wrong string) {
	answered, ok := errors.AsType[*statusError](err)
	switch {
	case err == nil:
		return http.StatusOK, "the answer is 200"
	case !ok:
		return 0, "nothing answers there"
	}
	wrong = cmp.Or(answered.detail, fmt.Sprintf("the answer is %d", answered.status))
	return answered.status, strings.TrimRight(wrong, ".")
}

// findings are the results of a check.
type findings []helpdesk.Finding

func (f *findings) add(ok bool, format string, args ...any) {
	*f = append(*f, helpdesk.Finding{OK: ok, Text: fmt.Sprintf(format, args...)})
}

// checkAddress checks that the server at the public address serves the product as the file
// states. If no server there is ready, it checks nothing else.
func checkAddress(ctx context.Context, public string, product liveactivity.Product, hasDesk bool) (found findings) {
	server := client{base: strings.TrimRight(public, "/")}
	ask := func(method, path string) (status int, wrong string) {
		header := http.Header{"Content-Type": {"application/json"}}
		return statusOf(server.do(ctx, method, server.base+path, header, []byte("{}"), nil))
	}
	if status, wrong := ask(http.MethodGet, "/readyz"); status != http.StatusOK {
		found.add(false, "No server that is ready is at %s: %s.", server.base, wrong)
		return found
	}
	found.add(true, "A server is at %s, and ready.", server.base)
	id := url.PathEscape(product.ProductID)
	paths := []string{"/webhook/" + id}
	if hasDesk {
		paths = append(paths, "/chatbot-webhook/"+id)
	}
	for _, path := range paths {
		switch status, wrong := ask(http.MethodPost, path); status {
		case http.StatusUnauthorized:
			found.add(true, "%s is there, and refuses a request without a secret or signature.", path)
		case http.StatusNotFound:
			found.add(false, "%s is not there: the server does not serve this product, or has it from another file.", path)
		case http.StatusOK, http.StatusBadRequest:
			found.add(false, "%s takes requests without a signature.", path)
		default:
			found.add(false, "%s does not answer as it should: %s.", path, wrong)
		}
	}
	return found
}

// checkAccount reads a Zendesk account and reports the steps that zendesk provision would
// take, and whether the file has the account's secrets. It changes nothing.
func checkAccount(
	ctx context.Context, account *zendesk.Client, public string, product liveactivity.Product,
) (found findings) {
	const advice = "run liveactivity-server zendesk provision"
	done, err := account.Provision(ctx, public, product.ProductID, true)
	if err != nil {
		found.add(false, "The webhooks and triggers cannot be read; an administrator's credentials are needed.")
		return found
	}
	for _, step := range done.Steps {
		switch {
		case step.Change == zendesk.Created:
			found.add(false, "The %s %q is missing: %s.", step.Object, step.Name, advice)
		case step.Change != zendesk.Unchanged:
			found.add(false, "The %s %q leads to another address: %s.", step.Object, step.Name, advice)
		case step.Problem != "":
			found.add(false, "The %s %q is there, but %s.", step.Object, step.Name, step.Problem)
		default:
			found.add(true, "The %s %q is there.", step.Object, step.Name)
		}
	}
	var config zendesk.Config
	_ = json.Unmarshal(product.IntegrationConfig.Desks["zendesk"], &config) // LoadFile has checked it
	for _, secret := range done.SigningSecrets {
		if !slices.Contains(config.SigningSecret, secret) {
			found.add(false, "signing_secret lacks the secret of a webhook: %s, and take over the line that it prints.", advice)
			break
		}
	}
	return found
}
