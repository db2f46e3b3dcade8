package admission

import (
	"runtime"
	"sync"

	"github.com/liveactivity/liveactivity/internal/memlimit"
)

// Room limits the memory that all requests hold together: their bodies, and the
// values decoded from them.
type Room struct {
	Arriving *Arrivals // bytes that are arriving, or waiting to be admitted
	Decoded  *Pool     // decoded bytes in use, by product
	Passes   *Pool     // concurrent passes over large bodies, by product if known
}

const (
	maxHeld     = 256 << 20 // bytes, over all requests
	maxArriving = 64 << 20  // bytes of these that may be arriving
	ofMemory    = 8         // requests may hold one part in eight of the memory
	sharers     = 4         // at least so many products are needed to fill the room

	// The minimum room in bytes, whatever the memory: it is enough to receive and
	// decode one request of the largest default size.
	minArriving = 10 << 20
	minDecoded  = 8 << 20

	// ofProcessors is the part of the processors that passes over large bodies may
	// use, one in two: small requests, and everything else, use the others.
	ofProcessors = 2
)

// Bodies returns the room for the bodies of all the process's requests.
var Bodies = sync.OnceValue(func() *Room { return NewRoom(memlimit.Bytes()) })

// NewRoom returns the room for a process that may use so many bytes of memory.
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

// MaxPasses returns the maximum number of concurrent passes over large bodies.
func MaxPasses() int64 { return max(int64(runtime.GOMAXPROCS(0)/ofProcessors), 1) }
