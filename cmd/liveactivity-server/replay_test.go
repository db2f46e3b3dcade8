package main_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/proctest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/boltlog"
)

// visits records users' actions in a bubble, which starts at midnight of January 1, 2000.
type visits struct {
	t        *testing.T
	recorder *eventlog.Recorder
	events   int
}

// recorded returns a folder with a log of the function's actions.
func recorded(t *testing.T, record func(v *visits)) (dir string) {
	t.Helper()
	dir = t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		log := musttest.New(boltlog.Open(dir, nil))
		recorder := musttest.New(eventlog.NewRecorder(log, nil))
		record(&visits{t: t, recorder: recorder})
		require.NoError(t, log.Release())
	})
	return dir
}

// do records an action and lets a second pass.
func (v *visits) do(productID, sessionID, typ, label, page string) {
	v.t.Helper()
	v.events++
	action := activity.NewAction(typ, activity.Target{Label: label}, "https://app.example.com"+page)
	_, err := v.recorder.Record(context.Background(), productID,
		[]activity.Event{{ID: fmt.Sprint(v.events), Time: time.Now(), SessionID: sessionID, Action: &action}})
	require.NoError(v.t, err)
	time.Sleep(time.Second)
}

func (v *visits) visit(productID, sessionID string, pages ...string) {
	v.t.Helper()
	for _, page := range pages {
		v.do(productID, sessionID, activity.TypePageview, "", page)
	}
}

// replayed returns the output of proactive replay.
func replayed(t *testing.T, dir string, flags ...string) string {
	t.Helper()
	p := ran(t, 0, append([]string{"proactive", "replay", "--data-dir=" + dir}, flags...)...)
	assert.Empty(t, p.Stderr.String())
	_, said, ok := strings.Cut(p.Stdout.String(),
		"Each session is replayed as if it were linked to a conversation in which the user reacts to no offer.\n\n")
	require.True(t, ok, p.Stdout.String())
	return said
}

func TestReplay_saysWhichOffersWouldHaveBeenMadeAndWhyNot(t *testing.T) {
	t.Parallel()
	dir := recorded(t, func(v *visits) {
		v.visit("acme", "s1", "/pricing", "/docs", "/pricing") // an offer
		v.visit("acme", "s1", "/a", "/b", "/a")                // while that is shown
		v.visit("acme", "s2 ", "/home", "/docs", "/help")
		time.Sleep(time.Hour)
		v.visit("acme", "s1", "/pricing", "/docs", "/pricing")
		v.visit("globex", "s1", "/home")
	})
	before := contentsOf(t, dir)
	assert.Equal(t, `product acme (defaults: no proactive is configured)
  2000-01-01T00:00:02Z  offered    canonical_url_ping_pong  session s1  https://app.example.com/pricing
  2000-01-01T00:00:05Z  state      canonical_url_ping_pong  session s1  https://app.example.com/a
  2000-01-01T01:00:11Z  offered    canonical_url_ping_pong  session s1  https://app.example.com/pricing
  12 actions from 2000-01-01T00:00:00Z to 2000-01-01T01:00:11Z
  canonical_url_ping_pong: 2 offered, 1 state
  no trigger matched at 9 actions

product globex (defaults: no proactive is configured)
  1 actions from 2000-01-01T01:00:12Z to 2000-01-01T01:00:12Z
  no trigger matched at 1 actions
`, replayed(t, dir))
	assert.Equal(t, before, contentsOf(t, dir), "nothing is changed")
}

func TestReplay_asksTheTriggersOfTheProductFile(t *testing.T) {
	t.Parallel()
	dir := recorded(t, func(v *visits) {
		for range 3 {
			time.Sleep(-time.Second + time.Second/2)
			v.do("acme", "s1", activity.TypeClick, "Save", "/settings")
		}
		v.visit("acme", "s2", "/a", "/b", "/a", "/checkout")
		v.visit("globex", "s3", "/a", "/b", "/a")
		time.Sleep(57 * time.Second)
		v.visit("acme", "s2", "/done") // a second after the offer
	})
	path := productFile(t, `{"products": [{"product_id": "acme", "webhook_secret": "x", "integration_config": {"proactive":
		{"enabled": false, "triggers": [{"id": "rage_clicks"}, {"id": "user_page_dwell", "page": "/checkout"}]}}}]}`)
	assert.Equal(t, `product acme (not enabled)
  2000-01-01T00:00:02Z  offered    rage_clicks  session s1  https://app.example.com/settings
  2000-01-01T00:01:06Z  offered    user_page_dwell  session s2  https://app.example.com/checkout
  8 actions from 2000-01-01T00:00:00Z to 2000-01-01T00:01:07Z
  rage_clicks: 1 offered
  user_page_dwell: 1 offered
  no trigger matched at 7 actions
`, replayed(t, dir, "--product=acme", "--config="+path))
	assert.Contains(t, replayed(t, dir, "--config="+path), "canonical_url_ping_pong: 1 offered", "globex has the defaults")
}

func TestReplay_warnsOfATriggerThatCannotMatch(t *testing.T) {
	t.Parallel()
	dir := recorded(t, func(v *visits) { v.visit("acme", "s1", "/pricing") })
	path := productFile(t, `{"products": [{"product_id": "acme", "webhook_secret": "x", "integration_config": {"proactive":
		{"triggers": [{"id": "error_seen"}]}}}]}`)
	p := ran(t, 0, "proactive", "replay", "--data-dir="+dir, "--config="+path)
	assert.Equal(t, "warning: "+path+`: products[0].integration_config.proactive.triggers[0]: without "$exception" in `+
		"events it never matches\n", p.Stderr.String())
}

// contentsOf returns the files of a folder, with their contents and times.
func contentsOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := musttest.New(os.ReadDir(dir))
	all := map[string]string{}
	for _, file := range files {
		content := musttest.New(os.ReadFile(filepath.Join(dir, file.Name())))
		info := musttest.New(file.Info())
		all[file.Name()] = fmt.Sprint(info.ModTime(), string(content))
	}
	return all
}

func TestReplay_printsUntrustedTextOnOneLine(t *testing.T) {
	t.Parallel()
	dir := recorded(t, func(v *visits) { v.visit("acme\n2", "s\x1b[31m", "/pricing", "/docs", "/pricing") })
	said := replayed(t, dir)
	assert.Contains(t, said, `product acme 2 (`)
	assert.Contains(t, said, `session s [31m  https`)
}

func TestReplay_refusesMissingAndDamagedDatabases(t *testing.T) {
	t.Parallel()
	dir := recorded(t, func(v *visits) { v.visit("acme", "s1", "/pricing") })
	damaged, foreign := t.TempDir(), t.TempDir()
	content := musttest.New(os.ReadFile(filepath.Join(dir, boltlog.FileName)))
	require.NoError(t, os.WriteFile(filepath.Join(damaged, boltlog.FileName), content[:len(content)/4], 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(foreign, boltlog.FileName),
		[]byte(strings.Repeat("no database ", 1000)), 0o600))
	used := t.TempDir()
	server := launch(t, nil, "--data-dir="+used, anyPort)
	server.URL()
	for name, tt := range map[string]struct{ args, says []string }{
		"no folder": {nil, []string{"--data-dir: is missing"}},
		"a folder that is not": {[]string{"--data-dir=" + dir + "/none"},
			[]string{"--data-dir: ", "/none/liveactivity.db", "no such file"}},
		"a damaged file": {[]string{"--data-dir=" + damaged}, []string{"--data-dir: ", "the file is damaged"}},
		"a foreign file": {[]string{"--data-dir=" + foreign}, []string{"--data-dir: ", "not of this program"}},
		"a file in use": {[]string{"--data-dir=" + used},
			[]string{"--data-dir: ", "in use by another process; stop the server first"}},
		"an unknown product": {[]string{"--data-dir=" + dir, "--product=acne"},
			[]string{"--product: the log has no product acne"}},
		"no product file": {[]string{"--data-dir=" + dir, "--config=/none"}, []string{"/none"}},
		"a broken product file": {[]string{"--data-dir=" + dir,
			"--config=" + productFile(t, `{"products": [{"product_id": "acme", "integration_config": {"proactive": `+
				`{"triggers": [{"id": "rage"}]}}}]}`)}, []string{".proactive.triggers[0].id", "rage_clicks"}},
		"an argument too many": {[]string{"acme"}, []string{"acme"}},
	} {
		t.Run(name, func(t *testing.T) {
			words := proctest.Refused(t, launch(t, nil, append([]string{"proactive", "replay"}, tt.args...)...))
			for _, want := range tt.says {
				assert.Contains(t, words, want)
			}
		})
	}
	assert.NoDirExists(t, dir+"/none")
	server.Stop()
}
