package redislog

import (
	"context"
	"crypto/sha1"
	_ "embed" // for the scripts
	"encoding/hex"
	"errors"

	"github.com/redis/go-redis/v9"
)

// script is a Lua script that Redis knows by its digest, once it has seen it.
type script struct{ source, digest string }

func newScript(source string) *script {
	sum := sha1.Sum([]byte(source))
	return &script{source, hex.EncodeToString(sum[:])}
}

//go:embed lua/shared.lua
var sharedSource string

//go:embed lua/tidy.lua
var tidySource string

//go:embed lua/drop.lua
var dropSource string

//go:embed lua/commit.lua
var commitSource string

//go:embed lua/read.lua
var readSource string

//go:embed lua/bounds.lua
var boundsSource string

//go:embed lua/recent.lua
var recentSource string

//go:embed lua/list.lua
var listSource string

var (
	commitScript = newScript(sharedSource + commitSource)
	tidyScript   = newScript(sharedSource + tidySource)
	dropScript   = newScript(sharedSource + dropSource)
	readScript   = newScript(readSource)
	boundsScript = newScript(boundsSource)
	recentScript = newScript(recentSource)
	listScript   = newScript(listSource)
)

// command returns the script's call by its digest, or as a whole.
func (s *script) command(ctx context.Context, whole bool, keys []string, args []any) *redis.Cmd {
	all := make([]any, 0, 3+len(keys)+len(args))
	if whole {
		all = append(all, "eval", s.source)
	} else {
		all = append(all, "evalsha", s.digest)
	}
	all = append(all, len(keys))
	for _, key := range keys {
		all = append(all, key)
	}
	cmd := redis.NewCmd(ctx, append(all, args...)...)
	cmd.SetFirstKeyPos(3)
	return cmd
}

// errReply says that a script returned what it never returns.
var errReply = errors.New("strange reply")

// isUnknown reports whether Redis does not know a script, which has then done
// nothing.
func isUnknown(err error) bool { return redis.HasErrorPrefix(err, "NOSCRIPT") }

// eval calls a script that may be repeated, and returns its reply.
func (l *Log) eval(ctx context.Context, s *script, keys []string, args ...any) ([]any, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	cmd := s.command(ctx, false, keys, args)
	err := l.client.Process(ctx, cmd)
	if isUnknown(err) {
		cmd = s.command(ctx, true, keys, args)
		err = l.client.Process(ctx, cmd)
	}
	if err != nil {
		l.lost(err)
		return nil, err
	}
	return cmd.Slice()
}

// isAway reports whether an error is one of the way to Redis, rather than an
// answer.
func isAway(err error) bool {
	var answer redis.Error
	return err != nil && !errors.As(err, &answer)
}

// lost records an error: when a node cannot be reached others may have
// taken its place.
func (l *Log) lost(err error) {
	if isAway(err) {
		l.client.ReloadState(context.Background())
	}
}

// once is a command that must not be sent again when its answer is lost: it
// may have been carried out.
type once struct{ *redis.Cmd }

// NoRetry tells the client so.
func (once) NoRetry() bool { return true }
