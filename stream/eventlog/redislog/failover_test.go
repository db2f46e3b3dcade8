package redislog_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/redistest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/eventlogtest"
	"github.com/liveactivity/liveactivity/stream/eventlog/redislog"
)

// promoted returns a replica of a master that was promoted while it lacked the
// last writes: lose makes those.
func promoted(t *testing.T, before, lose func(master *redistest.Server)) *redistest.Server {
	t.Helper()
	master := redistest.Start(t)
	before(master)
	replica := redistest.StartReplica(t, master)
	client := replica.Client()
	require.Equal(t, int64(1), master.Client().Do(t.Context(), "wait", 1, 10_000).Val())
	require.NoError(t, client.ReplicaOf(t.Context(), "no", "one").Err())
	lose(master)
	master.Kill()
	return replica
}

// A reader that resumes on a promoted replica gets nothing again and goes on;
// one that has not seen what was lost gets a gap.
func TestFailover_readersGoOnAndHearOfWhatIsLost(t *testing.T) {
	t.Parallel()
	options := &redislog.Options{Prefix: "la"}
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
	events := resume(t, log, lost)
	resumed := follow(t, log, lost)
	waittest.Until(t, "the clock has passed what was lost", func() bool { return newest(t, log).Compare(lost) >= 0 })
	next := appendOne(t, log, eventlogtest.Entry("s", 2))
	require.Positive(t, next.ID.Compare(lost))
	require.Equal(t, next.ID, resumed.has(t, 1)[0].ID)
	require.Zero(t, resumed.gaps)
	require.Equal(t, "id: "+next.ID.String(), events(), "and no gap before")

	for _, from := range []eventlog.ID{start, seen} {
		behind := follow(t, log, from)
		want := map[eventlog.ID]int{start: 2, seen: 1}[from]
		got := behind.has(t, want)
		require.Equal(t, next.ID, got[want-1].ID)
		behind.stop()
		require.Equal(t, 1, behind.gaps)
	}
}

// What is lost is a gap for readers of the server that appends next, too, if it has
// heard of what is lost; those who have read it go on.
func TestFailover_isAGapForReadersOfTheServerThatGoesOn(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for name, want := range map[string]int{"heard of": 1, "read": 0} {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t, server.URL(), nil)
			cursor := appendOne(t, a, eventlogtest.Entry("s", 0)).ID
			client, kept := server.Client(), map[string]string{}
			for _, key := range client.Keys(t.Context(), t.Name()+"*").Val() {
				kept[key] = client.Dump(t.Context(), key).Val()
			}
			lost := appendOne(t, b, eventlogtest.Entry("s", 1)).ID
			require.Equal(t, lost, newest(t, a))
			if want == 0 {
				cursor = readTo(t, a, cursor, lost)
			}
			for key, value := range kept {
				require.NoError(t, client.RestoreReplace(t.Context(), key, 0, value).Err())
			}
			next := appendOne(t, a, eventlogtest.Entry("s", 2))
			r := follow(t, a, cursor)
			require.Equal(t, next.ID, r.has(t, 1)[0].ID)
			r.stop()
			require.Equal(t, want, r.gaps)
		})
	}
}

// resume follows the log over HTTP after an ID, and returns a function that
// returns the first line of the stream that is no comment, heartbeat or retry.
func resume(t *testing.T, log *redislog.Log, after eventlog.ID) func() string {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("GET /stream/{product_id}", musttest.New(eventlog.NewHandler(log, nil)))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/stream/"+product, nil)
	require.NoError(t, err)
	request.Header.Set("Last-Event-ID", after.String())
	response, err := server.Client().Do(request)
	require.NoError(t, err)
	t.Cleanup(func() { _ = response.Body.Close() })
	return func() string {
		for lines := bufio.NewScanner(response.Body); lines.Scan(); {
			if line := lines.Text(); strings.HasPrefix(line, "id:") || line == "event: gap" {
				return line
			}
		}
		return ""
	}
}

// A cursor that is of no time there was changes nothing.
func TestFailover_isNotClaimedByACursorOfTheFuture(t *testing.T) {
	t.Parallel()
	log := open(t, redistest.Start(t).URL(), nil)
	first := appendOne(t, log, eventlogtest.Entry("s", 0)).ID
	n, err := log.Read(t.Context(), product, eventlog.ID{Milli: 1 << 52}, make([]eventlog.Entry, 1))
	require.NoError(t, err)
	require.Zero(t, n)
	require.Equal(t, first, newest(t, log))
}

// Versions that are lost are not given again, even while they are ahead of the
// time.
func TestFailover_givesNoVersionAgain(t *testing.T) {
	t.Parallel()
	options := &redislog.Options{Prefix: "la"}
	write := func(server *redistest.Server, n int) (last document.Version) {
		log := open(t, server.URL(), options)
		for i := range n {
			doc := document.Document{Name: fmt.Sprint("doc", time.Now().UnixNano(), i)}
			version, err := log.Documents().Write(t.Context(), product, document.Put(doc, nil, 0))
			require.NoError(t, err)
			last = max(last, version)
		}
		return last
	}
	for name, ahead := range map[string]time.Duration{"of the time": 0, "ahead of it": time.Hour} {
		t.Run(name, func(t *testing.T) {
			var lost document.Version
			replica := promoted(t, func(master *redistest.Server) {
				version := time.Now().Add(ahead).UnixMicro()
				require.NoError(t, master.Client().HSet(t.Context(), "la:{p:acme}:meta", "version", version).Err())
				write(master, 3)
			}, func(master *redistest.Server) { lost = write(master, 20) })
			require.Greater(t, write(replica, 1), lost)
		})
	}
}

// fakeRedis answers every command as a Redis of that version.
func fakeRedis(t *testing.T, version string) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	info := "# Server\r\nredis_version:" + version + "\r\nredis_mode:standalone\r\n"
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				lines := bufio.NewScanner(conn)
				for lines.Scan() {
					switch line := strings.ToLower(lines.Text()); line {
					case "info":
						fmt.Fprintf(conn, "$%d\r\n%s\r\n", len(info), info)
					case "hello":
						fmt.Fprint(conn, "-ERR unknown command\r\n")
					case "cluster":
						fmt.Fprint(conn, "-ERR This instance has cluster support disabled\r\n")
					case "time":
						fmt.Fprintf(conn, "*2\r\n$10\r\n%d\r\n$1\r\n0\r\n", time.Now().Unix())
					case "set":
						fmt.Fprint(conn, "+OK\r\n")
					}
				}
			}()
		}
	}()
	return listener.Addr().String()
}

func TestOpen_ofARedisThatIsTooOld(t *testing.T) {
	for version, ok := range map[string]bool{
		"5.0.14": false, "6.0.16": false, "6.2.0": true, "7.0.15": true, "7.2.4": true, "10.1.0": true,
	} {
		t.Run(version, func(t *testing.T) {
			log, err := redislog.Open("redis://"+fakeRedis(t, version), nil)
			require.NoError(t, err)
			defer log.Release()
			err = log.Ping(t.Context())
			if ok {
				require.NoError(t, err)
				return
			}
			var old *redislog.VersionError
			require.ErrorAs(t, err, &old)
			require.Equal(t, version, old.Version)
			require.ErrorContains(t, err, "6.2")
		})
	}
}
