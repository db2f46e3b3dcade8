package deploy

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
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
	"github.com/liveactivity/liveactivity/internal/serve"
)

// read returns a file by its path from the folder of the deployment files.
func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(folder, name))
	require.NoError(t, err)
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
	specification, err := schema.Resolve(&jsonschema.ResolveOptions{BaseURI: "https://compose-spec.io/"})
	require.NoError(t, err)
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
	seconds, err := strconv.Atoi(unit[1])
	require.NoError(t, err)
	assert.Greater(t, time.Duration(seconds)*time.Second, whole)

	compose := parsed(t, "deploy/compose.yaml")
	grace, err := time.ParseDuration(at[string](t, compose, "services.server-1.stop_grace_period"))
	require.NoError(t, err)
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
