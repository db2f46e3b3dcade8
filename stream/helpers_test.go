package stream_test

import "time"

// patience is how long a test waits for what must come. It is longer than the
// machine can be busy with something else.
const (
	patience = 20 * time.Second
	product  = "acme"
)

// fired reports whether a channel is closed.
func fired(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
