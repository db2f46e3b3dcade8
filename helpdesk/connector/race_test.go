//go:build race

package connector

// The race detector takes ten times as long.
func init() { days, storms = 8, 4 }
