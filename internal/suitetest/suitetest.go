// Package suitetest tests conformance suites: a suite must find each mistake
// that an engine can have.
package suitetest

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// variable is the environment variable with the mistake to build into the
// engine under test.
const variable = "BROKEN_ENGINE"

// Mistake returns the name of the mistake that this process's engine must have,
// or "".
func Mistake() string { return os.Getenv(variable) }

// FindsEach runs a test, which runs the suite, once for every mistake, in a
// separate process, and requires that it fails. Mistakes are given by name,
// each with the pattern of the subtests that find it.
func FindsEach(t *testing.T, test string, mistakes map[string]string) {
	t.Helper()
	for name, found := range mistakes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+test+"$/"+found)
			cmd.Env = append(os.Environ(), variable+"="+name)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit, "the suite passes:\n%s", out)
			assert.Contains(t, string(out), "--- FAIL: "+test)
		})
	}
}
