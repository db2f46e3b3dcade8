package option_test

import (
	"errors"
	"fmt"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/activity/option"
)

func ExampleError() {
	_, err := liveactivity.New(&liveactivity.Options{MaxEvents: -1})
	var mistake *option.Error
	if errors.As(err, &mistake) {
		fmt.Println(mistake.Option, mistake.Problem)
	}
	// Output: MaxEvents must not be negative
}
