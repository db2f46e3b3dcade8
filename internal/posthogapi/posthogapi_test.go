package posthogapi_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/posthogapi"
)

// project is a PostHog project. Its lists have two destinations a page, without inputs.
type project struct {
	url       string
	functions []map[string]any
	writes    int
}

func newProject(t *testing.T) *project {
	p := &project{}
	mux := http.NewServeMux()
	const folder = "/api/environments/7/hog_functions/"
	mux.HandleFunc("GET "+folder+"{$}", func(w http.ResponseWriter, r *http.Request) {
		offset, _ := strconv.Atoi(r.URL.Query().Get("offset"))
		page := map[string]any{"next": nil}
		var results []any
		for i, f := range p.functions {
			if i >= offset && i < offset+2 && f["deleted"] != true {
				listed := maps.Clone(f)
				delete(listed, "inputs")
				results = append(results, listed)
			}
		}
		if offset+2 < len(p.functions) {
			page["next"] = fmt.Sprintf("https://elsewhere.example%s?type=destination&offset=%d", folder, offset+2)
		}
		page["results"] = results
		assert.NoError(t, json.NewEncoder(w).Encode(page))
	})
	mux.HandleFunc("POST "+folder+"{$}", func(w http.ResponseWriter, r *http.Request) {
		f := map[string]any{"id": "id-" + strconv.Itoa(len(p.functions))}
		assert.NoError(t, json.NewDecoder(r.Body).Decode(&f))
		p.functions, p.writes = append(p.functions, f), p.writes+1
		w.WriteHeader(http.StatusCreated)
		assert.NoError(t, json.NewEncoder(w).Encode(f))
	})
	mux.HandleFunc(folder+"{id}/", func(w http.ResponseWriter, r *http.Request) {
		for _, f := range p.functions {
			switch {
			case f["id"] != r.PathValue("id"):
				continue
			case r.Method == http.MethodPatch:
				p.writes++
				assert.NoError(t, json.NewDecoder(r.Body).Decode(&f))
			case r.Method != http.MethodGet:
				w.WriteHeader(http.StatusMethodNotAllowed)
			}
			assert.NoError(t, json.NewEncoder(w).Encode(f))
		}
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer phx_key" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	p.url = server.URL
	return p
}

func destination() posthogapi.Destination {
	return posthogapi.Destination{Name: posthogapi.Name("acme"), URL: "https://live.example.com/webhook/acme",
		Secret: "hush",
		Events: []string{"$pageview", "$identify"}}
}

func TestProvision_createsThenLeavesThenUpdates(t *testing.T) {
	p := newProject(t)
	for range 4 {
		p.functions = append(p.functions, map[string]any{"id": "x", "name": "another"})
	}
	api := musttest.New(posthogapi.New(p.url, "7", "phx_key"))
	provision := func(d posthogapi.Destination, dryRun bool, want posthogapi.Outcome, writes int) {
		t.Helper()
		p.writes = 0
		outcome, err := api.Provision(t.Context(), d, dryRun)
		require.NoError(t, err)
		assert.Equal(t, []any{want, writes}, []any{outcome, p.writes})
	}
	provision(destination(), true, posthogapi.Created, 0)
	provision(destination(), false, posthogapi.Created, 1)
	assert.JSONEq(t, `{"id":"id-4","type":"destination","name":"liveactivity: acme","enabled":true,
		"template_id":"template-webhook",
		"filters":{"events":[{"id":"$pageview","type":"events"},{"id":"$identify","type":"events"}]},
		"inputs":{"url":{"value":"https://live.example.com/webhook/acme"},"method":{"value":"POST"},
			"headers":{"value":{"Content-Type":"application/json","X-PostHog-Secret":"hush"}},
			"body":{"value":{"event":"{event}","person":"{person}"}}}}`, encoded(p.functions[4]))
	provision(destination(), false, posthogapi.Present, 0)
	for name, change := range map[string]func(d *posthogapi.Destination){
		"address": func(d *posthogapi.Destination) { d.URL = "https://new.example.com/webhook/acme" },
		"secret":  func(d *posthogapi.Destination) { d.Secret = "new" },
		"events":  func(d *posthogapi.Destination) { d.Events = d.Events[:1] },
	} {
		d := destination()
		change(&d)
		provision(d, true, posthogapi.Updated, 0)
		provision(d, false, posthogapi.Updated, 1)
		provision(d, false, posthogapi.Present, 0)
		provision(destination(), false, posthogapi.Updated, 1)
		assert.Len(t, p.functions, 5, name)
	}
	p.functions[4]["enabled"] = false
	provision(destination(), false, posthogapi.Updated, 1)
}

func TestRemove_marksItsOwnDestination(t *testing.T) {
	p := newProject(t)
	p.functions = []map[string]any{{"id": "x", "name": "another"}, {"id": "y", "name": "liveactivity: acme"}}
	api := musttest.New(posthogapi.New(p.url, "7", "phx_key"))
	for _, tt := range []struct {
		dryRun bool
		want   posthogapi.Outcome
	}{{true, posthogapi.Removed}, {false, posthogapi.Removed}, {false, posthogapi.Absent}} {
		outcome, err := api.Remove(t.Context(), "liveactivity: acme", tt.dryRun)
		require.NoError(t, err)
		assert.Equal(t, tt.want, outcome)
	}
	assert.Equal(t, 1, p.writes)
	assert.Equal(t, []any{nil, true}, []any{p.functions[0]["deleted"], p.functions[1]["deleted"]})
}

func TestAPI_namesTheMistake(t *testing.T) {
	for _, host := range []string{"", "eu.posthog.com", "http://eu.posthog.com", "https://a@eu.posthog.com"} {
		_, err := posthogapi.New(host, "7", "k")
		assert.Error(t, err, host)
	}
	api := musttest.New(posthogapi.New(newProject(t).url, "7", "another"))
	_, err := api.Provision(t.Context(), destination(), false)
	require.ErrorContains(t, err, "PostHog: list the destinations")
	assert.NotContains(t, err.Error(), "another")
}

func encoded(v any) string {
	b := musttest.New(json.Marshal(v))
	return string(b)
}
