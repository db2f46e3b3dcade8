package productfile

import (
	"bytes"
	"encoding/json"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDecode_withoutEnvironmentTakesReferencesAsTheyAre(t *testing.T) {
	var file File
	require.Empty(t, DecodeBody([]byte(oneProduct(`"webhook_secret": "${NOT_SET}"`)), &file))
	assert.Equal(t, "${NOT_SET}", file.Products[0].WebhookSecret)
}

// A deeply nested body costs memory in proportion to its size.
func TestDecode_ofDeepNestingIsCheap(t *testing.T) {
	const depth = 20_000
	for name, body := range map[string]string{
		"arrays":  strings.Repeat("[", depth),
		"objects": strings.Repeat(`{"a":`, depth),
		"a desk": `{"products":[{"integration_config":{"x":` + strings.Repeat(`{"a":`, 9000) + `1` +
			strings.Repeat("}", 9000) + `}}]}`,
		"closed": `{"a":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + `}`,
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			problems := DecodeBody([]byte(body), new(File))
			runtime.ReadMemStats(&after)
			assert.NotEmpty(t, problems)
			assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<20), "bytes allocated for a body of %d", len(body))
			for _, problem := range problems {
				assert.Less(t, len(problem), 1000)
			}
		})
	}
}

// FuzzDecode: Decode returns for every input. An accepted input is a valid JSON object, and a
// strict decoder of the standard library accepts it with the same meaning.
func FuzzDecode(f *testing.F) {
	acme, err := os.ReadFile("testdata/acme.json")
	require.NoError(f, err)
	f.Add(acme)
	for _, seed := range []string{
		``, `{}`, `[]`, `null`, `{"products":[{}]}`,
		`{"products":[{"product_id":"a"}],"keys":[{"key":"k","external_id":"a"}]}`,
		`{"keys":[{"scopes":["mcp",]}]}`, `{"a":{"a":{"a":1,"a":2}}}`,
		`{"products":[{"integration_config":{"notes":{"bin_seconds":1e9}}}]}`,
		`{"products":[{"integration_config":{"zendesk":{"signing_secret":"x"}}}]}`, "{\"products\":\n[}", `{"":{}}`,
		`{"x":"\ud800"}`, `{"k":"${A}$${B}"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var file File
		problems := DecodeBody(data, &file)
		for _, problem := range problems {
			assert.NotEmpty(t, problem)
		}
		if problems != nil {
			return
		}
		file.Validate(NewExtensions(nil, nil))
		require.True(t, json.Valid(data), "taken, though it is not JSON: %q", data)
		strict := json.NewDecoder(bytes.NewReader(data))
		strict.DisallowUnknownFields()
		var want File
		require.NoError(t, strict.Decode(&want))
		assert.Equal(t, want, file)
	})
}
