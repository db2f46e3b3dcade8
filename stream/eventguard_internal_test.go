package stream

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/cenkalti/backoff/v4"
	"github.com/r3labs/sse/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type message struct {
	id, name string
	data     []byte // nil for none
}

type parsed struct {
	messages []message
	id       string // the last id that an event ended with
	endless  bool
}

// pieces is a stream that comes in these pieces, one each read, and ends with the last.
type pieces [][]byte

func (p *pieces) Read(b []byte) (int, error) {
	if len(*p) == 0 {
		return 0, io.EOF
	}
	n := copy(b, (*p)[0])
	if (*p)[0] = (*p)[0][n:]; len((*p)[0]) == 0 {
		if *p = (*p)[1:]; len(*p) == 0 {
			return n, io.EOF
		}
	}
	return n, nil
}

// oneEach checks that each read gives one whole event, or a piece of an event that is larger than the room for it.
// Otherwise the client searches its whole buffer for the end of an event again and again.
type oneEach struct {
	t testing.TB
	io.Reader
}

func (o *oneEach) Read(b []byte) (int, error) {
	n, err := o.Reader.Read(b)
	end := bytes.Index(b[:n], []byte("\n\n"))
	assert.Truef(o.t, end < 0 && n == len(b) || end == n-2 || n == 0 || bytes.Equal(b[:n], []byte("\n")), "%q", b[:n])
	return n, err
}

// parse lets a client read a stream that comes in these pieces.
func parse(t testing.TB, max int, in ...[]byte) (got parsed) {
	t.Helper()
	client := sse.NewClient("http://stream.test", sse.ClientMaxBufferSize(2*max+readBuffer))
	client.ReconnectStrategy = &backoff.StopBackOff{}
	given := 0
	guard := newEventGuard((*pieces)(&in), max, "", func(noID bool) {
		if given++; noID {
			client.LastEventID.Store([]byte(nil))
		}
	})
	client.Connection.Transport = roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(&oneEach{t: t, Reader: guard})}, nil
	})
	err := client.SubscribeRaw(func(e *sse.Event) {
		got.messages = append(got.messages, message{string(e.ID), string(e.Event), e.Data})
		got.id = string(e.ID)
	})
	if got.endless = err != nil; got.endless {
		require.ErrorIs(t, err, errEndless)
	}
	require.Len(t, got.messages, given, "each event that is given reaches the handler")
	return got
}

func divided(text []byte, size int) (pieces [][]byte) {
	for len(text) > size {
		pieces = append(pieces, text[:size])
		text = text[size:]
	}
	return append(pieces, text)
}

// parseEveryWay parses the text whole, in small pieces and cut in two at every place. It requires
// the same result every time, and returns it.
func parseEveryWay(t *testing.T, max int, text string) parsed {
	t.Helper()
	b := []byte(text)
	whole := parse(t, max, b)
	for size := 1; size <= 3; size++ {
		require.Equal(t, whole, parse(t, max, divided(b, size)...), "in pieces of %d", size)
	}
	for at := range len(b) + 1 {
		require.Equal(t, whole, parse(t, max, b[:at], b[at:]), "cut at %d", at)
	}
	return whole
}

func said(id, data string) message { return message{id: id, data: []byte(data)} }

// shown returns messages in a line: the ID, the name and a colon if there is one, and the data of each.
func shown(messages []message) string {
	all := make([]string, len(messages))
	for i, m := range messages {
		if m.name != "" {
			m.name += ":"
		}
		all[i] = fmt.Sprintf("%s%s%q", m.id, m.name, m.data)
	}
	return strings.Join(all, " ")
}

// The cases are from
// https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream and the
// two examples before it.
func TestEventGuard_followsTheSpecification(t *testing.T) {
	longest := strings.Repeat("x", maxEventID)
	tests := map[string]struct{ stream, want string }{
		"a carriage return ends a line":              {"id: 1\rdata: a\r\r", `1"a"`},
		"both end one line":                          {"id: 1\r\ndata: a\r\n\r\n", `1"a"`},
		"line ends may be mixed":                     {"id: 1\rdata: a\r\n\ndata: b\n\r\ndata: c\r\r\n", `1"a" 1"b" 1"c"`},
		"a line feed and a carriage return are two":  {"data: a\n\rdata: b\n\r", `"a" "b"`},
		"one leading byte order mark is ignored":     {"\ufeffdata: a\n\n", `"a"`},
		"a second byte order mark is part of a name": {"\ufeff\ufeffdata: a\n\ndata: b\n\n", `"b"`},
		"a later byte order mark is not ignored":     {"data: \ufeffa\n\n\ufeffdata: b\n\n", `"\ufeffa"`},
		"a line that starts with a colon is ignored": {":\n: data: x\n:data: y\n\ndata: a\n:\ndata: b\n\n", `"a\nb"`},
		"one space after the colon is removed":       {"data:a\n\ndata: b\n\ndata:  c\n\ndata:\td\n\n", `"a" "b" " c" "\td"`},
		"a value may have colons":                    {"data: a: b:c\n\n", `"a: b:c"`},
		"a line without a colon is a name with no value": {"id: 0\ndata\n\nid: 1\ndata: a\n\nid\ndata: b\n\n" +
			"event: x\nevent\ndata: c\n\n", `0"" 1"a" "b" "c"`},
		"several data lines are joined by line feeds": {"data: a\ndata: b\ndata:c\n\n", `"a\nb\nc"`},
		"empty data lines count": {"id: 1\ndata\ndata\n\ndata:\n\ndata:\ndata: a\ndata:\n\n",
			`1"\n" 1"" 1"\na\n"`},
		"an event of nothing but empty data is none": {"data\n\ndata:\ndata:\n\nevent:\ndata:\n\nevent: x\ndata\n\n",
			`x:""`},
		"an event without data is none":               {"event: a\n\ndata: b\n\n", `"b"`},
		"its id counts":                               {"id: 1\n\ndata: b\n\n", `1"b"`},
		"the end of the stream does not end an event": {"data: a\n\nid: 2\ndata: b\n", `"a"`},
		"nor does it end a line":                      {"data: a\n\nid: 2\ndata: b", `"a"`},
		"an event has a name":                         {"event: gap\ndata: a\n\ndata: b\n\n", `gap:"a" "b"`},
		"the last name of an event counts": {"event: x\nevent: y\ndata: a\n\nevent: x\nevent\ndata: b\n\n",
			`y:"a" "b"`},
		"an id stays until there is another": {"id: 1\ndata: a\n\ndata: b\n\nid: 2\ndata: c\n\n", `1"a" 1"b" 2"c"`},
		"the last id of an event counts":     {"id: 1\ndata: a\nid: 2\n\n", `2"a"`},
		"an empty id is one":                 {"id: 1\ndata: a\n\nid:\ndata: b\n\n", `1"a" "b"`},
		"an id with a zero byte is ignored":  {"id: 1\ndata: a\n\nid: 2\x003\ndata: b\n\n", `1"a" 1"b"`},
		"an id that no header can carry is ignored": {"id: 1\ndata: a\n\nid: 2\t3\nid: 2\x7f\nid: x" + longest +
			"\ndata: b\n\n", `1"a" 1"b"`},
		"the longest id is one":                  {"id: " + longest + "\ndata: a\n\n", longest + `"a"`},
		"retry is ignored":                       {"retry: 1000\nretry\nretry: soon\n\nretry: 5\ndata: a\n\n", `"a"`},
		"names are compared as they are":         {"Data: a\n data: b\ndata : c\nDATA: d\n\ndata: e\n\n", `"e"`},
		"other names are ignored":                {"foo: bar\nbaz\n\ndata: a\nfoo\n\n", `"a"`},
		"empty lines between events are nothing": {"\n\r\n\n\rdata: a\n\n\n\n\ndata: b\n\n", `"a" "b"`},
		"the specification's four blocks": {": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\n" +
			"data:  third event\n", `1"first event" "second event"`},
		"bytes that are no text pass as they are":  {"data: \xff\x00\xfe\n\n", `"\xff\x00\xfe"`},
		"a zero byte is no end":                    {"data: a\x00b\n\x00\n\n", `"a\x00b"`},
		"a name is no entry however long":          {"event: " + longest + "\ndata: a\n\n", longest + `:"a"`},
		"nothing at all":                           {"", ""},
		"a byte order mark and nothing":            {"\ufeff", ""},
		"half a byte order mark is part of a name": {"\xef\xbbdata: a\n\ndata: b\n\n", `"b"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := parseEveryWay(t, 1<<20, test.stream)
			assert.False(t, got.endless)
			assert.Equal(t, test.want, shown(withData(got.messages)))
			naive := parseNaively(test.stream, 1<<20)
			assert.Equal(t, test.want, shown(naive.messages), "the naive parser")
			assert.Equal(t, naive.id, got.id)
		})
	}
}

// withData returns the messages that a browser would be given, and those over the limit.
func withData(messages []message) (kept []message) {
	for _, m := range messages {
		if m.data != nil || m.name == tooLargeEvent {
			kept = append(kept, m)
		}
	}
	return kept
}

// tooLong is the message that remains of an event over the limit.
func tooLong(id string) message { return message{id: id, name: tooLargeEvent} }

func TestEventGuard_skipsEventsThatAreTooLarge(t *testing.T) {
	const max = 50
	long := strings.Repeat("x", 60)
	lines := strings.Repeat("data: x\n", 8)
	next := "id: 9\ndata: next\n\n"
	data, fits := "data: "+long[:max-len("data: \n")], said("", long[:max-len("data: \n")])
	tests := map[string]struct {
		event string
		want  message
	}{
		"one long line":             {"data: " + long + "\n\n", tooLong("")},
		"the id before it":          {"id: 5\ndata: " + long + "\n\n", tooLong("5")},
		"the id after it":           {"data: " + long + "\nid: 5\n\n", tooLong("5")},
		"an id on each side":        {"id: 4\ndata: " + long + "\nid: 5\n\n", tooLong("5")},
		"many short lines":          {lines + "\n", tooLong("")},
		"the id before many":        {"id: 5\n" + lines + "\n", tooLong("5")},
		"the id after many":         {lines + "id: 5\n\n", tooLong("5")},
		"the id in the midst":       {lines[:40] + "id: 5\n" + lines + "\n", tooLong("5")},
		"the id on the limit":       {"data: " + long[:max-len("data: \nid:")] + "\nid: 5\n\n", tooLong("5")},
		"a name before it":          {"event: gap\ndata: " + long + "\n\n", tooLong("")},
		"a name after it":           {"data: " + long + "\nevent: gap\n\n", tooLong("")},
		"a long name":               {"event: " + long + "\n\n", tooLong("")},
		"a long comment":            {":" + long + "\nid: 5\ndata: a\n\n", tooLong("5")},
		"a long line of no meaning": {long + "\n\n", tooLong("")},
		"a long id":                 {"id: " + strings.Repeat("5", 60) + "\n\n", tooLong(strings.Repeat("5", 60))},
		"a longer id after a short one": {"id: 5\nid: " + strings.Repeat("6", 700) + "\n\n",
			tooLong(strings.Repeat("6", 700))},
		"colons and ends inside the line":  {"data: " + strings.Repeat("id: 7 data: ", 6) + "\n\n", tooLong("")},
		"one byte over the limit":          {"data: " + long[:max-len("data: \n")+1] + "\n\n", tooLong("")},
		"one byte over with several lines": {"id: 5\ndata: " + long[:max-len("id: 5\ndata: \n")+1] + "\n\n", tooLong("5")},

		"the largest of one line": {data + "\n\n", fits},
		"the largest with an id": {"id: 5\n" + data[:max-len("id: 5\n\n")] + "\n\n",
			said("5", long[:max-len("id: 5\ndata: \n")])},
		"a byte order mark does not count": {"\ufeff" + data + "\n\n", fits},
		"nor do comments before it":        {strings.Repeat(":keep alive\nretry: 5\n", 40) + data + "\n\n", fits},
		"nor do events of no use":          {strings.Repeat("retry: 5\n\n", 40) + data + "\n\n", fits},
	}
	ends := map[string]string{"LF": "\n", "CRLF": "\r\n", "CR": "\r"}
	for name, test := range tests {
		for kind, end := range ends {
			t.Run(name+" "+kind, func(t *testing.T) {
				text := strings.ReplaceAll(test.event+next, "\n", end)
				got := parseEveryWay(t, max, text)
				assert.Equal(t, []message{test.want, said("9", "next")}, got.messages)
				assert.Equal(t, parseNaively(text, max).messages, got.messages, "the naive parser")
				assert.False(t, got.endless)
			})
		}
	}
}

func TestEventGuard_takesLinesLongerThanItsBuffer(t *testing.T) {
	for times := range 3 {
		for more := -10; more <= 2; more++ {
			x := strings.Repeat("x", (times+1)*readBuffer+more)
			got := parse(t, 1<<20, []byte("id: 1\nevent: "+x+"\n:"+x+"\ndata: "+x+"\ndata: b\nid: "+x+"\n\ndata: c\n\n"))
			require.Equal(t, []message{{"1", x, []byte(x + "\nb")}, said("1", "c")}, got.messages, len(x))
		}
	}
}

func TestEventGuard_givesUpOnAnEndlessEvent(t *testing.T) {
	const max = 50
	x := strings.Repeat("x", endlessFactor*max)
	tests := map[string]struct {
		text string
		want []message // beside the first
	}{
		"of one line":              {"data: " + x, nil},
		"of short lines":           {strings.Repeat("data: x\n", 101), nil},
		"of short lines of CR":     {strings.Repeat("data: x\r", 101), nil},
		"of comments in the midst": {"data: x\n" + strings.Repeat(":keep alive\n", 67), nil},
		"with an id":               {"id: 5\ndata: " + x + "\n\nid: 6\ndata: never\n\n", []message{tooLong("5")}},
		"with an id and lines":     {"id: 5\n" + strings.Repeat("data: x\n", 100), []message{tooLong("5")}},
		"with an id too late":      {"data: " + x + "\nid: 5\n\n", nil},
		"that would end":           {"data: " + x + "\n\ndata: never\n\n", nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := parseEveryWay(t, max, "id: 1\ndata: a\n\n"+test.text)
			assert.True(t, got.endless)
			assert.Equal(t, append([]message{said("1", "a")}, test.want...), got.messages)
		})
	}
	almost := "data: " + x[:endlessFactor*max-len("data: \n")] + "\n\ndata: next\n\n"
	got := parseEveryWay(t, max, almost)
	assert.False(t, got.endless)
	assert.Equal(t, []message{tooLong(""), said("", "next")}, got.messages)
}

// The guard does not keep the bytes of an event that does not end.
func TestEventGuard_isBounded(t *testing.T) {
	const limit = 64 << 10
	tests := map[string]string{
		"one line":    strings.Repeat("x", 1000),
		"short lines": strings.Repeat("data:x\n", 143),
		"carriage":    strings.Repeat("data:x\r\n", 125),
		"empty names": strings.Repeat("event:\n", 140),
		"comments":    strings.Repeat(":keep alive\n", 80),
		"ids":         strings.Repeat("id: "+strings.Repeat("x", maxEventID-10)+"\n", 1),
	}
	for name, piece := range tests {
		t.Run(name, func(t *testing.T) {
			largest, fed := 0, 0
			var g *eventGuard
			g = newEventGuard(readerFunc(func(b []byte) (int, error) {
				largest = max(largest, readBuffer+cap(g.event)+cap(g.line)+cap(g.id))
				n := copy(b, piece)
				if fed += n; fed > 2*endlessFactor*limit {
					return 0, io.EOF
				}
				return n, nil
			}), limit, "", func(bool) {})
			_, _ = io.Copy(io.Discard, g)
			assert.Less(t, largest, 4*limit)
			assert.Greater(t, fed, 10*limit)
		})
	}
}

// However many events there are, and however long, none is copied.
func TestEventGuard_takesEventsInTheMemoryThatItHas(t *testing.T) {
	events := strings.Repeat(strings.Repeat("data: x\n", 100)+"\n", 100)
	assert.Less(t, testing.AllocsPerRun(10, func() {
		_, err := io.Copy(io.Discard, newEventGuard(strings.NewReader(events), 1<<10, "", func(bool) {}))
		assert.NoError(t, err)
	}), 30.0)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// parseNaively is the specification's parser, line by line, with our limits.
func parseNaively(text string, max int) (got parsed) {
	text = strings.TrimPrefix(text, "\ufeff")
	text = strings.ReplaceAll(text, "\r\n", "\n")
	text = strings.ReplaceAll(text, "\r", "\n")
	lines := strings.Split(text, "\n")
	var data, name, id string
	size, large, hasID := 0, false, false
	for _, line := range lines[:len(lines)-1] { // the last has no end
		if line == "" {
			empty := id == "" && name == "" && strings.Trim(data, "\n") == "" // the client passes over it
			switch {
			case large:
				got.messages = append(got.messages, tooLong(id))
			case data != "" && !empty:
				got.messages = append(got.messages, message{id: id, name: name, data: []byte(strings.TrimSuffix(data, "\n"))})
			}
			if large || !empty && (data != "" || name != "" || hasID) {
				got.id = id
			}
			data, name, size, large, hasID = "", "", 0, false, false
			continue
		}
		if size += len(line) + 1; size > endlessFactor*max {
			if got.endless = true; hasID {
				got.id, got.messages = id, append(got.messages, tooLong(id))
			}
			return got
		}
		large = large || size > max
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "data":
			data += value + "\n"
		case "event":
			name = value
		case "id":
			if !strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }) && len(value) <= maxEventID {
				id, hasID = value, true
			}
		}
		if data == "" && name == "" && !hasID && !large {
			size = 0
		}
	}
	if rest := lines[len(lines)-1]; size+len(rest) > endlessFactor*max {
		if got.endless = true; hasID {
			got.id, got.messages = id, append(got.messages, tooLong(id))
		}
	}
	return got
}

// The messages agree with the specification for any text of the server, however the network divides it.
func FuzzEventGuard(f *testing.F) {
	for _, seed := range []string{
		"", "data: a\n\n", "\ufeffid: 1\r\ndata: a\r\n\r\n", "data\n\ndata\ndata\n\n", "event: gap\ndata: {}\n\n",
		"id: 1\rdata: a\r\r",
		"id: 1\n\nid\ndata: b\n\n", ": comment\n\ndata:a\ndata:b\n\n",
		"retry: 1000\n\nid: 1-0\ndata: {\"type\":\"actions\"}\n\n",
		"data: " + strings.Repeat("x", 100) + "\nid: 7\n\ndata: b\n\n", strings.Repeat("data:\n", 40) + "id: 3\n\n",
		"id: \x00\ndata: a\n\n",
		"id: 1\n:" + strings.Repeat("x", 900), "\xef\xbb", "\r\n\r\n\r", "data: a\n\rdata: b\r\n\n",
		strings.Repeat(":x\n", 30) + "data: a\n\n",
		"\ufeffdata: ~~~\nid: ~~~\n:~~~\nid: 1\nevent: ~~~\n\ndata: b\n\n",
	} {
		f.Add([]byte(seed), []byte{3, 0, 1}, byte(0))
		f.Add([]byte(seed), []byte{1, 7}, byte(30))
	}
	f.Fuzz(func(t *testing.T, text, cuts []byte, limit byte) {
		// A few bytes can make a line longer than the buffer. No reader gives nothing a hundred times in a row.
		text, cuts = bytes.ReplaceAll(text, []byte("~"), bytes.Repeat([]byte("~"), maxEventID)), cuts[:min(len(cuts), 64)]
		max := int(limit) + 4 // an unfinished byte order mark has no more
		if limit == 0 {
			max = 1 << 20
		}
		want := parse(t, max, text)
		require.Equal(t, want, parse(t, max, divided(text, 1)...), "in single bytes")
		require.Equal(t, want, parse(t, max, cutBy(text, cuts)...), "cut in pieces of %v", cuts)

		naive := parseNaively(string(text), max)
		require.Equal(t, naive.messages, withData(want.messages))
		require.Equal(t, naive.endless, want.endless)
		if !naive.endless {
			require.Equal(t, naive.id, want.id)
		}
	})
}

func cutBy(text, sizes []byte) (pieces [][]byte) {
	for _, size := range sizes {
		n := min(int(size), len(text))
		pieces, text = append(pieces, text[:n]), text[n:]
	}
	return append(pieces, text)
}
