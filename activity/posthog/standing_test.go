package posthog_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/activity/intake"
)

// A proof is found wherever an email is. A person's comes last.
func TestProof_isFoundInEveryPlace(t *testing.T) {
	proof := object{"user_hash": "aa", "$email_hash": "bb", "$identity_token": "cc"}
	want := intake.Proof{UserHash: "aa", EmailHash: "bb", Token: "cc"}
	inside := click(object{"properties.user_hash": "aa", "properties.$email_hash": "bb",
		"properties.$identity_token": "cc"})
	other := object{"properties": object{"user_hash": "xx", "email_hash": "xx", "$identity_token": "xx"}}
	for name, body := range map[string]object{
		"properties":           inside,
		"properties, a person": {"event": inside, "person": other},
		"$set":                 click(object{"$set": proof}),
		"properties.$set":      click(object{"properties.$set": proof}),
		"the person":           {"event": click(nil), "person": object{"properties": proof}},
		"the person, inside":   {"event": click(object{"person": object{"properties": proof}})},
	} {
		assert.Equal(t, want, meaningOf(t, webhookDoor, body).Proof, name)
	}
	assert.Zero(t, meaningOf(t, captureDoor, click(nil)).Proof)
}

// Visitors that share an ID must not see each other. Their actions belong to their sessions and to
// no user.
func TestNobody_hasNoUserID(t *testing.T) {
	for _, id := range []any{"$posthog_cookieless", `"$posthog_cookieless"`, " $posthog_cookieless", "Guest", true, 0,
		" "} {
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

// An event without a user and a session is ignored. Actions of cookieless visitors are the exception and
// go to the stream, without an address.
func TestNobody_isIgnoredWithoutASession(t *testing.T) {
	for _, session := range []any{nil, "undefined"} {
		event := click(object{"properties.distinct_id": "anonymous", "properties.$session_id": session})
		assert.Equal(t, intake.ReasonNobody, meaningOf(t, captureDoor, event).Reason)
	}
	for _, id := range []string{"$posthog_cookieless", "anonymous"} {
		requireIgnored(t, captureDoor, click(object{"event": "$set", "properties.distinct_id": id,
			"properties.$session_id": nil, "$set": object{"email": "ada@example.com"}}))
	}
	e := eventOf(t, captureDoor,
		click(object{"properties.distinct_id": "$posthog_cookieless", "properties.$session_id": nil,
			"$set": object{"email": "ada@example.com"}}))
	assert.Equal(t, "Click Export CSV", e.Action.Title)
	assert.Empty(t, e.SessionID+e.UserID+e.Email)
}
