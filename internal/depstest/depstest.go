// Package depstest finds the tests' dependencies other than Go: Chromium,
// Redis, Python 3, Node.js, nginx, promtool and PostHog's SDKs.
// scripts/test-deps.sh installs them. A test with a missing dependency fails
// with a message; it is never skipped.
package depstest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The installed versions of posthog-js.
const (
	PostHogJSCurrent = "1.449.2"
	PostHogJSOld     = "1.297.2" // sends single events and arrays, with offsets for times
	PostHogJSOldest  = "1.121.0" // autocaptures only if the answer of /decide/ enables it
)

// inDeps maps commands to their paths in .deps, from where they may be used
// instead of the system's.
var inDeps = map[string]string{"node": "node/bin/node", "nginx": "nginx/usr/sbin/nginx",
	"promtool": "promtool/usr/bin/promtool"}

// Command returns the path of the first available command, such as redis-server, node, nginx,
// promtool, python3 and Chromium.
func Command(t testing.TB, names ...string) string {
	t.Helper()
	for _, name := range names {
		path := filepath.Join(root(t), ".deps", inDeps[name])
		if _, err := os.Stat(path); err == nil && inDeps[name] != "" {
			return path
		}
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	missing(t, names[0])
	return ""
}

// Folders of Node.js packages, for Modules.
const (
	NPM     = "npm"     // PostHog's other SDKs, the MCP SDK, http-proxy and compression
	Sources = "sources" // the SDKs of Segment, RudderStack and Amplitude
	Clients = "clients" // mcp-remote and the MCP Inspector
	Lint    = "lint"    // TypeScript and Oxlint, which check the pages' scripts
)

// packages lists some packages that must be in each folder.
var packages = map[string][]string{
	NPM:     {"compression", "@modelcontextprotocol/sdk"},
	Sources: {"@segment/analytics-node", "@amplitude/analytics-node"},
	Clients: {"mcp-remote", "@modelcontextprotocol/inspector"},
	Lint:    {"typescript", "oxlint"},
}

// Modules returns the path of a folder of Node.js packages.
func Modules(t testing.TB, folder string) string {
	t.Helper()
	for _, name := range packages[folder] {
		File(t, filepath.Join(folder, "node_modules", name))
	}
	return File(t, filepath.Join(folder, "node_modules"))
}

// Browser SDKs, for File.
const (
	PostHogJSFull = "posthog-js/" + PostHogJSCurrent + "/dist/array.full.js" // including its extensions
	Segment       = "@segment/analytics-next/1.84.3/dist/umd/index.js"
	RudderStack   = "@rudderstack/analytics-js/3.34.1/dist/npm/legacy/bundled/umd/index.js"
	Jitsu         = "@jitsu/js/1.11.0/dist/jitsu.es.js"
	Amplitude     = "@amplitude/analytics-browser/2.48.1/lib/scripts/amplitude-min.js"
)

// File returns the path of a file or folder that must be in .deps, such as a browser SDK, which is
// all that a page needs.
func File(t testing.TB, path string) string {
	t.Helper()
	path = filepath.Join(root(t), ".deps", path)
	if _, err := os.Stat(path); err != nil {
		missing(t, path)
	}
	return path
}

func missing(t testing.TB, what string) {
	t.Helper()
	t.Fatalf("%s is missing: run `make test`, which installs it", what)
}

// root returns the folder with go.mod.
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
