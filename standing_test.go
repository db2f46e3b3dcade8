package liveactivity_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/logtest"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/productfile"
	"github.com/liveactivity/liveactivity/internal/redistest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
)

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
