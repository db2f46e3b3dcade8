package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The programs of examples/agents run with the real packages, and their models get the user's
// actions.
func TestAgents_getTheUsersActions(t *testing.T) {
	t.Parallel()
	programs, err := filepath.Glob("../../examples/agents/*.mjs")
	require.NoError(t, err)
	require.NotEmpty(t, programs)
	s := startService(t)
	s.answer(http.MethodPost, "/e/", `{"api_key":"`+s.token+`","event":"$pageview","distinct_id":"user_42",`+
		`"properties":{"$session_id":"s","$current_url":"https://app.example.com/pricing"}}`, "")
	for _, program := range programs {
		source, err := os.ReadFile(program)
		require.NoError(t, err)
		said := module(t, string(source), []string{"LIVEACTIVITY_URL=" + s.url, "LIVEACTIVITY_KEY=" + s.key}, "user_42")
		assert.Contains(t, said, "User landed on the pricing page", program)
	}
}
