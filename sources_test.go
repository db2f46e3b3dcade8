package liveactivity_test

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/flat"
	"github.com/liveactivity/liveactivity/activity/tracing"
	"github.com/liveactivity/liveactivity/internal/logtest"
	"github.com/liveactivity/liveactivity/internal/metricstest"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/productfile"
	"github.com/liveactivity/liveactivity/internal/redistest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
)

// basic is the header in which Segment's SDKs send their write key.
func basic(user string) string {
	return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"))
}

// takes posts to a source's path and requires that so many events are taken.
func (s *service) takes(accepted int, path, body string, headers ...string) reply {
	s.t.Helper()
	r := s.do(http.MethodPost, path, body, headers...)
	require.Equal(s.t, http.StatusOK, r.status, r.body)
	require.Equal(s.t, float64(accepted), r.json(s.t)["accepted"], r.body)
	return r
}

// titles returns the titles of the actions of a user of acme.
func (s *service) titles(userID string) (titles []string) {
	s.t.Helper()
	live, err := s.service.LiveActivity(s.t.Context(), "acme", userID, 50)
	require.NoError(s.t, err)
	for _, a := range live.Actions {
		titles = append(titles, a.Title)
	}
	return titles
}

// bySession returns the number of actions of each of acme's sessions.
func (s *service) bySession() map[string]float64 {
	s.t.Helper()
	found := map[string]float64{}
	for _, one := range s.do(http.MethodGet, "/sessions/acme", "", bearer(acmeKey)).json(s.t)["sessions"].([]any) {
		one := one.(map[string]any)
		found[one["session_id"].(string)] = one["actions"].(float64)
	}
	return found
}

// viewed is a page view of the Segment family, by a visitor and a user. Either may be empty.
func viewed(anonymousID, userID, page string) string {
	return fmt.Sprintf(`{"type":"page","anonymousId":%q,"userId":%q,"properties":{"url":"https://acme.example/%s"}}`,
		anonymousID, userID, page)
}

func identified(anonymousID, userID string) string {
	return fmt.Sprintf(`{"type":"identify","anonymousId":%q,"userId":%q,"traits":{"email":%q}}`, anonymousID, userID, mail)
}

// The write key may stand in any place where an SDK puts it.
func TestSources_findTheWriteKey(t *testing.T) {
	page := viewed("d", "", "a")
	withKey := func(key string) string { return strings.Replace(page, "{", `{"writeKey":"`+key+`",`, 1) }
	for name, tt := range map[string]struct {
		path, body, header string
		status             int
	}{
		"Basic authentication": {"/segment/v1/p", page, basic(acmeToken), 200},
		"without a colon": {"/segment/v1/p", page,
			"Authorization: basic " + base64.StdEncoding.EncodeToString([]byte(acmeToken)), 200},
		"below two slashes":   {"/segment/v1//p", page, basic(acmeToken), 200},
		"the body":            {"/segment/v1/page", withKey(acmeToken), "X: y", 200},
		"an event of a batch": {"/segment/v1/batch", `{"batch":[` + withKey(acmeToken) + `]}`, "X: y", 200},
		"a batch":             {"/segment", `{"batch":[` + page + `],"writeKey":"` + acmeToken + `"}`, "X: y", 200},
		"Jitsu's header": {"/jitsu/api/s/page", withKey(acmeToken + ":***"),
			"X-Write-Key: " + acmeToken + ":secret", 200},
		"Jitsu's body": {"/jitsu/api/s/s2s/page", withKey(acmeToken + ":***"), "X: y", 200},
		"the query": {"/rudderstack/beacon/v1/batch?writeKey=" + acmeToken, `{"batch":[` + page + `]}`,
			"X: y", 200},
		"nowhere":              {"/segment/v1/p", page, "X: y", 401},
		"an unknown one":       {"/segment/v1/p", withKey(acmeToken), basic("phc_none"), 401},
		"below no known path":  {"/segment/v2/nothing", page, basic(acmeToken), 404},
		"Amplitude's, slashes": {"/amplitude//2/httpapi/", ofAmplitude(acmeToken), "X: y", 200},
		"Amplitude's, no path": {"/amplitude/3", ofAmplitude(acmeToken), "X: y", 404},
		"another one's event":  {"/segment/b", `{"batch":[` + withKey(globexToken) + `]}`, basic(acmeToken), 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			r := s.do(http.MethodPost, tt.path, tt.body, tt.header, "Origin: https://shop.example")
			assert.Equal(t, "https://shop.example", r.header.Get("Access-Control-Allow-Origin"))
			assert.Empty(t, r.header.Get("WWW-Authenticate"), "a browser would ask for a password")
			if tt.status == 0 {
				assert.Equal(t, map[string]any{"other_token": 1.0}, r.json(t)["reasons"])
				tt.status = http.StatusOK
			} else if tt.status == http.StatusOK {
				assert.Len(t, s.titles("d"), 1)
			}
			assert.Equal(t, tt.status, r.status, r.body)
		})
	}
}

// Pages may ask from anywhere, and may report only from the product's listed origins.
func TestSources_takeReportsOfListedOriginsOnly(t *testing.T) {
	s := start(t, func(o *liveactivity.Options) { o.Products[0].AllowedOrigins = []string{"https://acme.example"} })
	const ours, theirs = "Origin: https://acme.example", "Origin: https://evil.example"
	for _, path := range []string{"/amplitude/2/httpapi", "/segment/v1/p", "/rudderstack/v1/page", "/jitsu/api/s/page",
		"/segment/v1/projects/x/settings", "/segment/v1/m"} {
		r := s.do(http.MethodOptions, path, "", theirs,
			"Access-Control-Request-Headers: authorization,anonymousid,sentat,x-write-key")
		assert.Equal(t, http.StatusNoContent, r.status, path)
		assert.Equal(t, "authorization,anonymousid,sentat,x-write-key", r.header.Get("Access-Control-Allow-Headers"))
	}
	for method, path := range map[string]string{http.MethodPost: "/segment/v1/p",
		http.MethodGet: "/segment/v1/projects/" + acmeToken + "/settings"} {
		assert.Equal(t, http.StatusOK, s.status(method, path, viewed("d", "", "a"), basic(acmeToken), ours))
		refused := s.do(method, path, viewed("d", "", "b"), basic(acmeToken), theirs)
		assert.Equal(t, http.StatusForbidden, refused.status)
		assert.Empty(t, refused.header.Get("Access-Control-Allow-Origin"))
	}
	assert.Equal(t, http.StatusForbidden, s.status(http.MethodGet, "/rudderstack/sourceConfig/?writeKey="+acmeToken, "",
		theirs))
	assert.Equal(t, []string{"Page Load: A"}, s.titles("d"))
	assert.Equal(t, "POST, OPTIONS", s.do(http.MethodGet, "/segment/v1/p", "").header.Get("Allow"))
	host := strings.TrimPrefix(s.url, "http://")
	assert.JSONEq(t, `{"integrations":{"Segment.io":{"apiKey":"`+acmeToken+`","apiHost":"`+host+`/segment/v1",`+
		`"protocol":"https"}},"metrics":{"sampleRate":0}}`,
		s.do(http.MethodGet, "/segment/v1/projects/"+acmeToken+"/settings", "", ours).body)
}

// A stranger who claims a user's ID gets what the user's server reports, and no standing from it. Nor do claims
// count as reported because the server reports the same user.
func TestSources_reportsRaiseNoClaims(t *testing.T) {
	s := start(t, withIdentity("notes"))
	server := func(event string) { s.takes(1, "/webhook/acme", event, "X-Webhook-Secret: "+acmeSecret) }
	identity := func(query string) string { return s.context(query).Identity }
	s.takes(1, "/segment/v1/page", viewed("stranger", "ada", "browser"), basic(acmeToken))
	server(identified("", "ada"))
	server(viewed("", "ada", "server"))
	assert.Equal(t, map[string]float64{"stranger": 2}, s.bySession())
	_, address := s.who("stranger", 2)
	assert.Equal(t, mail, address)
	for _, query := range []string{"user_id=ada", "session_id=stranger", "email=" + mail} {
		assert.Equal(t, "claimed", identity(query), query)
	}

	server(viewed("", "bob", "server"))
	s.takes(1, "/segment/v1/page", viewed("", "bob", "claim"), basic(acmeToken))
	assert.Equal(t, "reported", identity("user_id=bob"))
	assert.Contains(t, s.context("user_id=bob").Text, "not verified: User landed on the claim page")
	for own := range s.bySession() {
		if own != "stranger" { // it follows from the user's ID
			s.takes(0, "/e/", `{"api_key":"`+acmeToken+`","event":"$pageview","properties":{"$session_id":"`+own+`"}}`)
			s.takes(0, "/segment/v1/page", strings.Replace(viewed("", "bob", "x"), `"url"`, `"session_id":"`+own+`","url"`, 1),
				basic(acmeToken))
		}
	}
}

// hmacSHA1 is Segment's signature of an event.
func hmacSHA1(secret, event string) string {
	mac := hmac.New(sha1.New, []byte(secret))
	mac.Write([]byte(event))
	return hex.EncodeToString(mac.Sum(nil))
}

// Webhooks of all vendors come to one address, and the content tells the vendor.
func TestSources_tellWebhooksApartByTheirContent(t *testing.T) {
	secret := "X-Webhook-Secret: " + acmeSecret
	posthogs := `{"type":"identify","event":"$pageview","distinct_id":"ada","uuid":"1","properties":{"$session_id":"s",` +
		`"$current_url":"https://acme.example/a"}}`
	first, second := strings.Replace(viewed("d", "ada", "a"), ":", " : ", 1), viewed("d", "ada", "b")
	signature := "X-Signature: " + hmacSHA1(acmeSecret, first)
	for name, tt := range map[string]struct {
		header, body string
		accepted     int // none where it is refused
		reasons      any
	}{
		"PostHog's":                   {secret, posthogs, 1, nil},
		"a batch of PostHog's":        {secret, `{"batch":[` + posthogs + `]}`, 1, nil},
		"one event":                   {secret, first, 1, nil},
		"by PostHog's header":         {"X-PostHog-Secret: " + acmeSecret, first, 1, nil},
		"an array":                    {secret, "[" + first + "," + second + "]", 2, nil},
		"signed":                      {signature, first, 1, nil},
		"a signed array's first":      {signature, "[ " + first + "," + second + "]", 1, map[string]any{"unsigned": 1.0}},
		"a signed one and a batch":    {signature, `{"events":[` + first + `],"batch":[` + second + `]}`, 0, nil},
		"a signed one within another": {signature, `{"events":[` + first + `],` + second[1:], 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			r := s.do(http.MethodPost, "/webhook/acme", tt.body, tt.header)
			if tt.accepted == 0 {
				assert.Equal(t, http.StatusUnauthorized, r.status, r.body)
				return
			}
			require.Equal(t, http.StatusOK, r.status, r.body)
			assert.Len(t, s.titles("ada"), tt.accepted)
			assert.Equal(t, tt.reasons, r.json(t)["reasons"])
		})
	}
}

// A webhook that has proved its secret may have a user erased. An SDK may not.
func TestSources_eraseUsersThatSegmentDeletes(t *testing.T) {
	s := start(t)
	secret := "X-Webhook-Secret: " + acmeSecret
	s.takes(1, "/webhook/acme", viewed("d", "ada", "a"), secret)
	s.takes(1, "/webhook/acme", viewed("e", "bob", "a"), secret)
	const deletion = `{"type":"delete","userId":"ada","messageId":"1"}`
	r := s.takes(0, "/segment/v1/batch", `{"writeKey":"`+acmeToken+`","batch":[`+deletion+`]}`)
	assert.Equal(t, map[string]any{"delete": 1.0}, r.json(t)["reasons"])
	assert.NotEmpty(t, s.titles("ada"))
	s.takes(0, "/webhook/acme", `{"type":"delete","messageId":"2"}`, secret)
	for _, accepted := range []int{3, 2} { // the page view is known the second time
		s.takes(accepted, "/webhook/acme", "["+viewed("d", "ada", "b")+","+deletion+","+deletion+"]", secret)
		assert.Empty(t, s.titles("ada"))
		assert.NotContains(t, s.bySession(), "d")
	}
	assert.Equal(t, 7, s.flow("acme", acmeKey).total().Accepted, "as many as in the answers")
	assert.NotEmpty(t, s.titles("bob"))
}

// A product's own source is taken under its name with the product's secret, and in no other way.
func TestSources_ofAProductAreTakenUnderTheirNames(t *testing.T) {
	s := start(t, func(o *liveactivity.Options) {
		o.Products[0].Sources = []flat.Config{{Name: "mine", Kind: "flat", Actions: map[string]string{"seen": "pageview"},
			Fields: flat.Fields{Event: "what", ID: "id", UserID: "who.id", Email: "who.mail", URL: "where"}}}
	})
	secret := "X-Webhook-Secret: " + acmeSecret
	const event = `{"what":"seen","id":"1","who":{"id":"ada","mail":"ada@example.com"},"where":"https://acme.example/` +
		`billing?token=s3cr3t"}`
	s.takes(1, "/webhook/acme/mine", event, secret)
	s.takes(0, "/webhook/acme/mine", "["+event+"]", secret)
	assert.Equal(t, []string{"Page Load: Billing"}, s.titles("ada"))
	assert.Equal(t, "reported", s.context("email="+mail).Identity)
	for path, status := range map[string]int{"/webhook/acme/yours": 404, "/webhook/globex/mine": 404} {
		assert.Equal(t, status, s.status(http.MethodPost, path, event, secret, "X-Webhook-Secret: "+globexSecret), path)
	}
	for body, status := range map[string]int{`{"what":`: 400, `"seen"`: 400, "": 400} {
		assert.Equal(t, status, s.status(http.MethodPost, "/webhook/acme/mine", body, secret), body)
	}

	added := s.register(`{"product_id":"initech","sources":[{"name":"mine","kind":"flat","fields":{"event":"what",` +
		`"user_id":"u"},"actions":{"seen":"click"}}]}`)
	s.takes(1, "/webhook/initech/mine", `{"what":"seen","u":"bob"}`, "X-Webhook-Secret: "+added["webhook_secret"])
	r := s.do(http.MethodPost, "/admin/products",
		`{"product_id":"hooli","sources":[{"name":"mine","kind":"flat","fields":{"event":"what"}}]}`, withAdminKey)
	assert.Equal(t, http.StatusBadRequest, r.status)
	assert.Contains(t, r.body, "sources[0].fields")
}

// ofAmplitude is a request of Amplitude's SDKs: a page view of the device d.
func ofAmplitude(apiKey string) string {
	return fmt.Sprintf(`{"api_key":%q,"events":[{"event_type":"[Amplitude] Page Viewed","device_id":"d",`+
		`"event_properties":{"[Amplitude] Page Location":"https://acme.example/a"}}]}`, apiKey)
}

// Amplitude's SDKs need answers of their own: they send an event again unless the error says that
// the key is invalid.
func TestSources_answerAmplitude(t *testing.T) {
	s := start(t)
	taken := s.takes(1, "/amplitude/2/httpapi", ofAmplitude(acmeToken)).json(t)
	assert.Equal(t, []any{200.0, 1.0, float64(len(ofAmplitude(acmeToken)))},
		[]any{taken["code"], taken["events_ingested"], taken["payload_size_bytes"]})
	assert.Greater(t, taken["server_upload_time"], 1.7e12)
	refused := s.do(http.MethodPost, "/amplitude", ofAmplitude("phc_none")).json(t)
	assert.Equal(t, 401.0, refused["code"])
	assert.True(t, strings.HasPrefix(refused["error"].(string), "Invalid API key"))
	broken := s.do(http.MethodPost, "/amplitude", "{").json(t)
	assert.Equal(t, []any{400.0, broken["detail"]}, []any{broken["code"], broken["error"]})
}

const signsUsers = "sign-acme-s3cr3t"

// withIdentity gives acme a secret that signs identities, and a setting for claimed ones.
func withIdentity(unverified productfile.Unverified) func(*liveactivity.Options) {
	return func(o *liveactivity.Options) {
		o.Products[0].Identity = liveactivity.Identity{Secrets: []string{signsUsers}, Unverified: unverified}
	}
}

func userHash(userID string) string {
	mac := hmac.New(sha256.New, []byte(signsUsers))
	mac.Write([]byte(userID))
	return hex.EncodeToString(mac.Sum(nil))
}

// happens reports an event of a session, by the webhook or with the capture token.
func (s *service) happens(webhook bool, name, userID, sessionID string, more map[string]any) {
	s.t.Helper()
	properties := map[string]any{"$session_id": sessionID, "$current_url": "https://acme.example/plans",
		"token": acmeToken}
	for key, value := range more {
		properties[key] = value
	}
	body := musttest.New(json.Marshal(map[string]any{"event": name, "distinct_id": userID, "properties": properties,
		"timestamp": time.Now().UTC().Format(time.RFC3339Nano)}))
	path, header := "/e/", "X-Nothing: here"
	if webhook {
		path, header = "/webhook/acme", "X-PostHog-Secret: "+acmeSecret
	}
	r := s.do(http.MethodPost, path, string(body), header)
	require.Equal(s.t, http.StatusOK, r.status, r.body)
}

// who returns the user and the email of a session, once the list of sessions has so many actions of
// it.
func (s *service) who(sessionID string, actions float64) (userID, email any) {
	s.t.Helper()
	waittest.Until(s.t, "the session is listed", func() bool {
		r := s.do(http.MethodGet, "/sessions/acme", "", bearer(acmeKey))
		for _, one := range r.json(s.t)["sessions"].([]any) {
			if one := one.(map[string]any); one["session_id"] == sessionID && one["actions"] == actions {
				userID, email = one["user_id"], one["email"]
				return true
			}
		}
		return false
	})
	return userID, email
}

func TestRecord_takesEventsOfAProductRegisteredAtAnotherServer(t *testing.T) {
	log := musttest.New(memorylog.New(nil))
	shared := func(o *liveactivity.Options) { o.Log = log }
	start(t, shared).register(`{"product_id":"initech"}`)
	other := musttest.New(liveactivity.New(testOptions(&logtest.Buffer{}, shared)))
	action := activity.NewAction(activity.TypePageview, activity.Target{}, "https://acme.example/plans")
	result, err := other.Record(t.Context(), "initech",
		[]activity.Event{{ID: "1", Time: time.Now(), SessionID: "s", Action: &action}})
	require.NoError(t, err)
	assert.Equal(t, activity.Result{Accepted: 1}, result)
}

// A program's own events pass the same checks as events from outside: shared IDs merge no users, secrets are not
// stored, and texts are bounded. Its identities are reported.
func TestRecord_takesSoundEvents(t *testing.T) {
	s := start(t, withIdentity("none"))
	long := strings.Repeat("long ", 1000)
	action := activity.Action{Type: "click", Title: long, RawURL: "https://u:pw@acme.example/a?token=s3cret"}
	event := func(id, user string) activity.Event {
		return activity.Event{ID: id, Time: time.Now(), SessionID: "s", UserID: user, Email: "no address", Action: &action}
	}
	events := []activity.Event{event("1", "ada"), event("2", "anonymous"), event("", "ada")}
	result, err := s.service.Record(t.Context(), "acme", events)
	require.NoError(t, err)
	assert.Equal(t, activity.Result{Accepted: 2, Ignored: 1}, result)
	assert.Equal(t, tracing.Flow{Accepted: 2, Ignored: 1, Actions: 2}, s.flow("acme", acmeKey).total())
	assert.Equal(t, map[string]float64{"accepted": 2, "duplicate": 0, "ignored malformed": 1},
		metricstest.By(t, s.service.Metrics(), "liveactivity_events_total", "outcome", "reason"))
	_, err = s.service.Record(t.Context(), "acmee", events)
	assert.ErrorIs(t, err, liveactivity.ErrUnknownProduct)
	assert.Empty(t, s.titles("anonymous"))
	require.Len(t, s.titles("ada"), 1)
	kept := s.lookup("ada")["actions"].([]any)[0].(map[string]any)
	assert.Equal(t, "https://acme.example/a?token=redacted", kept["raw_url"])
	assert.Less(t, len(kept["title"].(string)), 1100)
	assert.Equal(t, long, action.Title, "the caller's action stays as it was")
	assert.Equal(t, activity.Claimed, events[0].Standing, "and so do the events")
}

// With "none" a claim has no effect. A session's actions before its signed identity belong to that
// user.
func TestStanding_noneIgnoresClaims(t *testing.T) {
	s := start(t, withIdentity("none"), withRedis(redistest.Start(t).URL()))
	s.happens(false, "$pageview", "anon-1", "s", nil)
	claim := map[string]any{"$anon_distinct_id": "anon-1", "$set": map[string]any{"email": mail}}
	s.happens(false, "$identify", "ada", "s", claim)
	s.happens(false, "$pageview", "ada", "s", map[string]any{"$is_identified": true})
	user, address := s.who("s", 2)
	assert.Empty(t, user)
	assert.Empty(t, address)
	assert.Empty(t, s.titles("ada"))

	signed := map[string]any{"$anon_distinct_id": "anon-1", "$user_hash": userHash("ada")}
	s.happens(false, "$identify", "ada", "s", signed)
	assert.Len(t, s.titles("ada"), 2, "what the session did before")
	user, _ = s.who("s", 2)
	assert.Equal(t, "ada", user, "listed at once")
	s.happens(false, "$pageview", "ada", "s", nil)
	assert.Len(t, s.titles("ada"), 3, "the session is hers now")
	s.happens(false, "$pageview", "eve", "s", nil)
	s.happens(false, "$pageview", "ada", "other", nil)
	assert.Len(t, s.titles("ada"), 3)
	user, _ = s.who("s", 4)
	assert.Equal(t, "ada", user)
	s.happens(true, "$pageview", "bob", "reported", nil)
	assert.Len(t, s.titles("bob"), 1, "a webhook is not a claim")
}

// An action of a second, claimed user does not carry the email of the session's user.
func TestStanding_claimedActionsLackTheSessionsAddress(t *testing.T) {
	s := start(t, withIdentity("notes"))
	s.happens(true, "$identify", "ada", "s", map[string]any{"$set": map[string]any{"email": mail}})
	s.happens(false, "$pageview", "eve", "s", nil)
	s.happens(true, "$pageview", "ada", "s", nil)
	stream, found := s.stream("/stream/acme?since=0", bearer(acmeKey)), map[any]any{}
	for range 2 {
		b := stream.nextBatch()
		for _, a := range b.Actions {
			found[a["user_id"]] = a["email"]
		}
		assert.Equal(t, "ada", b.UserID)
	}
	assert.Equal(t, map[any]any{"eve": "", "ada": mail}, found)
	detail := s.session("acme", acmeKey, "s")
	assert.Equal(t, []string{"eve", "ada"}, detail.By)
	assert.NotContains(t, detail.Notes[0].Text, "[2]", "nor is eve's action in ada's note")
}
