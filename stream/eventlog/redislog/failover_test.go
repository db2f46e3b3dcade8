package redislog

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/redistest"
	"github.com/liveactivity/liveactivity/internal/ssetest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/eventlogtest"
)

// promoted returns a replica that was promoted while it lacked its master's last writes, which lose makes.
func promoted(t *testing.T, before, lose func(master *redistest.Server)) *redistest.Server {
	t.Helper()
	master := redistest.Start(t)
	before(master)
	host, port, _ := net.SplitHostPort(master.Addr)
	// After it has synchronized, a child process of the replica would rewrite an append-only file.
	replica := redistest.Start(t, "--replicaof", host+" "+port, "--repl-diskless-sync-delay", "0", "--appendonly", "no")
	client := replica.Client()
	waittest.Until(t, "the replica follows", func() bool {
		return strings.Contains(client.Info(t.Context(), "replication").Val(), "master_link_status:up")
	})
	require.Equal(t, int64(1), master.Client().Do(t.Context(), "wait", 1, 10_000).Val())
	require.NoError(t, client.ReplicaOf(t.Context(), "no", "one").Err())
	lose(master)
	master.Kill()
	return replica
}

// A program that resumes on a promoted replica gets nothing again and goes on; so do clients of the
// stream then. A program that has not seen the lost entries gets a gap.
func TestFailover_readersGoOnAfterAGap(t *testing.T) {
	t.Parallel()
	options := &Options{Prefix: "la"}
	var start, seen, lost eventlog.ID
	replica := promoted(t, func(master *redistest.Server) {
		log := open(t, master.URL(), options)
		start = newest(t, log)
		seen = appendOne(t, log, eventlogtest.Entry("s", 0)).ID
	}, func(master *redistest.Server) {
		lost = appendOne(t, open(t, master.URL(), options), eventlogtest.Entry("s", 1)).ID
	})
	log := open(t, replica.URL(), options)
	require.Equal(t, seen, newest(t, log))
	resumed := follow(t, log, lost)
	waittest.Until(t, "the clock has passed what was lost", func() bool { return newest(t, log).Compare(lost) >= 0 })
	events := resume(t, log, lost)
	next := appendOne(t, log, eventlogtest.Entry("s", 2))
	require.Positive(t, next.ID.Compare(lost))
	require.Equal(t, next.ID, resumed.has(t, 1)[0].ID)
	require.Zero(t, resumed.gaps)
	require.Equal(t, next.ID.String(), events().ID, "and no gap before")

	for _, from := range []eventlog.ID{start, seen} {
		behind := follow(t, log, from)
		want := map[eventlog.ID]int{start: 2, seen: 1}[from]
		got := behind.has(t, want)
		require.Equal(t, next.ID, got[want-1].ID)
		_ = behind.stop()
		require.Equal(t, 1, behind.gaps)
	}
}

// Lost entries are a gap for every reader that has not read them, also at a server that has them in
// memory. It does not matter which server goes on: this one, one that has heard of them, or one
// that has not. A reader that has read them goes on.
func TestFailover_isAGapForReadersOfAServerThatWasUp(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"this", "another", "a new one", "nobody", "nobody, and nobody reads"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			a, b := pair(t, server.URL(), nil)
			start := newest(t, a)
			kept := appendOne(t, a, eventlogtest.Entry("s", 0))
			connected := follow(t, a, start)
			connected.has(t, 1)
			lose := server.Snapshot()
			lost := appendOne(t, a, eventlogtest.Entry("s", 1))
			connected.has(t, 2)
			require.Equal(t, lost.ID, newest(t, b))
			c := open(t, server.URL(), &Options{Prefix: t.Name()})
			if name == "nobody, and nobody reads" {
				_ = connected.stop()
			}
			lose()
			next, want := lost.ID, []eventlog.ID{kept.ID}
			switch by := map[string]*Log{"this": a, "another": b, "a new one": c}[name]; {
			case by != nil:
				next = appendOne(t, by, eventlogtest.Entry("s", 1)).ID // again, as its source does
				require.Positive(t, next.Compare(lost.ID))
				want = append(want, next)
				require.Equal(t, next, connected.has(t, 3)[2].ID)
				_, err := a.Read(t.Context(), acme, kept.ID, make([]eventlog.Entry, 1))
				require.ErrorAs(t, err, new(*eventlog.GapError), "it is no longer in memory")
			case name == "nobody":
				waittest.Until(t, "Redis learns of it", func() bool { return newest(t, c) == lost.ID })
			}
			require.Zero(t, connected.told())
			for _, log := range []*Log{a, b, c} {
				require.Equal(t, eventlog.Bounds{TrimmedTo: start, Oldest: kept.ID, Newest: next, Lost: lost.ID},
					eventlogtest.Bounds(t, log, acme))
				r := follow(t, log, start)
				waittest.Until(t, "the gap is told", func() bool { return r.told() > 0 })
				require.Equal(t, want, eventlogtest.IDs(r.has(t, len(want))))
				require.Equal(t, 1, r.told())
			}
			require.Equal(t, next, newest(t, a))
			require.Equal(t, next != lost.ID, a.tailBytes() > 0, "the rest is in memory")
		})
	}
}

// A reader that resumes over several failovers is told of each one in which it has missed entries, at every server.
func TestFailover_twiceIsTwoGaps(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a, b := pair(t, server.URL(), nil)
	start := newest(t, a)
	var kept, lost []eventlog.ID
	r := follow(t, a, start)
	for n := range 2 {
		kept = append(kept, appendOne(t, a, eventlogtest.Entry("kept", n)).ID)
		lose := server.Snapshot()
		lost = append(lost, appendOne(t, a, eventlogtest.Entry("lost", n)).ID)
		r.has(t, 2*n+2)
		lose()
	}
	kept = append(kept, appendOne(t, b, eventlogtest.Entry("kept", 2)).ID)
	r.has(t, 5)
	require.Zero(t, r.told())
	for _, log := range []*Log{a, b, open(t, server.URL(), &Options{Prefix: t.Name()})} {
		require.Equal(t, kept[2], newest(t, log))
		for from, gaps := range map[eventlog.ID]int{start: 2, kept[0]: 2, lost[0]: 1, kept[1]: 1, lost[1]: 0} {
			r := follow(t, log, from)
			r.gets(t, kept[2])
			want := slices.DeleteFunc(slices.Clone(kept), func(id eventlog.ID) bool { return id.Compare(from) <= 0 })
			require.Equal(t, want, eventlogtest.IDs(r.read()))
			require.Equal(t, gaps, r.told())
		}
	}
}

// Redis remembers the newest 16 gaps in order, and no gaps in the part that the log has trimmed.
func TestFailover_isRememberedWithinBounds(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var full strings.Builder
	for n := range 16 {
		fmt.Fprintf(&full, " 2-%d 2-%d", 2*n, 2*n+1)
	}
	all := full.String()[1:]
	for name, test := range map[string]struct{ list, floor, from, to, want string }{
		"the first":              {"", "1-0", "2-0", "3-0", "2-0 3-0"},
		"a later one":            {"2-0 3-0", "1-0", "10-0", "11-0", "2-0 3-0 10-0 11-0"},
		"an earlier one":         {"9-0 10-0", "1-0", "2-0", "3-0", "2-0 3-0 9-0 10-0"},
		"one that goes on":       {"2-0 3-0 4-0 5-0", "1-0", "5-0", "5-7", "2-0 3-0 4-0 5-7"},
		"one around another":     {"2-0 3-0 5-0 6-0", "1-0", "4-9", "7-0", "2-0 3-0 4-9 7-0"},
		"one that is known":      {"2-0 3-0", "1-0", "2-0", "2-5", "2-0 3-0"},
		"the end of one":         {"2-0 3-0", "1-0", "2-0", "3-0", "2-0 3-0"},
		"up to the next one":     {"2-0 3-0", "1-0", "1-5", "2-0", "1-5 2-0 2-0 3-0"},
		"one from within one":    {"2-0 4-0", "1-0", "3-0", "5-0", "2-0 4-0 3-0 5-0"},
		"a longer one":           {"2-0 3-0", "1-0", "2-0", "4-0", "2-0 4-0"},
		"after others are gone":  {"2-0 3-0 4-0 5-0", "3-0", "6-0", "7-0", "4-0 5-0 6-0 7-0"},
		"after one is half gone": {"2-0 3-0", "2-5", "6-0", "7-0", "2-0 3-0 6-0 7-0"},
		"after too many":         {all, "1-0", "3-0", "4-0", all[len("2-0 2-1 "):] + " 3-0 4-0"},
	} {
		got, err := server.Client().Eval(t.Context(), lostLua+"return lose(unpack(ARGV))", nil,
			test.list, test.floor, test.from, test.to).Result()
		require.NoError(t, err)
		require.Equal(t, test.want, got, name)
	}
	log, other := pair(t, server.URL(), nil)
	start := appendOne(t, log, eventlogtest.Entry("s", 0)).ID
	lost := func() bool { return server.Client().HExists(t.Context(), t.Name()+":{p:acme}:meta", "gaps").Val() }
	require.Equal(t, start, readTo(t, other, start.Previous(), start))
	require.False(t, lost())
	readsNothing(t, log, acme, eventlog.ID{Milli: start.Milli + 1})
	require.True(t, lost())
	require.Greater(t, newest(t, other).Compare(start), 0)
	require.Positive(t, other.tailBytes(), "it has lost nothing")
	require.NoError(t, log.Drop(t.Context(), acme, 0))
	require.False(t, lost())
}

// An entry that has expired is not lost.
func TestFailover_isNotSeenInExpiry(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	log := open(t, server.URL(), &Options{Prefix: "la", Retention: eventlog.Retention{TTL: 100 * time.Millisecond}})
	last := appendOne(t, log, eventlogtest.Entry("s", 0)).ID
	time.Sleep(time.Until(last.Time().Add(200 * time.Millisecond)))
	require.NoError(t, server.Client().Del(t.Context(), "la:{p:acme}:log").Err())
	require.Equal(t, eventlog.Bounds{TrimmedTo: last, Newest: last}, eventlogtest.Bounds(t, log, acme))
}

// resume follows the log over HTTP after an ID. It returns a function that returns the stream's
// first event other than a heartbeat.
func resume(t *testing.T, log *Log, after eventlog.ID) func() ssetest.Frame {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("GET /stream/{product_id}", musttest.New(eventlog.NewHandler(log, nil)))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/stream/"+acme, nil)
	require.NoError(t, err)
	request.Header.Set("Last-Event-ID", after.String())
	response, err := server.Client().Do(request)
	require.NoError(t, err)
	t.Cleanup(func() { _ = response.Body.Close() })
	return func() ssetest.Frame {
		for events := ssetest.NewReader(response.Body); ; {
			if f, err := events.Next(); err != nil || f.Event != "heartbeat" {
				return f
			}
		}
	}
}

// A client of the stream that names an unknown ID, such as another product's, gets a gap, and
// nothing changes for anybody else.
func TestFailover_isNotClaimedByAClientOfTheStream(t *testing.T) {
	t.Parallel()
	log := open(t, redistest.Start(t).URL(), nil)
	start := newest(t, log)
	e := appendOne(t, log, eventlogtest.Entry("s", 0)).ID
	connected := follow(t, log, start)
	connected.has(t, 1)
	for _, ahead := range []eventlog.ID{{Milli: e.Milli, Seq: e.Seq + 1}, {Milli: e.Milli + 1},
		{Milli: e.Milli + 30_000}} {
		require.Equal(t, "gap", resume(t, log, ahead)().Event, ahead)
	}
	readsNothing(t, log, acme, eventlog.ID{Milli: 1 << 52}) // nor by a cursor of the far future
	require.Equal(t, e, newest(t, log))
	next := appendOne(t, log, eventlogtest.Entry("s", 1)).ID
	require.Less(t, next.Milli, e.Milli+30_000, "IDs go by the clock")
	require.Equal(t, next, connected.has(t, 2)[1].ID)
	require.Zero(t, connected.told())
	later := follow(t, log, start)
	later.has(t, 2)
	require.Zero(t, later.told())
}

// Lost versions are not given again, even while they are ahead of the time.
func TestFailover_givesNoVersionAgain(t *testing.T) {
	t.Parallel()
	options := &Options{Prefix: "la"}
	writes := func(server *redistest.Server, n int) (last document.Version) {
		log := open(t, server.URL(), options)
		for i := range n {
			doc := document.Document{Name: fmt.Sprint("doc", time.Now().UnixNano(), i)}
			last = max(last, write(t, log, document.Put(doc, nil, 0)))
		}
		return last
	}
	for name, ahead := range map[string]time.Duration{"of the time": 0, "ahead of it": time.Hour} {
		t.Run(name, func(t *testing.T) {
			var lost document.Version
			replica := promoted(t, func(master *redistest.Server) {
				version := time.Now().Add(ahead).UnixMicro()
				require.NoError(t, master.Client().HSet(t.Context(), "la:{p:acme}:meta", "version", version).Err())
				writes(master, 3)
			}, func(master *redistest.Server) { lost = writes(master, 20) })
			require.Greater(t, writes(replica, 1), lost)
		})
	}
}

// fakeRedis answers every command as a Redis of that version. It counts the commits, and ends the
// connection that one comes on.
func fakeRedis(t *testing.T, version string) (addr string, commits *atomic.Int64) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	commits = new(atomic.Int64)
	info := "# Server\r\nredis_version:" + version + "\r\nredis_mode:standalone\r\n"
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					command := strings.ToLower(lines.Text())
					if command == "evalsha" {
						commits.Add(1)
						return
					}
					fmt.Fprint(conn, map[string]string{
						"info":    fmt.Sprintf("$%d\r\n%s\r\n", len(info), info),
						"hello":   "-ERR unknown command\r\n",
						"cluster": "-ERR This instance has cluster support disabled\r\n",
						"time":    fmt.Sprintf("*2\r\n$10\r\n%d\r\n$1\r\n0\r\n", time.Now().Unix()),
						"get":     "$-1\r\n",
						"setnx":   ":1\r\n",
						"set":     "+OK\r\n",
					}[command])
				}
			}()
		}
	}()
	return listener.Addr().String(), commits
}

// A commit may have happened although its answer is lost.
func TestAppend_isSentOnceThoughTheConnectionBreaks(t *testing.T) {
	addr, commits := fakeRedis(t, "7.2.4")
	log := opened(t, "redis://"+addr, nil)
	require.Error(t, log.Append(t.Context(), acme, eventlogtest.Entries("s", 1)))
	require.EqualValues(t, 1, commits.Load())
}

func TestOpen_ofDataOfANewerFormat(t *testing.T) {
	server := redistest.Start(t)
	ping := func() error { return opened(t, server.URL(), &Options{Prefix: "la"}).Ping(t.Context()) }
	require.NoError(t, ping())
	require.NoError(t, ping(), "it is its own")
	newer := int(server.Client().Incr(t.Context(), "la:format").Val())
	var refused *FormatError
	require.ErrorAs(t, ping(), &refused)
	require.Equal(t, FormatError{Prefix: "la", Format: newer}, *refused)
}

func TestOpen_ofARedisThatIsTooOld(t *testing.T) {
	for version, ok := range map[string]bool{
		"5.0.14": false, "6.0.16": false, "6.2.0": true, "7.0.15": true, "7.2.4": true, "10.1.0": true,
	} {
		t.Run(version, func(t *testing.T) {
			addr, _ := fakeRedis(t, version)
			err := opened(t, "redis://"+addr, nil).Ping(t.Context())
			require.Equal(t, ok, err == nil, "%v", err)
			if !ok {
				var old *VersionError
				require.ErrorAs(t, err, &old)
				require.Equal(t, version, old.Version)
				require.ErrorContains(t, err, "6.2")
			}
		})
	}
}
