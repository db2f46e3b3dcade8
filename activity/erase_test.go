package activity_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/activity"
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

// A batch names its session's user. A part with ada's actions alone names ada, also in a session
// whose user is bob.
func TestBatch_isDividedWithoutTheOtherPerson(t *testing.T) {
	ada := &activity.Erasure{UserID: "ada", SessionIDs: []string{"s"}, Kept: map[string][]string{"s": {"bob"}}}
	bob := &activity.Erasure{UserID: "bob", SessionIDs: []string{"s"}, Kept: map[string][]string{"s": {"ada"}}}
	for name, part := range map[string]*activity.Batch{
		"part of all":      sharedBatch("ada", "ada").Part(ada),
		"part of some":     sharedBatch("ada", "bob", "ada").Part(ada),
		"left of all":      sharedBatch("ada", "ada").Left(bob),
		"left of some":     sharedBatch("ada", "bob", "ada").Left(bob),
		"left by several":  sharedBatch("ada", "ada").Left(&activity.Erasure{UserID: "eve"}, bob),
		"part of visitors": sharedBatch("anon", "ada", "ada").Part(ada),
	} {
		assert.Equal(t, []string{"ada", "ada@x.example", ""}, []string{part.UserID, part.Email, part.ConversationID}, name)
		assert.Len(t, part.Actions, part.Count, name)
	}
	divided := sharedBatch("ada", "anon", "bob").Part(
		&activity.Erasure{UserID: "ada", SessionIDs: []string{"other"}}, ada)
	assert.Len(t, divided.Actions, 2, "each of the erasures of a person covers a part")
	whole := sharedBatch("bob", "bob")
	assert.Same(t, whole, whole.Left(ada))
	assert.Same(t, whole, whole.Part(bob))
	assert.Same(t, whole, whole.Left())
	assert.Nil(t, whole.Part(ada))
	assert.Nil(t, whole.Left(bob))
}

// The log holds a signed-in user's actions under the visitor's ID, so an erasure of the visitor
// leaves them.
func TestErasure_coversNothingThatIsKept(t *testing.T) {
	for _, sessions := range [][]string{{}, {"s"}} {
		anon := &activity.Erasure{UserID: "anon", SessionIDs: sessions, Kept: map[string][]string{"s": {"anon", "bob"}}}
		whole := sharedBatch("anon", "bob")
		assert.Same(t, whole, whole.Left(anon))
		assert.Nil(t, whole.Part(anon))
		assert.True(t, anon.Erases("other", "anon"))
	}
}
