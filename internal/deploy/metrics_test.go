package deploy

import (
	"encoding/json"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/internal/depstest"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/serve"
)

// folder is the path of the deployment files.
const folder = "../../deploy"

// recorder is a registry that remembers the labels of registered metrics by name.
type recorder struct {
	*prometheus.Registry
	labels map[string][]string
}

var description = regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`)

func (r recorder) Register(c prometheus.Collector) error {
	descriptions := make(chan *prometheus.Desc)
	go func() {
		defer close(descriptions)
		c.Describe(descriptions)
	}()
	for d := range descriptions {
		m := description.FindStringSubmatch(d.String())
		r.labels[m[1]] = strings.FieldsFunc(m[2], func(c rune) bool { return c == ',' })
	}
	return r.Registry.Register(c)
}

// exported returns the labels of all metrics that a server exports, by their
// names.
func exported(t *testing.T) map[string][]string {
	t.Helper()
	reg := recorder{prometheus.NewRegistry(), map[string][]string{}}
	_, err := liveactivity.New(&liveactivity.Options{Metrics: reg, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	require.Contains(t, reg.labels, "liveactivity_events_total")
	assert.Equal(t, []string{"product_id", "outcome", "reason"}, reg.labels["liveactivity_events_total"])
	process := musttest.New(serve.NewRegistry().Gather())
	for _, family := range process {
		reg.labels[family.GetName()] = nil
	}
	return reg.labels
}

// scraped are the labels that scraping or evaluation adds.
var scraped = []string{"job", "instance", "le"}

// words are the keywords of PromQL expressions.
var words = []string{"and", "or", "unless", "by", "without", "on", "ignoring", "offset", "bool"}

var (
	quoted   = regexp.MustCompile(`"(\\.|[^"\\])*"`)
	interval = regexp.MustCompile(`\[[^]]*\]|offset \w+`)
	selector = regexp.MustCompile(`\{([^}]*)\}`)
	matcher  = regexp.MustCompile(`(\w+)\s*(=~|!~|!=|=)`)
	grouping = regexp.MustCompile(`\b(by|without|on|ignoring)\s*\(([^)]*)\)`)
	name     = regexp.MustCompile(`[a-zA-Z_:][\w:]*\s*\(?`)
)

// uses returns the metrics and the labels that an expression of PromQL names.
func uses(expr string) (metrics, labels []string) {
	expr = interval.ReplaceAllString(quoted.ReplaceAllString(expr, `""`), "")
	for _, m := range selector.FindAllStringSubmatch(expr, -1) {
		for _, label := range matcher.FindAllStringSubmatch(m[1], -1) {
			labels = append(labels, label[1])
		}
	}
	expr = selector.ReplaceAllString(expr, "")
	for _, m := range grouping.FindAllStringSubmatch(expr, -1) {
		labels = append(labels, strings.FieldsFunc(m[2], func(c rune) bool { return c == ',' || c == ' ' })...)
	}
	for _, word := range name.FindAllString(grouping.ReplaceAllString(expr, " "), -1) {
		if !strings.HasSuffix(word, "(") && !slices.Contains(words, strings.TrimSpace(word)) {
			metrics = append(metrics, strings.TrimSpace(word))
		}
	}
	return metrics, labels
}

func TestUses(t *testing.T) {
	metrics, labels := uses(`sum by (route, code) (increase(a_total{code=~"5..", code!="503"}[10m]) > 0 or (b unless ` +
		`a_total offset 10m)) / on (x) time() - vector(0)`)
	assert.Equal(t, []string{"a_total", "b", "a_total"}, metrics)
	assert.Equal(t, []string{"code", "code", "route", "code", "x"}, labels)
}

// requireExported requires that the metrics of an expression are exported, with the
// labels that it, or a text beside it, names. It returns the metrics.
func requireExported(t *testing.T, all map[string][]string, expr string, more ...string) (used []string) {
	t.Helper()
	metrics, labels := uses(expr)
	require.NotEmpty(t, metrics, expr)
	known := slices.Clone(scraped)
	for _, metric := range metrics {
		if metric == "up" {
			continue
		}
		base := metric
		for _, suffix := range []string{"_bucket", "_count", "_sum"} {
			if _, ok := all[base]; !ok {
				base = strings.TrimSuffix(metric, suffix)
			}
		}
		require.Contains(t, all, base, expr)
		known = append(known, all[base]...)
		used = append(used, base)
	}
	for _, label := range append(labels, more...) {
		assert.Contains(t, known, label, expr)
	}
	return used
}

// rule is an alert of Prometheus.
type rule struct {
	Alert       string
	Expr        string
	Labels      map[string]string
	Annotations map[string]string
}

func alerts(t *testing.T) []rule {
	t.Helper()
	var file struct{ Groups []struct{ Rules []rule } }
	require.NoError(t, yaml.Unmarshal([]byte(read(t, "prometheus-alerts.yaml")), &file))
	require.Len(t, file.Groups, 1)
	require.NotEmpty(t, file.Groups[0].Rules)
	return file.Groups[0].Rules
}

var labelInText = regexp.MustCompile(`\$labels\.(\w+)`)

func TestAlerts_nameExportedMetricsOnly(t *testing.T) {
	all := exported(t)
	for _, alert := range alerts(t) {
		var inTexts []string
		for _, text := range alert.Annotations {
			for _, m := range labelInText.FindAllStringSubmatch(text, -1) {
				inTexts = append(inTexts, m[1])
			}
		}
		requireExported(t, all, alert.Expr, inTexts...)
	}
}

func TestAlerts_haveInstructions(t *testing.T) {
	for _, alert := range alerts(t) {
		assert.Contains(t, []string{"critical", "warning", "info"}, alert.Labels["severity"], alert.Alert)
		assert.NotEmpty(t, alert.Annotations["summary"], alert.Alert)
		assert.Greater(t, len(alert.Annotations["action"]), 50, alert.Alert)
	}
}

// promtool runs promtool, which must find nothing wrong.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	output, err := exec.Command(depstest.Command(t, "promtool"), args...).CombinedOutput()
	require.NoError(t, err, "%s", output)
}

// Tests of the rules show for every alert when it fires and when it does not.
func TestAlerts_fireWhenTheyShould(t *testing.T) {
	promtool(t, "check", "rules", "--lint=all", "--lint-fatal", filepath.Join(folder, "prometheus-alerts.yaml"))
	promtool(t, "test", "rules", filepath.Join(folder, "prometheus-alerts-test.yaml"))
	tests := read(t, "prometheus-alerts-test.yaml")
	for _, alert := range alerts(t) {
		assert.GreaterOrEqual(t, strings.Count(tests, alert.Alert), 2, "%s must be tested to fire, and not to", alert.Alert)
	}
}

// A release of the chart may have any name. Its job is the label of its service, which is the chart's name.
func TestChart_namesTheJobOfTheAlerts(t *testing.T) {
	label := regexp.MustCompile(`jobLabel: (\S+)`).FindStringSubmatch(read(t, "chart/templates/optional.yaml"))
	require.NotNil(t, label)
	assert.Contains(t, read(t, "chart/templates/_helpers.tpl"), label[1]+": {{ .Chart.Name }}\n")
	name := at[string](t, parsed(t, "deploy/chart/Chart.yaml"), "name")
	jobs := regexp.MustCompile(`job=\\?"([^"\\]*)`)
	for _, file := range []string{"prometheus-alerts.yaml", "grafana-dashboard.json"} {
		for _, job := range jobs.FindAllStringSubmatch(read(t, file), -1) {
			assert.Equal(t, name, job[1], file)
		}
	}
}

// panel is a panel of Grafana.
type panel struct {
	ID          int
	Type, Title string
	Datasource  struct{ UID string }
	GridPos     struct{ X, Y, W, H int }
	Targets     []struct {
		Expr         string
		LegendFormat string
		Datasource   struct{ UID string }
	}
}

// dashboard is a dashboard of Grafana.
type dashboard struct {
	Panels     []panel
	Templating struct {
		List []struct{ Name, Type, Definition string }
	}
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(read(t, "grafana-dashboard.json")), &d))
	return d
}

var labelInLegend = regexp.MustCompile(`\{\{(\w+)\}\}`)

// The reference has a row for each metric of the server and for nothing else.
func TestReference_listsEveryMetric(t *testing.T) {
	reference := read(t, "../docs/reference.md")
	listed := map[string][]string{}
	row := regexp.MustCompile("(?m)^\\| `(liveactivity_\\w+)` \\|([^|]*)\\|")
	for _, m := range row.FindAllStringSubmatch(reference, -1) {
		listed[m[1]] = strings.FieldsFunc(m[2], func(c rune) bool { return strings.ContainsRune(" ,`", c) })
	}
	all := exported(t)
	maps.DeleteFunc(all, func(name string, _ []string) bool { return !strings.HasPrefix(name, "liveactivity_") })
	assert.Equal(t, all, listed)
}

// The dashboard shows every metric of the server and names no unknown one.
func TestDashboard_showsEveryExportedMetric(t *testing.T) {
	all := exported(t)
	shown := map[string]bool{}
	d := readDashboard(t)
	for _, panel := range d.Panels {
		for _, target := range panel.Targets {
			var inLegend []string
			for _, m := range labelInLegend.FindAllStringSubmatch(target.LegendFormat, -1) {
				inLegend = append(inLegend, m[1])
			}
			for _, metric := range requireExported(t, all, target.Expr, inLegend...) {
				shown[metric] = true
			}
		}
	}
	for metric := range all {
		assert.True(t, shown[metric] || !strings.HasPrefix(metric, "liveactivity_"), "%s is not shown", metric)
	}
	values := regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`)
	for _, variable := range d.Templating.List {
		if variable.Type == "query" {
			m := values.FindStringSubmatch(variable.Definition)
			require.NotNil(t, m, variable.Name)
			requireExported(t, all, m[1], m[2])
		}
	}
}

func TestDashboard_isLaidOut(t *testing.T) {
	ids, cells := map[int]bool{}, map[[2]int]string{}
	for _, p := range readDashboard(t).Panels {
		assert.False(t, ids[p.ID], p.Title)
		ids[p.ID] = true
		assert.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, p.Title)
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				cell := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				assert.Empty(t, cells[cell], "%s lies over %s", p.Title, cells[cell])
				cells[cell] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		assert.Equal(t, "${datasource}", p.Datasource.UID, p.Title)
		require.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			assert.Equal(t, "${datasource}", target.Datasource.UID, p.Title)
		}
	}
}

// Prometheus can evaluate every expression of the dashboard.
func TestDashboard_expressionsAreValid(t *testing.T) {
	type recording struct {
		Record string `yaml:"record"`
		Expr   string `yaml:"expr"`
	}
	var rules []recording
	variables := strings.NewReplacer("$__rate_interval", "5m", "$product", "acme", "$instance", "a")
	for _, p := range readDashboard(t).Panels {
		for _, target := range p.Targets {
			expr := variables.Replace(target.Expr)
			assert.NotContains(t, expr, "$", p.Title)
			rules = append(rules, recording{"x:" + strings.Repeat("x", len(rules)), expr})
		}
	}
	data, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	promtool(t, "check", "rules", path)
}
