package eventlog_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// An entry that an engine has read back outlives the memory that it was read from.
func TestEntry_sharesNoMemoryOnceItIsEncoded(t *testing.T) {
	for _, data := range []string{`{"type":"actions","session_id":"s"}`, `{"type":"erase","user_id":"ada","session_ids":["s"]}`} {
		read := []byte(data)
		e := eventlog.Entry{Data: read}
		e.Encode(eventlog.ID{Milli: 7})
		clear(read)
		assert.Equal(t, data, string(e.Data))
	}
}
