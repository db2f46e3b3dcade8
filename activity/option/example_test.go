package option_test

import (
	"errors"
	"fmt"

	"github.com/liveactivity/liveactivity/activity/option"
	"github.com/liveactivity/liveactivity/activity/sessions"
)

func ExampleError() {
	_, err := sessions.NewMemory(&sessions.MemoryOptions{TTL: -1})
	if mistake, ok := errors.AsType[*option.Error](err); ok {
		fmt.Println(mistake.Package, mistake.Option, mistake.Problem)
	}
	// Output: sessions TTL must not be negative
}
