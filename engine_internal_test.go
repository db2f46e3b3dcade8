package liveactivity

import (
	"github.com/liveactivity/liveactivity/stream/eventlog/boltlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
	"github.com/liveactivity/liveactivity/stream/eventlog/redislog"
)

// What the service finds in each engine by a type assertion.
var (
	_ interface {
		expirer
		counter
	} = (*memorylog.Log)(nil)
	_ interface {
		pinger
		expirer
		counter
	} = (*boltlog.Log)(nil)
	_ interface {
		runner
		pinger
		expirer
		counter
		filer
	} = (*redislog.Log)(nil)
)
