// Package archtest holds the module to its layers: which package may import which.
package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "github.com/liveactivity/liveactivity"

// layers are the parts of the module from the bottom up. A package depends on packages of its own
// layer and of the layers below. Other internal packages are leaves: any package may use them, and
// their dependencies count as their user's.
var layers = [][]string{
	{"activity"},
	{"stream"},
	{"helpdesk", "proactive", "retriever", "bridge"},
	{""},
	{"cmd", "examples", "internal/e2e", "internal/archtest"},
}

// leaf is the layer of the other internal packages.
const leaf = -1

// pkg is a package as go list reports it.
type pkg struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
	Deps                               []string
}

// allImports returns the packages that the package or one of its tests imports.
func (p pkg) allImports() []string { return slices.Concat(p.Imports, p.TestImports, p.XTestImports) }

// name returns the path of the package inside the module.
func (p pkg) name() string { return inModule(p.ImportPath) }

func inModule(path string) string {
	if path == module {
		return ""
	}
	return strings.TrimPrefix(path, module+"/")
}

func isOurs(path string) bool { return path == module || strings.HasPrefix(path, module+"/") }

// list returns the packages of the module.
func list(t *testing.T) []pkg {
	t.Helper()
	all, err := listed()
	require.NoError(t, err)
	return all
}

// listed asks go list once.
var listed = sync.OnceValues(func() ([]pkg, error) {
	return goList[pkg]("-json=ImportPath,Imports,TestImports,XTestImports,Deps")
})

// goList returns what go list says of the packages of the module, each as a T. It looks at every
// source file, so that go test does not repeat a result of older sources from its cache.
func goList[T any](args ...string) (all []T, err error) {
	const root = "../.."
	if err := eachFile(root, func(path string) error { _, err := os.Stat(path); return err }); err != nil {
		return nil, err
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.Command("go", append(append([]string{"list"}, args...), "./...")...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = root, &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, &stderr)
	}
	for decoder := json.NewDecoder(&stdout); ; {
		var p T
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
}

// eachFile visits every source file.
func eachFile(root string, visit func(path string) error) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && path != root && strings.HasPrefix(entry.Name(), ".") {
			return filepath.SkipDir
		}
		if err == nil && strings.HasSuffix(path, ".go") {
			err = visit(path)
		}
		return err
	})
}

func find(t *testing.T, all []pkg, name string) pkg {
	t.Helper()
	i := slices.IndexFunc(all, func(p pkg) bool { return p.name() == name })
	require.GreaterOrEqual(t, i, 0, "there is no package %s", name)
	return all[i]
}

// layer returns the layer of a package, named by its path inside the module.
func layer(name string) int {
	in := func(prefixes []string) bool {
		return slices.ContainsFunc(prefixes, func(prefix string) bool { return within(name, prefix) })
	}
	at := slices.IndexFunc(layers, in)
	if at < 0 && !within(name, "internal") {
		panic("a package without a layer: " + name)
	}
	return at
}

// within reports whether a package is the one named prefix, or below it. Nothing is below the root.
func within(name, prefix string) bool {
	return name == prefix || prefix != "" && strings.HasPrefix(name, prefix+"/")
}

// isTestHelp reports whether a package is there for tests only.
func isTestHelp(name string) bool { return strings.HasSuffix(name, "test") }

func TestNothingImportsUpward(t *testing.T) {
	for _, p := range list(t) {
		at := layer(p.name())
		for _, dep := range p.Deps {
			if isOurs(dep) && at != leaf {
				assert.LessOrEqual(t, layer(inModule(dep)), at, "%s depends on %s", p.name(), inModule(dep))
			}
		}
	}
}

// A program that imports one of these packages links none of the packages forbidden here: an engine
// that needs storage comes with the program that passes it in.
func TestPackagesLinkNoMoreThanTheyNeed(t *testing.T) {
	const redis, bbolt, prometheus, otel = "github.com/redis/", "go.etcd.io/bbolt", "github.com/prometheus/",
		"go.opentelemetry.io/"
	const engines, commands = module + "/stream/eventlog/", module + "/cmd/"
	const desks, offers = module + "/helpdesk", module + "/proactive"
	all := list(t)
	for name, forbidden := range map[string][]string{
		"activity":           {redis, bbolt, prometheus, otel},
		"stream":             {redis, bbolt, prometheus, otel, module + "/stream/"},
		"stream/eventlog":    {redis, bbolt, otel, engines},
		"helpdesk":           {otel, module + "/stream", offers},
		"helpdesk/zendesk":   {otel, module + "/stream", offers},
		"helpdesk/intercom":  {otel, module + "/stream", offers},
		"helpdesk/connector": {otel},
		"retriever":          {otel, desks, offers, module + "/stream/"},
		"bridge":             {otel, desks, offers, module + "/stream/"},
		"": {redis, bbolt, otel, engines + "boltlog", engines + "redislog", commands, module + "/retriever",
			module + "/bridge"},
	} {
		for _, dep := range find(t, all, name).Deps {
			for _, f := range forbidden {
				assert.False(t, strings.HasPrefix(dep, f), "%s depends on %s", name, dep)
			}
		}
	}
}

// A log is the source of a consumer by its methods; they meet in the program that uses both.
func TestTheLogDoesNotImportItsConsumers(t *testing.T) {
	for _, p := range list(t) {
		if within(p.name(), "stream/eventlog") && !isTestHelp(p.name()) {
			assert.NotContains(t, p.Deps, module+"/stream", "%s depends on stream", p.name())
		}
	}
}

// Only tests and test helpers depend on the packages that tests are written with, and on test helpers.
func TestTestingIsImportedByTestsOnly(t *testing.T) {
	for _, p := range list(t) {
		if isTestHelp(p.name()) {
			continue
		}
		for _, dep := range p.Deps {
			forTests := dep == "testing" || strings.HasPrefix(dep, "github.com/stretchr/") ||
				isOurs(dep) && isTestHelp(inModule(dep))
			assert.False(t, forTests, "%s depends on %s", p.name(), dep)
		}
	}
}

// A command is a program's last layer: only another program builds on it.
func TestOnlyProgramsImportACommand(t *testing.T) {
	for _, p := range list(t) {
		for _, imported := range p.allImports() {
			isProgram := within(p.name(), "cmd") || within(p.name(), "examples")
			assert.False(t, isOurs(imported) && within(inModule(imported), "cmd") && !isProgram, "%s imports %s",
				p.name(), imported)
		}
	}
}

// An example is copied into another module, with its tests.
func TestExamplesImportNothingInternal(t *testing.T) {
	for _, p := range list(t) {
		for _, imported := range p.allImports() {
			isInternal := isOurs(imported) && within(inModule(imported), "internal")
			assert.False(t, isInternal && within(p.name(), "examples"), "%s imports %s", p.name(), imported)
		}
	}
}

// testify's Eventually runs its condition on another goroutine, where a require cannot end the
// test, and each call sets a limit of its own. waittest.Until does neither.
func TestTestsWaitByWaittest(t *testing.T) {
	require.NoError(t, eachFile("../..", func(path string) error {
		source, err := os.ReadFile(path)
		for _, testify := range []string{"assert", "require"} {
			assert.NotContains(t, string(source), testify+".Eventually", path)
		}
		return err
	}))
}

// A line of Go fits beside a second one on a screen. A tab counts as one column.
func TestLinesFitOnAScreen(t *testing.T) {
	require.NoError(t, eachFile("../..", func(path string) error {
		source, err := os.ReadFile(path)
		for i, line := range strings.Split(string(source), "\n") {
			if columns := utf8.RuneCountInString(line); columns > 120 {
				t.Errorf("%s:%d has %d columns", path, i+1, columns)
			}
		}
		return err
	}))
}

func TestLayer(t *testing.T) {
	for i, name := range []string{"internal/httpx", "activity/posthog", "stream/boltlog", "helpdesk/zendesk", "",
		"cmd/liveactivity-server"} {
		assert.Equal(t, leaf+i, layer(name), name)
	}
	assert.Equal(t, leaf, layer("internal/e2ex"))
	assert.Panics(t, func() { layer("activityx") }, "a new part must be given its layer")
}
