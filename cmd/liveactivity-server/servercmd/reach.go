package servercmd

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/helpdesk/zendesk"
)

// The checks of a public address work from outside, as a help desk would reach it. A webhook
// that is there refuses a request without a signature with 401; so a 401 is the good answer,
// and nothing is written.

// reachTimeout bounds a request to the public address.
const reachTimeout = 10 * time.Second

// asked is the answer to a request: its status, 0 for none, and its error sentence.
type asked struct {
	status int
	detail string
}

// ask makes a request that changes nothing: without a credential, none is taken. A redirect is
// an answer; to follow it would make a GET of a POST.
func ask(ctx context.Context, method, address string) asked {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader("{}"))
	if err != nil {
		return asked{detail: "the address cannot be asked"}
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := noRedirects.Do(r)
	if err != nil {
		return asked{detail: "nothing answers there"}
	}
	defer response.Body.Close()
	var answer struct{ Detail string }
	body, _ := io.ReadAll(io.LimitReader(response.Body, 4<<10))
	_ = json.Unmarshal(body, &answer) // another program's answer has no sentence
	return asked{response.StatusCode, cmp.Or(answer.Detail, fmt.Sprintf("the answer is %d", response.StatusCode))}
}

// checkAddress asks the server at the public address whether it serves the product as its file
// says. Without a server that is ready, nothing else is asked.
func checkAddress(
	ctx context.Context, public string, product liveactivity.Product, hasDesk bool) (found []helpdesk.Finding,
) {
	add := func(ok bool, format string, args ...any) {
		found = append(found, helpdesk.Finding{OK: ok, Text: fmt.Sprintf(format, args...)})
	}
	public = strings.TrimRight(public, "/")
	if ready := ask(ctx, http.MethodGet, public+"/readyz"); ready.status != http.StatusOK {
		add(false, "No server that is ready is at %s: %s.", public, strings.TrimRight(ready.detail, "."))
		return found
	}
	add(true, "A server is at %s, and ready.", public)
	id := url.PathEscape(product.ProductID)
	paths := []string{"/webhook/" + id}
	if hasDesk {
		paths = append(paths, "/chatbot-webhook/"+id)
	}
	for _, path := range paths {
		switch a := ask(ctx, http.MethodPost, public+path); a.status {
		case http.StatusUnauthorized:
			add(true, "%s is there, and refuses a request without a secret or signature.", path)
		case http.StatusNotFound:
			add(false, "%s is not there: the server does not serve this product, or has it from another file.", path)
		case http.StatusOK, http.StatusBadRequest:
			add(false, "%s takes requests without a signature.", path)
		default:
			add(false, "%s does not answer as it should: %s.", path, strings.TrimRight(a.detail, "."))
		}
	}
	return found
}

// checkAccount reads a Zendesk account and reports the steps that zendesk provision would make
// in it, and whether the file has its secrets. It changes nothing.
func checkAccount(ctx context.Context, account provisioner, public string,
	product liveactivity.Product) (found []helpdesk.Finding) {
	add := func(ok bool, format string, args ...any) {
		found = append(found, helpdesk.Finding{OK: ok, Text: fmt.Sprintf(format, args...)})
	}
	const advice = "run liveactivity-server zendesk provision"
	done, err := account.Provision(ctx, public, product.ProductID, true)
	if err != nil {
		add(false, "The webhooks and triggers cannot be read; an administrator's credentials are needed.")
		return found
	}
	for _, step := range done.Steps {
		switch {
		case step.Change == zendesk.Created:
			add(false, "The %s %q is missing: %s.", step.Object, step.Name, advice)
		case step.Change != zendesk.Unchanged:
			add(false, "The %s %q leads to another address: %s.", step.Object, step.Name, advice)
		case step.Problem != "":
			add(false, "The %s %q is there, but %s.", step.Object, step.Name, step.Problem)
		default:
			add(true, "The %s %q is there.", step.Object, step.Name)
		}
	}
	var config zendesk.Config
	_ = json.Unmarshal(product.IntegrationConfig.Desks["zendesk"], &config) // LoadFile has checked it
	for _, secret := range done.SigningSecrets {
		if !slices.Contains(config.SigningSecret, secret) {
			add(false, "signing_secret lacks the secret of a webhook: %s, and take over the line that it prints.", advice)
			break
		}
	}
	return found
}
