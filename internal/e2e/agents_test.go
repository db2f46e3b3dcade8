package e2e

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/depstest"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

// The programs of examples/agents run with the real packages, and their models are told
// what the user did.
func TestAgents_areToldWhatTheUserDid(t *testing.T) {
	t.Parallel()
	programs, err := filepath.Glob("../../examples/agents/*.mjs")
	require.NoError(t, err)
	require.NotEmpty(t, programs)
	s := startService(t)
	answer, err := http.Post(s.url+"/e/", "application/json", strings.NewReader(`{"api_key":"`+s.token+
		`","event":"$pageview","distinct_id":"user_42","properties":{"$session_id":"s","$current_url":"https://`+
		`app.example.com/pricing"}}`))
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	folder := t.TempDir() // a program finds its packages beside it
	require.NoError(t, os.Symlink(depstest.Modules(t, depstest.NPM), filepath.Join(folder, "node_modules")))
	for _, program := range programs {
		source, err := os.ReadFile(program)
		require.NoError(t, err)
		path := filepath.Join(folder, filepath.Base(program))
		require.NoError(t, os.WriteFile(path, source, 0o600))
		ctx, cancel := context.WithTimeout(t.Context(), waittest.Patience)
		defer cancel()
		cmd := exec.CommandContext(ctx, depstest.Command(t, "node"), path, "user_42")
		cmd.Env = append(os.Environ(), "LIVEACTIVITY_URL="+s.url, "LIVEACTIVITY_KEY="+s.key)
		said, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %s", program, said)
		assert.Contains(t, string(said), "User landed on the pricing page", program)
	}
}
