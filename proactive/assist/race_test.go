//go:build race

package assist_test

func init() { storms = 4 } // the race detector takes ten times as long
