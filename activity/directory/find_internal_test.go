package directory

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/activity"
)

// Whoever knows a user's ID can compute the ID of that user's own session.
func TestIsOwn_ofTheUserOnly(t *testing.T) {
	for standing := activity.Claimed; standing <= activity.Signed; standing++ {
		id := ownSession("ada", standing)
		assert.True(t, isOwn(id, "ada"))
		assert.False(t, isOwn(id, "eve"))
		assert.True(t, IsOwn(id))
	}
}

func TestSession_Addressee(t *testing.T) {
	s := Session{UserID: "visitor", Email: "Ada@x.example",
		state: state{StatedEmail: "ada@x.example", EmailBy: provenance{Identified: "ada"}}}
	assert.Equal(t, "ada", s.Addressee())
	another, nobodys := s, s
	another.StatedEmail, nobodys.EmailBy = "bob@x.example", provenance{}
	assert.Equal(t, "visitor", another.Addressee(), "the address is another one than ada's")
	assert.Equal(t, "visitor", nobodys.Addressee())
}
