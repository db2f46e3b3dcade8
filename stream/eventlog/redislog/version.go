package redislog

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// The oldest version of Redis that is supported. Valkey reports the version of
// Redis that it is compatible with.
const oldestMajor, oldestMinor = 6, 2

// VersionError reports that Redis is too old. Every call then returns it.
type VersionError struct{ Version string }

func (e *VersionError) Error() string {
	return fmt.Sprintf("redislog: Redis is of version %s, and must be of version %d.%d or newer",
		e.Version, oldestMajor, oldestMinor)
}

// versionLine finds the version in a reply to INFO, and its first two numbers.
var versionLine = regexp.MustCompile(`(?m)^redis_version:((\d+)\.(\d+)[^\r\n]*)`)

// checkVersion refuses a connection to a Redis that is too old. A server that does not report
// its version, such as one that does not let this user ask, is accepted.
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

// format is the version of the layout of everything under a prefix. It is raised by every
// change that an older program does not understand. It is stored in the key "format" under the
// prefix, in decimal digits, without a time to live.
const format = 1

// FormatError reports that a newer program has written the data. Every call then
// returns it.
type FormatError struct {
	Prefix string
	Format int
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("redislog: the data under the prefix %q have the format %d, and this program reads and writes %d: "+
		"use a newer version, or another prefix", e.Prefix, e.Format, format)
}

// checkFormat refuses data of a newer format. If no format is stored yet, it writes its
// own, unless Redis refuses writes. It is called once for each client, before the first
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

// evicting finds the policy of a Redis that evicts keys, in a reply to INFO.
var evicting = regexp.MustCompile(`(?s)\bmaxmemory:[1-9].*\bmaxmemory_policy:((?:allkeys|volatile)-\w+)`)

// warnOfEviction logs a warning if Redis removes keys when its memory is full, which no call
// would notice. It believes the node that it asks, and a Redis that does not tell.
func (l *Log) warnOfEviction(ctx context.Context, client redis.Cmdable) {
	info, _ := client.Info(ctx, "memory").Result()
	if match := evicting.FindStringSubmatch(info); match != nil {
		l.opts.Logger.Warn("Redis removes data when its memory is full; set its maxmemory-policy to noeviction",
			"maxmemory_policy", match[1])
	}
}
