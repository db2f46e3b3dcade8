package redislog

import (
	"context"
	"fmt"

	"github.com/liveactivity/liveactivity/stream"
)

// CommitCommand returns the command with which entries are appended, and the
// script that it calls by its digest.
func (l *Log) CommitCommand(ctx context.Context, productID string, entries []stream.Entry) (args []string, script string, err error) {
	c := &commit{entries: entries}
	c.addEntries(entries)
	for _, e := range entries {
		if err := c.addActions(e.Batch); err != nil {
			return nil, "", err
		}
	}
	for _, arg := range l.product(productID).command(ctx, c, false).Args() {
		if b, ok := arg.([]byte); ok {
			arg = string(b)
		}
		args = append(args, fmt.Sprint(arg))
	}
	return args, commitScript.source, nil
}
