package posthog_test

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/posthog"
)

func signedBy(secret, text string) string {
	return hex.EncodeToString(posthog.Sign(secret, []byte(text)))
}

// A hash counts wherever an address does, under each of the product's secrets and no
// other product's, and the door is the least that an identity stands for.
func TestStanding_isThatOfTheDoorUnlessSigned(t *testing.T) {
	hash, email := signedBy(shopSigns, "ada"), signedBy(shopSignsToo, "ada@x.example")
	identify := func(fields object) object {
		e := object{"event": "$identify", "distinct_id": "ada", "properties": object{"$session_id": "s", "token": shopToken}}
		for key, value := range fields {
			if key == "properties" {
				for name, value := range value.(object) {
					e["properties"].(object)[name] = value
				}
				continue
			}
			e[key] = value
		}
		return e
	}
	for name, c := range map[string]struct {
		event       object
		user, email activity.Standing
	}{
		"nothing":          {identify(object{"$set": object{"email": "ada@x.example"}}), 0, 0},
		"in properties":    {identify(object{"properties": object{"$user_hash": hash}}), activity.Signed, 0},
		"without a dollar": {identify(object{"properties": object{"user_hash": hash}}), activity.Signed, 0},
		"in $set":          {identify(object{"$set": object{"email": "ada@x.example", "$user_hash": hash, "email_hash": email}}), activity.Signed, activity.Signed},
		"in properties.$set": {identify(object{"properties": object{"$set": object{"email": "ADA@x.example", "$email_hash": email}}}),
			0, activity.Signed},
		"in the person": {object{"event": identify(nil), "person": object{"properties": object{"email": "ada@x.example", "user_hash": hash}}},
			activity.Signed, 0},
		"another user's": {identify(object{"properties": object{"$user_hash": signedBy(shopSigns, "eve")}}), 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			for _, at := range []struct {
				door
				least activity.Standing
			}{{captureDoor, activity.Claimed}, {webhookDoor, activity.Reported}} {
				s := newService(posthog.Options{})
				requireCounts(t, s.post(at.door, marshal(t, c.event)), 1, 0)
				require.Len(t, s.sink.stand, 1)
				assert.Equal(t, max(c.user, at.least), s.sink.stand[0].Standing, at.name)
				assert.Equal(t, max(c.email, at.least), s.sink.stand[0].EmailStanding, at.name)
			}
		})
	}
}
