package servercmd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/helpdesk/zendesk"
)

// The checks of a public address run from outside, as a help desk would reach it. An
// existing webhook refuses an unsigned request with a 401, so a 401 is the expected answer,
// and nothing is written.

// asked returns the status of an answer, 0 for none, and a description of its
// problem.
func asked(err error) (status int, wrong string) {
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
		return asked(server.do(ctx, method, server.base+path, header, []byte("{}"), nil))
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
func checkAccount(ctx context.Context, account provisioner, public string,
	product liveactivity.Product) (found findings) {
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
