// Package heaptest measures the heap for tests of memory limits.
package heaptest

import "runtime"

// After returns by how many bytes f has grown the heap, after a garbage
// collection.
func After(f func()) int64 {
	before := InUse()
	f()
	return InUse() - before
}

// InUse returns the bytes in use on the heap, after a garbage collection.
func InUse() int64 {
	runtime.GC()
	runtime.GC() // for memory released by finalizers
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
