package servercmd

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/liveactivity/liveactivity/helpdesk/zendesk"
)

// whyNoNote returns the likely causes of a missing note and their remedies. It uses the
// server's metrics, and the account if its webhooks can be read. The metrics count all
// conversations, so a busy server may hide the cause.
func (r *rehearsal) whyNoNote(ctx context.Context) (advice []string) {
	path := "/chatbot-webhook/" + url.PathEscape(r.product.ProductID)
	after, known := r.webhooks(ctx)
	arrived := func(status string) bool { return after[status] > r.counted[status] }
	switch {
	case arrived("401"):
		advice = append(advice, "The server refused a webhook with a wrong signature: compare "+
			"signing_secret (Zendesk) or client_secret (Intercom) in the product file, and restart the server.")
	case known && !arrived("200"):
		advice = append(advice, "No webhook of the desk arrived at the server at "+r.base+".")
	case known:
		advice = append(advice, "Webhooks arrived, and the note did not follow: the server's log says why; "+
			"a larger --timeout may help where the desk limits its requests.")
	}
	if account, ok := r.desk.Desk.(*zendesk.Client); ok {
		return append(advice, r.whyNotHooked(ctx, account, path)...)
	}
	if known && !arrived("200") && !arrived("401") {
		advice = append(advice, "The desk must send the topic conversation.user.created to your public address with "+
			path+": in Intercom's Developer Hub under Configure > Webhooks.")
	}
	return append(advice, "docs/help-desks.md has more under \"Why is there no note?\".")
}

// whyNotHooked returns the problems with the webhook that leads to the path, its trigger,
// its secret and the server at its address. It uses the webhook's address in the account,
// regardless of the flags.
func (r *rehearsal) whyNotHooked(ctx context.Context, account *zendesk.Client, path string) (problems []string) {
	webhooks, err := account.Webhooks(ctx)
	if err != nil {
		return []string{"The account's webhooks cannot be read; that takes an administrator's credentials."}
	}
	for _, hook := range webhooks {
		public, leads := strings.CutSuffix(hook.Endpoint, path)
		if !leads {
			continue
		}
		found := checkAccount(ctx, account, public, r.product)
		for _, finding := range append(found, checkAddress(ctx, public, r.product, true)...) {
			if !finding.OK {
				problems = append(problems, finding.Text)
			}
		}
		return append(problems, fmt.Sprintf("The webhook %q calls %s.", hook.Name, hook.Endpoint))
	}
	return []string{"No webhook of the account leads to " + path + ": run liveactivity-server zendesk provision."}
}

// answeredWebhooks matches the metric that counts a server's answers to
// webhooks by status.
var answeredWebhooks = regexp.MustCompile(
	`(?m)^liveactivity_http_request_duration_seconds_count\{code="(\d+)",route="[^"]*/chatbot-webhook/[^"]*"\} (\S+)`)

// webhooks returns how many desk webhooks the server has answered, by status, and whether
// that is known: /metrics may be at another address. A failure here does not fail the
// rehearsal.
func (r *rehearsal) webhooks(ctx context.Context) (count map[string]float64, known bool) {
	var page []byte
	if err := r.do(ctx, http.MethodGet, r.base+"/metrics", nil, nil, &page); err != nil {
		return nil, false
	}
	count = map[string]float64{}
	for _, m := range answeredWebhooks.FindAllSubmatch(page, -1) {
		n, _ := strconv.ParseFloat(string(m[2]), 64)
		count[string(m[1])] += n
	}
	return count, true
}
