package stream_test

const product = "acme"

// fired reports whether a channel is closed.
func fired(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
