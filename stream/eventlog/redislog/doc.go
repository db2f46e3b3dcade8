// Package redislog is an engine in Redis, so that any number of servers are one
// service: a [eventlog.Log] with its documents and the activity of users.
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
// Redis, Redis Cluster and Valkey will do, from version 6.2 of Redis on, each
// named by a URL:
//
//	redis://user:password@host:6379/0             a single server and database
//	rediss://user:password@host:6379              over TLS
//	redis://a:6379?addr=b:6379&addr=c:6379        a cluster, by some of its nodes
//
// The parameters of the Go client, such as pool_size or read_timeout, are
// understood, too. With TLS, every node's certificate must be valid for the
// host that the URL begins with. Nothing connects before it must, and Redis may
// go and come back: meanwhile every call returns an error within a few seconds,
// or when its context ends, and then all of them work again. A failure to connect
// is logged with its address, at most once a minute. Where Redis is older than
// 6.2 every call returns a [VersionError], and where a newer program has written
// the data, a [FormatError]: the key "format" under the prefix says which format they
// have.
//
// # Durability
//
// An append, with its documents and its actions, is one script: Redis carries
// out all of it or nothing, in an order that all servers see. When Append
// returns nil, it is as safe as Redis makes any write. With
//
//	appendonly yes
//	appendfsync always
//
// it is on disk. With "appendfsync everysec" a crash of Redis or of the machine
// may lose the last second or two, since Redis answers before it has written
// while its disk is slow; without an append-only file it loses everything since
// the last snapshot. Redis must not evict keys (maxmemory-policy noeviction): a
// product whose keys are gone begins anew.
//
// After a second kill, Redis may carry out the beginning of a commit that a
// kill cut short in its file. Such a commit is taken back, so it
// has no effect, and the client's next attempt is not a duplicate.
//
// Replication is asynchronous, so a failover may lose entries that the old master
// had acknowledged. IDs and versions grow all the same: the newest ID that a server
// knows raises the next one. Redis remembers between which IDs it has
// lost entries, of the newest 16 failovers: it is told as soon as a server that knew
// of them appends or reads, or a reader that waits there looks again, which
// it does within seconds after a connection was lost. An ID that only a client of a
// stream names is no evidence: it gets a gap and everything retained. A reader that has not
// seen them then gets a gap for each failover, at every server. A server that was up
// forgets the lost entries that it has in memory; a reader that has seen them goes
// on without a gap. Lookups and documents come from Redis, and views in the memory
// of a server begin anew where [eventlog.Bounds] says that entries are lost, as
// registrations and live sessions do; so all servers agree. Entries of which no
// server that is left has heard are lost without a gap. Retention goes by the clock
// of Redis, even where IDs come from a clock that was ahead.
//
// A call that fails because Redis could not be reached may have had its effect.
// It is never retried automatically; a caller that retries it with the same
// keys gets a DuplicateError.
//
// Readers that keep up are served from the memory of their server. A message of
// Redis announces the entries of other servers; after an interruption the server
// asks for them. A message may be lost even so, between the nodes of a cluster:
// a product with readers is therefore asked about after it was quiet for one
// second, for two, four and so on up to ten minutes. Without a subscription the
// server asks every second. A product at rest costs Redis nothing else.
//
// While Redis Cluster moves a slot from node to node, calls that concern the
// slot's products fail, without any effect.
//
// # Bounds
//
// Retention.MaxBytes bounds the log of a product, StateMaxBytes its documents
// and its activity, half of it each, in bytes of Redis' memory. The least recently
// written go first, roughly. A commit that exceeds a bound removes at least as many
// bytes as it adds. Run removes expired data in steps that keep Redis busy for
// about a millisecond each, and adds up the sizes of the rest again: until then
// expired data count.
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
//	liveactivity:{p:acme}:torn         hash    version of the last commit: how to take it back, were it torn
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
// Only meta, and documents without a time to live and their names, stay when
// nothing happens; the rest expires within 9/8 of the retention. The channel
// liveactivity:changed announces each append.
//
// Users of Redis with restricted rights need the keys liveactivity:*, the
// channel liveactivity:changed, and the commands of the categories @read,
// @write, @scripting, @pubsub and @connection, time, info, and cluster|slots for
// a cluster.
package redislog
