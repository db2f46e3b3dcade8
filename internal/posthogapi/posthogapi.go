// Package posthogapi uses PostHog's own API to set up the webhook destination through
// which a PostHog project reports to the service:
//
//	api, err := posthogapi.New("https://eu.posthog.com", "12345", personalKey)
//	…
//	outcome, err := api.Provision(ctx, posthogapi.Destination{Name: …, URL: …, Secret: …}, false)
//
// Source: https://posthog.com/docs/api/hog-functions and the template "template-webhook"
// in PostHog's repository, read in November 2026.
package posthogapi

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"reflect"
	"slices"

	"github.com/liveactivity/liveactivity/helpdesk"
)

// API is the API of one PostHog project. It is safe for concurrent use.
type API struct {
	http   helpdesk.API
	folder string // path of the project's destinations in the API
}

// New returns the API of a project at a PostHog host, such as "https://eu.posthog.com". The
// personal API key needs the scopes hog_function:read and hog_function:write. The error is a
// sentence about the host; New makes no request.
func New(host, project, personalKey string) (*API, error) {
	base, problem := helpdesk.CheckBaseURL(host)
	if problem != "" {
		return nil, errors.New(problem)
	}
	authorize := func(_ context.Context, header http.Header) error {
		header.Set("Authorization", "Bearer "+personalKey)
		return nil
	}
	return &API{http: helpdesk.API{Desk: "PostHog", BaseURL: base, Authorize: authorize},
		folder: "/api/environments/" + url.PathEscape(project) + "/hog_functions/"}, nil
}

// Destination is a webhook destination. Its name identifies it in the project.
type Destination struct {
	Name   string
	URL    string
	Secret string   // for the header X-PostHog-Secret
	Events []string // names of the events to send
}

// Outcome is the result of Provision and Remove.
type Outcome string

// The outcomes; in a dry run, of changes that would be made.
const (
	Created Outcome = "created"
	Updated Outcome = "updated"
	Removed Outcome = "removed"
	Present Outcome = "is there" // and as required
	Absent  Outcome = "is not there"
)

// function is a destination in the API's form.
type function struct {
	ID      string `json:"id,omitempty"`
	Type    string `json:"type,omitempty"`
	Name    string `json:"name,omitempty"`
	Enabled bool   `json:"enabled"`
	// TemplateID is written but not compared, because answers contain it in
	// another form.
	TemplateID string           `json:"template_id,omitempty"`
	Filters    filters          `json:"filters"`
	Inputs     map[string]input `json:"inputs"`
}

type filters struct {
	Events []event `json:"events"`
}

type event struct {
	ID   string `json:"id"`
	Type string `json:"type"`
}

type input struct {
	Value any `json:"value"`
}

// function returns the destination in the API's form.
func (d Destination) function() function {
	f := function{Type: "destination", Name: d.Name, Enabled: true, TemplateID: "template-webhook",
		Inputs: map[string]input{
			"url":     {d.URL},
			"method":  {"POST"},
			"headers": {map[string]any{"Content-Type": "application/json", "X-PostHog-Secret": d.Secret}},
			"body":    {map[string]any{"event": "{event}", "person": "{person}"}},
		}}
	for _, name := range d.Events {
		f.Filters.Events = append(f.Filters.Events, event{name, "events"})
	}
	return f
}

// is reports whether two destinations do the same. It ignores inputs that PostHog has added
// on its own.
func (f function) is(wanted function) bool {
	for name, input := range wanted.Inputs {
		if !reflect.DeepEqual(f.Inputs[name], input) {
			return false
		}
	}
	return f.Enabled && reflect.DeepEqual(f.Filters, wanted.Filters)
}

// Provision creates the destination, or updates the one with its name if that differs. With
// dryRun it only reports which. The update writes all fields, so manual changes are lost. After
// an error call it again: if only the answer to a creation was lost, it finds the destination.
func (a *API) Provision(ctx context.Context, d Destination, dryRun bool) (Outcome, error) {
	id, err := a.find(ctx, d.Name)
	if err != nil {
		return "", err
	}
	wanted := d.function()
	if id == "" {
		if dryRun {
			return Created, nil
		}
		return Created, a.do(ctx, "create the destination", http.MethodPost, "", wanted, nil)
	}
	var found function
	if err := a.do(ctx, "read the destination", http.MethodGet, id+"/", nil, &found); err != nil || found.is(wanted) {
		return Present, err
	}
	if dryRun {
		return Updated, nil
	}
	wanted.Type, wanted.TemplateID = "", ""
	return Updated, a.do(ctx, "update the destination", http.MethodPatch, id+"/", wanted, nil)
}

// Remove removes the destination with a name. The API forbids DELETE and takes a mark
// instead. With dryRun it only reports whether there is one. A missing destination is no
// error.
func (a *API) Remove(ctx context.Context, name string, dryRun bool) (Outcome, error) {
	id, err := a.find(ctx, name)
	switch {
	case err != nil:
		return "", err
	case id == "":
		return Absent, nil
	case dryRun:
		return Removed, nil
	}
	return Removed, a.do(ctx, "remove the destination", http.MethodPatch, id+"/", map[string]bool{"deleted": true}, nil)
}

const maxPages = 100 // of a project's destinations, 100 each

// find returns the ID of the destination with a name, or "". If several have that name, it is
// the first that the API lists.
func (a *API) find(ctx context.Context, name string) (string, error) {
	query := "?type=destination&limit=100"
	for range maxPages {
		var page struct {
			Next    string     `json:"next"`
			Results []function `json:"results"`
		}
		if err := a.do(ctx, "list the destinations", http.MethodGet, query, nil, &page); err != nil {
			return "", err
		}
		if i := slices.IndexFunc(page.Results, func(f function) bool { return f.Name == name }); i >= 0 {
			return page.Results[i].ID, nil
		}
		// Request the next page from our own host, whatever host its address
		// states.
		next, err := url.Parse(page.Next)
		if err != nil || next.RawQuery == "" {
			break
		}
		query = "?" + next.RawQuery
	}
	return "", nil
}

// do makes a request to the project's destinations.
func (a *API) do(ctx context.Context, op, method, path string, body, answer any) error {
	return a.http.Do(ctx, helpdesk.Request{Op: op, Method: method, Path: a.folder + path, Body: body}, answer)
}

// Name returns the name of a product's destination.
func Name(productID string) string { return "liveactivity: " + productID }
