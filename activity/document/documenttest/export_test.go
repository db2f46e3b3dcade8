package documenttest

import "time"

// SetPatience sets how long tests wait for an expected event; most tests of a
// broken engine wait that long.
func SetPatience(d time.Duration) { patience = d }
