package redislog

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/internal/redistest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/eventlogtest"
)

// A product with much to commit leaves Redis to others now and then; a product with little to
// commit waits for nothing.
func TestCommit_leavesRedisToOthersAfterALargeOne(t *testing.T) {
	log := opened(t, "redis://localhost", nil)
	for _, c := range []struct {
		name string
		work int
		want time.Duration
	}{
		{"small", maxCommitWork, 0},
		{"large", maxCommitWork + 1, 2 * othersTurn},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				commits := make([]*commit, 3)
				for i := range commits {
					commits[i] = &commit{work: c.work, args: []any{""}}
				}
				p, began := log.product(c.name), time.Now()
				p.failedAt, p.failure = began, assert.AnError // which fails them, too: they need no Redis
				p.commitAll(commits[:1])
				p.commitAll(commits[1:])
				require.Equal(t, c.want, time.Since(began))
				time.Sleep(othersTurn)
				began = time.Now()
				p.commitAll(commits[:1])
				require.Zero(t, time.Since(began), "what comes later is not delayed")
			})
		})
	}
}

// A shared commit keeps Redis from others for a bounded time.
func TestCommit_sharesABoundedAmountOfWork(t *testing.T) {
	var commits []*commit
	for i := range 64 {
		c := &commit{}
		c.addDocuments(make([]document.Change, 200))
		if i == 5 {
			c.addDocuments(make([]document.Change, 2800)) // for itself
		}
		commits = append(commits, c)
	}
	for len(commits) > 0 {
		n, work := together(commits), 0
		for _, c := range commits[:n] {
			work += c.work
		}
		if work > maxCommitWork {
			require.Equal(t, 3000, work)
		}
		commits = commits[n:]
	}
	require.Equal(t, 64, together(slices.Repeat([]*commit{{}}, 64)))
}

// An announcement during a commit is heard at the end of the commit. It is not heard again at the
// end of the next one if Redis has lost it.
func TestAnnounce_isHeardOnceAfterTheCommit(t *testing.T) {
	log := opened(t, "redis://localhost", nil)
	p, id := log.product("acme"), eventlog.ID{Milli: 1}
	p.setCommitting(true)
	p.announce(id, eventlog.ID{})
	require.Zero(t, p.known)
	changed := log.Changed("acme")
	p.setCommitting(false)
	require.Equal(t, id, p.known)
	<-changed
	p.known = eventlog.ID{} // a reader has asked
	p.setCommitting(true)
	p.setCommitting(false)
	require.Zero(t, p.known)
}

// The latency of the answer is not a difference of clocks.
func TestAhead_isTheLeastDifferenceThereCanBe(t *testing.T) {
	before := time.Now()
	after := before.Add(time.Second)
	for there, want := range map[time.Duration]time.Duration{
		-time.Hour: time.Hour, -1: 1, 0: 0, time.Second / 2: 0, time.Second: 0, time.Second + 1: -1,
		time.Hour: time.Second - time.Hour,
	} {
		assert.Equal(t, want, ahead(before, after, before.Add(there)), there)
	}
}

// A commit has no effect if Redis was killed in the middle of writing it: the client's next attempt is there once. It
// does not matter where the append-only file ends, which server goes on, and how often Redis is killed then.
func TestKilledRedis_keepsNoPartOfACommit(t *testing.T) {
	t.Parallel()
	for _, again := range []string{"at once", "after the second kill"} {
		t.Run(again, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			torn := 0
			for testTorn(t, server, torn, again == "at once") {
				torn++
			}
			require.Greater(t, torn, 10)
		})
	}
}

// Redis keeps a deleted document for a while, so that the deletion can be taken back. The document
// goes with the next commit or the product, and nothing else goes with it.
func TestDelete_leavesNothingAfterTheNextCommit(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	log := opened(t, server.URL(), &Options{Prefix: "la"})
	doc, other := document.Document{Name: "doc"}, document.Document{Name: "other"}
	stored := func() int64 { return server.Client().Exists(t.Context(), "la:{p:acme}:doc:doc").Val() }
	for _, next := range []func(){
		func() { write(t, log, document.Put(other, nil, time.Hour)) },
		func() { require.NoError(t, log.Drop(t.Context(), acme, 0)) },
	} {
		gone := doc
		gone.Version = write(t, log, document.Put(doc, nil, 0))
		write(t, log, document.Delete(gone))
		require.Positive(t, server.Client().PTTL(t.Context(), "la:{p:acme}:doc:doc").Val())
		next()
		require.Zero(t, stored())
	}
	doc.Version = write(t, log, document.Put(doc, nil, 0))
	write(t, log, document.Delete(doc))
	write(t, log, document.Put(document.Document{Name: "doc"}, nil, 0))
	write(t, log, document.Check(other))
	require.Equal(t, int64(1), stored())
}

// testTorn appends an entry and a document of a session of its own, and cuts the server's record of
// them off in the middle of command i. It returns false if there are fewer commands.
func testTorn(t *testing.T, server *redistest.Server, i int, atOnce bool) bool {
	t.Helper()
	session := fmt.Sprint("torn", i)
	e, doc := entry(session, session), document.Document{Name: session}
	gone, fresh := document.Document{Name: "gone" + session}, document.Document{Name: "new" + session}
	version := write(t, opened(t, server.URL(), &Options{Prefix: "la"}),
		document.Put(doc, []byte("before"), 2*time.Hour), document.Put(gone, []byte("before"), 0))
	doc.Version, gone.Version = version, version
	appendDoc := func(log *Log) error {
		return log.Append(t.Context(), acme, []eventlog.Entry{e}, document.Put(doc, []byte("after"), time.Hour),
			document.Delete(gone), document.Put(fresh, nil, 0))
	}
	file := appendOnlyFile(t, server)
	written, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, appendDoc(opened(t, server.URL(), &Options{Prefix: "la"})))
	server.Kill()
	if !tear(t, file, len(written), i) {
		server.Restart()
		return false
	}
	server.Restart()
	log := opened(t, server.URL(), &Options{Prefix: "la"})
	if atOnce {
		eventually(t, func() error { return appendDoc(log) })
	}
	other := []eventlog.Entry{entry(fmt.Sprint("other", i), "somebody")}
	eventually(t, func() error { return log.Append(t.Context(), acme, other) })
	server.Kill()
	server.Restart()
	if !atOnce {
		requireSession(t, server, session, 0, "before")
		eventually(t, func() error { return appendDoc(log) })
	}
	requireSession(t, server, session, 1, "after")
	require.ErrorAs(t, log.Append(t.Context(), acme, []eventlog.Entry{e}), new(*eventlog.DuplicateError))
	return true
}

func appendOnlyFile(t *testing.T, server *redistest.Server) string {
	t.Helper()
	dir := server.Client().ConfigGet(t.Context(), "dir").Val()["dir"]
	files, err := filepath.Glob(filepath.Join(dir, "appendonly*", "*.incr.aof")) // from Redis 7 on
	require.NoError(t, err)
	if len(files) == 0 {
		return filepath.Join(dir, "appendonly.aof")
	}
	require.Len(t, files, 1)
	return files[0]
}

// tear cuts off a file in the middle of its command i after a position, if there is one.
func tear(t *testing.T, file string, from, i int) bool {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	for ; i >= 0; i-- {
		next := bytes.Index(data[from+1:], []byte("\r\n*"))
		if next < 0 {
			return false
		}
		from += 1 + next + len("\r\n")
	}
	require.NoError(t, os.Truncate(file, int64(from+len("*1\r\n$"))))
	return true
}

// eventually calls until Redis answers.
func eventually(t *testing.T, call func() error) {
	t.Helper()
	waittest.Until(t, "Redis answers", func() bool {
		err := call()
		return err == nil || errors.As(err, new(*eventlog.DuplicateError))
	})
}

// requireSession requires that a new server shows so many entries and actions of a session, and its document.
func requireSession(t *testing.T, server *redistest.Server, session string, n int, value string) {
	t.Helper()
	log := opened(t, server.URL(), &Options{Prefix: "la"})
	require.Len(t, labels(t, log, session), n)
	entries := 0
	for _, e := range eventlogtest.Retained(t, log, acme) {
		if e.SessionID == session {
			entries++
		}
	}
	require.Equal(t, n, entries)
	docs, err := log.Documents().Get(t.Context(), acme, session, "gone"+session, "new"+session)
	require.NoError(t, err)
	require.Equal(t, value, string(docs[0].Value))
	client, key := server.Client(), "la:{p:acme}:doc:"
	left := client.PTTL(t.Context(), key+session).Val()
	require.Equal(t, n == 0, docs[1].Exists())
	require.Equal(t, n == 1, docs[2].Exists())
	require.Equal(t, n == 0, left > time.Hour, left)
	require.Len(t, listed(t, log, "gone"+session), 1-n)
	if n == 0 {
		require.Equal(t, "before", string(docs[1].Value))
		require.Equal(t, time.Duration(-1), client.PTTL(t.Context(), key+"gone"+session).Val())
		require.True(t, math.IsInf(client.ZScore(t.Context(), "la:{p:acme}:docs", "gone"+session).Val(), 1))
	}
}
