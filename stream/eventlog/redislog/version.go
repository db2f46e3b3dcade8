package redislog

import (
	"context"
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

var versionLine = regexp.MustCompile(`(?m)^redis_version:((\d+)\.(\d+)[^\r\n]*)`)

// checkVersion refuses a connection to a Redis that is too old. A server that does
// not tell its version is taken.
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
