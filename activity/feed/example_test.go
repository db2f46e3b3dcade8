package feed_test

import (
	"fmt"
	"log"

	"github.com/liveactivity/liveactivity/activity/feed"
)

func ExampleMessage_Batch() {
	m := feed.NewMessage("1-0", []byte(`{"type":"actions","session_id":"s1","actions":[{"title":"Click Save"}]}`))
	batch, err := m.Batch()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(batch.SessionID, batch.Actions[0].Title)
	// Output: s1 Click Save
}
