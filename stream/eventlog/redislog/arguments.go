package redislog

import (
	"encoding/binary"
	"strconv"
	"sync"
)

// arguments are any number of texts in one argument of a script, which takes them apart with
// cmsgpack.unpack: that costs this process a fraction of as many arguments of a command, and
// Redis no more. Their memory is borrowed from buffers; a caller of newArguments may release
// it, or leave it to the garbage collector.
type arguments struct {
	packed []byte // an array of MessagePack, with room for its head
	n      int
}

// buffers have memory of arguments that are no longer used.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// newArguments returns arguments without any text.
func newArguments() arguments { return arguments{packed: (*buffers.Get().(*[]byte))[:0]} }

// release gives the memory of the arguments to others. Nothing may use it any
// more.
func (a *arguments) release() {
	memory := a.packed
	*a = arguments{}
	buffers.Put(&memory)
}

// Kinds of MessagePack values, each with four bytes that follow.
const (
	packedArray = 0xdd // how many values follow
	packedText  = 0xdb // how long the text is that follows
)

// begin begins an argument: the bytes appended to packed until end, which gets start. No other
// may begin before that.
func (a *arguments) begin() (start int) {
	if a.n == 0 {
		a.packed = append(a.packed, packedArray, 0, 0, 0, 0)
	}
	a.n++
	a.packed = append(a.packed, packedText, 0, 0, 0, 0)
	return len(a.packed)
}

// end ends the argument that began at start, by writing its length in front of it.
func (a *arguments) end(start int) {
	binary.BigEndian.PutUint32(a.packed[start-4:], uint32(len(a.packed)-start))
}

// text adds the parts as one argument.
func (a *arguments) text(parts ...string) {
	start := a.begin()
	for _, part := range parts {
		a.packed = append(a.packed, part...)
	}
	a.end(start)
}

// bytes adds a copy of b as one argument.
func (a *arguments) bytes(b []byte) {
	start := a.begin()
	a.packed = append(a.packed, b...)
	a.end(start)
}

// number adds a number in decimal digits.
func (a *arguments) number(n int64) {
	start := a.begin()
	a.packed = strconv.AppendInt(a.packed, n, 10)
	a.end(start)
}

// all returns the argument that has all of them, empty without any. It is usable until release,
// or until another one is added.
func (a *arguments) all() []byte {
	if a.n > 0 {
		binary.BigEndian.PutUint32(a.packed[1:], uint32(a.n))
	}
	return a.packed
}
