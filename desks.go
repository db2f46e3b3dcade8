package liveactivity

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/helpdesk/connector"
	"github.com/liveactivity/liveactivity/helpdesk/intercom"
	"github.com/liveactivity/liveactivity/helpdesk/zendesk"
	"github.com/liveactivity/liveactivity/internal/assistance"
	"github.com/liveactivity/liveactivity/proactive"
	"github.com/liveactivity/liveactivity/proactive/assist"
)

// deskNames are what can be a kind's name.
var deskNames = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)

// kinds are the kinds of help desk that a product can have, in the order of
// preference.
type kinds []helpdesk.Kind

// newKinds returns the kinds of [Options.Desks].
func newKinds(desks []helpdesk.Kind) kinds {
	if desks == nil {
		return kinds{intercom.Kind, zendesk.Kind}
	}
	return desks
}

// extensions are what a program adds to what can be configured.
type extensions struct {
	desks    kinds
	triggers []proactive.Trigger
}

// newExtensions returns those of the options, which may be nil.
func newExtensions(o *Options) extensions {
	if o == nil {
		return extensions{desks: newKinds(nil)}
	}
	return extensions{newKinds(o.Desks), o.Triggers}
}

// names returns what can stand in an integration_config.
func (k kinds) names() []string {
	names := []string{notesField, proactiveField}
	for _, kind := range k {
		names = append(names, kind.Name)
	}
	slices.Sort(names)
	return names
}

// open opens the desks that the configuration at a path names, and returns
// everything that is wrong with it; the other desks are open. The options may be
// nil.
func (k kinds) open(config map[string]json.RawMessage, at string, opts *helpdesk.Options) (desks []connector.Desk, wrong []string) {
	var p problems
	names := k.names()
	for _, name := range slices.Sorted(maps.Keys(config)) {
		if _, ok := slices.BinarySearch(names, name); !ok {
			p.add("%s.%.100s: is not a known field; there are %s", at, name, strings.Join(names, ", "))
		}
	}
	for _, kind := range k {
		raw, ok := config[kind.Name]
		if !ok || kind.Open == nil { // nil is a mistake of the program, reported as such
			continue
		}
		desk, err := kind.Open(raw, opts)
		if err == nil {
			desks = append(desks, connector.Desk{Name: kind.Name, Desk: desk})
			continue
		}
		p.config(at+"."+kind.Name, err)
	}
	return desks, p
}

// config adds the mistakes of a configuration at a path, nil for none.
func (p *problems) config(at string, err error) {
	if err == nil {
		return
	}
	for _, mistake := range configErrors(err) {
		p.add("%s: %s", strings.TrimSuffix(at+"."+mistake.Field, "."), mistake.Problem)
	}
}

// configErrors returns the mistakes that a kind of desk reports. The text of an
// error of another type might hold a secret.
func configErrors(err error) []*helpdesk.ConfigError {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []*helpdesk.ConfigError
		for _, err := range joined.Unwrap() {
			all = append(all, configErrors(err)...)
		}
		return all
	}
	var mistake *helpdesk.ConfigError
	if errors.As(err, &mistake) {
		return []*helpdesk.ConfigError{mistake}
	}
	return []*helpdesk.ConfigError{{Problem: "is not a valid configuration"}}
}

// problem returns what is wrong with a kind that a program passes in.
func problem(kind helpdesk.Kind, seen map[string]bool) string {
	switch {
	case !deskNames.MatchString(kind.Name) || kind.Name == notesField || kind.Name == proactiveField:
		return fmt.Sprintf("must not have the name %.100q", kind.Name)
	case seen[kind.Name]:
		return fmt.Sprintf("must not have the name of another: %q", kind.Name)
	case kind.Open == nil:
		return "must have a function Open"
	}
	return ""
}

// OpenDesks returns the help desks of a product, for programs that ask them
// something themselves. The kinds are those of [Options.Desks], nil for the same
// default. The error joins everything that is wrong with their configuration.
func (product Product) OpenDesks(desks []helpdesk.Kind) ([]connector.Desk, error) {
	opened, wrong := newKinds(desks).open(product.IntegrationConfig.Desks, "integration_config", nil)
	var errs []error
	for _, problem := range wrong {
		errs = append(errs, errors.New(problem))
	}
	return opened, errors.Join(errs...)
}

// connected returns a product as the connector knows it.
func (product Product) connected(desks []connector.Desk) connector.Product {
	notes := connector.DefaultNotes()
	if n := product.IntegrationConfig.Notes; n != nil {
		set := func(d *time.Duration, n *int, unit time.Duration) {
			if n != nil {
				*d = time.Duration(*n) * unit
			}
		}
		set(&notes.Debounce, n.DebounceMS, time.Millisecond)
		set(&notes.Bin, n.BinSeconds, time.Second)
		set(&notes.PreLinkWindow, n.PreLinkWindowS, time.Second)
		if n.SummaryThreshold != nil {
			notes.SummaryThreshold = *n.SummaryThreshold
		}
	}
	return connector.Product{Desks: desks, Notes: notes, AllowedOrigins: product.AllowedOrigins}
}

// assisted returns a product as the proactive engine knows it. A configuration
// that is not valid has no core.
func (product Product) assisted(desks []connector.Desk, triggers []proactive.Trigger) assist.Product {
	config := product.IntegrationConfig.Proactive
	if config == nil {
		return assist.Product{Desks: desks}
	}
	assisted := assist.Product{Labels: config.ReplyOptionLabels, Desks: desks}
	if selected, err := config.Select(triggers...); err == nil && config.Enabled {
		assisted.Core, _ = assistance.NewCore(config, selected...) // nil after an error, which Validate reports
	}
	return assisted
}

// deskWarnings returns what is valid in a product's desks and has consequences that
// one should know.
func deskWarnings(product connector.Product, replies bool) (warnings []string) {
	for _, desk := range product.Desks {
		chatter, chats := desk.Desk.(helpdesk.Chatter)
		switch {
		case !chats:
		case !chatter.Verifies():
			warnings = append(warnings, "without signing_secret every webhook of the desk is accepted, and public replies are off")
		case !replies:
			warnings = append(warnings, "without a language model messages of users are ignored: there are no public replies")
		}
	}
	return warnings
}
