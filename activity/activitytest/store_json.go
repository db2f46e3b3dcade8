package activitytest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/recent"
)

// actionFields are the fields of an action, all always present.
var actionFields = []string{"canonical_url", "description", "index", "raw_url", "timestamp_end", "timestamp_start",
	"title", "type"}

// hostile texts break naive encoders.
var hostile = []string{`"},{"x":"\"\\`, "\x00\x01\b\f\n\r\t\x1f\x7f", `</script><!-- <&> -->`, "\u2028\u2029",
	"\U0001F469\u200D\U0001F4BB \U0010FFFF", "\u202etxt.exe", strings.Repeat("é", 1<<15), "%s %d %!v(MISSING)", ""}

// jsonTests are about the JSON of the records that a store returns.
var jsonTests = []test{
	{name: "fields and values", run: func(f fixture) {
		b := NewBatch(product, "s", "ada", f.click(1.25), f.click(2.000001), Pageview(f.at(3), page))
		f.add(b)
		want := []activity.Action{b.Actions[0].Action, b.Actions[1].Action, b.Actions[2].Action}
		f.requireJSON(want, f.recent(product, "ada", maxEvents))
	}},
	{name: "invalid UTF-8", run: func(f fixture) {
		a := f.click(1)
		a.Title = "a\xffb\xed\xa0\x80"
		f.add(NewBatch(product, "s", "ada", a))
		a.Title = "a\ufffdb\ufffd\ufffd\ufffd"
		f.requireJSON([]activity.Action{a}, f.recent(product, "ada", maxEvents))
	}},
	{name: "hostile text", run: func(f fixture) {
		for i, text := range hostile {
			user, a := fmt.Sprint("user", i), f.click(1)
			a.Type, a.Title, a.Description, a.RawURL, a.CanonicalURL = text, text, text, text, text
			f.add(NewBatch(product, text, user, a))
			f.requireJSON([]activity.Action{a}, f.recent(product, user, maxEvents))
		}
	}},
}

// requireJSON requires that recent encodes to the actions with exactly their
// fields, and that AppendJSON and Actions agree.
func (f fixture) requireJSON(want []activity.Action, found recent.Records) {
	f.Helper()
	data := found.AppendJSON(nil)
	var objects []map[string]json.RawMessage
	require.NoError(f, json.Unmarshal(data, &objects))
	for _, object := range objects {
		require.Equal(f, actionFields, slices.Sorted(maps.Keys(object)))
	}
	want = slices.Clone(want)
	for i := range want {
		want[i].ID = "" // not part of the JSON
	}
	var got []activity.Action
	require.NoError(f, json.Unmarshal(data, &got))
	require.Equal(f, want, got)
	actions, err := found.Actions()
	require.NoError(f, err)
	require.Equal(f, want, actions)
}
