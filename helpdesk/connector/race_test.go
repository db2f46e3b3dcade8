//go:build race

package connector

// The race detector takes ten times as long.
func init() { days, caughtUp, storms = 8, 500, 4 }
