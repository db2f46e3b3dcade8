// Command reference is the yardstick for a request's time budget. It prints on one
// line the nanoseconds of processor time that the JSON decoder takes for one pass
// over its input, and then the compressed input. It is a separate command because
// the race detector, which the tests use, makes a pass many times slower.
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"syscall"
	"time"
)

var decode = flag.Bool("decode", false, "decode values, instead of only finding their ends")

func main() {
	flag.Parse()
	input, err := io.ReadAll(os.Stdin)
	if err != nil {
		log.Fatal(err)
	}
	into := func() any { return new(json.RawMessage) }
	if *decode {
		into = func() any { return new(any) }
	}
	fmt.Println(pass(input, into).Nanoseconds())
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

// pass returns the mean time of a pass. It repeats passes, each into a new value,
// until the clock is precise enough.
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
