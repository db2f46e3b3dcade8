package deploy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/serve"
)

// read returns a file by its path from the folder of the deployment files.
func read(t *testing.T, name string) string {
	t.Helper()
	data := musttest.New(os.ReadFile(filepath.Join(folder, name)))
	return string(data)
}

// object is an object of YAML.
type object = map[string]any

// at returns the value at the end of a path in a value of YAML, such as "spec.containers.0.image".
func at[T any](t *testing.T, value any, path string) T {
	t.Helper()
	for part := range strings.SplitSeq(path, ".") {
		switch inner := value.(type) {
		case object:
			value = inner[part]
		case []any:
			i, err := strconv.Atoi(part)
			require.NoError(t, err, path)
			require.Less(t, i, len(inner), path)
			value = inner[i]
		}
	}
	found, ok := value.(T)
	require.True(t, ok, "%s is %v", path, value)
	return found
}

// manifests returns the objects of kubernetes.yaml by their kinds.
func manifests(t *testing.T) map[string]object {
	t.Helper()
	all := map[string]object{}
	for decoder := yaml.NewDecoder(bytes.NewReader([]byte(read(t, "kubernetes.yaml")))); ; {
		var o object
		err := decoder.Decode(&o)
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		all[o["kind"].(string)] = o
	}
}

// Both files follow the Compose Specification, whose schema here is compose-go 2.16.2's (Apache License 2.0).
func TestCompose_filesFollowTheSpecification(t *testing.T) {
	var schema jsonschema.Schema
	require.NoError(t, json.Unmarshal([]byte(read(t, "../internal/deploy/testdata/compose-spec.json")), &schema))
	specification := musttest.New(schema.Resolve(&jsonschema.ResolveOptions{BaseURI: "https://compose-spec.io/"}))
	for _, name := range []string{"compose.yaml", "single.yaml"} {
		assert.NoError(t, specification.Validate(parsed(t, "deploy/"+name)), name)
	}
	wrong := parsed(t, "deploy/single.yaml")
	at[object](t, wrong, "services.server")["stop_grace"] = "15s"
	assert.Error(t, specification.Validate(wrong), "a field that there is not")
}

var variable = regexp.MustCompile(`\bLIVEACTIVITY_[A-Z_]+`)

// The server silently ignores an unknown variable.
func TestFiles_setVariablesThatTheServerKnows(t *testing.T) {
	source := read(t, "../cmd/liveactivity-server/servercmd/flags.go") + read(t, "../internal/command/command.go")
	var known []string
	for _, m := range regexp.MustCompile(`env:"(\w+)"`).FindAllStringSubmatch(source, -1) {
		known = append(known, m[1])
	}
	require.Contains(t, known, "LIVEACTIVITY_LOG_FORMAT")
	for _, name := range []string{"Dockerfile", "chart/values.yaml", "chart/templates/deployment.yaml", "compose.yaml",
		"env.example", "kubernetes.yaml", "liveactivity.service", "single.yaml"} {
		for _, set := range variable.FindAllString(strings.ReplaceAll(read(t, name), "begin with LIVEACTIVITY_", ""), -1) {
			assert.Contains(t, known, set, name)
		}
	}
}

// The product file needs no variables beyond those in env.example and is valid with them.
func TestProducts_areValidWithTheSecretsOfTheExample(t *testing.T) {
	secrets := regexp.MustCompile(`(?m)^(\w+)=$`).FindAllStringSubmatch(read(t, "env.example"), -1)
	lookup := func(name string) (string, bool) {
		return "secret of " + name, slices.ContainsFunc(secrets, func(m []string) bool { return m[1] == name })
	}
	file, warnings, err := liveactivity.LoadFile(filepath.Join(folder, "products.json"), lookup, nil)
	require.NoError(t, err)
	assert.Empty(t, warnings)
	_, err = liveactivity.New(&liveactivity.Options{Products: file.Products, Keys: file.Keys})
	require.NoError(t, err)
	for _, m := range regexp.MustCompile(`\$\{(\w+)`).FindAllStringSubmatch(read(t, "products.json")+read(t,
		"compose.yaml"), -1) {
		_, ok := lookup(m[1])
		assert.True(t, ok, m[1])
	}
}

// whole is the longest time of a stop, with the time that a process needs to end.
const whole = serve.ShutdownTime + 2*time.Second

// Every service manager here gives a server enough time to stop by itself.
func TestFiles_giveAStopTheTimeItTakes(t *testing.T) {
	unit := regexp.MustCompile(`(?m)^TimeoutStopSec=(\d+)$`).FindStringSubmatch(read(t, "liveactivity.service"))
	require.NotNil(t, unit)
	seconds := musttest.New(strconv.Atoi(unit[1]))
	assert.Greater(t, time.Duration(seconds)*time.Second, whole)

	compose := parsed(t, "deploy/compose.yaml")
	grace := musttest.New(time.ParseDuration(at[string](t, compose, "services.server-1.stop_grace_period")))
	assert.Greater(t, grace, whole)

	pod := at[object](t, manifests(t)["Deployment"], "spec.template.spec")
	before := at[int](t, pod, "containers.0.lifecycle.preStop.sleep.seconds")
	all := at[int](t, pod, "terminationGracePeriodSeconds")
	assert.Greater(t, time.Duration(all-before)*time.Second, whole)
}

func TestKubernetes_namesFitTogether(t *testing.T) {
	all := manifests(t)
	deployment, service, budget := all["Deployment"], all["Service"], all["PodDisruptionBudget"]
	labels := at[object](t, deployment, "spec.template.metadata.labels")
	assert.Equal(t, labels, at[object](t, deployment, "spec.selector.matchLabels"))
	assert.Equal(t, labels, at[object](t, service, "spec.selector"))
	assert.Equal(t, labels, at[object](t, budget, "spec.selector.matchLabels"))
	for _, spread := range at[[]any](t, deployment, "spec.template.spec.topologySpreadConstraints") {
		assert.Equal(t, labels, at[object](t, spread, "labelSelector.matchLabels"))
	}

	container := at[object](t, deployment, "spec.template.spec.containers.0")
	ports := map[string]int{}
	for _, port := range at[[]any](t, container, "ports") {
		ports[at[string](t, port, "name")] = at[int](t, port, "containerPort")
	}
	assert.Contains(t, ports, at[string](t, service, "spec.ports.0.targetPort"))
	for _, probe := range []string{"readinessProbe", "livenessProbe"} {
		assert.Contains(t, ports, at[string](t, container, probe+".httpGet.port"))
	}
	assert.Contains(t, read(t, "Dockerfile"), "LIVEACTIVITY_ADDR=0.0.0.0:"+strconv.Itoa(ports["http"]))
	assert.Equal(t, strconv.Itoa(ports["metrics"]),
		at[object](t, deployment, "spec.template.metadata.annotations")["prometheus.io/port"])
	env := at[[]any](t, container, "env")
	assert.Contains(t, env, object{"name": "LIVEACTIVITY_METRICS_ADDR",
		"value": "0.0.0.0:" + strconv.Itoa(ports["metrics"])})
}

// The image runs as the same user as the pod.
func TestDockerfile_runsAsTheUserOfThePod(t *testing.T) {
	user := at[int](t, manifests(t)["Deployment"], "spec.template.spec.securityContext.runAsUser")
	assert.Contains(t, read(t, "Dockerfile"), "\nUSER "+strconv.Itoa(user)+":"+strconv.Itoa(user)+"\n")
}

// The image is built with the Go version of go.mod, from an existing command.
func TestDockerfile_buildsAnExistingCommand(t *testing.T) {
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, "../go.mod"))
	require.NotNil(t, version)
	file := read(t, "Dockerfile")
	assert.Contains(t, file, " golang:"+version[1]+"-")
	command := regexp.MustCompile(`go build .* \./(\S+)`).FindStringSubmatch(file)
	require.NotNil(t, command)
	assert.FileExists(t, filepath.Join("../..", command[1], "main.go"))
}

// parsed returns a YAML file below the root of the repository.
func parsed(t *testing.T, path string) object {
	t.Helper()
	var o object
	require.NoError(t, yaml.Unmarshal([]byte(read(t, "../"+path)), &o), path)
	return o
}

func TestRelease_hasEveryCommandForEveryPlatform(t *testing.T) {
	commands := musttest.New(filepath.Glob("../../cmd/*/main.go"))
	var built, want []string
	for _, command := range commands {
		want = append(want, "./cmd/"+filepath.Base(filepath.Dir(command)))
	}
	for _, b := range at[[]any](t, parsed(t, ".goreleaser.yaml"), "builds") {
		built = append(built, at[string](t, b, "main"))
		assert.Equal(t, []any{"linux", "darwin", "windows"}, at[[]any](t, b, "goos"))
		assert.Equal(t, []any{"amd64", "arm64"}, at[[]any](t, b, "goarch"))
		assert.Contains(t, at[[]any](t, b, "flags"), "-trimpath", "builds are reproducible")
	}
	slices.Sort(built)
	assert.Equal(t, want, built)
}

func TestWorkflows_areYAML(t *testing.T) {
	paths := musttest.New(filepath.Glob("../../.github/*/*.yml"))
	require.NotEmpty(t, paths)
	for _, path := range paths {
		assert.NotEmpty(t, parsed(t, filepath.Join(".github", filepath.Base(filepath.Dir(path)), filepath.Base(path))))
	}
}

// The products of the chart's values form a valid product file.
func TestChart_hasProductsThatAreValid(t *testing.T) {
	products := musttest.New(json.Marshal(at[object](t, parsed(t, "deploy/chart/values.yaml"), "products")))
	file := filepath.Join(t.TempDir(), "products.json")
	require.NoError(t, os.WriteFile(file, products, 0o600))
	_, _, err := liveactivity.LoadFile(file, func(string) (string, bool) { return "x", true }, nil)
	require.NoError(t, err)
}

// The documented verification names the files and the workflow of the signature.
func TestRelease_isVerifiedByTheIdentityThatSignsIt(t *testing.T) {
	sign := at[object](t, parsed(t, ".goreleaser.yaml"), "signs.0")
	sums := at[string](t, parsed(t, ".goreleaser.yaml"), "checksum.name_template")
	bundle := strings.ReplaceAll(at[string](t, sign, "signature"), "${artifact}", sums)
	page := read(t, "../docs/security.md")
	assert.Contains(t, page, "cosign verify-blob "+sums+" --bundle "+bundle)
	workflow := regexp.MustCompile(`/(\.github/workflows/\w+\.yml)@'`).FindStringSubmatch(page)
	require.NotNil(t, workflow)
	steps := at[[]any](t, parsed(t, workflow[1]), "jobs.release.steps")
	assert.Contains(t, fmt.Sprint(steps...), "goreleaser/goreleaser-action")
}

// A change that breaks importers of the module is found and must be announced.
func TestAPICheck_comparesWithTheLastTag(t *testing.T) {
	t.Parallel()
	script := musttest.New(filepath.Abs("../../scripts/apicheck.sh"))
	dir := t.TempDir()
	run := func(name string, args ...string) (string, error) {
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		output, err := cmd.CombinedOutput()
		return string(output), err
	}
	write := func(name, content string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	commit := func(tag ...string) {
		for _, args := range append([][]string{{"add", "."}, {"commit", "-m", "x"}}, tag) {
			output, err := run("git", append([]string{"-c", "user.name=x", "-c", "user.email=x@example.com"}, args...)...)
			require.NoError(t, err, output)
		}
	}
	_, err := run("git", "init", "--quiet")
	require.NoError(t, err)
	write("go.mod", "module example.com/shop\n\ngo 1.26\n")
	write("shop.go", "package shop\n\n// Buy buys.\nfunc Buy(n int) {}\n")
	write("CHANGELOG.md", "## [Unreleased]\n\n## [0.1.0]\n\n### Changed\n")
	commit("tag", "unrelated")

	for _, step := range []struct{ do, file, content, tag, says string }{
		{"no tag", "shop.go", "package shop\n\n// Buy buys.\nfunc Buy(n int) {}\n", "", "no version is tagged yet"},
		{"an addition", "more.go", "package shop\n\n// Sell sells.\nfunc Sell() {}\n", "v0.1.0", "compatible with v0.1.0"},
		{"a change", "shop.go", "package shop\n\n// Buy buys.\nfunc Buy(n int64) {}\n", "", "announce it in CHANGELOG.md"},
		{"a change that is announced", "CHANGELOG.md", "## [Unreleased]\n\n### Changed\n\n## [0.1.0]\n", "",
			"Buy: changed from func(int) to func(int64)"},
	} {
		if step.tag != "" {
			_, err := run("git", "tag", step.tag)
			require.NoError(t, err)
		}
		write(step.file, step.content)
		output, err := run(script)
		assert.Contains(t, output, step.says, step.do)
		assert.Equal(t, step.do == "a change", err != nil, "%s: %s", step.do, output)
	}
	commit("tag", "v1.0.0")
	write("shop.go", "package shop\n")
	output, err := run(script)
	assert.Error(t, err, "from 1.0 on nothing breaks")
	assert.Contains(t, output, "Buy: removed")
}
