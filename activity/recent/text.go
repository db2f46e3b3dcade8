package recent

import (
	"slices"
	"unsafe"

	"github.com/liveactivity/liveactivity/internal/fair"
)

// text holds the JSON of a session's actions in a few chunks of memory. If every action had its own
// string, a lookup would spend a third of its time waiting for memory.
type text struct {
	chunk []byte // the newest one, with room at its end
	taken int    // total size of the chunks since the last pack
}

// chunkSize limits a chunk of more than one action.
const chunkSize = 2 << 10

// add returns an action's JSON in the text. The others are all other actions of the session.
func (t *text) add(json string, others []HeldAction) string {
	if len(others) == 0 { // as in most sessions of one page: no copy
		t.chunk, t.taken = nil, int(fair.Size(len(json)))
		return json
	}
	t.tidy(others)
	if t.room() < len(json) {
		t.grow(max(len(json), min(t.taken, chunkSize)))
	}
	return t.append(json)
}

// tidy packs the text if more than a fifth of it is JSON of other actions.
func (t *text) tidy(actions []HeldAction) {
	if live := size(actions); t.taken-t.room() > live+live/4 {
		t.pack(actions)
	}
}

// pack moves the JSON of the actions to one new chunk and so frees the JSON of all others.
func (t *text) pack(actions []HeldAction) {
	t.taken = 0
	t.grow(size(actions))
	for i := range actions {
		actions[i].JSON = t.append(actions[i].JSON)
	}
}

// size returns the size of the actions' JSON in bytes.
func size(actions []HeldAction) (bytes int) {
	for i := range actions {
		bytes += len(actions[i].JSON)
	}
	return bytes
}

// room returns the number of free bytes in the chunk.
func (t *text) room() int { return cap(t.chunk) - len(t.chunk) }

// grow begins a chunk of at least that size.
func (t *text) grow(size int) {
	t.chunk = slices.Grow([]byte(nil), size)
	t.taken += cap(t.chunk)
}

// append appends JSON to the chunk, which has room for it. Bytes of a chunk never change afterwards.
func (t *text) append(json string) string {
	from := len(t.chunk)
	t.chunk = append(t.chunk, json...)
	return unsafe.String(&t.chunk[from], len(json))
}
