//go:build !unix

package posthog_test

import "time"

var start = time.Now()

// cpuTime stands in for the processor time this process has used.
func cpuTime() time.Duration { return time.Since(start) }
