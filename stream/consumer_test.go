package stream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/internal/leaktest"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream"
	"github.com/liveactivity/liveactivity/stream/streamtest"
)

// newStream returns a server that is closed when the test ends.
func newStream(t testing.TB, opts *streamtest.ServerOptions) *streamtest.Server {
	t.Helper()
	s := musttest.New(streamtest.NewServer(opts))
	t.Cleanup(s.Close)
	return s
}

func TestNewConsumer_reportsEveryMistake(t *testing.T) {
	handlers := new(notes).raw()
	erase := func(context.Context, stream.Erasure) error { return nil }
	deliver := func(context.Context, *stream.Delivery) error { return nil }
	const url, token = "https://live.example.com/stream/acme?session_id=1", "token"
	const badURL = "URL must be like https://live.example.com/stream/acme"
	const badPosition = "URL must not name a position: leave out since and last_event_id"
	const badToken = "token must be printable ASCII without spaces"
	tests := map[string]struct {
		url, token string
		handlers   stream.Handlers
		want       []string
	}{
		"nothing wrong":         {url, token, handlers, nil},
		"no token":              {"http://127.0.0.1:8080/stream/acme", "", handlers, []string{"token must not be empty"}},
		"no URL":                {"", token, handlers, []string{badURL}},
		"no scheme":             {"live.example.com/stream/acme", token, handlers, []string{badURL}},
		"another scheme":        {"ftp://live.example.com/stream/acme", token, handlers, []string{badURL}},
		"no host":               {"http:///stream/acme", token, handlers, []string{badURL}},
		"only a port":           {"http://:80/stream/acme", token, handlers, []string{badURL}},
		"a password in the URL": {"http://user:secret@live.example.com/", token, handlers, []string{badURL}},
		"a fragment":            {url + "#x", token, handlers, []string{badURL}},
		"no URL at all":         {"http://[::1", token, handlers, []string{badURL}},
		"a start in the URL":    {url + "&since=0", token, handlers, []string{badPosition}},
		"an id in the URL":      {url + "&last_event_id=0", token, handlers, []string{badPosition}},
		"a line in the token":   {url, "tok\nen", handlers, []string{badToken}},
		"a space in the token":  {url, "Bearer token", handlers, []string{badToken}},
		"a letter in the token": {url, "tökén", handlers, []string{badToken}},
		"no handler": {url, token, stream.Handlers{Gap: func(string, string) {}},
			[]string{"handlers must have Actions, Summary, Erase, Raw or Deliver"}},
		"erasures alone": {url, token, stream.Handlers{Erase: erase}, nil},
		"erasures beside deliveries": {url, token, stream.Handlers{Erase: erase, Deliver: deliver},
			[]string{"handlers must not have Deliver beside another handler of entries"}},
		"everything": {"x", " ", stream.Handlers{}, []string{badURL, badToken,
			"handlers must have Actions, Summary, Erase, Raw or Deliver"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c, err := stream.NewConsumer(test.url, test.token, test.handlers, nil)
			if test.want == nil {
				require.NoError(t, err)
				assert.False(t, c.Connected())
				return
			}
			require.EqualError(t, err, "stream: "+strings.Join(test.want, "\nstream: "))
			assert.Nil(t, c)
		})
	}
}

func TestConsumer_handsOverEveryEvent(t *testing.T) {
	s := newStream(t, nil)
	batches, summaries, raw := make(chan activity.Batch, 9), make(chan stream.Summary, 9), make(chan stream.Message, 9)
	c := startConsumer(t, s.URL(), stream.Handlers{
		Actions: func(_ context.Context, b activity.Batch) error { batches <- b; return nil },
		Summary: func(_ context.Context, sum stream.Summary) error { summaries <- sum; return nil },
		Raw:     func(_ context.Context, m stream.Message) error { raw <- m; return nil },
	}, quick())
	waittest.Until(t, "it is connected", c.Connected)

	sent := clicked("s1", "Export", "Grüße ☕")
	sent.Email, sent.ConversationID = "ada@example.com", "c1"
	ids := s.Send(sent)
	m := waittest.Receive(t, raw)
	assert.Equal(t, stream.Message{ID: ids[0], Type: "actions", SessionID: "s1", Data: m.Data}, m)
	got := waittest.Receive(t, batches)
	assert.Equal(t, "Export Grüße ☕", labels(got))
	assert.Equal(t, []any{"actions", "s1", "ada@example.com", "c1", 2},
		[]any{got.Type, got.SessionID, got.Email, got.ConversationID, got.Count})
	assert.Equal(t, "s1", got.Actions[1].SessionID)

	id := s.SendSummary(stream.Summary{SessionID: "s1", Text: "Exported.", Replaces: 2})
	m = waittest.Receive(t, raw)
	assert.Equal(t, stream.Message{ID: id, Type: "summary", SessionID: "s1", Data: m.Data}, m)
	sum := waittest.Receive(t, summaries)
	assert.Equal(t, "Exported.", sum.Text)
	assert.Equal(t, 2, sum.Replaces)

	id = s.SendRaw(`{"type":"more","n":1}`)
	assert.Equal(t, stream.Message{ID: id, Type: "more", Data: []byte(`{"type":"more","n":1}`)}, waittest.Receive(t, raw))
	c.stop(t)
	assert.False(t, c.Connected())
}

// Another request cannot change these three statuses. The context of a handler's call ends with the
// consumer, also when it ends by itself.
func TestConsumer_stopsWhenItIsRefused(t *testing.T) {
	tests := map[string]struct {
		status       int
		body, detail string
	}{
		"401":                   {401, `{"detail":"No.","more":1}`, "No."},
		"403":                   {403, `{"detail":"No."}`, "No."},
		"404":                   {404, `{"detail":"No."}`, "No."},
		"nothing":               {403, "", ""},
		"HTML":                  {403, "<html>", ""},
		"another type":          {403, `{"detail":5}`, ""},
		"lines":                 {403, `{"detail":"a\nb"}`, ""},
		"more than it may take": {403, `{"detail":"` + strings.Repeat("x", 5000) + `"}`, ""},
	}
	for name, test := range tests {
		inBubble(t, name, func(t *testing.T) {
			s := inTurn(sends(io.EOF, events(1, "a")), says(test.status, test.body))
			var cause error
			c := s.consume(t, stream.Handlers{Raw: func(ctx context.Context, _ stream.Message) error {
				<-ctx.Done()
				cause = ctx.Err()
				return cause
			}}, stream.ConsumerOptions{})
			<-c.ended
			assert.Equal(t, context.Canceled, cause)
			assert.Zero(t, c.counted(t, "pending"))
			assert.Equal(t, &stream.RefusedError{Status: test.status, Detail: test.detail}, c.err)
			assert.False(t, c.Connected())
			assert.Equal(t, 2, s.count())
		})
	}
	const text = "stream: the server refuses the stream: 403 Forbidden"
	require.EqualError(t, &stream.RefusedError{Status: 403}, text)
	require.EqualError(t, &stream.RefusedError{Status: 403, Detail: "No."}, text+": No.")
}

// Any other trouble may be over at the next request.
func TestConsumer_triesAgainAfterEverythingElse(t *testing.T) {
	tests := map[string]answer{
		"204":                   says(204, ""),
		"304":                   says(304, ""),
		"a redirect to itself":  says(307, "", "Location", fakeURL),
		"a redirect to nowhere": says(302, ""),
		"400":                   says(400, "nothing"),
		"429":                   says(429, "nothing"),
		"500":                   says(500, "nothing"),
		"503":                   says(503, "nothing", "Retry-After", "1"),
		"an answer of HTML":     says(200, "nothing", "Content-Type", "text/html; charset=utf-8"),
		"an answer of nothing":  says(200, "nothing"),
		"no connection":         down,
		"a stream that ends":    sends(io.EOF),
		"one that is cut":       sends(io.ErrUnexpectedEOF, chunk{text: "id: 1\nda"}),
		"one that is reset":     sends(errors.New("connection reset by peer"), chunk{text: "retry: 1000\n\n"}),
		"an endless event":      sends(nil, chunk{text: "data: " + strings.Repeat("x", 20<<20)}),
	}
	for name, trouble := range tests {
		inBubble(t, name, func(t *testing.T) {
			requests := 3
			if name == "a redirect to itself" {
				requests += 10
			}
			var n notes
			s := resuming("a").after(slices.Repeat([]answer{trouble}, requests)...)
			c := s.consume(t, n.raw(), stream.ConsumerOptions{})
			time.Sleep(2 * time.Minute)
			assert.Equal(t, []string{"a"}, n.all())
			assert.True(t, c.Connected())
			assert.Positive(t, c.counted(t, "interruptions_total"))
			if name == "an answer of HTML" {
				assert.Contains(t, c.log.String(), "its URL must be like https://live.example.com/stream/acme")
			}
		})
	}
}

func TestConsumer_honoursRetryAfter(t *testing.T) {
	tests := map[string]struct {
		status int
		after  string
		want   time.Duration // zero for the usual
	}{
		"seconds":                {503, "7", 7 * time.Second},
		"with any status":        {429, "120", 2 * time.Minute},
		"a date":                 {503, "in 42 s", 42 * time.Second},
		"more than it may be":    {503, "86400", 5 * time.Minute},
		"more than is a number":  {503, "99999999999999999999", 5 * time.Minute},
		"a date next year":       {503, "in 31536000 s", 5 * time.Minute},
		"a date that is over":    {503, "in -60 s", 0},
		"less than the back-off": {503, "0", 0},
		"a negative number":      {503, "-7", 0},
		"no number":              {503, "soon", 0},
		"nothing":                {503, "", 0},
	}
	for name, test := range tests {
		inBubble(t, name, func(t *testing.T) {
			var seconds int
			if _, err := fmt.Sscanf(test.after, "in %d s", &seconds); err == nil {
				test.after = time.Now().Add(time.Duration(seconds) * time.Second).UTC().Format(http.TimeFormat)
			}
			s := inTurn(says(test.status, "", "Retry-After", test.after), sends(nil))
			c := s.consume(t, new(notes).raw(), stream.ConsumerOptions{IdleTimeout: forever})
			time.Sleep(6 * time.Minute)
			require.True(t, c.Connected())
			if test.want == 0 {
				requireBackOff(t, s.waits()[0], time.Second)
				return
			}
			assert.Equal(t, test.want, s.waits()[0])
		})
	}
}

// forever is longer than any test in a bubble.
const forever = 1000 * time.Hour

// requireBackOff checks a wait, give or take a fifth.
func requireBackOff(t testing.TB, wait, want time.Duration) {
	t.Helper()
	require.InDelta(t, want.Seconds(), wait.Seconds(), want.Seconds()/5)
}

func TestConsumer_backsOffBetweenItsBounds(t *testing.T) {
	tests := map[string]struct {
		least, most time.Duration
		want        []time.Duration
	}{
		"by default":          {0, 0, []time.Duration{1, 2, 4, 8, 16, 30, 30}},
		"as told":             {10 * time.Second, 40 * time.Second, []time.Duration{10, 20, 40, 40}},
		"from the default":    {0, 2 * time.Second, []time.Duration{1, 2, 2}},
		"never below a large": {time.Minute, 0, []time.Duration{60, 60, 60}},
	}
	for name, test := range tests {
		inBubble(t, name, func(t *testing.T) {
			s := inTurn(down)
			c := s.consume(t, new(notes).raw(), stream.ConsumerOptions{MinBackoff: test.least, MaxBackoff: test.most})
			time.Sleep(time.Hour)
			waits := s.waits()
			for i, want := range test.want {
				requireBackOff(t, waits[i], want*time.Second)
			}
			assert.NotEqual(t, waits[len(waits)-2], waits[len(waits)-1], "jitter")
			assert.InDelta(t, s.count(), c.counted(t, "interruptions_total"), 0)
		})
	}
}

// A useful connection makes the next wait short again; a connection that was only opened does not.
func TestConsumer_progressResetsTheBackOff(t *testing.T) {
	const soon, late = time.Second, 30 * time.Second
	tests := map[string]struct {
		chunks []chunk
		want   time.Duration
	}{
		"an entry":                   {[]chunk{events(1, "a")}, soon},
		"an entry that is too large": {[]chunk{{0, "id: 1\ndata: " + strings.Repeat("x", 2000) + "\n\n"}}, soon},
		"an endless one with an id":  {[]chunk{{0, "id: 1\ndata: " + strings.Repeat("x", 20000) + "\n\n"}}, soon},
		"an endless one":             {[]chunk{{0, "data: " + strings.Repeat("x", 20000) + "\n\n"}}, late},
		"a gap":                      {[]chunk{{0, "event: gap\ndata: {}\n\n"}}, soon},
		"a heartbeat":                {[]chunk{{15 * time.Second, "event: heartbeat\ndata: {}\n\n"}}, soon},
		"nothing":                    {nil, late},
		"a greeting":                 {[]chunk{{0, "retry: 1000\n\n"}}, late},
		"half an entry":              {[]chunk{{0, "id: 1\ndata: a\n"}}, late},
		"an event nobody knows":      {[]chunk{{0, "event: news\ndata: a\n\n"}}, late},
	}
	for name, test := range tests {
		inBubble(t, name, func(t *testing.T) {
			s := inTurn(down, down, down, down, down, sends(io.EOF, test.chunks...), sends(nil))
			s.consume(t, new(notes).raw(), stream.ConsumerOptions{MaxEventBytes: 1000, IdleTimeout: forever})
			time.Sleep(10 * time.Minute)
			require.Equal(t, 7, s.count())
			wait := s.waits()[5]
			for _, c := range test.chunks { // while it was connected
				wait -= c.after
			}
			requireBackOff(t, wait, test.want)
		})
	}
}

// The token is for one server. A redirect does not take it anywhere else, not even where the standard library would.
func TestConsumer_sendsItsTokenToItsServerOnly(t *testing.T) {
	const token, none = "Bearer token", ""
	tests := map[string]struct{ from, to, want string }{
		"the same server":   {"http://live.test/stream/acme", "http://live.test/v2/stream/acme", token},
		"made safe":         {"http://live.test/stream/acme", "https://live.test/stream/acme", token},
		"made safe on port": {"http://live.test:8080/stream/acme", "https://live.test:8443/stream/acme", token},
		"the usual port":    {"http://live.test/stream/acme", "http://live.test:80/stream/acme", token},
		"the same in big":   {"https://live.test:443/stream/acme", "https://LIVE.test/stream/acme", token},
		"made unsafe":       {"https://live.test/stream/acme", "http://live.test/stream/acme", none},
		"another host":      {"http://live.test/stream/acme", "http://evil.test/stream/acme", none},
		"a host below":      {"http://live.test/stream/acme", "http://evil.live.test/stream/acme", none},
		"a host above":      {"http://live.test/stream/acme", "http://test/stream/acme", none},
		"another port":      {"http://live.test/stream/acme", "http://live.test:8080/stream/acme", none},
		"a like name":       {"https://live.test/stream/acme", "https://live.test.evil.test/stream/acme", none},
	}
	for name, test := range tests {
		inBubble(t, name, func(t *testing.T) {
			s := inTurn(says(307, "", "Location", test.to), sends(nil))
			c := startConsumer(t, test.from, new(notes).raw(), stream.ConsumerOptions{Client: s.client()})
			synctest.Wait()
			require.Equal(t, 2, s.count())
			require.Equal(t, test.to, s.request(1).URL.String())
			assert.Equal(t, token, s.request(0).Header.Get("Authorization"))
			assert.Equal(t, test.want, s.request(1).Header.Get("Authorization"))
			assert.NotContains(t, fmt.Sprint(s.request(1).Header), "token"+test.want)
			assert.NotContains(t, c.log.String(), "Bearer")
		})
	}
}

// Another server, such as the portal of a hotel's network, cannot refuse for good a request that
// was meant for the right one.
func TestConsumer_isRefusedOnlyByItsServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inTurn(says(302, "", "Location", "http://portal.test/login"), says(403, `{"detail":"Pay first."}`), sends(nil))
		c := s.consume(t, new(notes).raw(), stream.ConsumerOptions{})
		time.Sleep(2 * time.Second)
		assert.True(t, c.Connected())
		assert.False(t, c.hasEnded())
	})
}

func TestConsumer_asksForAnEventStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inTurn(says(307, "", "Location", "/new"), sends(nil))
		startConsumer(t, fakeURL+"?session_id=s%201", new(notes).raw(),
			stream.ConsumerOptions{Client: s.client(), Since: time.Unix(0, 0)})
		synctest.Wait()
		req := s.request(0)
		assert.Equal(t, "GET", req.Method)
		assert.Equal(t, "text/event-stream", req.Header.Get("Accept"))
		assert.Equal(t, "identity", req.Header.Get("Accept-Encoding"), "what is compressed comes late")
		assert.Equal(t, url.Values{"session_id": {"s 1"}, "since": {"0"}}, req.URL.Query())
		assert.NotContains(t, req.Header, "Last-Event-Id")
		assert.Equal(t, "/new?since=0", s.request(1).URL.RequestURI(), "a redirect that drops the query")
	})
}

// The first request and the later ones each begin at the right place.
func TestConsumer_beginsAtTheRightPlace(t *testing.T) {
	const date = "Sat, 01 Jan 2000 09:00:00 GMT" // of the server, whose clock is not ours
	const dated = "946717199"
	tests := map[string]struct {
		since time.Time
		date  string
		chunk chunk
		want  [3]string // since of the requests, or the last id
	}{
		"from now on":               {time.Time{}, date, chunk{}, [3]string{"", dated, dated}},
		"from now on, by our clock": {time.Time{}, "", chunk{}, [3]string{"", "946684799", "946684799"}},
		"from now on, no date":      {time.Time{}, "yesterday", chunk{}, [3]string{"", "946684799", "946684799"}},
		"from now on, and it came":  {time.Time{}, date, events(7, "a"), [3]string{"", "id 7", "id 7"}},
		"with all there is":         {time.Unix(0, 0), date, chunk{}, [3]string{"0", "0", "0"}},
		"before there was time":     {time.Unix(-5, 0), date, chunk{}, [3]string{"0", "0", "0"}},
		"at a time": {time.UnixMicro(946684000_250_000), date, chunk{},
			[3]string{"946684000.25", "946684000.25", "946684000.25"}},
		"at a time, and it came": {time.Unix(946684000, 0), date, events(7, "a"),
			[3]string{"946684000", "id 7", "id 7"}},
		"after an event without data": {time.Time{}, date, chunk{text: "id: 7\n\n"}, [3]string{"", "id 7", "id 7"}},
		"after an ID of any kind": {time.Time{}, date, chunk{text: "id: ä/7\ndata: x\n\n"},
			[3]string{"", "id ä/7", "id ä/7"}},
		"after an event nobody knows": {time.Time{}, date, chunk{text: "id: 7\nevent: x\ndata: a\n\n"},
			[3]string{"", "id 7", "id 7"}},
		"after one that is too large": {time.Time{}, date, chunk{text: "id: 7\ndata: " + strings.Repeat("x", 2000) + "\n\n"},
			[3]string{"", "id 7", "id 7"}},
		"after one that never ends": {time.Time{}, date, chunk{text: "id: 7\ndata: " + strings.Repeat("x", 20000)},
			[3]string{"", "id 7", "id 7"}},
		"never after half an event": {time.Time{}, date, chunk{text: "id: 6\ndata: a\n\nid: 7\ndata: b\n"},
			[3]string{"", "id 6", "id 6"}},
		"never after an id of no use": {time.Time{}, date, chunk{text: "id: 6\ndata: a\n\nid: 7\x00\ndata: b\n\n"},
			[3]string{"", "id 6", "id 6"}},
		"where a heartbeat leaves it": {time.Time{}, date, chunk{text: "id: 6\ndata: a\n\nevent: heartbeat\ndata: {}\n\n"},
			[3]string{"", "id 6", "id 6"}},
		"where it was in spite of gap": {time.Unix(0, 0), date, chunk{text: "event: gap\ndata: {}\n\n"},
			[3]string{"0", "0", "0"}},
	}
	for name, test := range tests {
		inBubble(t, name, func(t *testing.T) {
			dated := func(chunks ...chunk) answer {
				return func(req *http.Request) (*http.Response, error) {
					res := streaming(req, io.EOF, chunks...)
					if test.date != "" {
						res.Header.Set("Date", test.date)
					}
					return res, nil
				}
			}
			s := inTurn(dated(test.chunk), down, dated())
			s.consume(t, new(notes).raw(), stream.ConsumerOptions{Since: test.since, MaxEventBytes: 1000})
			time.Sleep(time.Minute)
			for i, want := range test.want {
				req := s.request(i)
				got := req.URL.Query().Get("since")
				if id := req.Header.Get("Last-Event-ID"); id != "" {
					require.Empty(t, got)
					got = "id " + id
				}
				assert.Equal(t, want, got, "request %d", i)
			}
		})
	}
}

func TestConsumer_takesAnyGap(t *testing.T) {
	tests := map[string]struct{ data, want string }{
		"whole":         {`{"requested":"1-0","oldest":"5-0"}`, "1-0 5-0"},
		"not even JSON": {`gone`, " "},
	}
	for name, test := range tests {
		inBubble(t, name, func(t *testing.T) {
			s := serving(chunk{text: "event: gap\ndata: " + test.data + "\n\n"}, events(1, "a"))
			var n notes
			handlers := n.raw()
			handlers.Gap = func(requested, oldest string) { n.add("%s %s", requested, oldest) }
			c := s.consume(t, handlers, stream.ConsumerOptions{})
			synctest.Wait()
			assert.Equal(t, []string{test.want, "a"}, n.all())
			assert.InDelta(t, 1, c.counted(t, "gaps_total"), 0)
			assert.Contains(t, c.log.String(), "requested=")
		})
	}
}

// Silence at any point ends a request, after the idle time-out.
func TestConsumer_isNotKeptWaiting(t *testing.T) {
	silent := func(status int, header ...string) answer {
		return func(req *http.Request) (*http.Response, error) {
			res := answered(status, "", header...)
			res.Body = &fakeBody{ctx: req.Context()}
			return res, nil
		}
	}
	tests := map[string][]answer{
		"before the answer": {hangs},
		"after a redirect":  {says(307, "", "Location", fakeURL), hangs},
		"in a redirect":     {silent(307, "Location", fakeURL)},
		"in a refusal":      {silent(401)},
		"in an error":       {silent(500)},
		"in a stream":       {sends(nil)},
		"in an event":       {sends(nil, chunk{text: "data: a\n"})},
	}
	for name, answers := range tests {
		inBubble(t, name, func(t *testing.T) {
			s := resuming("a").after(answers...)
			var n notes
			c := s.consume(t, n.raw(), stream.ConsumerOptions{})
			time.Sleep(stream.DefaultIdleTimeout - time.Nanosecond)
			if name != "in an error" { // its body is not read
				assert.Equal(t, len(answers), s.count())
			}
			time.Sleep(2 * time.Second)
			if name == "in a refusal" {
				require.True(t, c.hasEnded())
				require.Equal(t, &stream.RefusedError{Status: 401}, c.err)
				return
			}
			assert.Equal(t, []string{"a"}, n.all())
			assert.Contains(t, c.log.String(), "nothing came for longer than a heartbeat takes")
		})
	}
}

// A slow sender that never pauses for long is not silent.
func TestConsumer_isPatientWithASlowSender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var chunks []chunk
		for _, c := range "id: 1\ndata: a\n\n" {
			chunks = append(chunks, chunk{44 * time.Second, string(c)})
		}
		s := serving(chunks...)
		var n notes
		s.consume(t, n.raw(), stream.ConsumerOptions{})
		time.Sleep(time.Duration(len(chunks))*44*time.Second + time.Second)
		assert.Equal(t, []string{"a"}, n.all())
		assert.Equal(t, 1, s.count())
	})
}

// slowly returns handlers that take an hour for each entry.
func (n *notes) slowly() stream.Handlers {
	return stream.Handlers{Raw: func(_ context.Context, m stream.Message) error {
		time.Sleep(time.Hour)
		n.add("%s", m.Data)
		return nil
	}}
}

// While handlers take their time the consumer reads nothing, which it does not take for silence of
// the server, and it loses none of the entries that it had no room for.
func TestConsumer_handlesEntriesItHadNoRoomFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := resuming("a", "b", "c", "d", "e", "f")
		var n notes
		s.consume(t, n.slowly(), stream.ConsumerOptions{MaxPending: 2, Since: time.Unix(0, 0)})
		time.Sleep(7 * time.Hour)
		assert.Equal(t, []string{"a", "b", "c", "d", "e", "f"}, n.all())
		assert.Equal(t, "6", s.request(1).Header.Get("Last-Event-ID"))
	})
}

func TestConsumer_ignoresEventsThatAreNoEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(chunk{text: ": hello\n\nevent: news\nid: 1\ndata: x\n\nevent: actions\ndata: " +
			"{\"type\":\"actions\"}\n\nid: 2\n\nretry: 5\n\n" +
			"event: message\nid: 3\ndata: a\n\nid: 4\ndata\n\n"}, events(5, "b"))
		var n notes
		c := s.consume(t, n.raw(), stream.ConsumerOptions{})
		synctest.Wait()
		assert.Equal(t, []string{"a", "", "b"}, n.all())
		assert.Zero(t, c.counted(t, "interruptions_total"))
	})
}

// An event over the limit is passed over for good: the next connection does not ask for it again.
func TestConsumer_passesOverEventsThatAreTooLarge(t *testing.T) {
	large := "SECRET" + strings.Repeat("x", 2000)
	endless := "SECRET" + strings.Repeat("x", 20_000)
	synctest.Test(t, func(t *testing.T) {
		s := inTurn(sends(nil, events(1, "a", large, "b", endless)), sends(nil, events(5, "c")), sends(nil))
		var n notes
		c := s.consume(t, n.raw(), stream.ConsumerOptions{MaxEventBytes: 1000})
		time.Sleep(10 * time.Second)
		assert.Equal(t, []string{"a", "b", "c"}, n.all())
		assert.Equal(t, "4", s.request(1).Header.Get("Last-Event-ID"))
		assert.InDelta(t, 2, c.counted(t, "skipped_total", "too_large"), 0)
		assert.Contains(t, c.log.String(), "id=2")
		assert.NotContains(t, c.log.String(), "SECRET")
	})
}

// A consumer ends at once with its context, at any point of its work.
func TestConsumer_endsAtOnce(t *testing.T) {
	block := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	fail := func(context.Context) error { return errors.New("no") }
	tests := map[string]struct {
		answer answer
		handle func(context.Context) error
	}{
		"before the answer":        {hangs, nil},
		"while it backs off":       {down, nil},
		"while it was asked to":    {says(503, "", "Retry-After", "300"), nil},
		"while nothing comes":      {sends(nil), nil},
		"within an event":          {sends(nil, chunk{text: "id: 1\nd"}), nil},
		"after entries":            {sends(nil, events(1, "a", "b")), nil},
		"while a handler works":    {sends(nil, events(1, "a")), block},
		"while a handler waits":    {sends(nil, events(1, "a")), fail},
		"while there is no room":   {sends(nil, events(1, "a", "b", "c", "d")), block},
		"while there is room soon": {sends(nil, events(1, "a", "b", "c", "d")), fail},
	}
	for name, test := range tests {
		inBubble(t, name, func(t *testing.T) {
			s := inTurn(test.answer)
			handlers := new(notes).raw()
			if test.handle != nil {
				handlers.Raw = func(ctx context.Context, _ stream.Message) error { return test.handle(ctx) }
			}
			c := s.consume(t, handlers, stream.ConsumerOptions{MaxPending: 2, MinBackoff: forever, IdleTimeout: forever})
			time.Sleep(time.Second)
			synctest.Wait()
			require.False(t, c.hasEnded())
			began := time.Now()
			c.stop(t)
			assert.Zero(t, time.Since(began))
			assert.False(t, c.Connected())
			assert.Zero(t, c.counted(t, "pending"), "nothing is in hand any more")
		})
	}
}

// Run waits for handlers that do not notice the end of their context. What they finish then is saved.
func TestConsumer_endsAfterItsHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n notes
		s, cursor := serving(events(1, "a", "b")), &memoryCursor{t: t}
		c := s.consume(t, stream.Handlers{Raw: func(ctx context.Context, m stream.Message) error {
			<-ctx.Done()
			time.Sleep(time.Minute)
			n.add("%s", m.Data)
			return nil
		}}, stream.ConsumerOptions{Cursor: cursor})
		synctest.Wait()
		began := time.Now()
		c.stop(t)
		assert.Equal(t, time.Minute, time.Since(began))
		assert.Equal(t, []string{"a"}, n.all(), "no further call begins")
		assert.Equal(t, "after 1", place(t, cursor.saved()))
	})
}

func TestConsumer_endsWithItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &memoryCursor{t: t, loading: func(ctx context.Context) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		}}
		for _, cursor := range []stream.CursorStore{nil, slow} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			c := musttest.New(stream.NewConsumer(fakeURL, "token", new(notes).raw(),
				&stream.ConsumerOptions{Client: serving().client(), Cursor: cursor}))
			require.ErrorIs(t, c.Run(ctx), context.DeadlineExceeded)
			require.ErrorIs(t, c.Run(ctx), context.DeadlineExceeded, "it need not begin for that")
		}
	})
}

// A consumer that is run again remembers nothing of the run before.
func TestConsumer_runsAgain(t *testing.T) {
	s := newStream(t, nil)
	var n notes
	opts := quick()
	opts.Since = time.Unix(0, 0)
	c := startConsumer(t, s.URL(), n.raw(), opts)
	s.SendRaw("1")
	n.become(t, "1")
	c.stop(t)
	assert.False(t, c.Connected())
	s.SendRaw("2")

	c.run()
	n.become(t, "1", "1", "2")
	s.Refuse(http.StatusUnauthorized, 1)
	s.Disconnect()
	waittest.Receive(t, c.ended)
	require.ErrorAs(t, c.err, new(*stream.RefusedError))

	c.run()
	n.become(t, "1", "1", "2", "1", "2")
	c.stop(t)
}

// A consumer without a client of its own in the options leaves nothing behind.
func TestConsumer_leavesNothingBehind(t *testing.T) {
	s := newStream(t, nil)
	before := leaktest.Goroutines(t)
	c, err := stream.NewConsumer(s.URL(), s.Token(), new(notes).raw(),
		&stream.ConsumerOptions{MinBackoff: time.Millisecond})
	require.NoError(t, err)
	assert.Equal(t, before, leaktest.Goroutines(t), "it has not begun")
	s.Refuse(http.StatusInternalServerError, 3)
	stop := waittest.Run(t, c.Run)
	require.NoError(t, s.WaitConnected(t.Context()))
	requests := len(s.Requests())
	s.Refuse(http.StatusNoContent, -1) // which leaves the connection open for another request
	s.Disconnect()
	waittest.Until(t, "it asks again", func() bool { return len(s.Requests()) > requests+1 })
	require.Equal(t, context.Canceled, stop())
	waittest.Until(t, "no goroutines are left", func() bool { return runtime.NumGoroutine() <= before })
}

// If a process sends all its requests through another kind of transport, such as one that traces, a
// consumer's requests go through it, too.
func TestConsumer_usesTheTransportOfTheProcess(t *testing.T) {
	before := http.DefaultTransport
	defer func() { http.DefaultTransport = before }()
	s := serving(events(1, "a"))
	http.DefaultTransport = s
	var n notes
	c := startConsumer(t, fakeURL, n.raw(), quick())
	n.become(t, "a")
	c.stop(t)
}

func TestConstructors_reportEveryMistake(t *testing.T) {
	_, consumer := stream.NewConsumer(fakeURL, "token", new(notes).raw(), &stream.ConsumerOptions{MaxPending: -1,
		ParkAfter: -1, MaxBehind: -1, MaxEventBytes: -1, IdleTimeout: -1, MinBackoff: -1, MaxBackoff: -1})
	_, backOff := stream.NewConsumer(fakeURL, "token", new(notes).raw(),
		&stream.ConsumerOptions{MinBackoff: 2 * time.Second, MaxBackoff: time.Second})
	_, source := stream.NewSourceConsumer(nil, stream.Handlers{}, &stream.ConsumerOptions{MaxPending: -1})
	_, writer := stream.NewWriter(nil, &stream.WriterOptions{Debounce: -1, MaxPending: -1, MaxBytes: -1, ParkAfter: -1,
		MinBackoff: -1, MaxBackoff: -1})
	_, summarizer := stream.NewSummarizer(nil, &stream.SummarizerOptions{Threshold: -1, ModelTimeout: -1, MaxBytes: -1})
	for want, err := range map[string]error{
		"MaxPending ParkAfter MaxBehind MaxEventBytes IdleTimeout MaxBackoff MinBackoff": consumer,
		"MinBackoff":                 backOff,
		"source handlers MaxPending": source,
		"write Debounce MaxPending MaxBytes ParkAfter MaxBackoff MinBackoff": writer,
		"overwrite Threshold ModelTimeout MaxBytes":                          summarizer,
	} {
		assert.Equal(t, want, strings.ReplaceAll(strings.Join(musttest.Mistakes(t, err), " "), "stream.", ""))
	}
	for _, opts := range []stream.ConsumerOptions{{MinBackoff: time.Minute}, {MaxBackoff: time.Millisecond},
		{MinBackoff: 1, MaxBackoff: 1}} {
		_, err := stream.NewConsumer(fakeURL, "token", new(notes).raw(), &opts)
		require.NoError(t, err, "a default gives way to the bound that is set")
	}
}

// A batch that its handler refuses for good does not hold up its session. Raw is called again before
// the other handler, until it has worked.
func TestConsumer_skipsEntriesThatAHandlerRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n notes
		s := serving(events(1, entryOf("s", "a"), entryOf("s", "b")))
		c := s.consume(t, stream.Handlers{Actions: func(_ context.Context, b activity.Batch) error {
			n.add("%s", b.Actions[0].Title)
			switch len(n.all()) {
			case 4:
				return errors.New("busy")
			case 5:
				return fmt.Errorf("post: %w", stream.Permanent(errors.New("no such conversation")))
			}
			return nil
		}, Raw: func(context.Context, stream.Message) error {
			if n.add("raw"); len(n.all()) < 3 {
				return errors.New("no")
			}
			return nil
		}}, stream.ConsumerOptions{})
		time.Sleep(20 * time.Second)
		assert.Equal(t, []string{"raw", "raw", "raw", "a", "a", "raw", "b"}, n.all())
		c.counts(t, map[string]float64{"acknowledged_total": 1, "skipped_total": 1, "skipped_total refused": 1,
			"handler_failures_total": 3, "pending": 0})
		assert.Contains(t, c.log.String(), "no such conversation")
	})
}

// A consumer has caught up once all entries that were retained when it connected are handled, even
// if the server is away by then.
func TestConsumer_hasCaughtUpOnceRetainedEntriesAreHandled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inTurn(down, sends(nil, events(1, "a", "b")), down)
		c := s.consume(t, new(notes).slowly(), stream.ConsumerOptions{})
		time.Sleep(time.Second / 2)
		assert.False(t, c.CaughtUp(), "the stream was never open")
		time.Sleep(119 * time.Minute)
		assert.False(t, c.CaughtUp(), "one is not handled")
		time.Sleep(time.Hour)
		assert.True(t, c.CaughtUp())
		assert.False(t, c.Connected())
	})
}

// The stream is silent long before the last entry is handled, and sends no heartbeat afterwards.
func TestConsumer_hasCaughtUpOnceEntriesItHadNoRoomForAreHandled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := serving(events(1, "a", "b", "c")).consume(t, new(notes).slowly(),
			stream.ConsumerOptions{MaxPending: 2, IdleTimeout: forever})
		time.Sleep(3*time.Hour - time.Second)
		assert.False(t, c.CaughtUp())
		time.Sleep(2 * time.Second)
		assert.True(t, c.CaughtUp())
	})
}

func TestConsumer_noticesTheEndOfTheRetainedEntries(t *testing.T) {
	at := func(second float64) string {
		return fmt.Sprintf(`{"type":"actions","forwarded_at":%f,"actions":[{}]}`, activity.Seconds(time.Now())+second)
	}
	tests := map[string]struct {
		chunks func() []chunk
		want   time.Duration
	}{
		"of a silent stream": {func() []chunk { return nil }, 250 * time.Millisecond},
		"at a heartbeat": {func() []chunk {
			return []chunk{{20 * time.Millisecond, "event: heartbeat\ndata: {}\n\n"}}
		}, 20 * time.Millisecond},
		"at a batch newer than the connection, if the stream is never silent": {func() []chunk {
			return []chunk{events(1, at(-9)), {200 * time.Millisecond, events(2, at(-1)).text},
				{200 * time.Millisecond, events(3, at(2)).text}}
		}, 400 * time.Millisecond},
	}
	for name, test := range tests {
		inBubble(t, name, func(t *testing.T) {
			c := serving(test.chunks()...).consume(t, new(notes).everything(new(atomic.Int64)),
				stream.ConsumerOptions{Since: time.Unix(0, 0)})
			time.Sleep(test.want - time.Nanosecond)
			synctest.Wait()
			assert.False(t, c.CaughtUp())
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			assert.True(t, c.CaughtUp())
		})
	}
}

func TestConsumer_handlesEverythingOfASourceThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errClosed := errors.New("the log is closed")
		var n notes
		consumer := musttest.New(stream.NewSourceConsumer(&readers{reads: []reading{
			func(_ context.Context, deliver func(feed.Event) error) error {
				return errors.Join(deliver(clickAt("1-0", "a")), deliver(clickAt("2-0", "b")), errClosed)
			},
		}}, n.slowly(), nil))
		assert.True(t, consumer.Connected(), "a log in this process is always open")
		require.ErrorIs(t, consumer.Run(t.Context()), errClosed)
		assert.Len(t, n.all(), 2)
	})
}
