package recent_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/recent"
)

// The JSON of an action in a lookup's answer is specified to the byte.
func TestRecent_AppendJSON_isTheSpecifiedAction(t *testing.T) {
	const head = `{"type":"click","title":"Click \"Save\"","description":"User clicked \"Save\""`
	const tail = `"timestamp_start":1700000000.5,"timestamp_end":1700000000.5,"index":`
	for name, c := range map[string]struct{ raw, canonical, want string }{
		"the same URL twice": {"https://x/a", "https://x/a", `"raw_url":"https://x/a","canonical_url":"https://x/a"`},
		"two URLs": {"https://x/1?a&b=<2>", "https://x/:id",
			`"raw_url":"https://x/1?a&b=<2>","canonical_url":"https://x/:id"`},
		"no URL":             {"", "", `"raw_url":"","canonical_url":""`},
		"quotes":             {`/"a"\"b\`, `/"a"\"b\`, `"raw_url":"/\"a\"\\\"b\\","canonical_url":"/\"a\"\\\"b\\"`},
		"only quotes":        {`""`, `""`, `"raw_url":"\"\"","canonical_url":"\"\""`},
		"a name of a field":  {`,"raw_url":`, "", `"raw_url":",\"raw_url\":","canonical_url":""`},
		"another in the end": {"", `,"raw_url":`, `"raw_url":"","canonical_url":",\"raw_url\":"`},
		"ends of lines":      {"a\u0085\u2028\n", "a", `"raw_url":"a\u0085\u2028\n","canonical_url":"a"`},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := recent.NewRecord("s", activity.Action{Type: "click", Title: `Click "Save"`,
				Description:    `User clicked "Save"`,
				TimestampStart: 1_700_000_000.5, RawURL: c.raw, CanonicalURL: c.canonical})
			require.NoError(t, err)
			want := head + "," + c.want + "," + tail
			assert.Equal(t, "before["+want+"0},"+want+"1}]", string(recent.Records{r, r}.AppendJSON([]byte("before"))))
		})
	}
}
