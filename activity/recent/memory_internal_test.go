package recent

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/internal/waittest"
)

// sameTime returns the actions of a session that has as many as an engine keeps, all at one time.
func sameTime(user string) (actions []HeldAction) {
	now := time.Now().UnixMicro()
	for i := range MaxHeld(DefaultMaxEvents) {
		by := fmt.Sprint("other", i/DefaultMaxEvents)
		if i < DefaultMaxEvents {
			by = user
		}
		actions = append(actions, HeldAction{User: by, Start: now, id: uint64(i),
			JSON: fmt.Sprintf(`{"type":"click","title":"%d","description":"d","raw_url":"%s"`, i, strings.Repeat("u", 2000))})
	}
	return actions
}

// A batch without timestamps gives all its actions one time.
func TestHeld_readsActionsOfOneTimeAsFastAsOthers(t *testing.T) {
	times := func(apart int64) time.Duration {
		h := Held{Session: "s", Actions: sameTime("ada")}
		for i := range h.Actions {
			h.Actions[i].Start += int64(i) * apart
		}
		least := time.Hour
		for range 10 {
			began := time.Now()
			assert.Len(t, h.Records(0, DefaultMaxEvents), DefaultMaxEvents)
			least = min(least, time.Since(began))
		}
		return least
	}
	waittest.Until(t, "one costs as much as the other", func() bool { return times(0) < 8*times(1) })
}
