package redislog

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// The oldest Redis that will do. Valkey says which Redis it is like.
const oldestMajor, oldestMinor = 6, 2

// VersionError says that a Redis is too old. Every call returns it.
type VersionError struct{ Version string }

func (e *VersionError) Error() string {
	return fmt.Sprintf("redislog: Redis is of version %s, and must be of version %d.%d or newer",
		e.Version, oldestMajor, oldestMinor)
}

// versionLine finds the version in a reply to INFO, and its first two numbers.
var versionLine = regexp.MustCompile(`(?m)^redis_version:((\d+)\.(\d+)[^\r\n]*)`)

// checkVersion refuses a connection to a Redis that is too old. A server that does not tell its
// version, such as one that does not let this user ask, is taken.
func checkVersion(ctx context.Context, conn *redis.Conn) error {
	info, err := conn.Info(ctx, "server").Result()
	if isAway(err) {
		return err
	}
	match := versionLine.FindStringSubmatch(info)
	if match == nil {
		return nil
	}
	major, _ := strconv.Atoi(match[2])
	minor, _ := strconv.Atoi(match[3])
	if major < oldestMajor || major == oldestMajor && minor < oldestMinor {
		return &VersionError{Version: match[1]}
	}
	return nil
}

// format is the version of the layout of everything under a prefix. Every change that an older
// program does not understand raises it. It is in the key "format" under the prefix, in decimal
// digits, without a time to live.
const format = 1

// FormatError says that a newer program has written the data. Every call returns it.
type FormatError struct {
	Prefix string
	Format int
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("redislog: the data under the prefix %q have the format %d, and this program reads and writes %d: "+
		"use a newer version, or another prefix", e.Prefix, e.Format, format)
}

// checkFormat refuses data of a newer format. Where nothing is written yet it writes the
// format, unless Redis takes no writes. It is called once for each client, before the first
// use.
func (l *Log) checkFormat(ctx context.Context, client redis.Cmdable) error {
	key := l.opts.Prefix + ":format"
	found, err := client.Get(ctx, key).Int()
	switch {
	case errors.Is(err, redis.Nil):
		if err := client.SetNX(ctx, key, format, 0).Err(); isAway(err) {
			return err
		}
		return nil
	case err != nil:
		return err
	case found > format:
		return &FormatError{l.opts.Prefix, found}
	}
	return nil
}
