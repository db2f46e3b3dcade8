package documenttest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/activity/document/documenttest"
)

// The suite needs a function that opens an empty engine. This is the whole conformance test of an engine.
func ExampleTestStore() {
	testMyStore := func(t *testing.T) {
		documenttest.TestStore(t, func(t *testing.T) document.Store {
			store, err := document.NewMemory(nil)
			require.NoError(t, err)
			return store
		})
	}
	_ = testMyStore // named TestMyStore in the engine's package
}
