package registry

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/activity/intake"
	"github.com/liveactivity/liveactivity/activity/posthog"
	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/helpdesk/connector"
	"github.com/liveactivity/liveactivity/helpdesk/helpdesktest"
	"github.com/liveactivity/liveactivity/internal/logtest"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/productfile"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/internal/watchtest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/boltlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
)

// attached returns a registry on the log, with the log's registrations loaded.
func attached(t *testing.T, log eventlog.Log) *Registry {
	t.Helper()
	r := registryOn(log)
	require.NoError(t, r.Load(t.Context()))
	return r
}

func openLog(t *testing.T, dir string) *boltlog.Log {
	t.Helper()
	log := musttest.New(boltlog.Open(dir, nil))
	t.Cleanup(func() { require.NoError(t, log.Release()) })
	return log
}

func newMemoryLog() *memorylog.Log {
	return musttest.New(memorylog.New(nil))
}

// opens reports whether the credentials open the product.
func opens(r *Registry, c Credentials, id string) bool {
	product, _, err := r.ProductOfID(id)
	return err == nil && product.WebhookSecret == c.WebhookSecret && r.Keys().Check(c.Key, id, access.Stream) == nil
}

// A reader of the storage file finds no key to a product in it.
func TestRegistrations_storeTheKeyAsADigestOnly(t *testing.T) {
	dir := t.TempDir()
	log := openLog(t, dir)
	r := attached(t, log)
	keys := []string{register(t, r, "acme", false).Key, register(t, r, "acme", true).Key,
		register(t, r, "other", false).Key}
	require.NoError(t, log.Release())
	file := string(musttest.New(os.ReadFile(filepath.Join(dir, boltlog.FileName))))
	for _, key := range keys {
		assert.NotContains(t, file, key)
		assert.NotContains(t, file, key[4:], "not without its prefix either")
		assert.NotContains(t, file, base64.StdEncoding.EncodeToString([]byte(key)))
	}
	digest := sha256.Sum256([]byte(keys[2]))
	assert.Contains(t, file, base64.StdEncoding.EncodeToString(digest[:]))
}

// run keeps the registry up to date until the test ends, and returns its log from now on.
func run(t *testing.T, r *Registry) *logtest.Buffer {
	t.Helper()
	logged := logTo(r)
	waittest.Run(t, func(ctx context.Context) error {
		r.Run(ctx)
		return nil
	})
	return logged
}

// logTo returns the registry's log from now on.
func logTo(r *Registry) *logtest.Buffer {
	logged := &logtest.Buffer{}
	r.deskOptions.Logger = slog.New(slog.NewTextHandler(logged, nil))
	return logged
}

// watchedLog counts the looks at storage.
type watchedLog struct {
	*watchtest.Log
	bounds, lists atomic.Int64
}

var errDown = watchtest.ErrDown

func newWatchedLog() *watchedLog {
	l := &watchedLog{Log: &watchtest.Log{Log: newMemoryLog()}}
	l.Before = func(_ context.Context, op watchtest.Op) error {
		switch op.Name {
		case "bounds":
			l.bounds.Add(1)
		case "list":
			l.lists.Add(1)
		}
		return nil
	}
	return l
}

// Guessed credentials, however many, ask storage at most fifty times a second. They read nothing when nothing is new.
func TestRegistrations_areNotLookedForWithEveryGuess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newWatchedLog()
		r := attached(t, log)
		c := register(t, r, "acme", false)
		time.Sleep(time.Minute)
		log.bounds.Store(0)
		log.lists.Store(0)
		began := time.Now()
		for range 1000 {
			require.ErrorIs(t, r.Keys().Check("lak_guess", "acme", access.MCP), access.ErrInvalid)
			_, ok, err := r.ProductOfToken("phc_guess")
			require.False(t, ok)
			require.NoError(t, err)
			_, ok, _ = r.ProductOfID("guess")
			require.False(t, ok)
			time.Sleep(time.Millisecond)
		}
		require.LessOrEqual(t, log.bounds.Load(), int64(time.Since(began)/(20*time.Millisecond))+1)
		require.Positive(t, log.bounds.Load())
		require.Zero(t, log.lists.Load())
		log.bounds.Store(0)
		for range 1000 {
			assertOpen(t, r, c, "acme")
			require.ErrorIs(t, r.Keys().Check("", "acme", access.MCP), access.ErrInvalid)
			time.Sleep(time.Millisecond)
		}
		require.Zero(t, log.bounds.Load(), "for what is known, and for nothing, it is not asked")
	})
}

// Callers share the next look: none queues behind another's.
func TestRegistrations_areLookedForTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newWatchedLog()
		r := attached(t, log)
		_, _, _ = r.ProductOfToken("phc_guess")
		log.bounds.Store(0)
		began := time.Now()
		waittest.Together(2000, func(n int) {
			_, ok, err := r.ProductOfToken(fmt.Sprint("phc_", n))
			assert.False(t, ok)
			assert.NoError(t, err)
		})
		require.LessOrEqual(t, time.Since(began), 40*time.Millisecond)
		require.LessOrEqual(t, log.bounds.Load(), int64(2))
	})
}

// A guess ends soon while storage does not answer, and no known caller waits for it.
func TestRegistrations_thatCannotBeLookedUpDelayNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &watchtest.Log{Log: newMemoryLog()}
		log.Before = func(ctx context.Context, op watchtest.Op) error {
			<-ctx.Done()
			return ctx.Err()
		}
		r := musttest.New(New(file(), productfile.NewExtensions(nil, nil), nil, log))
		var guesses sync.WaitGroup
		for n := range 500 {
			guesses.Go(func() {
				time.Sleep(time.Duration(n) * time.Millisecond)
				began := time.Now()
				_, _, err := r.ProductOfToken("phc_guess")
				assert.Error(t, err)
				assert.Less(t, time.Since(began), 1200*time.Millisecond)
			})
		}
		began := time.Now()
		for range 100 {
			_, ok, err := r.ProductOfToken("phc_1")
			require.True(t, ok)
			require.NoError(t, err)
			time.Sleep(time.Millisecond)
		}
		require.Equal(t, 100*time.Millisecond, time.Since(began))
		guesses.Wait()
	})
}

// unreadable puts registrations into the log that cannot be decoded.
func unreadable(t *testing.T, log eventlog.Log) {
	for name, value := range map[string]string{
		"product/a-broken":  `{`,
		"product/b-nothing": ``,
		"product/c-other": `{"product":{"product_id":"somebody"},` +
			`"key_sha256":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}`,
		"product/d-short": `{"product":{"product_id":"d-short","webhook_secret":"confidential"},"key_sha256":"AAAA"}`,
		"product/":        `{"product":{"product_id":""},"key_sha256":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}`,
		"productive":      `{}`,
	} {
		musttest.New(log.Documents().Write(t.Context(), "", document.Put(document.Document{Name: name}, []byte(value), 0)))
	}
}

func TestRegistrations_thatCannotBeReadHideNoOthers(t *testing.T) {
	log := newMemoryLog()
	first := attached(t, log)
	c := map[string]Credentials{}
	for _, id := range []string{"a", "b-more", "z"} {
		c[id] = register(t, first, id, false)
	}
	unreadable(t, log)
	r := registryOn(log)
	logged := logTo(r)
	require.NoError(t, r.Load(t.Context()))
	require.Contains(t, logged.String(), "product_id=b-nothing")
	require.Contains(t, logged.String(), "product_id=d-short")
	require.NotContains(t, logged.String(), "confidential")
	for id := range c {
		assertOpen(t, r, c[id], id)
	}
	for _, id := range []string{"a-broken", "b-nothing", "c-other", "d-short", "somebody"} {
		_, ok, _ := r.ProductOfID(id)
		assert.False(t, ok, id)
	}
	_, err := r.Register(t.Context(), productfile.Product{ProductID: "d-short"}, "", false)
	require.ErrorIs(t, err, ErrExists, "there is something")
}

func TestRun_reportsFailuresAndGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newWatchedLog()
		a, b := attached(t, log), attached(t, log)
		old := register(t, a, "old", false)
		logged := run(t, b)
		synctest.Wait()
		require.Empty(t, logged.String())
		log.Down.Store(true)
		require.NoError(t, log.Log.Log.Append(t.Context(), "", []eventlog.Entry{{Data: []byte(`{}`)}})) // something changes
		time.Sleep(10*time.Second + time.Millisecond)
		synctest.Wait()
		require.Equal(t, 1, strings.Count(logged.String(), errDown.Error()))
		require.NoError(t, b.Keys().Check(old.Key, "old", access.MCP), "what is known goes on")
		log.Down.Store(false)
		c := register(t, a, "acme", false)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, []string{"acme", "old"}, b.IDs())
		assertOpen(t, b, c, "acme")
		require.Equal(t, 1, strings.Count(logged.String(), "\n"))
	})
}

func TestRun_loadsTheRegistrationsSoonAfterALongOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newWatchedLog()
		register(t, attached(t, log), "acme", false)
		log.Down.Store(true)
		r := registryOn(log)
		logged := run(t, r)
		time.Sleep(time.Hour + 10*time.Second)
		require.Equal(t, 61, strings.Count(logged.String(), errDown.Error()), "once a minute")
		log.Down.Store(false)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, []string{"acme"}, r.IDs())
	})
}

func TestRegister_returnsNoSecretsWhenStorageFails(t *testing.T) {
	for name, fails := range map[string]string{"altogether": "", "to write": "append"} {
		t.Run(name, func(t *testing.T) {
			log := &watchtest.Log{Log: newMemoryLog()}
			r := attached(t, log)
			old := register(t, r, "acme", false)
			log.Before = func(_ context.Context, op watchtest.Op) error {
				if strings.Contains(op.Name, fails) {
					return errDown
				}
				return nil
			}
			for _, id := range []string{"acme", "new"} {
				got, err := r.Register(t.Context(), productfile.Product{ProductID: id}, "", true)
				require.ErrorIs(t, err, errDown)
				require.Zero(t, got)
			}
			require.NoError(t, r.Keys().Check(old.Key, "acme", access.MCP))
			require.Equal(t, []string{"acme"}, r.IDs())
			log.Before = nil
			assertOpen(t, r, register(t, r, "new", false), "new")
			assertOpen(t, r, old, "acme")
		})
	}
}

// A credential that cannot be looked up is not refused as unknown.
func TestRegistry_doesNotRefuseWhileStorageIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newWatchedLog()
		r := attached(t, log)
		time.Sleep(time.Second)
		log.Down.Store(true)
		for range 3 {
			_, ok, err := r.ProductOfID("acme")
			require.False(t, ok)
			require.ErrorIs(t, err, errDown)
			_, ok, err = r.ProductOfToken("phc_x")
			require.False(t, ok)
			require.ErrorIs(t, err, errDown)
			require.Error(t, r.Keys().Check("lak_x", "acme", access.MCP))
			require.NotErrorIs(t, r.Keys().Check("lak_x", "acme", access.MCP), access.ErrInvalid)
			time.Sleep(20 * time.Millisecond)
		}
		log.Down.Store(false)
		time.Sleep(50 * time.Millisecond)
		require.ErrorIs(t, r.Keys().Check("lak_x", "acme", access.MCP), access.ErrInvalid)
	})
}

// A product that moves into the file under another ID keeps its token, whether or not its registration is removed.
func TestRegistry_leavesCredentialsOfTheFileAlone(t *testing.T) {
	log := newMemoryLog()
	c := musttest.New(registryOn(log).Register(t.Context(), productfile.Product{ProductID: "trial"}, "registered", false))
	f := file()
	f.Products[0].CaptureTokens = []string{c.CaptureToken}
	f.Keys[0].Key, f.Keys[0].Name = c.Key, "the file's"
	var warned logtest.Buffer
	r := musttest.New(New(f, productfile.NewExtensions(nil, nil), slog.New(slog.NewTextHandler(&warned, nil)), log))
	requireTheFiles := func() {
		product, ok, err := r.ProductOfToken(c.CaptureToken)
		require.NoError(t, err)
		assert.True(t, ok)
		assert.Equal(t, "acme", product)
		assert.NoError(t, r.Keys().Check(c.Key, "acme", access.MCP))
		assert.Equal(t, "the file's", r.Keys().NameOf(sha256.Sum256([]byte(c.Key))))
	}
	require.NoError(t, r.Load(t.Context()))
	requireTheFiles()
	assert.Contains(t, warned.String(), "another product has its capture token")
	require.NoError(t, r.Unregister(t.Context(), "trial"))
	requireTheFiles()
}

// A product of the file stays the file's, also after an earlier registration of its ID.
func TestRegistry_leavesProductsOfTheFileAlone(t *testing.T) {
	log := newMemoryLog()
	c := register(t, attached(t, log), "acme", false)
	r := musttest.New(New(file(), productfile.NewExtensions(nil, nil), nil, log))
	require.NoError(t, r.Load(t.Context()))
	assertVoid(t, r, c, "acme")
	for _, force := range []bool{false, true} {
		got, err := r.Register(t.Context(), productfile.Product{ProductID: "acme"}, "", force)
		require.ErrorIs(t, err, ErrFixed)
		assert.Zero(t, got)
	}
	require.ErrorIs(t, r.Unregister(t.Context(), "acme"), ErrFixed)
	require.NoError(t, r.Keys().Check("both", "acme", access.MCP))
}

// Another server's change of a product counts at once. A request that fits the new product is
// accepted. None that may fit is refused while the change cannot be read.
func TestRegister_byForceCountsAtOnceOnOtherServers(t *testing.T) {
	const event = `"event":"$pageview","distinct_id":"u","properties":{"$session_id":"s","$current_url":"/"}`
	const ticket = `{"ticket_id":"1","requester_email":"x@acme.example","trigger_type":"new_ticket"}`
	const page = "https://app.acme.example"
	desk := helpdesktest.NewZendesk(nil)
	t.Cleanup(desk.Close)
	open := productfile.Product{ProductID: "acme", AllowedOrigins: []string{page},
		Identity:          productfile.Identity{Secrets: []string{"s3cr3t"}},
		IntegrationConfig: productfile.IntegrationConfig{Desks: map[string]json.RawMessage{"zendesk": desk.Config()}}}
	post := func(path, body, header, value string) *http.Request {
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
		r.Header.Set(header, value)
		return r
	}
	for name, tt := range map[string]struct {
		close   func(*productfile.Product) // changes the product to one that refuses the request
		refused int
		request func(Credentials) *http.Request
	}{
		"webhook secret": {func(*productfile.Product) {}, 401, func(c Credentials) *http.Request {
			return post("/webhook/acme", "{"+event+"}", "X-PostHog-Secret", c.WebhookSecret)
		}},
		"origin of events": {func(p *productfile.Product) { p.AllowedOrigins = []string{"https://acme.example"} }, 403,
			func(c Credentials) *http.Request {
				return post("/e/", `{"api_key":"`+c.CaptureToken+`",`+event+`}`, "Origin", page)
			}},
		"origin of links": {func(p *productfile.Product) { p.AllowedOrigins = nil }, 403, func(Credentials) *http.Request {
			return post("/sessions/link", `{"product_id":"acme","session_id":"s","conversation_id":"1"}`, "Origin", page)
		}},
		"secret of identities": {func(p *productfile.Product) { p.Identity.Secrets = []string{"another"} }, 401,
			func(Credentials) *http.Request {
				return post("/sessions/link", `{"product_id":"acme","session_id":"s","conversation_id":"1","user_hash":"`+
					hex.EncodeToString(intake.Sign("s3cr3t", []byte("u")))+`"}`, "Origin", page)
			}},
		"signing secret of a desk": {func(p *productfile.Product) {
			config := strings.Replace(string(desk.Config()), helpdesktest.ZendeskSigningSecret, "another", 1)
			p.IntegrationConfig.Desks = map[string]json.RawMessage{"zendesk": json.RawMessage(config)}
		}, 401, func(Credentials) *http.Request { return desk.Webhook("/chatbot-webhook/acme", []byte(ticket)) }},
		"desk": {func(p *productfile.Product) { p.IntegrationConfig.Desks = nil }, 404, func(Credentials) *http.Request {
			return desk.Webhook("/chatbot-webhook/acme", []byte(ticket))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			log := newWatchedLog()
			here, there := attached(t, log), attached(t, log)
			register := func(p productfile.Product) Credentials {
				return musttest.New(there.Register(t.Context(), p, "", true))
			}
			recorder := musttest.New(eventlog.NewRecorder(log, nil))
			ingest := musttest.New(intake.New(recorder, here, nil))
			connected := musttest.New(connector.New(log, here, nil))
			mux := http.NewServeMux()
			mux.Handle("/webhook/{product_id}", ingest.Webhook(posthog.Source))
			mux.HandleFunc("/e/", posthog.New(ingest).ServeSDK)
			mux.HandleFunc("/chatbot-webhook/{product_id}", connected.ServeWebhook)
			mux.HandleFunc("/sessions/link", connected.ServeLink)
			send := func(c Credentials) int {
				w := httptest.NewRecorder()
				mux.ServeHTTP(w, tt.request(c))
				return w.Code
			}
			_, err := recorder.Record(t.Context(), "acme",
				[]activity.Event{{ID: "e", Time: time.Now(), UserID: "u", SessionID: "s"}})
			require.NoError(t, err)
			closed := open
			tt.close(&closed)

			register(closed)
			require.NoError(t, here.Load(t.Context()))
			assert.Equal(t, http.StatusOK, send(register(open)))

			stranger := register(closed)
			stranger.WebhookSecret = "guess"
			require.NoError(t, here.Load(t.Context()))
			assert.Equal(t, tt.refused, send(stranger))
			log.Down.Store(true)
			assert.Equal(t, http.StatusServiceUnavailable, send(stranger))
			stranger.WebhookSecret = ""
			if name == "webhook secret" {
				assert.Equal(t, http.StatusUnauthorized, send(stranger), "none is never right")
			}
		})
	}
}

// Storage fails right after the change.
func TestRegister_byForceEndsTheOldSecretsBeforeItReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &watchtest.Log{Log: newMemoryLog()}
		r := attached(t, log)
		old := register(t, r, "acme", false)
		log.After = func(_ context.Context, op watchtest.Op, err error) error {
			if op.Name == "append" {
				log.Down.Store(true)
				time.AfterFunc(time.Second, func() { log.Down.Store(false) })
			}
			return err
		}
		next := register(t, r, "acme", true)
		assert.False(t, opens(r, old, "acme"))
		assert.True(t, opens(r, next, "acme"))
	})
}

// Two servers that rotate at the same time end with the same single valid key.
func TestRegister_byForceFromTwoServersLeavesOneKey(t *testing.T) {
	log := openLog(t, t.TempDir())
	register(t, registryOn(log), "acme", false)
	servers := []*Registry{attached(t, log), attached(t, log)}
	const callers = 4
	given := make(chan Credentials, len(servers)*callers)
	var running sync.WaitGroup
	for _, r := range servers {
		for range callers {
			running.Go(func() {
				c, err := r.Register(t.Context(), productfile.Product{ProductID: "acme"}, "", true)
				assert.NoError(t, err)
				given <- c
			})
		}
		running.Go(func() {
			for len(given) < cap(given) {
				p, _ := r.product("acme")
				assert.NotEmpty(t, p.WebhookSecret, "the product is never away")
				time.Sleep(10 * time.Microsecond)
			}
		})
	}
	running.Wait()
	close(given)
	valid := 0
	for _, r := range servers {
		require.NoError(t, r.Load(t.Context()))
	}
	for c := range given {
		first := opens(servers[0], c, "acme")
		assert.Equal(t, first, opens(servers[1], c, "acme"), "both are of one mind")
		if first {
			valid++
			continue
		}
		assertVoid(t, servers[0], c, "acme")
		assertVoid(t, servers[1], c, "acme")
	}
	assert.Equal(t, 1, valid)
}

func TestRegister_fromTwoServersIsWonByOne(t *testing.T) {
	log := openLog(t, t.TempDir())
	servers := []*Registry{attached(t, log), attached(t, log)}
	var won atomic.Pointer[Credentials]
	waittest.Together(16, func(n int) {
		c, err := servers[n%2].Register(t.Context(), productfile.Product{ProductID: "acme"}, "", false)
		if err == nil {
			assert.True(t, won.CompareAndSwap(nil, &c), "two have won")
			return
		}
		assert.ErrorIs(t, err, ErrExists)
		assert.Zero(t, c)
	})
	for _, r := range servers {
		require.NoError(t, r.Load(t.Context()))
		assertOpen(t, r, *won.Load(), "acme")
	}
}

// A program without a registered product's desk serves the product without it.
func TestRegistrations_areServedWithoutAnUnknownDesk(t *testing.T) {
	log := newMemoryLog()
	kind := func(name string) helpdesk.Kind {
		return helpdesk.Kind{Name: name, Open: func(json.RawMessage, *helpdesk.Options) (helpdesk.Desk, error) {
			return struct{ helpdesk.Desk }{}, nil
		}}
	}
	product := productfile.Product{ProductID: "acme", IntegrationConfig: productfile.IntegrationConfig{
		Desks: map[string]json.RawMessage{"old": json.RawMessage(`{"a": "s3cr3t"}`), "new": json.RawMessage(`{}`)}}}
	both, err := New(productfile.File{}, productfile.Extensions{Desks: []helpdesk.Kind{kind("new"), kind("old")}}, nil,
		log)
	require.NoError(t, err)
	c := musttest.New(both.Register(t.Context(), product, "", false))
	names := func(r *Registry) (names []string) {
		p, ok, err := r.Product("acme")
		require.NoError(t, err)
		require.True(t, ok)
		for _, desk := range p.Desks {
			names = append(names, desk.Name)
		}
		return names
	}
	assert.Equal(t, []string{"new", "old"}, names(both), "in the order of preference")

	one := musttest.New(New(productfile.File{}, productfile.Extensions{Desks: []helpdesk.Kind{kind("old")}}, nil, log))
	logged := logTo(one)
	require.NoError(t, one.Load(t.Context()))
	assert.Contains(t, logged.String(), `product_id=acme err="integration_config.new: is not a known field`)
	assert.NotContains(t, logged.String(), "s3cr3t")
	assertOpen(t, one, c, "acme")
	assert.Equal(t, []string{"old"}, names(one))
	assert.NoError(t, one.Load(t.Context()))
	assert.Equal(t, 1, strings.Count(logged.String(), "\n"), "it is reported once")
}

func TestUnregister_endsCredentialsAndRemovesData(t *testing.T) {
	log := newMemoryLog()
	r := attached(t, log)
	acme, other := register(t, r, "acme", false), register(t, r, "other", false)
	for _, id := range []string{"acme", "other"} {
		require.NoError(t, log.Append(t.Context(), id, []eventlog.Entry{{Data: []byte(`{}`)}}))
	}
	require.NoError(t, r.Unregister(t.Context(), "acme"))
	assertVoid(t, r, acme, "acme")
	assertOpen(t, r, other, "other")
	assert.Equal(t, []string{"other"}, r.IDs())
	kept := func(id string) eventlog.ID { return musttest.New(log.Bounds(t.Context(), id)).Oldest }
	assert.Zero(t, kept("acme"))
	assert.NotZero(t, kept("other"))
	assert.Len(t, musttest.New(log.Documents().List(t.Context(), "", "product/", "", 10)), 1,
		"the registration is gone, too")
	require.ErrorIs(t, r.Unregister(t.Context(), "acme"), ErrUnknown)
	assertOpen(t, r, register(t, r, "acme", false), "acme")
}

// Documents that storage could not remove go with the next call, or before a new registration, which starts empty.
func TestUnregister_goesOnWhereItFailed(t *testing.T) {
	errAway := errors.New("away")
	for name, again := range map[string]func(*Registry) error{
		"removed again": func(r *Registry) error { return r.Unregister(t.Context(), "acme") },
		"registered again": func(r *Registry) error {
			_, err := r.Register(t.Context(), productfile.Product{ProductID: "acme"}, "", false)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			log := &watchtest.Log{Log: newMemoryLog()}
			var fails bool
			dropped := 0
			log.Before = func(_ context.Context, op watchtest.Op) error {
				switch {
				case op.Name != "drop":
				case fails:
					return errAway
				default:
					dropped++
				}
				return nil
			}
			r := registryOn(log)
			c := register(t, r, "acme", false)
			fails = true
			require.ErrorIs(t, r.Unregister(t.Context(), "acme"), errAway)
			assertVoid(t, r, c, "acme")
			require.ErrorIs(t, again(r), errAway)
			fails = false
			require.NoError(t, again(r))
			assert.Equal(t, 1, dropped)
		})
	}
}

// A product that was registered again meanwhile loses nothing.
func TestUnregister_leavesANewRegistrationAlone(t *testing.T) {
	log := &watchtest.Log{Log: newMemoryLog()}
	r := registryOn(log)
	var fresh Credentials
	removing := true
	log.Before = func(_ context.Context, op watchtest.Op) error {
		if op.Name == "drop" && removing {
			removing = false
			fresh = register(t, r, "acme", false)
		}
		return nil
	}
	register(t, r, "acme", false)
	require.NoError(t, r.Unregister(t.Context(), "acme"))
	assertOpen(t, r, fresh, "acme")
	assertOpen(t, attached(t, log), fresh, "acme")
}
