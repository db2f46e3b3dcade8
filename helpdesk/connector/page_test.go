package connector

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/internal/musttest"
)

const ownPage = "Origin: https://app.acme.example"

func TestServeLink_answersEachBody(t *testing.T) {
	const link = `{"product_id":"acme","session_id":"s1","conversation_id":"c1"}`
	const noObject = "The body must be a JSON object with product_id, session_id and conversation_id."
	const forbidden = "Pages of this origin may not link sessions of the product."
	with := func(old, changed string) string { return strings.Replace(link, old, changed, 1) }
	own := []string{ownPage}
	for name, tt := range map[string]struct {
		body    string
		headers []string
		code    int
		says    string
	}{
		"linked":                 {link, own, 200, "linked"},
		"with the desk's name":   {with("}", `,"desk":"chat"}`), own, 200, "linked"},
		"with more fields":       {with("}", `,"x":1}`), own, 200, "linked"},
		"an id that is a number": {with(`"c1"`, "12345678901234567890"), own, 200, "linked"},
		"unknown session":        {with("s1", "s9"), own, 404, "Unknown session: nothing has been reported of it yet."},
		"unknown product":        {with("acme", "globex"), own, 404, "Unknown product."},
		"product without desks":  {with("acme", "bare"), own, 404, "The product has no help desk."},
		"unknown desk": {with("}", `,"desk":"third"}`), own, 400,
			"The field desk does not name a help desk of the product."},
		"no origin, whatever the body": {"{", nil, 403, forbidden},
		"another origin":               {link, []string{"Origin: https://evil.example"}, 403, forbidden},
		"without a session": {with(`"session_id":"s1",`, ""), own, 400,
			"The field session_id is missing or empty."},
		"an empty conversation":      {with("c1", " "), own, 400, "The field conversation_id is missing or empty."},
		"a conversation that is odd": {with(`"c1"`, "{}"), own, 400, noObject},
		"a long conversation": {with("c1", strings.Repeat("c", 257)), own, 400,
			"The field conversation_id is longer than 256 bytes."},
		"without a product": {`{}`, own, 400, "The field product_id is missing or empty."},
		"an array":          {`[]`, own, 400, noObject},
		"too large": {link + strings.Repeat(" ", maxLink), own, 413,
			"The request body is larger than the limit of 16384 bytes."},
		"plain text": {link, append(own, "Content-Type: text/plain"), 415, "The Content-Type must be application/json."},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDoors(t, nil)
			d.visitAs(t, "s1", "ada", "ada@acme.example", time.Now(), "pricing")
			code, says := d.post("/sessions/link", tt.body, tt.headers...)
			assert.Equal(t, tt.code, code)
			assert.Equal(t, tt.says, says)
			if code != 200 {
				assert.Empty(t, d.linkedTo(t, "s1"))
			}
		})
	}
}

func TestServeLink_linksToTheFirstDeskOnceAndForAll(t *testing.T) {
	d := newDoors(t, nil)
	d.visitAs(t, "s1", "ada", "ada@acme.example", time.Now(), "pricing")
	link := func(conversation string) (int, string) {
		return d.post("/sessions/link", `{"product_id":"acme","session_id":"s1","conversation_id":"`+conversation+`"}`,
			ownPage)
	}
	_, says := link("c1")
	assert.Equal(t, "linked", says)
	assert.Equal(t, "plain/c1", d.linkedTo(t, "s1"))
	_, says = link("c1")
	assert.Equal(t, "already_linked", says)
	code, says := link("c2")
	assert.Equal(t, 409, code)
	assert.Equal(t, "The session is linked to another conversation.", says)
	assert.Equal(t, []Linked{{SessionID: "s1"}}, d.known(t, "plain", "c1"), "not by a webhook")
	d.says(t, "already_linked", opened("d1", "c1", helpdesk.Contact{Email: "ada@acme.example"}))
}

// The ID of the session of a user's server events follows from the user's ID, which a stranger may know.
func TestServeLink_takesNoStrangersWordForAUsersOwnSession(t *testing.T) {
	d := newDoors(t, nil)
	own := musttest.New(d.store.dir.Find(t.Context(), d.store.log.Activity(), "acme",
		&activity.Event{UserID: "ada", Action: &activity.Action{}}))
	d.visitAs(t, own, "ada", "", time.Now(), "pricing")
	link := func(more string) (int, string) {
		return d.post("/sessions/link", `{"product_id":"acme","session_id":"`+own+`","conversation_id":"c1"`+more+`}`,
			ownPage)
	}
	code, _ := link("")
	assert.Equal(t, http.StatusNotFound, code)
	assert.Empty(t, d.linkedTo(t, own))
	code, _ = link(`,"user_hash":"` + hashOf("ada") + `"`)
	assert.Equal(t, http.StatusOK, code)
}

// A signed identity makes a link the user's own word, which no quota bounds. A wrong identity links
// nothing.
func TestServeLink_takesTheWordOfASignedUser(t *testing.T) {
	soon := time.Now().Add(time.Hour)
	const refusal = "The signature of the session's user is wrong or has expired."
	for name, tt := range map[string]struct {
		proof string
		says  string
	}{
		"a hash":  {`"user_hash":"` + hashOf("ada") + `"`, "linked"},
		"a token": {`"token":"` + tokenOf("ada", soon) + `"`, "linked"},
		"a hash beside an old token": {`"token":"` + tokenOf("ada", time.Now()) + `","user_hash":"` + hashOf("ada") + `"`,
			"linked"},
		"another user's hash": {`"user_hash":"` + hashOf("bob") + `"`, refusal},
		"a hash of nobody":    {`"user_hash":"` + hashOf("") + `"`, refusal},
		"an expired token":    {`"token":"` + tokenOf("ada", time.Now()) + `"`, refusal},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDoors(t, nil)
			link := func(session string) (int, string) {
				return d.post("/sessions/link",
					`{"product_id":"acme","session_id":"`+session+`","conversation_id":"c1",`+tt.proof+`}`, ownPage)
			}
			for i := range MaxStrangeLinks {
				session := fmt.Sprint("s", i)
				d.visitAs(t, session, "ada", "", time.Now(), "pricing")
				code, says := link(session)
				require.Equal(t, tt.says, says)
				require.Equal(t, says == "linked", code == http.StatusOK)
				require.Equal(t, says == refusal, code == http.StatusUnauthorized)
			}
			require.Equal(t, tt.says == "linked",
				slices.Contains(d.known(t, "plain", "c1"), Linked{SessionID: "s7", Trusted: true}))
			d.visit(t, "anonymous", "pricing")
			code, _ := link("anonymous")
			assert.Equal(t, http.StatusUnauthorized, code)
			d.visit(t, "stranger", "pricing")
			code, _ = d.post("/sessions/link", `{"product_id":"acme","session_id":"stranger","conversation_id":"c2"}`, ownPage)
			assert.Equal(t, http.StatusOK, code, "the quota is left to strangers")
		})
	}
}

func TestServeLink_letsOnlyThePagesOfTheProductReadAnswers(t *testing.T) {
	d := newDoors(t, nil)
	const link = `{"product_id":"acme","session_id":"s9","conversation_id":"c1"}`
	own := d.request(http.MethodPost, "/sessions/link", link, ownPage).Header()
	assert.Equal(t, "https://app.acme.example", own.Get("Access-Control-Allow-Origin"))
	assert.Equal(t, []string{"Origin"}, own.Values("Vary"))
	other := d.request(http.MethodPost, "/sessions/link", link, "Origin: https://evil.example").Header()
	assert.Empty(t, other.Get("Access-Control-Allow-Origin"))
	assert.Equal(t, []string{"Origin"}, other.Values("Vary"))

	preflight := d.request(http.MethodOptions, "/sessions/link", "", ownPage, "Access-Control-Request-Method: POST",
		"Access-Control-Request-Headers: content-type")
	assert.Equal(t, 204, preflight.Code)
	assert.Equal(t, "https://app.acme.example", preflight.Header().Get("Access-Control-Allow-Origin"))
	assert.Equal(t, "POST", preflight.Header().Get("Access-Control-Allow-Methods"))
	assert.Equal(t, "Content-Type", preflight.Header().Get("Access-Control-Allow-Headers"))
	assert.Empty(t, preflight.Header().Get("Access-Control-Allow-Credentials"))
}

func TestSnippet_fitsIntoAPage(t *testing.T) {
	s := musttest.New(Snippet("https://live.example.com/base/", "acme", "intercom"))
	assert.Contains(t, s, `var url = "https://live.example.com/base/sessions/link", link = `+
		`{"desk":"intercom","product_id":"acme"};`)
	s, err := Snippet("http://localhost:8080", `a</script>"'`, "")
	assert.Error(t, err, "it has a slash")
	assert.Empty(t, s)
	s = musttest.New(Snippet("http://localhost:8080", `a<script>"'`, ""))
	assert.Contains(t, s, `link = {"product_id":"a\u003cscript\u003e\"'"};`)
	assert.NotContains(t, s, "URL")
	assert.NotContains(t, s, "LINK")
}

func TestSnippet_reportsEveryMistake(t *testing.T) {
	for base, id := range map[string]string{"": "", "live.example.com": "a/b", "https://": "", "ftp://a.b": "/",
		"https://u:p@a.b": "", "https://a.b?x": "", "https://a.b#x": "", "https://a b": ""} {
		_, err := Snippet(base, id, "")
		assert.Equal(t, []string{"connector.base", "connector.productID"}, musttest.Mistakes(t, err), "%q", base)
	}
}
