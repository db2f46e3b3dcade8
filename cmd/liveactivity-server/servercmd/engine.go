package servercmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"time"

	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/boltlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/redislog"
)

// openLog opens the log that the settings select and puts it into the options; without one the
// service creates its own, in memory. Unless there is an error, release is not nil; call it
// once the service has stopped.
func (s *settings) openLog(log *slog.Logger) (release func() error, err error) {
	switch {
	case s.DataDir != "":
		return s.openFile(log)
	case s.RedisURL != "":
		return s.openRedis(log)
	}
	log.Info("everything is kept in memory only: activity does not survive a restart")
	return func() error { return nil }, nil
}

// progressLines returns a function that logs the progress of reading the file, in bytes, at most every 3
// seconds. It is not safe for concurrent use.
func progressLines(log *slog.Logger) func(done, total int64) {
	const every = 3 * time.Second
	logged := time.Now()
	return func(done, total int64) {
		if time.Since(logged) >= every {
			logged = time.Now()
			log.Info("reading the log back", "bytes", done, "of", total)
		}
	}
}

// openFile opens the file, which takes as long as reading it, and logs the progress. Only one process
// at a time can have it open.
func (s *settings) openFile(log *slog.Logger) (release func() error, err error) {
	entries, err := boltlog.Open(s.DataDir, &boltlog.Options{
		Retention: s.Retention, MaxEvents: s.MaxEvents, Logger: log, Progress: progressLines(log)})
	if err != nil {
		return nil, fmt.Errorf("--data-dir: %w", err)
	}
	log.Info("everything is kept in a file", "file", filepath.Join(s.DataDir, boltlog.FileName))
	s.Log = entries
	// An eighth of it is for sessions in memory.
	s.Retention.StateMaxBytes = cmp.Or(s.Retention.StateMaxBytes, eventlog.DefaultLastingStateMaxBytes)
	return entries.Release, nil
}

// openRedis opens Redis, which need not be reachable: the server starts anyway and answers 503
// until it is. If Redis is reachable but too old, or has data from a newer program, openRedis
// fails immediately.
func (s *settings) openRedis(log *slog.Logger) (release func() error, err error) {
	entries, err := redislog.Open(s.RedisURL, &redislog.Options{
		Retention: s.Retention, MaxEvents: s.MaxEvents, Prefix: s.RedisPrefix, Logger: log,
	})
	if err != nil {
		return nil, fmt.Errorf("--redis-url: %w", err)
	}
	// If it is unreachable, versions are checked later, when it can be reached.
	var old *redislog.VersionError
	var newer *redislog.FormatError
	switch err := entries.Ping(context.Background()); {
	case errors.As(err, &old):
		return nil, errors.Join(fmt.Errorf("--redis-url: %w", old), entries.Release())
	case errors.As(err, &newer):
		return nil, errors.Join(fmt.Errorf("--redis-url: %w", newer), entries.Release())
	}
	address, _ := url.Parse(s.RedisURL) // Open has parsed it; it may have a password
	log.Info("everything is kept in Redis", "redis", address.Host)
	s.Log = entries
	return entries.Release, nil
}
