//go:build linux || darwin

package boltlog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/eventlogtest"
)

func init() { children["fill"] = fillDisk }

// limitFiles makes writing fail beyond a size, as a full disk does.
func limitFiles(size uint64) {
	var limit syscall.Rlimit
	check(syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit))
	limit.Cur = min(size, limit.Max)
	check(syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit))
}

// noted holds the entries and documents that a log has acknowledged.
type noted struct {
	entries []item
	docs    map[string]string
}

// fillDisk uses a log in the folder BOLTLOG_TEST_DIR with no space and with some space in turn.
func fillDisk() {
	signal.Ignore(syscall.SIGXFSZ)
	dir := os.Getenv("BOLTLOG_TEST_DIR")
	opts := &Options{TailBytes: 8 << 10}
	log, err := Open(dir, opts)
	check(err)
	known := &noted{docs: map[string]string{}}
	for round := range 4 {
		info, err := os.Stat(filepath.Join(dir, FileName))
		check(err)
		limitFiles(uint64(info.Size()) + 300<<10)
		refused := known.fill(log, round)
		check(known.verify(log))
		if err := log.Ping(context.Background()); err == nil {
			check(errors.New("it says that it can write"))
		}
		limitFiles(1 << 40)
		for log.Ping(context.Background()) != nil {
			time.Sleep(10 * time.Millisecond)
		}
		stats := log.Stats()
		check(log.Release())
		log, err = Open(dir, opts)
		check(err)
		if again := log.Stats(); !reflect.DeepEqual(stats, again) {
			check(fmt.Errorf("stats were %v and are %v", stats, again))
		}
		check(known.verify(log))
		check(log.Append(context.Background(), acme, refused))
		known.entries = append(known.entries, items(refused)...)
		var duplicate *eventlog.DuplicateError
		if err := log.Append(context.Background(), acme, refused); !errors.As(err, &duplicate) {
			check(fmt.Errorf("the request was taken twice: %w", err))
		}
		check(known.verify(log))
	}
	check(log.Release())
	fmt.Println("done")
}

// fill appends entries and documents until there is no more space for either, and returns entries that did not fit.
func (k *noted) fill(log *Log, round int) []eventlog.Entry {
	ctx := context.Background()
	for n := 0; ; n++ {
		name := fmt.Sprint(round, "/", n)
		value := strings.Repeat(name, 500)
		put := document.Put(document.Document{Name: name}, []byte(value), time.Hour)
		version, err := log.Documents().Write(ctx, acme, put)
		if err == nil {
			k.docs[name] = fmt.Sprint(version, value)
		}
		entries := []eventlog.Entry{eventlogtest.Sized(eventlogtest.Entry(name, 0), 3000),
			eventlogtest.Sized(eventlogtest.Entry(name, 1), 20<<10)}
		// Space freed by one call is there for the next, so it may take some.
		for range 5 {
			if err = log.Append(ctx, acme, entries); err == nil {
				break
			}
		}
		if err != nil {
			return entries
		}
		k.entries = append(k.entries, items(entries)...)
	}
}

func (k *noted) verify(log *Log) error {
	got, err := contentOf(log, acme)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(k.entries, got.items) || !reflect.DeepEqual(k.docs, got.docs) {
		return fmt.Errorf("%d of %d entries and %d of %d documents are there", len(got.items), len(k.entries),
			len(got.docs), len(k.docs))
	}
	return nil
}

// The process of this test has a limit to the size of its files.
func TestLog_losesNothingForLackOfSpace(t *testing.T) {
	t.Parallel()
	output, err := child(t, "fill", "BOLTLOG_TEST_DIR="+t.TempDir()).CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.Equal(t, "done\n", string(output))
}
