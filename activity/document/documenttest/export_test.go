package documenttest

import "time"

// SetPatience sets how long tests wait for what must come, which is what most
// tests of a broken engine do.
func SetPatience(d time.Duration) { patience = d }
