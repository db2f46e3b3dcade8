package assistance_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/assistance"
	"github.com/liveactivity/liveactivity/internal/musttest"
)

// busy returns a machine that uses every field of a snapshot.
func busy(t testing.TB) assistance.Machine {
	var m assistance.Machine
	for i, e := range []assistance.Event{matched("a", noon), assistance.Shown{OfferID: "p1"}, dismissed,
		matched("a", noon.Add(time.Hour))} {
		if match, ok := e.(assistance.Matched); ok {
			match.Result.Metadata = map[string]string{"page": "<pricing> & more"}
			e = match
		}
		next, _, err := rules.Step(m, noon.Add(time.Duration(i/3)*time.Hour), e)
		require.NoError(t, err)
		m = next
	}
	return m
}

func marshal(t testing.TB, v any) string {
	t.Helper()
	data := musttest.New(json.Marshal(v))
	return string(data)
}

func TestSnapshot_isVersionedJSON(t *testing.T) {
	assert.JSONEq(t, `{"state":"thinking","version":1}`, marshal(t, assistance.Machine{}))
	assert.JSONEq(t, `{
		"version": 1, "state": "conservative_assistance", "since_us": 1795348800000000, "dismissals": 1,
		"fired": {"a": {"at_us": 1795352400000000, "used_us": 0}},
		"claim": {"trigger_id": "a", "body": "Help?", "labels": ["Yes, show me", "No"],
			"metadata": {"page": "<pricing> & more"}, "timeout_us": 10000000,
			"at_us": 1795352400000000, "previous": {"at_us": 1795348800000000, "used_us": 0}},
		"offer": {"trigger_id": "a", "body": "Help?", "labels": ["Yes, show me", "No"],
			"metadata": {"page": "<pricing> & more"}, "timeout_us": 10000000,
			"at_us": 1795348800000000, "id": "p1"}
	}`, marshal(t, busy(t)))
}

func TestSnapshot_readsEarlierVersions(t *testing.T) {
	var m assistance.Machine
	require.NoError(t, json.Unmarshal([]byte(`{"state":"thinking","since_us":1,"sum":"c70434f4","version":1,"mood":[]}`),
		&m))
	assert.Equal(t, assistance.Machine{Since: 1}, m)
}

func TestSnapshot_thatCannotBeReadIsASilentMachine(t *testing.T) {
	for _, snapshot := range []string{
		`{"version":2,"state":"thinking"}`, `{"version":2,"state":{}}`, `{}`, `[]`, `null`, `7`, `""`, ``,
		`{"version":0,"state":"thinking"}`, `{"version":"1","state":"thinking"}`,
		`{"version":1,"state":7}`, `{"version":1,"state":"proactive_assistance"}`,
		`{"version":1,"state":"thinking","dismissals":1.5}`,
		`{"version":1,"state":"thinking","since_us":"now"}`, `{"version":1,"state":"thinking","fired":[]}`,
	} {
		m := busy(t)
		require.NoError(t, m.UnmarshalJSON([]byte(snapshot)), snapshot)
		assert.Equal(t, assistance.Machine{Dismissed: 3}, m)
	}
}

// A snapshot that can be read is written as it was, and the machine works.
func FuzzSnapshot(f *testing.F) {
	f.Add([]byte(marshal(f, assistance.Machine{})))
	f.Add([]byte(marshal(f, busy(f))))
	f.Add([]byte(`{"version":1,"state":"proactive_assistance","offer":{"timeout_us":9223372036854775807},` +
		`"since_us":-9223372036854775808}`))
	f.Add([]byte(`{"version":1,"state":"guidance_execution","fired":{"a":null},"claim":{"previous":{}},"x":{"y":[]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var m, again assistance.Machine
		require.NoError(t, m.UnmarshalJSON(data))
		written := marshal(t, m)
		require.NoError(t, again.UnmarshalJSON([]byte(written)))
		assert.Equal(t, written, marshal(t, again))
		for _, e := range []assistance.Event{matched("a", noon), assistance.Shown{}, assistance.Refused{},
			assistance.Message{Text: "No"}, dismissed, assistance.Engaged{}, assistance.Tick{}} {
			_, _, _ = rules.Step(m, noon, e)
			_, _ = rules.Due(m)
		}
	})
}
