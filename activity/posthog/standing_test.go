package posthog_test

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/intake"
)

func signedBy(secret, text string) string {
	return hex.EncodeToString(intake.Sign(secret, []byte(text)))
}

// A hash counts wherever an email does, under each of the product's secrets and no other product's.
// The endpoint sets the lowest standing of an identity.
func TestStanding_comesFromTheEndpointUnlessSigned(t *testing.T) {
	hash, email := signedBy(shopSigns, "ada"), signedBy(shopSignsToo, "ada@x.example")
	identify := func(changes object) object {
		e := click(changes)
		e["event"], e["distinct_id"] = "$identify", "ada"
		delete(e["properties"].(object), "distinct_id")
		return e
	}
	for name, c := range map[string]struct {
		event       object
		user, email activity.Standing
	}{
		"nothing":          {identify(object{"$set": object{"email": "ada@x.example"}}), 0, 0},
		"in properties":    {identify(object{"properties.$user_hash": hash}), activity.Signed, 0},
		"without a dollar": {identify(object{"properties.user_hash": hash}), activity.Signed, 0},
		"in $set": {identify(object{"$set": object{"email": "ada@x.example", "$user_hash": hash,
			"email_hash": email}}), activity.Signed, activity.Signed},
		"in properties.$set": {identify(object{"properties.$set": object{"email": "ADA@x.example", "$email_hash": email}}),
			0, activity.Signed},
		"in the person": {object{"event": identify(nil),
			"person": object{"properties": object{"email": "ada@x.example", "user_hash": hash}}},
			activity.Signed, 0},
		"another user's": {identify(object{"properties.$user_hash": signedBy(shopSigns, "eve")}), 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			for _, at := range []struct {
				door
				least activity.Standing
			}{{captureDoor, activity.Claimed}, {webhookDoor, activity.Reported}} {
				s := newService(intake.Options{})
				requireCounts(t, s.post(at.door, marshal(t, c.event)), 1, 0)
				require.Len(t, s.sink.stand, 1)
				assert.Equal(t, max(c.user, at.least), s.sink.stand[0].Standing, at.name)
				assert.Equal(t, max(c.email, at.least), s.sink.stand[0].EmailStanding, at.name)
			}
		})
	}
}

// Visitors that share an ID must not see each other. Their actions belong to their sessions and to
// no user.
func TestNobody_hasNoUserID(t *testing.T) {
	for _, id := range []any{"$posthog_cookieless", "anonymous", "Guest", "DISTINCTID", "distinct_id", "id",
		"Not_Authenticated",
		"email", "undefined", "uNdEfInEd", "true", "False", true, false, "[object Object]", "NaN", "None", "none",
		"null", "0", 0,
		"", " ", "\t\n", "\u00a0", `" "`, `"anonymous"`, "'guest'", `"null"`, "'0'", `"$posthog_cookieless"`,
		" anonymous ", "\tundefined\n", `" anonymous "`, ` "null" `, " $posthog_cookieless",
		"00000000-0000-0000-0000-000000000000",
		`"00000000-0000-0000-0000-000000000000"`} {
		for _, changes := range []object{
			{"properties.distinct_id": id},
			{"properties.distinct_id": nil, "distinct_id": id},
			{"properties.distinct_id": id, "properties.$user_id": id, "properties.$is_identified": true},
			{"event": "$identify", "properties.distinct_id": id, "$set": object{"email": "ada@example.com"}},
		} {
			e := eventOf(t, captureDoor, click(changes))
			assert.Empty(t, e.UserID, "%q", id)
			assert.False(t, e.Identified)
			assert.Equal(t, "session-1", e.SessionID)
		}
	}
}

// An event without a user and a session is ignored, and the answer says so. Actions of cookieless
// visitors are the exception and go to the stream.
func TestNobody_isIgnoredWithoutASession(t *testing.T) {
	s := newService(intake.Options{})
	for _, session := range []any{nil, "undefined"} {
		w := s.post(captureDoor, marshal(t, click(object{"properties.distinct_id": "anonymous",
			"properties.$session_id": session})))
		assert.JSONEq(t, `{"status":1,"accepted":0,"ignored":1,"reasons":{"no_session_and_user":1}}`, w.Body.String())
	}
	for _, id := range []string{"$posthog_cookieless", "anonymous"} {
		requireIgnored(t, captureDoor, click(object{"event": "$set", "properties.distinct_id": id,
			"properties.$session_id": nil, "$set": object{"email": "ada@example.com"}}))
	}
	e := eventOf(t, captureDoor,
		click(object{"properties.distinct_id": "$posthog_cookieless", "properties.$session_id": nil}))
	assert.Equal(t, "Click Export CSV", e.Action.Title)
	assert.Empty(t, e.SessionID+e.UserID)
}

func TestNobody_isNoOneElse(t *testing.T) {
	for _, id := range []string{"Null", "nan", "NONE", "00", "1", " a", "ada", "anonymous2", "guest_7", "my id", `"ada"`,
		`"`, "''", "$posthog",
		"00000000-0000-0000-0000-000000000001", " ada "} {
		assert.Equal(t, id, eventOf(t, captureDoor, click(object{"properties.distinct_id": id})).UserID)
	}
}
