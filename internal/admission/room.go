package admission

import (
	"runtime"
	"sync"

	"github.com/liveactivity/liveactivity/internal/memlimit"
)

// Room bounds the memory that all requests hold together: their bodies and the values
// decoded from these.
type Room struct {
	Arriving *Arrivals // bytes that arrive, or wait to be admitted
	Decoded  *Pool     // unpacked bytes that are worked on, by product
	Passes   *Pool     // passes over large bodies that run at once, by product where it is known
}

const (
	maxHeld     = 256 << 20 // bytes of all requests
	maxArriving = 64 << 20  // bytes of them that arrive
	ofMemory    = 8         // the part of the memory that requests may hold
	sharers     = 4         // products that fill the room together, at least

	// The least room, in bytes, whatever the memory: one request as large as any door
	// takes by default can be received and unpacked.
	minArriving = 10 << 20
	minDecoded  = 8 << 20

	// ofProcessors is the part of the processors that passes over large bodies may
	// use: small requests, and everything else, find another.
	ofProcessors = 2
)

// Bodies returns the room for the bodies of all requests of the process.
var Bodies = sync.OnceValue(func() *Room { return NewRoom(memlimit.Bytes()) })

// NewRoom returns the room of a process that may use so many bytes of memory.
func NewRoom(memory int64) *Room {
	all := min(maxHeld, memory/ofMemory)
	arriving := max(min(maxArriving, all/2), minArriving)
	decoded := max(all-arriving, minDecoded)
	return &Room{
		Arriving: NewArrivals(arriving),
		Decoded:  NewPool(decoded, max(decoded/sharers, min(decoded, minDecoded)), arriving/sharers),
		Passes:   NewPool(MaxPasses(), MaxPasses(), arriving/2),
	}
}

// MaxPasses returns how many passes over large bodies run at once.
func MaxPasses() int64 { return max(int64(runtime.GOMAXPROCS(0)/ofProcessors), 1) }
