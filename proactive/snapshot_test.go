package proactive_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/proactive"
)

// busy returns a machine that uses every field of a snapshot.
func busy(t testing.TB) proactive.Machine {
	var m proactive.Machine
	for i, e := range []proactive.Event{matched("a", noon), proactive.Shown{OfferID: "p1"}, proactive.Dismissed{}, matched("a", noon.Add(time.Hour))} {
		if match, ok := e.(proactive.Matched); ok {
			match.Result.Metadata = map[string]string{"page": "<pricing> & more"}
			e = match
		}
		next, _, err := proactive.Rules{}.Step(m, noon.Add(time.Duration(i/3)*time.Hour), e)
		require.NoError(t, err)
		m = next
	}
	return m
}

func marshal(t testing.TB, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return string(data)
}

// signed returns a snapshot with the checksum that it should have.
func signed(t testing.TB, snapshot string) string {
	t.Helper()
	fields := map[string]json.RawMessage{}
	require.NoError(t, json.Unmarshal([]byte(snapshot), &fields))
	delete(fields, "sum")
	sum := crc32.Checksum([]byte(marshal(t, fields)), crc32.MakeTable(crc32.Castagnoli))
	fields["sum"] = json.RawMessage(fmt.Sprintf(`"%08x"`, sum))
	return marshal(t, fields)
}

func TestSnapshot_isVersionedJSON(t *testing.T) {
	assert.Equal(t, `{"state":"thinking","sum":"c70434f4","version":1}`, marshal(t, proactive.Machine{}))
	assert.JSONEq(t, `{
		"version": 1, "sum": "9d750891", "state": "conservative_assistance", "since_us": 1795348800000000, "dismissals": 1,
		"fired": {"a": {"at_us": 1795352400000000, "used_us": 0}},
		"claim": {"trigger_id": "a", "body": "Help?", "labels": ["Yes, show me", "No"], "metadata": {"page": "<pricing> & more"},
			"timeout_us": 10000000, "at_us": 1795352400000000, "send_by_us": 1795352410000000, "previous": {"at_us": 1795348800000000, "used_us": 0}},
		"offer": {"trigger_id": "a", "body": "Help?", "labels": ["Yes, show me", "No"], "metadata": {"page": "<pricing> & more"},
			"timeout_us": 10000000, "at_us": 1795348800000000, "send_by_us": 1795348810000000, "id": "p1"}
	}`, marshal(t, busy(t)))
}

func TestSnapshot_restoresTheMachine(t *testing.T) {
	for _, m := range []proactive.Machine{{}, busy(t), in(&testing.T{}, proactive.Proactive).Machine, in(&testing.T{}, proactive.Guidance).Machine, in(&testing.T{}, proactive.Reactive).Machine} {
		var restored proactive.Machine
		require.NoError(t, json.Unmarshal([]byte(marshal(t, m)), &restored))
		assert.Equal(t, m, restored)

		indented, err := json.MarshalIndent(map[string]any{"machine": m}, "", "  ")
		require.NoError(t, err)
		var document struct{ Machine proactive.Machine }
		require.NoError(t, json.Unmarshal(indented, &document))
		assert.Equal(t, m, document.Machine)
	}
}

func TestSnapshot_keepsWhatItDoesNotKnow(t *testing.T) {
	unknown := func(s string) string {
		s = strings.Replace(s, `{"claim":{`, `{"mood":[1.50,{"x":null}],"claim":{"colour":"<red>",`, 1)
		s = strings.Replace(s, `"previous":{`, `"previous":{"why":1,`, 1)
		return signed(t, strings.Replace(s, `"fired":{"a":{`, `"fired":{"a":{"how":"gently",`, 1))
	}
	data := unknown(marshal(t, busy(t)))
	var m proactive.Machine
	require.NoError(t, json.Unmarshal([]byte(data), &m))
	assert.JSONEq(t, withoutSum(data), withoutSum(marshal(t, m)))
	assert.Equal(t, 4, strings.Count(data, "mood")+strings.Count(data, "colour")+strings.Count(data, "why")+strings.Count(data, "gently"))

	m, _, err := proactive.Rules{}.Step(m, noon.Add(-time.Hour), proactive.Shown{OfferID: "p2"})
	require.NoError(t, err)
	again := marshal(t, m)
	for _, kept := range []string{`"mood":[1.50,{"x":null}]`, `"colour":"\u003cred\u003e"`, `"how":"gently"`} {
		assert.Contains(t, again, kept)
	}
}

func withoutSum(snapshot string) string {
	return regexp.MustCompile(`"sum":"[0-9a-f]{8}",`).ReplaceAllString(snapshot, "")
}

func TestSnapshot_ofAnotherVersionIsRefused(t *testing.T) {
	before := busy(t)
	m := before
	err := json.Unmarshal([]byte(signed(t, `{"version":2,"state":"thinking"}`)), &m)
	var version *proactive.VersionError
	require.ErrorAs(t, err, &version)
	assert.Equal(t, 2, version.Version)
	require.NotErrorIs(t, err, proactive.ErrSnapshot)
	require.EqualError(t, err, "proactive: the snapshot is of version 2, and known is 1")
	assert.Equal(t, before, m)
}

func TestSnapshot_thatCannotBeIsRefused(t *testing.T) {
	for _, snapshot := range []string{
		`{}`, `[]`, `null`, `7`, `""`, ``, `{"version":1}`, `{"version":0,"state":"thinking"}`, `{"version":"1","state":"thinking"}`,
		`{"version":1,"state":"asleep"}`, `{"version":1,"state":7}`, `{"version":1,"state":"proactive_assistance"}`,
		`{"version":1,"state":"thinking","dismissals":-1}`, `{"version":1,"state":"thinking","dismissals":1.5}`,
		`{"version":1,"state":"thinking","since_us":"now"}`, `{"version":1,"state":"thinking","fired":[]}`,
		`{"version":1,"state":"thinking","claim":{"labels":["a","b","c","d"]}}`, `{"version":1,"state":"thinking","offer":{"timeout_us":-1}}`,
	} {
		before := busy(t)
		m := before
		sum := snapshot
		if strings.HasPrefix(snapshot, "{") {
			sum = signed(t, snapshot)
		}
		err := m.UnmarshalJSON([]byte(sum))
		require.ErrorIs(t, err, proactive.ErrSnapshot, snapshot)
		assert.Equal(t, before, m)
	}
	var m proactive.Machine
	require.ErrorIs(t, m.UnmarshalJSON([]byte(`{"version":1,"state":"thinking"}`)), proactive.ErrSnapshot, "there is no checksum")
}

// Whatever one byte becomes: the snapshot is refused, or means the same.
func TestSnapshot_damagedInAnyByteIsNotMisread(t *testing.T) {
	everything := make([]byte, 256)
	for i := range everything {
		everything[i] = byte(i)
	}
	damage(t, proactive.Machine{}, everything)
	damage(t, busy(t), []byte(" 0\","))
}

// damage sets each byte of a machine's snapshot to each of the values, flips each
// of its bits, leaves it out, and cuts the snapshot there.
func damage(t *testing.T, m proactive.Machine, values []byte) {
	data := []byte(marshal(t, m))
	for i, original := range data {
		for bit := range 8 {
			values = append(values[:len(values):len(values)], original^1<<bit)
		}
		for _, value := range values {
			data[i] = value
			notMisread(t, data, m)
		}
		values = values[:len(values)-8]
		data[i] = original
		notMisread(t, data[:i], m)
		notMisread(t, slices.Concat(data[:i], data[i+1:]), m)
	}
}

// notMisread requires that the data are refused, or the snapshot of a machine.
func notMisread(t testing.TB, data []byte, of proactive.Machine) {
	t.Helper()
	var m proactive.Machine
	err := m.UnmarshalJSON(data)
	var version *proactive.VersionError
	switch {
	case err == nil && !assert.ObjectsAreEqual(of, m):
		t.Fatalf("%s is restored as %+v", data, m)
	case err != nil && !errors.Is(err, proactive.ErrSnapshot) && !errors.As(err, &version):
		t.Fatalf("%s: %v is not typed", data, err)
	}
}

// A snapshot that is read is written as it was, and the machine works.
func FuzzSnapshot(f *testing.F) {
	f.Add([]byte(marshal(f, proactive.Machine{})))
	f.Add([]byte(marshal(f, busy(f))))
	f.Add([]byte(`{"version":1,"state":"proactive_assistance","offer":{"timeout_us":9223372036854775807},"since_us":-9223372036854775808}`))
	f.Add([]byte(`{"version":1,"state":"guidance_execution","fired":{"a":null},"claim":{"previous":{}},"x":{"y":[]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var fields map[string]json.RawMessage
		if json.Unmarshal(data, &fields) == nil && fields != nil {
			data = []byte(signed(t, string(data))) // else the checksum stops nearly all
		}
		var m, again proactive.Machine
		if m.UnmarshalJSON(data) != nil {
			assert.Equal(t, proactive.Machine{}, m)
			return
		}
		written := marshal(t, m)
		require.NoError(t, again.UnmarshalJSON([]byte(written)))
		assert.Equal(t, written, marshal(t, again))
		for _, e := range []proactive.Event{matched("a", noon), proactive.Shown{}, proactive.Refused{}, proactive.Message{Text: "No"}, proactive.Dismissed{}, proactive.Engaged{}, proactive.Tick{}} {
			_, _, _ = proactive.Rules{}.Step(m, noon, e)
			_, _ = proactive.Rules{}.Due(m, noon)
		}
	})
}
