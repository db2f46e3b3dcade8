//go:build race

package connector_test

func init() { storms = 4 } // the race detector takes ten times as long
