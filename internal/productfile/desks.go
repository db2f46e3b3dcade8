package productfile

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/helpdesk/connector"
	"github.com/liveactivity/liveactivity/helpdesk/intercom"
	"github.com/liveactivity/liveactivity/helpdesk/zendesk"
	"github.com/liveactivity/liveactivity/internal/options"
	"github.com/liveactivity/liveactivity/internal/strictjson"
	"github.com/liveactivity/liveactivity/proactive"
)

// deskNames matches valid names of kinds.
var deskNames = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)

// Extensions are the desks and triggers that products can use. They are never modified, so
// they are safe for concurrent use.
type Extensions struct {
	Desks    []helpdesk.Kind // in order of preference
	Triggers []proactive.Trigger
}

// NewExtensions returns extensions with these desks and triggers. Nil desks mean
// Intercom and Zendesk.
func NewExtensions(desks []helpdesk.Kind, triggers []proactive.Trigger) Extensions {
	if desks == nil {
		desks = []helpdesk.Kind{intercom.Kind, zendesk.Kind}
	}
	return Extensions{desks, triggers}
}

// names returns the fields of an integration_config, sorted.
func (x Extensions) names() []string {
	names := []string{notesField, proactiveField}
	for _, kind := range x.Desks {
		names = append(names, kind.Name)
	}
	slices.Sort(names)
	return names
}

// Open opens the desks of an integration_config, in the order of the kinds, and returns all its
// mistakes; valid desks are open even so. opts may be nil. Mistakes never contain a secret of
// the configuration.
func (x Extensions) Open(config map[string]json.RawMessage, opts *helpdesk.Options) (
	desks []connector.Desk, wrong []string,
) {
	var p strictjson.Problems
	names := x.names()
	for _, name := range slices.Sorted(maps.Keys(config)) {
		if _, ok := slices.BinarySearch(names, name); !ok {
			p.Add("%s%.100s: is not a known field; there are %s", configPath, name, strings.Join(names, ", "))
		}
	}
	for _, kind := range x.Desks {
		raw, ok := config[kind.Name]
		if !ok || kind.Open == nil { // nil is the program's mistake, reported by CheckKind
			continue
		}
		desk, err := kind.Open(raw, cmp.Or(opts, &helpdesk.Options{}))
		switch {
		case err != nil:
			addConfigErrors(&p, configPath+kind.Name, err)
		case desk == nil:
			p.Add("%s%s: is of a kind that opens no desk", configPath, kind.Name)
		default:
			desks = append(desks, connector.Desk{Name: kind.Name, Desk: desk})
		}
	}
	return desks, p
}

// addConfigErrors adds the mistakes of a configuration whose path is at, none for a nil error.
// It quotes only [helpdesk.ConfigError] values.
func addConfigErrors(p *strictjson.Problems, at string, err error) {
	if err == nil {
		return
	}
	for _, err := range options.Split(err) {
		mistake, ok := errors.AsType[*helpdesk.ConfigError](err)
		if !ok { // its text might contain a secret
			mistake = &helpdesk.ConfigError{Problem: "is not a valid configuration"}
		}
		p.Add("%s: %s", strings.TrimSuffix(at+"."+mistake.Field, "."), mistake.Problem)
	}
}

// CheckKind returns the mistake in a kind of desk that a program passes in, or "". seen
// has the names of earlier kinds.
func CheckKind(kind helpdesk.Kind, seen map[string]bool) string {
	switch {
	case !deskNames.MatchString(kind.Name) || kind.Name == notesField || kind.Name == proactiveField:
		return fmt.Sprintf("must have a Name such as zendesk, not %.100q", kind.Name)
	case seen[kind.Name]:
		return fmt.Sprintf("must not have the Name of another: %q", kind.Name)
	case kind.Open == nil:
		return "must have a function Open"
	}
	return ""
}

// OpenDesks returns a product's help desks, for a program that calls them directly. It
// takes the kinds from the service's options, with the same default for nil. The error
// joins all mistakes in their configuration.
func (product Product) OpenDesks(desks []helpdesk.Kind) ([]connector.Desk, error) {
	opened, wrong := NewExtensions(desks, nil).Open(product.IntegrationConfig.Desks, nil)
	var errs []error
	for _, problem := range wrong {
		errs = append(errs, errors.New(problem))
	}
	return opened, errors.Join(errs...)
}

// OfferAdvice returns a sentence if the product enables offers that none of its open desks can
// show, or "".
func (product Product) OfferAdvice(desks []connector.Desk) string {
	config := product.IntegrationConfig.Proactive
	shows := func(d connector.Desk) bool { return d.Desk.Capabilities().Offerer != nil }
	if config == nil || !config.Enabled || slices.ContainsFunc(desks, shows) {
		return ""
	}
	return "none of the product's desks can show an offer; Intercom can"
}
