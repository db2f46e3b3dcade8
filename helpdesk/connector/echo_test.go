package connector

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/helpdesk"
)

const ownReply = "Hello! Your export #1 is ready.\n\nOpen \"Settings\" & click {{Export}} <now>, if 1 < 2.  Bye"

// The desk of these tests does not know authors, like Zendesk for messaging tickets.
func TestServeChat_ignoresTheEchoOfAReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoors(t, (&fakeModel{text: ownReply}).answer)
		d.answered(t, userReply("d1", "c1", "Where is my export?"))
		require.Equal(t, []string{ownReply}, d.chat.written())
		echoes := []string{
			ownReply,
			"Hello! Your export #1 is ready. Open \"Settings\" & click {{Export}} <now>, if 1 < 2. Bye\n",
			"<p>Hello! Your export #1 is ready.<br><br>Open &#34;Settings&#34; &amp; click {\u200b{Export}\u200b} " +
				"&lt;now&gt;, if 1 &lt; 2.  Bye</p>",
			"> Hello! Your export #1 is ready.\n> \n> Open \"Settings\" & click {{Export}} <now>, if 1 < 2.  Bye",
			"HELLO! your **export** #1 is ready. open “settings” & click {{export}} <now>, if 1 < 2. bye",
		}
		for i, echo := range echoes {
			code, says := d.event(t, chatPath, "chat", userReply(fmt.Sprint("e", i), "c1", echo))
			assert.Equal(t, 200, code)
			assert.Equal(t, "ignored", says, echo)
			assert.Empty(t, d.messages(t))
		}
		_, says := d.event(t, chatPath, "chat", userReply("e0", "c1", echoes[0]))
		assert.Equal(t, "ignored", says, "a repetition counts once")
		assert.InDelta(t, len(echoes), valueOf(t, d.metrics.replies.WithLabelValues("acme", "chat", "echo")), 0)

		_, says = d.event(t, chatPath, "chat", userReply("d2", "c1", ownReply+" bye"))
		assert.Equal(t, "accepted", says, "another text")
		_, says = d.event(t, chatPath, "chat", userReply("d3", "c2", ownReply))
		assert.Equal(t, "accepted", says, "another conversation")
		time.Sleep(echoTTL + time.Second)
		_, says = d.event(t, chatPath, "chat", userReply("d4", "c1", ownReply))
		assert.Equal(t, "accepted", says, "by now it is the requester's")
	})
}

// A reply without words has an echo, too.
func TestServeChat_ignoresTheEchoOfAReplyWithoutWords(t *testing.T) {
	d := newDoors(t, (&fakeModel{text: "👍"}).answer)
	d.answered(t, userReply("d1", "c1", "Thanks"))
	_, says := d.event(t, chatPath, "chat", userReply("d2", "c1", "👍\n"))
	assert.Equal(t, "ignored", says)
	_, says = d.event(t, chatPath, "chat", userReply("d3", "c1", "👎"))
	assert.Equal(t, "accepted", says)
}

// Another server sees the echo of a reply whose writing is under way, or whose writer has died.
func TestServeChat_ignoresTheEchoAtAnotherServer(t *testing.T) {
	for name, err := range map[string]*helpdesk.APIError{"written": nil, "lost": {Ambiguous: true}} {
		t.Run(name, func(t *testing.T) {
			model := &fakeModel{text: ownReply}
			d := newDoors(t, model.answer)
			second := d.another(t, model.answer)
			d.chat.echo = func(text string) {
				_, says := second.event(t, chatPath, "chat", userReply("e1", "c1", text))
				assert.Equal(t, "ignored", says)
			}
			d.chat.script("reply", err, true)
			d.event(t, chatPath, "chat", userReply("d1", "c1", "Where?"))
			d.work(t, "chat/c1")
			require.Equal(t, []string{ownReply}, d.chat.written())
			_, says := second.event(t, chatPath, "chat", userReply("e2", "c1", ownReply))
			assert.Equal(t, "ignored", says)
			assert.Len(t, model.prompts, 1)
		})
	}
}

// A conversation remembers a bounded number of replies, and only for an hour.
func TestConversation_remembersItsLastReplies(t *testing.T) {
	var c conversation
	now := time.Now()
	for i := range 3 * maxSaid {
		c.say(fmt.Sprint("Answer ", i), now)
	}
	assert.Len(t, c.Said, maxSaid)
	assert.True(t, c.echoes(fmt.Sprint("answer ", 3*maxSaid-1), now))
	assert.False(t, c.echoes("Answer 1", now))
	c.say("Later", now.Add(echoTTL+1))
	assert.Len(t, c.Said, 1)
	c.say("later.", now.Add(echoTTL+2))
	assert.Len(t, c.Said, 1)
	assert.False(t, c.isEmpty())
}
