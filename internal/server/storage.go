package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/products"
	"github.com/liveactivity/liveactivity/stream"
	"github.com/liveactivity/liveactivity/stream/boltlog"
	"github.com/liveactivity/liveactivity/stream/redislog"
)

// storage is where a server keeps its state: an engine behind one face.
type storage struct {
	log    stream.Log
	store  activity.Store
	filing activity.Store // where the recorder files actions; nil when the log does
	behind bool           // filing has to catch up with the log first

	run     func(context.Context) error // the engine's own work; nil for none
	ping    func(context.Context) error // whether it can be reached
	expire  func(context.Context) error // frees what is no longer kept
	release func() error

	collectors []prometheus.Collector
}

// openStorage opens the engine that the configuration names.
func openStorage(c Config, log *slog.Logger) (*storage, error) {
	retention := stream.Retention{TTL: c.ActivityTTL, MaxBytes: c.LogMaxBytes}
	switch {
	case c.DataDir != "":
		return openFile(c, retention, log)
	case c.RedisURL != "":
		return openRedis(c, retention, log)
	}
	log.Info("everything is kept in memory only: activity does not survive a restart")
	return openMemory(c, retention), nil
}

func newMemory(c Config) *activity.Memory {
	return activity.NewMemory(&activity.MemoryOptions{TTL: c.ActivityTTL, MaxEvents: c.MaxEvents})
}

func openMemory(c Config, retention stream.Retention) *storage {
	entries, users := stream.NewMemoryLog(retention), newMemory(c)
	return &storage{
		log: entries, store: users, filing: users,
		ping: func(context.Context) error { return nil },
		expire: func(context.Context) error {
			users.Expire()
			entries.Expire()
			return nil
		},
		release:    func() error { return nil },
		collectors: []prometheus.Collector{logCollector{entries.Stats}, usersCollector(users)},
	}
}

func openFile(c Config, retention stream.Retention, log *slog.Logger) (*storage, error) {
	entries, err := boltlog.Open(c.DataDir, &boltlog.Options{Retention: retention})
	if err != nil {
		return nil, fmt.Errorf("--data-dir: %w", err)
	}
	log.Info("everything is kept in a file", "file", filepath.Join(c.DataDir, boltlog.FileName))
	users := newMemory(c)
	return &storage{
		log: entries, store: users, filing: users, behind: true,
		ping: entries.Ping,
		expire: func(ctx context.Context) error {
			users.Expire()
			return entries.Expire(ctx)
		},
		release:    entries.Release,
		collectors: []prometheus.Collector{logCollector{entries.Stats}, usersCollector(users)},
	}, nil
}

func openRedis(c Config, retention stream.Retention, log *slog.Logger) (*storage, error) {
	entries, err := redislog.Open(c.RedisURL, &redislog.Options{Retention: retention, MaxEvents: c.MaxEvents, Prefix: c.RedisPrefix, Logger: log})
	if err != nil {
		return nil, fmt.Errorf("--redis-url: %w", err)
	}
	log.Info("everything is kept in Redis", "redis", redisHost(c.RedisURL))
	return &storage{
		log: entries, store: entries.Activity(),
		run:  entries.Run,
		ping: entries.Ping,
		expire: func(context.Context) error {
			entries.Expire()
			return nil
		},
		release: entries.Release,

		collectors: []prometheus.Collector{logCollector{entries.Stats}},
	}, nil
}

// redisHost returns the part of a Redis URL that is no secret.
func redisHost(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

// catchUp files what the log holds of the products.
func (s *storage) catchUp(ctx context.Context, registry *products.Registry) error {
	if err := registry.Load(ctx); err != nil && !errors.Is(err, products.ErrUnreadable) {
		return err
	}
	for _, id := range registry.IDs() {
		if _, err := stream.Replay(ctx, s.log, id, s.filing); err != nil {
			return fmt.Errorf("product %s: %w", id, err)
		}
	}
	return nil
}

// serve does the storage's own work until ctx ends.
func (s *storage) serve(ctx context.Context, registry *products.Registry, log *slog.Logger) error {
	group, ctx := errgroup.WithContext(ctx)
	if s.run != nil {
		group.Go(func() error { return s.run(ctx) })
	}
	group.Go(func() error {
		registry.Run(ctx, func(err error) { log.Warn("registrations cannot be read", "err", err) })
		return nil
	})
	err := group.Wait()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
