package feed_test

import (
	"crypto/sha256"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/feed"
)

// sharedBatch returns a batch of session s, whose user is bob, with an action of each user.
func sharedBatch(users ...string) *activity.Batch {
	b := &activity.Batch{ProductID: "acme", SessionID: "s", UserID: "bob", Email: "bob@x.example", ConversationID: "7"}
	for _, user := range users {
		b.Actions = append(b.Actions, activity.BatchAction{SessionID: "s", UserID: user, Email: user + "@x.example"})
	}
	b.Count = len(users)
	return b
}

// A batch names its session's user. A part with ada's actions alone names ada, also in a session whose user is bob.
func TestBatch_isDividedWithoutTheOtherPerson(t *testing.T) {
	ada := &feed.Erasure{UserID: "ada", SessionIDs: []string{"s"}, Kept: map[string][]string{"s": {"bob"}}}
	bob := &feed.Erasure{UserID: "bob", SessionIDs: []string{"s"}, Kept: map[string][]string{"s": {"ada"}}}
	for name, part := range map[string]*activity.Batch{
		"part of all":      feed.PartOf(sharedBatch("ada", "ada"), ada),
		"part of some":     feed.PartOf(sharedBatch("ada", "bob", "ada"), ada),
		"left of all":      feed.LeftOf(sharedBatch("ada", "ada"), bob),
		"left of some":     feed.LeftOf(sharedBatch("ada", "bob", "ada"), bob),
		"left by several":  feed.LeftOf(sharedBatch("ada", "ada"), &feed.Erasure{UserID: "eve"}, bob),
		"part of visitors": feed.PartOf(sharedBatch("anon", "ada", "ada"), ada),
	} {
		assert.Equal(t, []string{"ada", "ada@x.example", ""}, []string{part.UserID, part.Email, part.ConversationID}, name)
		assert.Len(t, part.Actions, part.Count, name)
	}
	divided := feed.PartOf(sharedBatch("ada", "anon", "bob"),
		&feed.Erasure{UserID: "ada", SessionIDs: []string{"other"}}, ada)
	assert.Len(t, divided.Actions, 2, "each of the erasures of a person covers a part")
	whole := sharedBatch("bob", "bob")
	assert.Same(t, whole, feed.LeftOf(whole, ada))
	assert.Same(t, whole, feed.PartOf(whole, bob))
	assert.Same(t, whole, feed.LeftOf(whole))
	assert.Nil(t, feed.PartOf(whole, ada))
	assert.Nil(t, feed.LeftOf(whole, bob))
}

// The log holds a signed-in user's actions under the visitor's ID, so an erasure of the visitor leaves them.
func TestErasure_coversNothingThatIsKept(t *testing.T) {
	for _, sessions := range [][]string{{}, {"s"}} {
		anon := &feed.Erasure{UserID: "anon", SessionIDs: sessions, Kept: map[string][]string{"s": {"anon", "bob"}}}
		whole := sharedBatch("anon", "bob")
		assert.Same(t, whole, feed.LeftOf(whole, anon))
		assert.Nil(t, feed.PartOf(whole, anon))
		assert.True(t, anon.Erases("other", "anon"))
	}
}

// An action that stays may carry an address of the person, and so may its session.
func TestLeftOf_hidesThePersonsAddresses(t *testing.T) {
	for name, want := range map[string][]string{"ada": {"bob", "bob", ""}, "BOB": {"", "", "ada"},
		"eve": {"bob", "bob", "ada"}} {
		gone := &feed.Erasure{UserID: "eve", EmailsSHA256: []string{feed.EmailDigest(name + "@x.example")}}
		whole := sharedBatch("bob", "ada")
		left := feed.LeftOf(whole, &feed.Erasure{}, gone)
		var got []string
		for _, email := range []string{left.Email, left.Actions[0].Email, left.Actions[1].Email} {
			got = append(got, strings.TrimSuffix(email, "@x.example"))
			assert.False(t, gone.HasEmail(email))
		}
		assert.Equal(t, want, got)
		assert.Equal(t, name == "eve", left == whole, "there is nothing to hide")
		assert.Equal(t, sharedBatch("bob", "ada"), whole, "it is not modified")
		assert.True(t, gone.HasEmail(name+"@x.example"))
	}
}

func TestKeyOf_isTheUUIDOrADigest(t *testing.T) {
	const id = "018f3c1e-7a2b-7c3d-8e4f-5a6b7c8d9e0f"
	for _, spelling := range []string{id, strings.ToUpper(id)} {
		assert.Equal(t, feed.Key(uuid.MustParse(id)), feed.KeyOf(spelling))
	}
	for _, other := range []string{strings.ReplaceAll(id, "-", ""), "{" + id + "}", // UUIDs, but not as sources write them
		"018f3c1e7-a2b-7c3d-8e4f-5a6b7c8d9e0f", "event 1", ""} {
		sum := sha256.Sum256([]byte(other))
		assert.Equal(t, feed.Key(sum[:16]), feed.KeyOf(other), other)
	}
}
