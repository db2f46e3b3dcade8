package demo

import (
	"context"
	"strings"

	"github.com/liveactivity/liveactivity/helpdesk/connector"
)

// maxShown is the maximum number of actions that a reply shows.
const maxShown = 3

// Reply answers a message to the demo's desk without a language model: it states this, and
// shows the data of the prompt. It serves as Reply in the service's options. Messages to
// other desks get no reply: [connector.ErrNoReply].
func Reply(_ context.Context, q connector.Question) (string, error) {
	if q.Desk != Name {
		return "", connector.ErrNoReply
	}
	var b strings.Builder
	b.WriteString("This reply is built into the demo. Started with --llm-model, a language model writes it, from " +
		"your message and from what you did:")
	for _, summary := range q.Summaries {
		b.WriteString("\n\n" + summary)
	}
	if len(q.Actions) > 0 {
		b.WriteString("\n")
	} else if len(q.Summaries) == 0 {
		b.WriteString(" nothing yet.")
	}
	for _, action := range q.Actions[max(0, len(q.Actions)-maxShown):] {
		b.WriteString("\n• " + action)
	}
	return b.String(), nil
}
