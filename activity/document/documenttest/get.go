package documenttest

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/document"
)

var getTests = []test{
	{name: "returns the documents in the order of the names, also a missing or repeated one", run: func(f fixture) {
		a, b, c := f.put("a", "1", 0), f.put("b", "2", 0), f.put("c", "3", 0)
		want := items([]document.Document{c, a, a, named("x"), b, named("x"), a})
		require.Equal(f, want, items(f.get("c", "a", "a", "x", "b", "x", "a")))
		require.Equal(f, want[4:5], items(f.get("b")))
	}},
	{name: "of no names returns nothing", run: func(f fixture) {
		f.put("a", "1", 0)
		require.Empty(f, f.get())
	}},
	{name: "of invalid names finds nothing", run: func(f fixture) {
		f.put("a", "1", 0)
		long := strings.Repeat("a", document.MaxName+1)
		require.Equal(f, []item{{Name: ""}, {Name: long}}, items(f.get("", long)))
	}},
	{name: "returns values that the caller owns", run: func(f fixture) {
		f.put("a", "value", 0)
		for _, mine := range [][]document.Document{f.get("a"), f.list("", "", 1)} {
			copy(mine[0].Value, "xxxxx")
			_ = append(mine[0].Value, "more"...)
			require.Equal(f, "value", string(f.one("a").Value))
			require.Equal(f, "value", string(f.list("", "", 1)[0].Value))
		}
	}},
	{name: "finds names of any bytes", run: testOddNames},
	{name: "returns values of any bytes", run: func(f fixture) {
		every := make([]byte, 256)
		for i := range every {
			every[i] = byte(i)
		}
		for _, value := range []string{"", "\x00", string(every), "\xff\xfe", " \r\n", `{"a":1}`, "nil", "-1", "%s"} {
			f.put("a", value, 0)
			require.Equal(f, value, string(f.one("a").Value))
			require.Equal(f, value, string(f.list("a", "", 1)[0].Value))
		}
	}},
	{name: "returns names and values at the limits", run: func(f fixture) {
		name, value := strings.Repeat("n", document.MaxName), bytes.Repeat([]byte("v\x00\xff\n"), document.MaxValue/4)
		version := f.write(document.Put(named(name), value, 0), document.Put(named(name[1:]), value, 0))
		for _, d := range append(f.get(name, name[1:]), f.all()...) {
			require.Equal(f, version, d.Version)
			require.True(f, bytes.Equal(value, d.Value), "%d bytes", len(d.Value))
		}
		require.Equal(f, []string{name[1:], name}, names(f.all()))
	}},
	{name: "returns thousands of documents", run: func(f fixture) {
		changes, want := make([]document.Change, 3000), make([]string, 3000)
		for i := range changes {
			want[i] = fmt.Sprintf("%04d", i)
			changes[i] = document.Put(named(want[i]), []byte(want[i]), 0)
		}
		version := f.write(changes...)
		for i, d := range f.get(want...) {
			require.Equal(f, document.Document{Name: want[i], Value: []byte(want[i]), Version: version}, d)
		}
	}},
}

func testOddNames(f fixture) {
	for i, name := range oddNames {
		require.Equal(f, named(name), f.one(name), "a missing document has its name, version zero and no value")
		f.put(name, fmt.Sprint("value ", i), 0)
	}
	for i, name := range oddNames {
		require.Equal(f, fmt.Sprint("value ", i), string(f.one(name).Value), "%.40q", name)
	}
	for i, d := range f.get(oddNames...) {
		require.Equal(f, oddNames[i], d.Name)
		require.Equal(f, fmt.Sprint("value ", i), string(d.Value), "%.40q", d.Name)
	}
	for i, name := range oddNames {
		require.Equal(f, name, f.conflict(document.Put(named(name), nil, 0)))
		f.write(document.Delete(f.one(name)))
		require.Len(f, f.all(), len(oddNames)-i-1, "only %.40q was deleted", name)
	}
}
