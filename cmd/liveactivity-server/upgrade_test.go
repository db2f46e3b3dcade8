package main_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/helpdesk/helpdesktest"
	"github.com/liveactivity/liveactivity/internal/proctest"
	"github.com/liveactivity/liveactivity/internal/redistest"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

// upgrade is two servers on one Redis; the old one is stopped at the end.
type upgrade struct {
	t        *testing.T
	desk     *helpdesktest.Zendesk
	old, new string // their URLs
}

// The previous release and this version write the notes of the same tickets while they share a
// Redis. This version then goes on alone. (TestKill_rollingRestart is about everything else.)
func TestUpgrade_rollsFromTheReleaseBefore(t *testing.T) {
	t.Parallel()
	u := &upgrade{t: t, desk: helpdesktest.NewZendesk(nil)}
	t.Cleanup(u.desk.Close)
	config := productFile(t, `{
		"products": [{"product_id": "acme", "webhook_secret": "`+webhookSecret+`", "integration_config":
			{"zendesk": `+string(u.desk.Config())+`, "notes": {"debounce_ms": 50, "interval_s": 0}}}],
		"keys": [{"key": "`+key+`", "external_id": "acme"}]}`)
	args := []string{anyPort, "--redis-url=" + redistest.Start(t).URL(), "--admin-key=" + adminKey, "--config=" + config}
	before := proctest.Predecessor(t).Launch(t, nil, args...)
	u.old, u.new = before.URL(), launch(t, nil, args...).URL()

	ofOld := u.visit("ada", u.old, u.new)
	ofNew := u.visit("eve", u.new, u.old)
	before.Stop()
	ofOld.act(u.new, "d")
	ofNew.act(u.new, "d")
	ofOld.isNoted("a", "b", "c", "d")
	ofNew.isNoted("a", "b", "c", "d")
}

// customer is a user with one session and one ticket.
type customer struct {
	*upgrade
	user, ticket string
}

// visit lets a user do a, b and c and open a ticket at two servers in turn.
func (u *upgrade) visit(user, first, second string) *customer {
	c := &customer{upgrade: u, user: user}
	c.act(first, "a")
	var webhook *http.Request
	c.ticket, webhook = u.desk.NewTicket(first+"/chatbot-webhook/acme", user+"@acme.example", "Help!")
	resp, err := http.DefaultClient.Do(webhook)
	require.NoError(u.t, err)
	require.NoError(u.t, resp.Body.Close())
	require.Equal(u.t, http.StatusOK, resp.StatusCode)
	c.act(second, "b")
	c.isNoted("a", "b")
	c.act(first, "c")
	c.isNoted("a", "b", "c")
	return c
}

// act reports a page view of the customer.
func (c *customer) act(server, page string) {
	c.t.Helper()
	post(c.t, server, fmt.Sprintf(`{"event":"$pageview","uuid":"%s-%s","distinct_id":%[1]q,
		"properties":{"$session_id":%[1]q,"$current_url":"https://app.acme.example/%[1]s/%s"},
		"$set":{"email":"%[1]s@acme.example"}}`, c.user, page))
}

// isNoted waits for the notes of the customer's ticket, which hold these pages once each, in
// this order.
func (c *customer) isNoted(pages ...string) {
	c.t.Helper()
	waittest.Equal(c.t, pages, func() (noted []string) {
		for _, m := range notedPage.FindAllStringSubmatch(strings.Join(c.desk.Notes(c.ticket), "\n"), -1) {
			noted = append(noted, m[1])
		}
		return noted
	})
}

var notedPage = regexp.MustCompile(`User landed on the (\w+) page`)
