//go:build race

package connector

// The race detector takes ten times as long.
func init() { days, crowd, storms = 8, 250, 4 }
