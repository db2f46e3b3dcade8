// Package depstest finds the tests' needs besides Go: Chromium, Redis,
// Python 3, Node.js, nginx, promtool and PostHog's SDKs. scripts/test-deps.sh
// installs them. A test whose need is missing fails with a message; it is never
// skipped.
package depstest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The versions of posthog-js there are.
const (
	PostHogJSCurrent = "1.434.18"
	PostHogJSOld     = "1.297.2" // sends single events and arrays, with offsets for times
	PostHogJSOldest  = "1.121.0" // autocaptures only if the answer of /decide/ says so
)

// Chromium returns the path of Chromium, or else of Google Chrome.
func Chromium(t testing.TB) string {
	t.Helper()
	return command(t, "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
}

// RedisServer returns the path of redis-server.
func RedisServer(t testing.TB) string {
	t.Helper()
	return command(t, "redis-server")
}

// Python returns the path of Python 3, with its standard library and no more.
func Python(t testing.TB) string {
	t.Helper()
	return command(t, "python3")
}

// Node returns the path of Node.js.
func Node(t testing.TB) string {
	t.Helper()
	return own(t, "node", "node/bin/node")
}

// Nginx returns the path of nginx.
func Nginx(t testing.TB) string {
	t.Helper()
	return own(t, "nginx", "nginx/usr/sbin/nginx")
}

// Promtool returns the path of promtool, which checks and tests Prometheus's rules.
func Promtool(t testing.TB) string {
	t.Helper()
	return own(t, "promtool", "promtool/usr/bin/promtool")
}

// own returns the path of a command that may be in .deps instead of the system.
func own(t testing.TB, name, path string) string {
	t.Helper()
	path = filepath.Join(root(t), ".deps", path)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	return command(t, name)
}

// NodeModules returns the folder of the packages for Node.js: PostHog's other
// SDKs, the MCP SDK, http-proxy and compression.
func NodeModules(t testing.TB) string {
	t.Helper()
	return modules(t, "npm", "compression", "@modelcontextprotocol/sdk")
}

// SourceModules returns the folder of the SDKs for Node.js of Segment, RudderStack and
// Amplitude.
func SourceModules(t testing.TB) string {
	t.Helper()
	return modules(t, "sources", "@segment/analytics-node", "@amplitude/analytics-node")
}

// Predecessor returns the path of the liveactivity-server that must run beside this one:
// the release before, as scripts/test-deps.sh says.
func Predecessor(t testing.TB) string {
	t.Helper()
	path := filepath.Join(root(t), ".deps", "predecessor", "liveactivity-server")
	if _, err := os.Stat(path); err != nil {
		missing(t, "the server of the release before")
	}
	return path
}

// LintModules returns the folder of TypeScript and Oxlint, which check the pages' scripts.
func LintModules(t testing.TB) string {
	t.Helper()
	return modules(t, "lint", "typescript", "oxlint")
}

// ClientModules returns the folder of mcp-remote and the MCP Inspector.
func ClientModules(t testing.TB) string {
	t.Helper()
	return modules(t, "clients", "mcp-remote", "@modelcontextprotocol/inspector")
}

// modules returns a folder of packages for Node.js, among which these must be.
func modules(t testing.TB, folder string, names ...string) string {
	t.Helper()
	path := filepath.Join(root(t), ".deps", folder, "node_modules")
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(path, name)); err != nil {
			missing(t, "the npm package "+name)
		}
	}
	return path
}

// PostHogJS returns the path of a version's array.js, which is all a page needs.
func PostHogJS(t testing.TB, version string) string {
	t.Helper()
	return BrowserSDK(t, "posthog-js/"+version+"/dist/array.js")
}

// Browser SDKs, for BrowserSDK.
const (
	PostHogJSFull = "posthog-js/" + PostHogJSCurrent + "/dist/array.full.js" // with its extensions
	Segment       = "@segment/analytics-next/1.84.3/dist/umd/index.js"
	RudderStack   = "@rudderstack/analytics-js/3.34.1/dist/npm/legacy/bundled/umd/index.js"
	Jitsu         = "@jitsu/js/1.11.0/dist/jitsu.es.js"
	Amplitude     = "@amplitude/analytics-browser/2.48.1/lib/scripts/amplitude-min.js"
)

// BrowserSDK returns the path of a browser SDK, which is all a page needs.
func BrowserSDK(t testing.TB, sdk string) string {
	t.Helper()
	path := filepath.Join(root(t), ".deps", sdk)
	if _, err := os.Stat(path); err != nil {
		missing(t, sdk)
	}
	return path
}

// command returns the path of the first of the commands there is.
func command(t testing.TB, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	missing(t, names[0])
	return ""
}

func missing(t testing.TB, what string) {
	t.Helper()
	t.Fatalf("%s is missing: run `make test`, which installs it", what)
}

// root returns the folder of go.mod.
func root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.mod in any parent folder")
		}
		dir = parent
	}
}
