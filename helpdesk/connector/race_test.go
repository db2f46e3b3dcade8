//go:build race

package connector

func init() { days, caughtUp = 20, 500 }
