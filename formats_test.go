package liveactivity_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/redistest"
	"github.com/liveactivity/liveactivity/stream/eventlog/boltlog"
)

// testdata/formats holds the data of released formats, as this test wrote it in each release:
//
//	go test -run TestFormats . -write-format=bolt-7
var writeFormat = flag.String("write-format", "",
	"write testdata of this format, bolt-N or redis-N, instead of reading it")

// forGood keeps activity for thirty years: testdata must not expire.
func forGood(o *liveactivity.Options) {
	o.Retention.TTL = 30 * 365 * 24 * time.Hour
	o.Products[0].Events = liveactivity.EventRules{"Invoice Sent": {Properties: []string{"plan"}}, "$dead_click": {},
		"$exception": {}}
	o.Products[0].AllowedOrigins = []string{"https://app.acme.example"}
}

// fill has the service store data of every kind, and returns the key of a product that it
// registered.
func (s *service) fill() (key string) {
	const at = `"timestamp":"2026-11-22T12:00:0`
	event := func(second int, name, user, session, more string) {
		s.webhook(fmt.Sprintf(`{"event":%q,"uuid":"%d",%s%dZ","distinct_id":%q,"properties":{"$session_id":%q,`+
			`"$current_url":"https://app.acme.example/billing"%s}}`, name, second, at, second, user, session, more))
	}
	event(0, "$pageview", "anon", "s1", "")
	event(1, "$identify", "ada", "s1", `,"$anon_distinct_id":"anon","$set":{"email":"ada@example.com"}`)
	event(2, "$autocapture", "ada", "s1", `,"$event_type":"click","$el_text":"Pay",`+
		`"$elements_chain":"button:text=\"Pay\""`)
	event(3, "$dead_click", "ada", "s1", `,"$event_type":"click","$el_text":"Pay","$elements_chain":"button:text=\"Pay\""`)
	event(4, "Invoice Sent", "ada", "s1", `,"plan":"pro"`)
	event(5, "$exception", "ada", "s1", `,"$exception_list":[{"type":"PaymentError","value":"card_declined"}]`)
	event(6, "$pageview", "eve", "s2", "")
	require.Equal(s.t, http.StatusOK, s.status(http.MethodDelete, "/users/acme/eve", "", withAdminKey))
	return s.register(`{"product_id":"initech","agent":{"prompt":"Be brief."}}`)["key"]
}

// knows checks that the service has the data that fill stored.
func (s *service) knows(key string) {
	t := s.t
	live, err := s.service.LiveActivity(t.Context(), "acme", "ada", 50)
	require.NoError(t, err)
	var said []string
	for _, a := range live.Actions {
		said = append(said, a.Description)
	}
	assert.Equal(t, []string{"User landed on the billing page",
		"User clicked Pay on the billing page, and nothing happened",
		"User did Invoice Sent (plan: pro) on the billing page",
		"User saw an error on the billing page: PaymentError: card_declined"}, said)
	assert.Empty(t, s.titles("eve"))
	assert.Equal(t, map[string]float64{"s1": 4}, s.bySession())
	assert.Equal(t, "ada", s.context("email="+mail).UserID)
	assert.Equal(t, http.StatusOK, s.status(http.MethodGet, "/sessions/initech", "", bearer(key)))
	stream := s.stream("/stream/acme?since=0", bearer(acmeKey))
	assert.Equal(t, "User landed on the billing page", stream.nextBatch().Actions[0]["description"])
	s.takes(0, "/webhook/acme", `{"event":"$pageview","uuid":"0","distinct_id":"anon","properties":{"$session_id":"s1",`+
		`"$current_url":"https://app.acme.example/billing"}}`, "X-PostHog-Secret: "+acmeSecret) // a duplicate
	s.takes(1, "/webhook/acme", `{"event":"$pageview","uuid":"new","distinct_id":"ada",`+
		`"properties":{"$session_id":"s1","$current_url":"https://app.acme.example/plans"}}`, "X-PostHog-Secret: "+acmeSecret)
	assert.Equal(t, map[string]float64{"s1": 5}, s.bySession())
}

// dump is a database in a file: a bbolt file, or the keys of Redis as DUMP has them.
type dump struct {
	Key  string            `json:"key"` // of the registered product
	Bolt []byte            `json:"bolt,omitempty"`
	Keys map[string][]byte `json:"keys,omitempty"`
}

// This program reads and continues the data of earlier releases. Every release with a new format
// adds its testdata.
func TestFormats_ofReleasesAreRead(t *testing.T) {
	if *writeFormat != "" {
		writeDump(t, *writeFormat)
		return
	}
	files := musttest.New(filepath.Glob("testdata/formats/*.json.gz"))
	require.GreaterOrEqual(t, len(files), 2)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data := musttest.New(os.Open(file))
			defer data.Close()
			unzipped := musttest.New(gzip.NewReader(data))
			var d dump
			require.NoError(t, json.NewDecoder(unzipped).Decode(&d))
			start(t, forGood, d.open(t)).knows(d.Key)
		})
	}
}

// open returns the option for a service on the database.
func (d *dump) open(t *testing.T) func(*liveactivity.Options) {
	if d.Bolt != nil {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, boltlog.FileName), d.Bolt, 0o600))
		return withDataDir(dir)
	}
	redis := redistest.Start(t)
	for key, value := range d.Keys {
		require.NoError(t, redis.Client().Restore(t.Context(), key, 0, string(value)).Err())
	}
	return withRedis(redis.URL())
}

// writeDump writes the testdata of a format, which this program must read.
func writeDump(t *testing.T, name string) {
	d := dump{Keys: map[string][]byte{}}
	dir := t.TempDir()
	engine, read := withDataDir(dir), func() {
		d.Bolt = musttest.New(os.ReadFile(filepath.Join(dir, boltlog.FileName)))
	}
	if name[0] == 'r' {
		redis := redistest.Start(t)
		engine, read = withRedis(redis.URL()), func() {
			keys := musttest.New(redis.Client().Keys(context.Background(), "*").Result())
			for _, key := range keys {
				value := musttest.New(redis.Client().Dump(context.Background(), key).Result())
				d.Keys[key] = []byte(value)
			}
		}
	}
	s := start(t, forGood, engine)
	d.Key = s.fill()
	s.stop()
	read()
	var file bytes.Buffer
	packed := musttest.New(gzip.NewWriterLevel(&file, gzip.BestCompression))
	require.NoError(t, json.NewEncoder(packed).Encode(d))
	require.NoError(t, packed.Close())
	require.NoError(t, os.MkdirAll("testdata/formats", 0o755))
	require.NoError(t, os.WriteFile("testdata/formats/"+name+".json.gz", file.Bytes(), 0o644))
}
