package redislog

import (
	"context"
	_ "embed" // for the scripts
	"errors"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/lost.lua
var lostLua string

//go:embed lua/shared.lua
var sharedLua string

//go:embed lua/tidy.lua
var tidyLua string

//go:embed lua/drop.lua
var dropLua string

//go:embed lua/activity.lua
var activityLua string

//go:embed lua/commit.lua
var commitLua string

//go:embed lua/read.lua
var readLua string

//go:embed lua/recent.lua
var recentLua string

//go:embed lua/list.lua
var listLua string

// changeSource is the beginning of the scripts that change a product.
var changeSource = lostLua + sharedLua

// commitSource is the whole script of a commit.
var commitSource = changeSource + activityLua + commitLua

// script is a script for eval. Its replies have at least that many parts.
type script struct {
	*redis.Script
	parts int
}

var (
	commitScript = redis.NewScript(commitSource)
	tidyScript   = script{redis.NewScript(changeSource + tidyLua), 4}
	dropScript   = script{redis.NewScript(changeSource + dropLua), 2}
	readScript   = script{redis.NewScript(lostLua + readLua), 6}
	recentScript = script{redis.NewScript(recentLua), 1}
	listScript   = script{redis.NewScript(listLua), 2}
)

// errReply is the error for a reply that no script returns. The script has run.
var errReply = errors.New("strange reply")

// eval calls a script that is safe to repeat, and returns its reply. It ends within
// callTimeout. The client sends the script again when an answer is lost, and sends its whole
// text when Redis does not know it.
func (l *Log) eval(ctx context.Context, s script, keys []string, args ...any) ([]any, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	client, err := l.redis(ctx)
	if err != nil {
		return nil, err
	}
	reply, err := s.Run(ctx, client, keys, args...).Slice()
	l.reloadAfter(err)
	if err == nil && len(reply) < s.parts {
		err = errReply
	}
	return reply, err
}

// ask calls a script that reads the product, and returns its reply. If Redis has kept only a
// part of a commit, ask rolls the commit back first: every script that changes the product
// begins with that.
func (p *product) ask(ctx context.Context, s script, keys []string, args ...any) ([]any, error) {
	reply, err := p.log.eval(ctx, s, keys, args...)
	if !redis.HasErrorPrefix(err, "TORN") {
		return reply, err
	}
	if _, _, _, err := p.tidyStep(ctx, tidyNeither, 0, 0); err != nil {
		return nil, err
	}
	return p.log.eval(ctx, s, keys, args...)
}

// isAway reports whether an error comes from the connection to Redis, and is not an
// answer.
func isAway(err error) bool {
	var answer redis.Error
	return err != nil && !errors.As(err, &answer)
}

// reloadAfter lets the client look, in the background, for the node that has taken another's place,
// if the error means that one cannot be reached.
func (l *Log) reloadAfter(err error) {
	if client := l.client.Load(); client != nil && isAway(err) {
		client.ReloadState(context.Background())
	}
}
