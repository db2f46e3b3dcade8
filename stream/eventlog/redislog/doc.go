// Package redislog is an engine in Redis, so that any number of servers act as one
// service: an [eventlog.Log] with its documents and the activity of users.
//
//	log, err := redislog.Open("redis://localhost:6379", nil)
//	if err != nil {
//		return err // the URL or the options cannot be right
//	}
//	defer log.Release()
//	go log.Run(ctx, nil) // hears of other servers' entries
//
//	recorder, err := eventlog.NewRecorder(log, nil)
//	lookup, err := recent.NewLookup(log.Activity(), 0)
//	handler, err := eventlog.NewHandler(log, nil)
//
// It supports Redis from version 6.2 on, Redis Cluster and Valkey, each named by a
// URL:
//
//	redis://user:password@host:6379/0             a single server and database
//	rediss://user:password@host:6379              over TLS
//	redis://a:6379?addr=b:6379&addr=c:6379        a cluster, by some of its nodes
//
// A URL may also have parameters of the Go client, such as pool_size or read_timeout.
// With TLS, every node's certificate must be valid for the host that the URL begins
// with. The log connects only when it must, and Redis may go away and come back: in
// the meantime every call returns an error within a few seconds, or when its context
// ends, and afterwards calls work again. A failure to connect is logged with its
// address, at most once a minute. If Redis is older than 6.2, every call returns a
// [VersionError]; if a newer program has written the data, a [FormatError]. The key
// "format" under the prefix has the format of the data.
//
// # Durability
//
// An append, with its documents and its actions, is one script: Redis executes all
// of it or nothing, in one order for all servers. When Append returns nil, it is as
// safe as Redis makes any write. With
//
//	appendonly yes
//	appendfsync always
//
// it is on disk. With "appendfsync everysec" a crash of Redis or of the machine
// may lose the last second or two, because Redis answers before a slow disk has
// written; without an append-only file it loses everything since the last snapshot.
// Redis must not evict keys (maxmemory-policy noeviction): a product whose keys are
// gone starts over. Another policy is logged as a warning.
//
// If a kill cuts a commit short in the file of Redis, a second kill may make Redis
// execute the beginning of that commit. Such a commit is rolled back, so it has no
// effect, and the client's next attempt is not a duplicate.
//
// After a failover the URL must lead to the new master. If Redis answers that it is a
// replica, the log connects again. It does not ask Sentinel.
//
// Replication is asynchronous, so a failover may lose entries that the old master
// had acknowledged. IDs and versions still grow: the next ones are greater than the newest
// that a server knows. Redis keeps the ranges of IDs that it lost in the newest 16
// failovers. It learns of a loss as soon as a server that knew the entries appends or
// reads, or a waiting reader of that server checks again, which happens within seconds
// after a connection was lost. An ID that only a client of a stream names is not evidence:
// that client gets a gap and everything retained. A reader that has not seen the lost
// entries gets a gap for each failover, at every server; a reader that has seen them
// continues without a gap. A server that stayed up drops the lost entries from its memory.
// Lookups and documents come from Redis, and views in a server's memory, such as
// registrations and live sessions, start over when [eventlog.Bounds] reports a loss; so all
// servers agree. Entries that no remaining server has heard of are lost without a gap.
// Retention goes by the clock of Redis, even for IDs from a clock that was ahead.
//
// A write that fails because Redis could not be reached may have had its effect. It
// is never retried automatically; if it had its effect, a caller that retries it
// with the same keys gets a DuplicateError.
//
// Readers that keep up are served from the memory of their server. A message of
// Redis announces the entries of other servers; after an interruption the server
// asks for them. Even so, a message may be lost between the nodes of a cluster. The
// server therefore asks about a product with readers after it was quiet for one
// second, for two, four and so on up to ten minutes. Without a subscription the
// server asks every second. An idle product costs Redis nothing else.
//
// While Redis Cluster moves a slot from node to node, calls for the slot's products
// fail without any effect.
//
// # Bounds
//
// Retention.MaxBytes bounds the log of a product. StateMaxBytes bounds its
// documents and its activity, each by half of it. Sizes are in bytes of the memory
// of Redis. Roughly the least recently written data go first. A commit that exceeds
// a bound removes at least as many bytes as it adds. Run removes expired data in
// steps that keep Redis busy for about a millisecond each, and adds up the sizes of
// the rest again. Until then expired data count.
//
// # Keys
//
// All keys of a product have the hash tag {p:ID}, in which %, { and } are
// percent-encoded, so that they are on one node of a cluster:
//
//	liveactivity:{p:acme}:meta         hash    newest ID, floor, version, sizes, ranges of IDs lost and more
//	liveactivity:{p:acme}:log          stream  entries: s session, d data, k keys of 16 bytes each; t time if ID is ahead
//	liveactivity:{p:acme}:seen         set     the keys of all entries of the log
//	liveactivity:{p:acme}:erased       stream  the "erase" entries of the log: d data
//	liveactivity:{p:acme}:torn         hash    version of the last commit: how to roll it back if it is torn
//	liveactivity:{p:acme}:doc:NAME     string  version, space, value of a document
//	liveactivity:{p:acme}:names        zset    names of the documents, for listing
//	liveactivity:{p:acme}:docs         zset    the same by the version of the last write, 2^52 later unless they yield,
//	                                           +inf without a time to live
//	liveactivity:{p:acme}:acts         zset    users and sessions by the version of the last write
//	liveactivity:{p:acme}:user:ID      zset    a user's sessions by the newest start
//	liveactivity:{p:acme}:held:s:ID    hash    key: order of arrival, start, user and JSON of a session's
//	                                           action, or an identity; size
//	liveactivity:{p:acme}:held:u:ID    hash    the same for a user's actions outside any session
//
// If nothing more is written, only meta, and documents without a time to live and
// their names, stay; the rest expires within 9/8 of the retention. The channel
// liveactivity:changed announces each append.
//
// Redis users with restricted permissions need the keys liveactivity:*, the channel
// liveactivity:changed, and the commands of the categories @read, @write,
// @scripting, @pubsub and @connection, time, info, and cluster|slots for a cluster.
package redislog
