package liveactivity_test

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/activity/flat"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/helpdesk/connector"
	"github.com/liveactivity/liveactivity/helpdesk/helpdesktest"
	"github.com/liveactivity/liveactivity/internal/contracts"
	"github.com/liveactivity/liveactivity/internal/contracts/contractstest"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/ssetest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/internal/watchtest"
	"github.com/liveactivity/liveactivity/stream"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
)

// contracted is a service of the product in the contracts' examples. It does not run.
type contracted struct {
	*contractstest.Document
	desks   desks
	service *liveactivity.Service
}

// contract returns the OpenAPI document with desks for the services of a test.
func contract(t *testing.T) contracted {
	t.Helper()
	c := contracted{Document: contractstest.Parse(t, contracts.OpenAPI("")), desks: newDesks()}
	t.Cleanup(c.desks.zendesk.Close)
	t.Cleanup(c.desks.intercom.Close)
	return c.fresh(t)
}

// fresh returns the contract with a service that has seen nothing.
func (c contracted) fresh(t *testing.T, change ...func(*liveactivity.Options)) contracted {
	t.Helper()
	examples := func(o *liveactivity.Options) {
		o.Products[0].CaptureTokens = []string{"phc_acme"}
		o.Products[0].Sources = []flat.Config{{Name: "fullstory", Kind: flat.Kind,
			Actions: map[string]string{"navigate": "pageview"},
			Fields:  flat.Fields{Event: "name", UserID: "user.id", Email: "user.email", URL: "page"}}}
		o.Products[1].ProductID, o.Keys[3].ExternalID = "initech", "initech"
		o.PublicURL = "https://live.example.com"
	}
	c.service = newService(io.Discard, append([]func(*liveactivity.Options){examples, c.desks.configure}, change...)...)
	return c
}

// operations returns the documented operations without the demo, which the command serves.
func (c contracted) operations(t *testing.T) []contractstest.Operation {
	t.Helper()
	return slices.DeleteFunc(c.Operations(t), func(op contractstest.Operation) bool { return op.ID == "getDemo" })
}

// cutPattern returns the method of a pattern, empty for any, and its path
// without a slash at the end. The paths below a path count as that path.
func cutPattern(pattern string) (method, path string) {
	method, path, ok := strings.Cut(pattern, " ")
	if !ok {
		method, path = "", pattern
	}
	return method, cmp.Or(strings.TrimSuffix(strings.TrimSuffix(path, "/{$}"), "/{call...}"), "/")
}

// outgoing is a request before it is sent.
type outgoing struct {
	method, path string            // the path with names in braces
	in           map[string]string // the values of the path's parameters
	query        url.Values
	header       http.Header
	body         string
}

// target returns the path and the query.
func (r outgoing) target() string {
	path := r.path
	for name, value := range r.in {
		path = strings.ReplaceAll(path, "{"+name+"}", url.PathEscape(value))
	}
	return path + "?" + r.query.Encode()
}

// answer sends a request. An endless one is ended soon.
func (c contracted) answer(r outgoing) *httptest.ResponseRecorder {
	request := httptest.NewRequest(r.method, r.target(), strings.NewReader(r.body))
	request.Header = r.header.Clone()
	patience := 5 * time.Second
	if strings.HasPrefix(r.path, "/stream/") {
		patience = 5 * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(request.Context(), patience)
	defer cancel()
	w := httptest.NewRecorder()
	c.service.Handler().ServeHTTP(w, request.WithContext(ctx))
	return w
}

// requests returns the documented requests of an operation, without credentials: one for each
// example of a body, with and without the optional parameters that have an example.
func (c contracted) requests(t *testing.T, op contractstest.Operation) (all []outgoing) {
	t.Helper()
	bodies := c.Bodies(t, op)
	if bodies == nil {
		bodies = []contractstest.Example{{}}
	}
	for _, body := range bodies {
		plain, full := newOutgoing(t, op, body), newOutgoing(t, op, body)
		optional := false
		for _, parameter := range c.Parameters(t, op) {
			if parameter["example"] == nil {
				continue
			}
			full.set(parameter)
			if parameter["required"] == true || parameter["name"] == "Origin" || // which browsers always set
				op.ID == "getContext" && parameter["name"] == "user_id" { // or another one
				plain.set(parameter)
			} else {
				optional = true
			}
		}
		if all = append(all, plain); optional {
			all = append(all, full)
		}
	}
	return all
}

// newOutgoing returns a request for an operation with this body.
func newOutgoing(t *testing.T, op contractstest.Operation, body contractstest.Example) outgoing {
	t.Helper()
	r := outgoing{method: op.Method, path: op.Path, in: map[string]string{}, query: url.Values{}, header: http.Header{}}
	switch {
	case body.Value == nil:
		return r
	case strings.HasSuffix(body.MediaType, "form-urlencoded"):
		form := url.Values{}
		for field, value := range body.Value.(contractstest.Object) {
			form.Set(field, value.(string))
		}
		r.body = form.Encode()
	default:
		encoded := musttest.New(json.Marshal(body.Value))
		r.body = string(encoded)
	}
	r.header.Set("Content-Type", body.MediaType)
	return r
}

// set gives a parameter the value of its example.
func (r outgoing) set(parameter contractstest.Object) {
	name, value := parameter["name"].(string), fmt.Sprint(parameter["example"])
	switch parameter["in"] {
	case "path":
		r.in[name] = value
	case "query":
		r.query.Set(name, value)
	case "header":
		r.header.Set(name, value)
	}
}

// credentials give a request the credential of the product acme, by the names of the schemes.
var credentials = map[string]func(d desks, r outgoing){
	"key":            func(_ desks, r outgoing) { r.header.Set("Authorization", "Bearer "+acmeKey) },
	"project_token":  func(_ desks, r outgoing) { r.header.Set("Authorization", "Bearer phc_acme") },
	"admin_key":      func(_ desks, r outgoing) { r.header.Set("X-Admin-Key", adminKey) },
	"admin_bearer":   func(_ desks, r outgoing) { r.header.Set("Authorization", "Bearer "+adminKey) },
	"webhook_secret": func(_ desks, r outgoing) { r.header.Set("X-Webhook-Secret", acmeSecret) },
	"posthog_secret": func(_ desks, r outgoing) { r.header.Set("X-PostHog-Secret", acmeSecret) },
	"segment_signature": func(_ desks, r outgoing) {
		r.header.Set("X-Signature", hmacSHA1(acmeSecret, strings.TrimSuffix(strings.TrimPrefix(r.body, "["), "]")))
	},
	"zendesk_signature": func(d desks, r outgoing) {
		maps.Copy(r.header, d.zendesk.Webhook("https://live.example.com", []byte(r.body)).Header)
	},
	"intercom_signature_sha1": func(d desks, r outgoing) {
		maps.Copy(r.header, d.intercom.Webhook("https://live.example.com", []byte(r.body)).Header)
	},
	"intercom_signature": func(_ desks, r outgoing) {
		mac := hmac.New(sha256.New, []byte(helpdesktest.IntercomClientSecret))
		_, _ = io.WriteString(mac, r.body)
		r.header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	},
}

// security returns the names of the schemes of which a request needs one, or
// nil for an open operation.
func security(op contractstest.Operation) (schemes []string) {
	requirements, _ := op.Fields["security"].([]any)
	for _, requirement := range requirements {
		for scheme := range requirement.(contractstest.Object) {
			schemes = append(schemes, scheme)
		}
	}
	return schemes
}

// signed returns the request with each credential that opens the operation for its body. An open
// operation gets it unchanged.
func (c contracted) signed(op contractstest.Operation, r outgoing) (all []outgoing) {
	fromIntercom := strings.Contains(r.body, `"topic"`)
	for _, scheme := range security(op) {
		if strings.HasPrefix(scheme, "zendesk") && fromIntercom || strings.HasPrefix(scheme, "intercom") && !fromIntercom {
			continue
		}
		with := r
		with.header = r.header.Clone()
		credentials[scheme](c.desks, with)
		all = append(all, with)
	}
	if all == nil {
		return []outgoing{r}
	}
	return all
}

// prepare tells the service of the things in the examples: a user's actions in a session and
// another product to remove.
func (c contracted) prepare(t *testing.T, op contractstest.Operation) {
	t.Helper()
	event := `{"event":"$pageview","distinct_id":"user_42","properties":{"$session_id":"0198c2f4-7a",` +
		`"$current_url":"https://app.acme.example/dashboard"},"$set":{"email":"ada@acme.example"}}`
	w := ask(c.service, http.MethodPost, "/webhook/acme", event, "X-PostHog-Secret: "+acmeSecret)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	switch op.ID {
	case "listSessions", "getSession", "callMCP", "exportUser", "exportPerson", "eraseUser", "erasePerson":
		c.run(t)
	case "showSignIn":
		w := ask(c.service, http.MethodPost, "/oauth/register",
			`{"client_name":"Claude","redirect_uris":["https://claude.ai/api/mcp/auth_callback"]}`)
		require.Equal(t, http.StatusCreated, w.Code, w.Body)
	case "removeProduct":
		w := ask(c.service, http.MethodPost, "/admin/products", `{"product_id":"globex"}`, withAdminKey)
		require.Equal(t, http.StatusCreated, w.Code, w.Body)
	}
}

// run runs the service until the test ends.
func (c contracted) run(t *testing.T) {
	t.Helper()
	stop := waittest.Run(t, c.service.Run)
	t.Cleanup(func() { require.NoError(t, stop()) })
}

// requireContract requires a documented answer.
func (c contracted) requireContract(t *testing.T, op contractstest.Operation, w *httptest.ResponseRecorder) {
	t.Helper()
	require.NoError(t, c.ValidateAnswer(t, op, w.Code, w.Header(), w.Body.Bytes()), "%d %s", w.Code, w.Body)
	assert.NotEmpty(t, w.Header().Get("X-Request-Id"))
}

// The service serves exactly the documented endpoints.
func TestOpenAPI_listsEveryEndpoint(t *testing.T) {
	c := contract(t)
	documented, served := map[string]bool{}, map[string]bool{}
	methods := map[string][]string{} // by path
	for _, op := range c.operations(t) {
		documented[op.Method+" "+op.Path] = true
		methods[op.Path] = append(methods[op.Path], op.Method)
	}
	for _, pattern := range c.service.Patterns() {
		switch method, path := cutPattern(pattern); {
		case pattern == "POST /intercom/chat/{product_id}", pattern == "POST /zendesk/proactive/{product_id}":
			// desks of other kinds have these
		case method == "":
			for _, method := range methods[path] {
				served[method+" "+path] = true
			}
			assert.Contains(t, methods, path)
		case method == http.MethodOptions: // a preflight
			assert.Contains(t, methods, path)
		default:
			served[method+" "+path] = true
		}
	}
	assert.Equal(t, documented, served)
}

// signsIn are the operations that take a value from a sign-in, which no example can have.
var signsIn = []string{"signIn", "getTokens", "endGrant"}

// Every documented request is answered as documented.
func TestOpenAPI_examplesAreAnswered(t *testing.T) {
	c := contract(t)
	for _, op := range c.operations(t) {
		if slices.Contains(signsIn, op.ID) {
			continue
		}
		t.Run(op.ID, func(t *testing.T) {
			successes := map[int]bool{}
			documented := slices.DeleteFunc(op.Statuses(t), func(status int) bool { return status >= 300 })
			for _, r := range c.requests(t, op) {
				for _, r := range c.signed(op, r) {
					c := c.fresh(t)
					c.prepare(t, op)
					w := c.answer(r)
					c.requireContract(t, op, w)
					require.Less(t, w.Code, 300, w.Body)
					successes[w.Code] = true
					c.requireContract(t, op, c.answer(r)) // also when it is repeated
				}
			}
			assert.ElementsMatch(t, documented, slices.Collect(maps.Keys(successes)))
		})
	}
}

// Every documented refusal happens and has the documented form. A 408 takes a connection and its
// time, so the tests of reading bodies cover it.
func TestOpenAPI_requestsAreRefused(t *testing.T) {
	c := contract(t)
	for _, op := range c.operations(t) {
		c := c.fresh(t)
		c.prepare(t, op)
		for _, status := range op.Statuses(t) {
			if status < 400 || status == http.StatusServiceUnavailable || status == http.StatusRequestTimeout ||
				op.ID == "signIn" {
				continue
			}
			t.Run(fmt.Sprint(op.ID, " ", status), func(t *testing.T) {
				requests := c.requests(t, op)
				if status != http.StatusUnauthorized {
					requests = requests[:1]
				}
				c := c
				if status == http.StatusTooManyRequests {
					c = c.fresh(t) // where no link was asked for
					c.prepare(t, op)
				}
				for _, r := range requests {
					w := c.answer(c.spoiled(t, op, r, status))
					require.Equal(t, status, w.Code, w.Body)
					c.requireContract(t, op, w)
				}
			})
		}
	}
}

// malformed puts a mistake into a request that is answered 400, by operation. Any other request has
// a body that breaks off.
var malformed = map[string]func(outgoing){
	"getContext":      func(r outgoing) { r.query.Set("email", "ada@acme.example") }, // a second person
	"getLiveActivity": func(r outgoing) { r.query.Set("limit", "ten") },
	"readStream":      func(r outgoing) { r.query.Set("since", "yesterday") },
	"listSessions":    func(r outgoing) { r.query.Set("limit", "ten") },
	"showSignIn":      func(r outgoing) { r.query.Set("redirect_uri", "https://evil.example/") },
	"exportUser":      func(r outgoing) { r.query.Set("email", "ada@acme.example") }, // a second person
	"exportPerson":    func(r outgoing) { r.query.Set("email", "") },
	"eraseUser":       func(r outgoing) { r.query.Set("notes", "burn") },
	"erasePerson":     func(r outgoing) { r.query.Set("email", "") },
}

// spoiled returns the request changed so that its answer has the status.
func (c contracted) spoiled(t *testing.T, op contractstest.Operation, r outgoing, status int) outgoing {
	t.Helper()
	switch status {
	case http.StatusBadRequest:
		if spoil := malformed[op.ID]; spoil != nil {
			spoil(r)
		} else {
			r.body = "{"
		}
	case http.StatusUnauthorized:
		// In the form the token stands where groups of three bytes begin.
		encoded := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
		r.body = strings.NewReplacer("phc_acme", "phc_none", encoded(`phc_acme"`), encoded(`phc_none"`)).Replace(r.body)
		if op.ID == "linkSession" {
			r.body = strings.Replace(r.body, "{", `{"user_hash":"00",`, 1)
		}
		return r // unsigned
	case http.StatusForbidden:
		r.header.Set("Origin", "https://evil.example")
		r.query.Set("token", "phc_acme") // where an SDK's body is not looked at for it
		r.query.Set("writeKey", "phc_acme")
		if slices.Contains(security(op), "key") {
			key := globexKey
			if op.ID == "callMCP" { // which serves the key's product
				key = acmeStream
			}
			r.header.Set("Authorization", "Bearer "+key)
			return r
		}
	case http.StatusNotFound:
		if op.ID == "callMCP" {
			r = newestMCP(r, "tools/destroy")
		}
		for name := range r.in {
			if name != "product_id" || !slices.Contains(security(op), "key") { // a key opens one product only
				r.in[name] = "none"
			}
		}
		r.body = strings.ReplaceAll(r.body, `"acme"`, `"none"`)
	case http.StatusConflict:
		r.in["product_id"] = "acme"
		r.body = strings.ReplaceAll(r.body, `"globex"`, `"acme"`)
		if op.ID == "linkSession" {
			w := c.answer(r)
			require.Equal(t, http.StatusOK, w.Code, w.Body)
			r.body = strings.ReplaceAll(r.body, `215468`, `215469`)
		}
	case http.StatusTooManyRequests:
		for i := range connector.MaxStrangeLinks {
			event := fmt.Sprintf(`{"event":"$pageview","distinct_id":"u","properties":{"$session_id":"s%d",`+
				`"$current_url":"https://app.acme.example/"}}`, i)
			w := ask(c.service, http.MethodPost, "/webhook/acme", event, "X-PostHog-Secret: "+acmeSecret)
			require.Equal(t, http.StatusOK, w.Code, w.Body)
			link := r
			link.body = fmt.Sprintf(`{"product_id":"acme","session_id":"s%d","conversation_id":"%d"}`, i, i)
			w = c.answer(link)
			require.Equal(t, http.StatusOK, w.Code, w.Body)
		}
	case http.StatusRequestEntityTooLarge:
		r.body = strings.Repeat(" ", 1<<20+1)
		if op.ID == "postRecording" {
			r.body = strings.Repeat(" ", 8<<20+1)
		}
	case http.StatusUnsupportedMediaType:
		r.header.Set("Content-Type", "text/plain")
		r.header.Set("Content-Encoding", "br")
	default:
		require.Fail(t, "no request is known that is answered so")
	}
	return c.signed(op, r)[0]
}

// The document's words on unknown paths, HEAD, preflights and final slashes are true.
func TestOpenAPI_describesBehaviourTruly(t *testing.T) {
	c := contract(t)
	w := c.answer(outgoing{method: http.MethodGet, path: "/none"})
	assert.Equal(t, http.StatusNotFound, w.Code)
	assert.NoError(t, c.Validate(t, contractstest.Object{"$ref": "#/components/schemas/Error"},
		reply{w.Code, w.Header(), w.Body.String()}.json(t)))
	for _, op := range c.operations(t) {
		r := c.signed(op, c.requests(t, op)[0])[0]
		called := op.Tag() == "sdk" || op.Tag() == "ingest" && !strings.HasSuffix(op.ID, "Webhook")
		if called || op.ID == "linkSession" {
			preflight := r
			preflight.method = http.MethodOptions
			preflight.header = http.Header{"Origin": {"https://app.acme.example"}, "Access-Control-Request-Method": {op.Method}}
			w := c.answer(preflight)
			assert.Equal(t, http.StatusNoContent, w.Code, op.ID)
			assert.Equal(t, "https://app.acme.example", w.Header().Get("Access-Control-Allow-Origin"), op.ID)
		}
		if called && !strings.HasPrefix(op.Path, "/array/") || op.ID == "callMCP" {
			r := r
			r.path += "/"
			c.requireContract(t, op, c.fresh(t).answer(r))
		}
		if op.Method == http.MethodGet {
			c := c.fresh(t)
			c.prepare(t, op)
			r.method = http.MethodHead
			w := c.answer(r)
			assert.Equal(t, http.StatusOK, w.Code, op.ID)
		}
	}
}

// forgetful is a log whose activity cannot be reached.
type forgetful struct{ eventlog.Log }

func (forgetful) Activity() recent.Store { return awayStore{} }

// awayStore is a store of activity that cannot be reached.
type awayStore struct{ recent.Store }

func (awayStore) Recent(context.Context, string, recent.Subject, int) (recent.Snapshot, error) {
	return recent.Snapshot{}, watchtest.ErrDown
}

// Without its storage, the service answers 503 where the document says so and the product has to be
// looked up.
func TestOpenAPI_answers503WhileStorageIsAway(t *testing.T) {
	c := contract(t)
	log := &watchtest.Log{Log: musttest.New(memorylog.New(nil))}
	log.Down.Store(true)
	without := c.fresh(t, func(o *liveactivity.Options) { o.Products, o.Keys, o.Log = nil, nil, log })
	without.service.Stopping() // so that nothing waits for it to catch up
	for _, op := range c.operations(t) {
		if !slices.Contains(op.Statuses(t), http.StatusServiceUnavailable) {
			continue
		}
		requests := c.requests(t, op)
		r := c.signed(op, requests[len(requests)-1])[0]
		if op.Tag() == "sdk" {
			r.header.Set("Origin", "https://app.acme.example") // which is to be checked
		}
		w := without.answer(r)
		assert.Equal(t, http.StatusServiceUnavailable, w.Code, "%s: %s", op.ID, w.Body)
		without.requireContract(t, op, w)
	}
}

// From the revision 2026-07-28 on, an error of JSON-RPC has a status, as documented.
func TestOpenAPI_describesTheErrorsOfTheNewestMCP(t *testing.T) {
	c := contract(t)
	op := c.operation(t, "callMCP")
	for method, want := range map[string]int{"tools/destroy": 404, "resources/subscribe": 404, "tools/call": 400} {
		w := c.answer(c.signed(op, newestMCP(c.requests(t, op)[0], method))[0])
		assert.Equal(t, want, w.Code, method)
		assert.NotContains(t, w.Body.String(), "not handled", "the words of a Go error")
		c.requireContract(t, op, w)
	}
}

// newestMCP returns the request with a call in the form of the revision 2026-07-28, of a tool and a
// resource that do not exist.
func newestMCP(r outgoing, method string) outgoing {
	r.body = `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{"name":"x","uri":"x","arguments":{},` +
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	r.header.Set("MCP-Protocol-Version", "2026-07-28")
	r.header.Set("Mcp-Method", method)
	r.header.Set("Mcp-Name", "x")
	return r
}

// operation returns the operation of that name.
func (c contracted) operation(t *testing.T, id string) contractstest.Operation {
	t.Helper()
	ops := c.operations(t)
	i := slices.IndexFunc(ops, func(op contractstest.Operation) bool { return op.ID == id })
	require.GreaterOrEqual(t, i, 0, id)
	return ops[i]
}

// A tool that cannot look anything up answers with an error of both kinds.
func TestOpenAPI_toolsFailAsDescribedWhileStorageIsAway(t *testing.T) {
	c := contract(t)
	c = c.fresh(t, func(o *liveactivity.Options) { o.Log = forgetful{musttest.New(memorylog.New(nil))} })
	c.run(t)
	op := c.operation(t, "callMCP")
	calls := 0
	for _, r := range c.requests(t, op) {
		if !strings.Contains(r.body, `"get_live_user_activity"`) {
			continue
		}
		calls++
		w := c.answer(c.signed(op, r)[0])
		assert.Equal(t, http.StatusServiceUnavailable, w.Code)
		assert.Contains(t, w.Body.String(), "isError")
		c.requireContract(t, op, w)
	}
	assert.Equal(t, 1, calls)
}

// Every kind of event of the stream is sent as documented.
func TestAsyncAPI_describesEveryFrameOfTheStream(t *testing.T) {
	log := musttest.New(memorylog.New(nil))
	s := start(t, func(o *liveactivity.Options) { o.Log, o.Heartbeat = log, 100*time.Millisecond })
	waittest.Until(t, "the server is ready", s.isReady)
	r := s.ok(http.MethodGet, "/asyncapi.json", "")
	d := contractstest.Parse(t, []byte(r.body))
	messages := d.Follow(t, d.Root["channels"].(contractstest.Object)["stream"])["messages"].(contractstest.Object)

	s.webhook(pageview("u1", "s1", "https://app.example.com/a"))
	s.webhook(`[` + pageview("u2", "s1", "https://app.example.com/b") +
		`,{"event":"$pageview","uuid":"u3","properties":{"$session_id":"s2","$current_url":"https://app.example.com/c"}}]`)
	summary := musttest.New(json.Marshal(stream.Summary{Type: stream.SummaryType, ProductID: "acme", SessionID: "s1",
		Email: mail, Text: "The user looked around.", Replaces: 2, ForwardedAt: 1795187991.5}))
	require.NoError(t, log.Append(t.Context(), "acme", []eventlog.Entry{{SessionID: "s1", Data: summary}}))
	s.erase("/nobody")

	seen := map[string]int{}
	for path, n := range map[string]int{"/stream/acme?last_event_id=1-1": 6, "/stream/acme?since=0&session_id=s1": 3} {
		reader := s.stream(path, bearer(acmeStream))
		for name := ""; n > 0 || name != "heartbeat"; { // which may come between the others, too
			if name = validateFrame(t, d, messages, reader.next()); name != "heartbeat" {
				seen[name]++
				n--
			}
		}
	}
	assert.Equal(t, map[string]int{"gap": 1, "actions": 5, "summary": 2, "erase": 1}, seen)
}

// validateFrame requires an event as documented, and returns its name.
func validateFrame(t *testing.T, d *contractstest.Document, messages contractstest.Object, f ssetest.Frame) string {
	t.Helper()
	lines, payload := contractstest.Object{}, contractstest.Object{}
	require.NoError(t, json.Unmarshal([]byte(f.Data), &payload))
	for name, value := range map[string]string{"id": f.ID, "event": f.Event} {
		if value != "" {
			lines[name] = value
		}
	}
	kind, _ := payload["type"].(string)
	name := cmp.Or(f.Event, kind)
	require.Contains(t, messages, name)
	message := d.Follow(t, messages[name])
	require.NoError(t, d.Validate(t, message["headers"], lines), "%+v", f)
	require.NoError(t, d.Validate(t, message["payload"], payload), "%+v", f)
	return name
}
