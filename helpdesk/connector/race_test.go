//go:build race

package connector

func init() { days, caughtUp, crowd = 8, 500, 500 }
