// Package heaptest measures the heap for tests of bounds.
package heaptest

import "runtime"

// After returns by how many bytes the heap has grown after f, garbage collected.
func After(f func()) int64 {
	before := InUse()
	f()
	return InUse() - before
}

// InUse returns the bytes in use on the heap, garbage collected.
func InUse() int64 {
	runtime.GC()
	runtime.GC() // for the memory that finalizers let go
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
