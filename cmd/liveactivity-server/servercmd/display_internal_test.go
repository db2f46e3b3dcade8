package servercmd

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/logtest"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

func TestBar_fitsIntoItsColumns(t *testing.T) {
	for name, tt := range map[string]struct {
		p       progress
		columns int
		elapsed time.Duration
		want    string
	}{
		"wide": {progress{"reading", "entries", 250, 1000}, 80, 10 * time.Second,
			"[=======                     ]  25 %  reading:   250 of 1,000 entries, 30s left"},
		"narrower": {progress{"reading", "entries", 250, 1000}, 64, 10 * time.Second,
			"[===         ]  25 %  reading:   250 of 1,000 entries, 30s left"},
		"too narrow": {progress{"reading", "entries", 250, 1000}, 20, 10 * time.Second, " 25 %  reading:   2"},
		"no room":    {progress{"reading", "entries", 250, 1000}, 0, 10 * time.Second, ""},
		"begun": {progress{"reading", "entries", 0, 1234567}, 80, 0,
			"[                              ]   0 %  reading:         0 of 1,234,567 entries"},
		"over": {progress{"reading", "entries", 12, 10}, 80, time.Second,
			"[==============================] 100 %  reading: 12 of 10 entries, 0s left"},
		"unknown total": {progress{"reading", "entries", 123456, 0}, 80, time.Second, "reading: 123,456 entries"},
	} {
		t.Run(name, func(t *testing.T) {
			got := tt.p.bar(tt.columns, tt.elapsed)
			assert.Equal(t, tt.want, got)
			assert.Less(t, len(got), max(tt.columns, 1))
		})
	}
}

func TestFollow_logsEveryFewSecondsWhereThereIsNoTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out logtest.Buffer
		log := slog.New(slog.NewTextHandler(&out, nil))
		began := time.Now()
		newDisplay(&out, "text").follow(t.Context(), log, func() (progress, bool) {
			since := time.Since(began)
			return progress{"reading", "entries", int64(since / time.Second), 9}, since > 8*time.Second
		})
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		require.Len(t, lines, 2)
		for i, line := range lines {
			assert.Contains(t, line, fmt.Sprintf(`msg=reading entries=%d of=9`, 3*(i+1)))
		}
	})
}

func TestFollow_printsNothingForAQuickStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out logtest.Buffer
		log := slog.New(slog.NewTextHandler(&out, nil))
		newDisplay(&out, "text").follow(t.Context(), log, func() (progress, bool) { return progress{}, true })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		newDisplay(&out, "text").follow(ctx, log, func() (progress, bool) { return progress{}, false })
		assert.Empty(t, out.String())
	})
}

// terminal returns the two ends of a terminal of 60 columns.
func terminal(t *testing.T) (screen, tty *os.File) {
	t.Helper()
	screen, tty, err := pty.Open()
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = screen.Close(), tty.Close() })
	require.NoError(t, pty.Setsize(screen, &pty.Winsize{Rows: 24, Cols: 60}))
	return screen, tty
}

func TestFollow_keepsTheBarBelowTheLogOfATerminal(t *testing.T) {
	screen, tty := terminal(t)
	var shown logtest.Buffer
	go func() { _, _ = io.Copy(&shown, screen) }()
	d := newDisplay(tty, "text")
	log := slog.New(slog.NewTextHandler(d, nil))
	looks := 0
	d.follow(t.Context(), log, func() (progress, bool) {
		if looks++; looks == 2 {
			log.Info("meanwhile")
		}
		return progress{"reading", "entries", int64(looks), 4}, looks == 4
	})
	log.Info("afterwards")
	waittest.Until(t, "what is logged after the bar is shown", func() bool {
		return strings.Contains(shown.String(), "afterwards")
	})
	bars := strings.Split(shown.String(), clearLine)
	require.Len(t, bars, 6, "%q", shown.String())
	assert.Contains(t, bars[1], "25 %  reading: 1 of 4 entries")
	assert.Contains(t, bars[2], "msg=meanwhile")
	assert.True(t, strings.HasSuffix(bars[2], "\n"+bars[1]), "the bar is below")
	assert.Contains(t, bars[3], " 50 %")
	assert.Contains(t, bars[4], " 75 %")
	assert.Contains(t, bars[5], "msg=afterwards", "the bar is gone")
	assert.NotContains(t, bars[5], "%")
	for _, bar := range []string{bars[1], bars[3], bars[4]} {
		assert.Less(t, len(bar), 60)
	}
}

func TestDisplay_hasNoBarWhereItWouldDisturb(t *testing.T) {
	_, tty := terminal(t)
	assert.NotNil(t, newDisplay(tty, "text").terminal)
	assert.Nil(t, newDisplay(tty, "json").terminal, "what is read by programs")
	assert.Nil(t, newDisplay(&logtest.Buffer{}, "text").terminal)
	file, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	assert.Nil(t, newDisplay(file, "text").terminal)
	t.Setenv("TERM", "dumb")
	assert.Nil(t, newDisplay(tty, "text").terminal)
}
