package documenttest_test

import (
	"testing"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/activity/document/documenttest"
)

// An engine is hooked up by a function that opens an empty one. This is all
// there is to the engine's test of the contract.
func ExampleTestStore() {
	testMyStore := func(t *testing.T) {
		documenttest.TestStore(t, func(*testing.T) document.Store { return document.NewMemory(0) })
	}
	_ = testMyStore // called TestMyStore in the engine's package
}
