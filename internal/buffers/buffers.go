// Package buffers lends memory for JSON on its way.
package buffers

import "sync"

var pool = sync.Pool{New: func() any { return new([]byte) }}

// maxPooled bounds the buffers that are used again, in bytes.
const maxPooled = 256 << 10

// Get returns an empty buffer.
func Get() *[]byte {
	buf := pool.Get().(*[]byte)
	*buf = (*buf)[:0]
	return buf
}

// Put gives a buffer back, which nobody may use any more.
func Put(buf *[]byte) {
	if cap(*buf) <= maxPooled {
		pool.Put(buf)
	}
}
