package liveactivity_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity"
)

// audited returns the lines of the audit log, without their times: key, product and door.
func (s *service) audited() (lines []string) {
	for line := range strings.Lines(s.log.String()) {
		var l map[string]any
		require.NoError(s.t, json.Unmarshal([]byte(line), &l))
		if l["audit"] == true {
			assert.Equal(s.t, "INFO", l["level"])
			assert.Len(s.t, l, 7, "nothing else: %s", line)
			lines = append(lines, strings.Join([]string{l["key"].(string), l["product_id"].(string), l["door"].(string)}, " "))
		}
	}
	return lines
}

func TestAdmin_logsEachChangeWithItsProduct(t *testing.T) {
	s := start(t)
	s.register(`{"product_id":"initech"}`)
	s.register(`{"product_id":"initech","force":true}`)
	s.do(http.MethodDelete, "/users/acme/ada", "", withAdminKey)
	s.do(http.MethodDelete, "/users/acme?email=", "", withAdminKey)
	s.webhook(`{"type":"delete","messageId":"d1","userId":"bob"}`)
	s.do(http.MethodDelete, "/admin/products/initech", "", withAdminKey)
	s.do(http.MethodDelete, "/admin/products/initech", "", withAdminKey)
	var changes []string
	for line := range strings.Lines(s.log.String()) {
		if _, change, ok := strings.Cut(line, `"level":"INFO","msg":"a p`); ok {
			changes = append(changes, strings.TrimSpace(change))
		}
	}
	assert.Equal(t, []string{`roduct was registered","product_id":"initech","force":false}`,
		`roduct was registered","product_id":"initech","force":true}`,
		`erson's data were erased","product_id":"acme"}`, `erson's data were erased","product_id":"acme"}`,
		`roduct was removed","product_id":"initech"}`}, changes)
}

func TestAudit_logsTheReaderAndNothingOfThePerson(t *testing.T) {
	s := start(t, func(o *liveactivity.Options) { o.Keys[0].Name, o.Keys[1].Name = "Billing bot", "agent" })
	p := s.register(`{"product_id":"initech","name":"desk"}`)
	s.webhook(pageview("u1", "s1", "https://app.example.com/secret-page"))
	s.lookup("ada")
	s.do(http.MethodGet, "/users/acme/ada/live-activity", "", bearer("wrong"))
	s.do(http.MethodGet, "/sessions/acme/s1", "", bearer(acmeKey))
	s.callTool("ada")
	s.do(http.MethodGet, "/users/initech/ada/live-activity", "", bearer(p["key"]))
	s.do(http.MethodGet, "/users/globex/ada/live-activity", "", bearer(globexKey))
	assert.Equal(t, []string{"Billing bot acme live-activity", "Billing bot acme session",
		"agent acme get_live_user_activity",
		"desk initech live-activity", " globex live-activity"}, s.audited())
	for line := range strings.Lines(s.log.String()) {
		assert.False(t, strings.Contains(line, `"audit"`) &&
			(strings.Contains(line, "ada") || strings.Contains(line, "secret-page")), line)
	}
}
