package servercmd

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// display is standard error: it shows the log and, on a terminal, a bar below it during a
// long operation. It is safe for concurrent use. mu also serializes writes to out.
type display struct {
	out      io.Writer
	terminal *os.File // nil without a terminal that can show a bar

	mu  sync.Mutex
	bar string // currently shown, "" for none; guarded by mu
}

// newDisplay returns the display for standard error. It shows a bar on a
// terminal, unless the log's format is for machines.
func newDisplay(stderr io.Writer, logFormat string) *display {
	d := &display{out: stderr}
	file, ok := stderr.(*os.File)
	if ok && logFormat == "text" && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(file.Fd())) {
		d.terminal = file
	}
	return d
}

const clearLine = "\r\x1b[K"

// Write implements [io.Writer]. It keeps the bar below the written text, which should end
// with a newline. The result concerns only p.
func (d *display) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.bar == "" {
		return d.out.Write(p)
	}
	_, _ = io.WriteString(d.out, clearLine)
	n, err := d.out.Write(p)
	_, _ = io.WriteString(d.out, d.bar)
	return n, err
}

// show replaces the current bar; "" removes it.
func (d *display) show(bar string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if bar != d.bar {
		d.bar = bar
		_, _ = io.WriteString(d.out, clearLine+bar)
	}
}

// width returns the current number of columns, since a window may be resized.
func (d *display) width() int {
	columns, _, err := term.GetSize(int(d.terminal.Fd()))
	if err != nil || columns <= 0 {
		return defaultWidth
	}
	return columns
}

const (
	defaultWidth = 80
	quickTime    = 150 * time.Millisecond // shorter operations are not shown
	barEvery     = 100 * time.Millisecond
	lineEvery    = 3 * time.Second
)

// progress is the progress of an operation.
type progress struct {
	what, unit  string
	done, total int64 // in units; a zero total is unknown
}

// follow shows an operation's progress, as a bar or as a log line every few seconds, until it
// is over or ctx ends. It removes the bar at the end. look must not block; it is called only
// by this goroutine.
func (d *display) follow(ctx context.Context, log *slog.Logger, look func() (p progress, over bool)) {
	every := lineEvery
	if d.terminal != nil && log.Enabled(ctx, slog.LevelInfo) {
		every = barEvery
		defer d.show("")
	}
	began := time.Now()
	wait := time.NewTimer(min(every, quickTime))
	defer wait.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-wait.C:
		}
		wait.Reset(every)
		p, over := look()
		switch {
		case over:
			return
		case every == barEvery:
			d.show(p.bar(d.width(), time.Since(began)))
		case time.Since(began) >= lineEvery && p.done+p.total > 0:
			log.Info(p.what, p.unit, p.done, "of", p.total) // total is zero if unknown
		}
	}
}

// during follows an operation in the background until the caller calls ended, which returns
// once the bar is gone. ended must be called.
func (d *display) during(log *slog.Logger, look func() (p progress, over bool)) (ended func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var following sync.WaitGroup
	following.Go(func() { d.follow(ctx, log, look) })
	return func() {
		cancel()
		following.Wait()
	}
}

// bar returns a line with fewer than that many columns, since some terminals wrap after the
// last one. It is ASCII, so bytes are columns.
func (p progress) bar(columns int, elapsed time.Duration) string {
	text := fmt.Sprintf("%s: %s %s", p.what, grouped(p.done), p.unit)
	if p.total > 0 {
		part, total := min(float64(p.done)/float64(p.total), 1), grouped(p.total)
		text = fmt.Sprintf("%3.0f %%  %s: %*s of %s %s", 100*part, p.what, len(total), grouped(p.done), total, p.unit)
		if part > 0.01 {
			text += fmt.Sprintf(", %s left", time.Duration(float64(elapsed)*(1-part)/part).Round(time.Second))
		}
		if room := min(columns-1-len(text)-3, 30); room >= 5 {
			full := int(part * float64(room))
			text = "[" + strings.Repeat("=", full) + strings.Repeat(" ", room-full) + "] " + text
		}
	}
	return text[:min(len(text), max(columns-1, 0))]
}

// grouped returns a number with commas as thousands separators.
func grouped(n int64) string {
	text := fmt.Sprint(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}
