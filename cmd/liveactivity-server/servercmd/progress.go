package servercmd

import (
	"context"
	"log/slog"
	"time"

	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// progressEvery is the interval of the log lines about a long operation. A shorter one has none.
const progressEvery = 3 * time.Second

// logProgress logs how far the log is read back, until that is done or ctx ends.
func logProgress(ctx context.Context, log *slog.Logger, look func() eventlog.Progress) {
	ticker := time.NewTicker(progressEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		p := look()
		if p.Done {
			return
		}
		log.Info("reading the log back", "entries", p.Read, "of", p.Entries)
	}
}
