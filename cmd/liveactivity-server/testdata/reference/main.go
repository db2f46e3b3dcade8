// Command reference is the measure for the budget of a request: it prints on a
// line the nanoseconds of processor time that a pass of the JSON decoder takes over
// its input, without decoding values and with, and then the input compressed. It is
// a command of its own because the race detector, under which the tests run, makes a
// pass many times as slow.
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"syscall"
	"time"
)

func main() {
	input, err := io.ReadAll(os.Stdin)
	if err != nil {
		log.Fatal(err)
	}
	scanned := pass(input, func() any { return new(json.RawMessage) })
	decoded := pass(input, func() any { return new(any) })
	fmt.Println(scanned.Nanoseconds(), decoded.Nanoseconds())
	w, err := gzip.NewWriterLevel(os.Stdout, gzip.BestSpeed)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := w.Write(input); err != nil {
		log.Fatal(err)
	}
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}
}

// pass returns the mean of so many passes, each into a new value, that the clock is
// precise enough.
func pass(b []byte, into func() any) time.Duration {
	const enough = 50 * time.Millisecond
	began, n := used(), 0
	for n == 0 || used()-began < enough {
		if err := json.NewDecoder(bytes.NewReader(b)).Decode(into()); err != nil {
			log.Fatal(err)
		}
		n++
	}
	return (used() - began) / time.Duration(n)
}

func used() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		log.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
