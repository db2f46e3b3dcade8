//go:build race

package connector

func init() { days, caughtUp, crowd = 20, 500, 1000 }
