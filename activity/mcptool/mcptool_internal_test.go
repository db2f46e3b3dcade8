package mcptool

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/jsontext"
)

// The sent bytes never exceed the bytes taken from the budget, which are at most twice the sent ones.
func TestWireSize_isAnUpperBound(t *testing.T) {
	for _, text := range []string{"", "plain", `"quoted" \ back`, "<a href='x'>&amp;</a>", "\u2028\u2029", "größe €",
		strings.Repeat("<&>\"", 1000)} {
		data, err := jsontext.Marshal(map[string]string{"text": text})
		require.NoError(t, err)
		sent, err := json.Marshal(&mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(data)}},
			StructuredContent: json.RawMessage(data)})
		require.NoError(t, err)
		assert.LessOrEqual(t, len(sent), wireSize(data)+overhead, text)
		assert.LessOrEqual(t, wireSize(data), 2*len(sent), "and not by far, %s", text)
	}
}
