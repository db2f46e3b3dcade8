package servercmd

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/liveactivity/liveactivity/internal/assistance"
	"github.com/liveactivity/liveactivity/internal/command"
	"github.com/liveactivity/liveactivity/proactive"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/boltlog"
)

// replayFlags are the flags of proactive replay.
type replayFlags struct {
	DataDir string `env:"LIVEACTIVITY_DATA_DIR" placeholder:"DIR" help:"Folder of the database to replay. Required."`
	Product string `placeholder:"ID" help:"The product to replay; all of the log by default."`
	Config  string `env:"LIVEACTIVITY_CONFIG" placeholder:"FILE" help:"Product file; the default triggers without it."`
	command.Common
}

const assumption = "Each session is replayed as if it were linked to a conversation " +
	"in which the user reacts to no offer."

const replayDescription = "Prints which offers the triggers would have made for the activity that a database still " +
	"holds, and why not: to tune triggers before a user sees an offer. No server may have the database open. A " +
	"product without triggers in the file is replayed with the default ones. Nothing changes. " + assumption

// replay is the command that prints the offers that the triggers would have made for the
// activity in a log. It changes nothing: it opens the file for reading only, and calls no
// desk.
func replay(ctx context.Context, f replayFlags, c call) error {
	c.wrong.Require("--data-dir", f.DataDir, "the folder of the database")
	configs := map[string]*proactive.Config{}
	if f.Config != "" {
		file, err := c.load(f.Config, "")
		if err != nil {
			return err
		}
		for _, product := range file.Products {
			configs[product.ProductID] = product.IntegrationConfig.Proactive
		}
	}
	if err := c.wrong.Err(); err != nil {
		return err
	}
	log, err := openToReplay(f.DataDir)
	if err != nil {
		c.wrong.Add(err)
		return c.wrong.Err()
	}
	defer log.Release()
	ids := slices.Sorted(maps.Keys(log.Stats()))
	if f.Product != "" {
		if !slices.Contains(ids, f.Product) {
			c.wrong.Check("--product", fmt.Errorf("the log has no product %s", f.Product))
			return c.wrong.Err()
		}
		ids = []string{f.Product}
	}
	return replayProducts(ctx, log, ids, configs, c.added.Triggers, c.stdout)
}

// openToReplay opens a log with everything still in its file. The retention is unlimited, so
// the log includes entries that have expired since the server stopped.
func openToReplay(dir string) (*boltlog.Log, error) {
	log, err := boltlog.Open(dir, &boltlog.Options{
		ReadOnly: true, TailBytes: 1, Retention: eventlog.Retention{TTL: math.MaxInt64}})
	switch {
	case errors.Is(err, boltlog.ErrInUse):
		return nil, fmt.Errorf("--data-dir: %s is in use by another process; stop the server first",
			filepath.Join(dir, boltlog.FileName))
	case err != nil:
		return nil, fmt.Errorf("--data-dir: %w", err)
	}
	return log, nil
}

// replayProducts replays products, each with its configuration or, without one, with the
// defaults. A disabled configuration is replayed too, so that it can be tried first.
func replayProducts(ctx context.Context, log eventlog.Log, ids []string, configs map[string]*proactive.Config,
	triggers []proactive.Trigger, stdout io.Writer,
) error {
	out := bufio.NewWriter(stdout)
	fmt.Fprintln(out, assumption)
	for _, id := range ids {
		config, says := configs[id], ""
		switch {
		case config == nil:
			config, says = &proactive.Config{}, " (defaults: no proactive is configured)"
		case !config.Enabled:
			says = " (not enabled)"
		}
		fmt.Fprintf(out, "\nproduct %s%s\n", printable(id), says)
		p, err := newPlayback(id, config, triggers, out)
		if err != nil {
			return err
		}
		if err := p.run(ctx, log); err != nil {
			return errors.Join(err, out.Flush())
		}
		p.summarize()
	}
	return out.Flush()
}

// outcome is the decision about a trigger that matched.
type outcome struct {
	trigger string
	reason  assistance.Reason
}

// summarize prints each trigger's outcomes with their counts, the most frequent
// first.
func (p *playback) summarize() {
	if p.actions == 0 {
		fmt.Fprintln(p.out, "  0 actions")
		return
	}
	fmt.Fprintf(p.out, "  %d actions from %s to %s\n", p.actions, stamp(p.oldest), stamp(p.now))
	byTrigger := map[string][]outcome{}
	for o := range p.outcomes {
		byTrigger[o.trigger] = append(byTrigger[o.trigger], o)
	}
	for _, id := range slices.Sorted(maps.Keys(byTrigger)) {
		all := byTrigger[id]
		slices.SortFunc(all, func(a, b outcome) int {
			return cmp.Or(cmp.Compare(p.outcomes[b], p.outcomes[a]), cmp.Compare(a.reason, b.reason))
		})
		counts := make([]string, len(all))
		for i, o := range all {
			counts[i] = fmt.Sprintf("%d %s", p.outcomes[o], o.reason)
		}
		fmt.Fprintf(p.out, "  %s: %s\n", id, strings.Join(counts, ", "))
	}
	fmt.Fprintf(p.out, "  no trigger matched at %d actions\n", p.unmatched)
}
