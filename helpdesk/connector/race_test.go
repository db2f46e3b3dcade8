//go:build race

package connector

func init() { days = 20 }
