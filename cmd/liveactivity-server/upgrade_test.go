package main_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
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

// The previous release and this version are one service while they share a Redis. This version then
// goes on alone.
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
	assert.Equal(t, []string{"eve a", "eve b", "eve c", "ada d", "eve d"}, ofOld.streamed(u.new, "eve d"))
}

// customer is a user with one session and one ticket.
type customer struct {
	*upgrade
	user, ticket string
	cursor       string // the ID of the entry that was streamed last
}

// visit lets a user do a, b and c and open a ticket at two servers in turn.
func (u *upgrade) visit(user, first, second string) *customer {
	c := &customer{upgrade: u, user: user}
	c.act(first, "a")
	assert.Equal(u.t, 1, c.known(second))
	var webhook *http.Request
	c.ticket, webhook = u.desk.NewTicket(first+"/chatbot-webhook/acme", user+"@acme.example", "Help!")
	resp, err := http.DefaultClient.Do(webhook)
	require.NoError(u.t, err)
	require.NoError(u.t, resp.Body.Close())
	require.Equal(u.t, http.StatusOK, resp.StatusCode)
	c.act(second, "b")
	c.isNoted("a", "b")

	c.streamed(first, user+" b")
	c.act(first, "c")
	assert.Equal(u.t, []string{user + " c"}, c.streamed(second, user+" c"), "a stream goes on at the other server")
	c.isNoted("a", "b", "c")

	var registered map[string]string
	status, body := proctest.Request(u.t, http.MethodPost, first+"/admin/products", `{"product_id":"of-`+user+`"}`,
		"X-Admin-Key: "+adminKey)
	require.Equal(u.t, http.StatusCreated, status, body)
	require.NoError(u.t, json.Unmarshal([]byte(body), &registered))
	status, body = proctest.Request(u.t, http.MethodGet, second+"/sessions/of-"+user, "",
		"Authorization: Bearer "+registered["key"])
	assert.Equal(u.t, http.StatusOK, status, body)
	return c
}

// act reports a page view of the customer.
func (c *customer) act(server, page string) {
	c.t.Helper()
	post(c.t, server, fmt.Sprintf(`{"event":"$pageview","uuid":"%s-%s","distinct_id":%[1]q,
		"properties":{"$session_id":%[1]q,"$current_url":"https://app.acme.example/%[1]s/%s"},
		"$set":{"email":"%[1]s@acme.example"}}`, c.user, page))
}

// known returns how many actions of the customer a server has.
func (c *customer) known(server string) (count int) {
	status, body := proctest.Request(c.t, http.MethodGet, server+"/users/acme/"+c.user+"/live-activity", "",
		"Authorization: Bearer "+key)
	require.Equal(c.t, http.StatusOK, status, body)
	var live struct{ Count int }
	require.NoError(c.t, json.Unmarshal([]byte(body), &live))
	return live.Count
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

// streamed returns a server's stream behind the cursor up to the page view named last, as
// users and pages.
func (c *customer) streamed(server, last string) (all []string) {
	c.t.Helper()
	resp := proctest.Do(c.t, http.MethodGet, server+"/stream/acme?since=0", "", "Authorization: Bearer "+key,
		"Last-Event-ID: "+c.cursor)
	require.Equal(c.t, http.StatusOK, resp.StatusCode)
	for lines := bufio.NewScanner(resp.Body); len(all) == 0 || all[len(all)-1] != last; {
		require.True(c.t, lines.Scan(), "after %q", all)
		if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
			c.cursor = id
		}
		if m := streamedURL.FindStringSubmatch(lines.Text()); m != nil {
			all = append(all, m[1]+" "+m[2])
		}
	}
	return all
}

var streamedURL = regexp.MustCompile(`"raw_url":"https://app.acme.example/(\w+)/(\w+)"`)
