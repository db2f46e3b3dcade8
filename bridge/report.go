package bridge

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/httpx"
)

// Limits of a report.
const (
	maxBody      = 64 << 10
	maxID        = 1 << 10 // bytes, of a session's or a vendor's ID
	maxURL       = 2 << 10 // bytes
	maxDocuments = 50
)

// report is the decoded body of POST /demo/actions. Unknown fields are ignored. Its methods
// validate the parts; each error is a 400 answer.
type report struct {
	SessionID   string  `json:"session_id"`
	Type        string  `json:"type"`
	Title       string  `json:"title"`
	Description string  `json:"description"`
	URL         string  `json:"url"`
	Vendor      *Vendor `json:"vendor"`
}

// readReport decodes a body. Its error states the place of the mistake. It first refuses
// invalid UTF-8, which encoding/json would replace: an ID must not change.
func readReport(body []byte) (r report, err error) {
	trimmed := bytes.TrimLeft(body, " \t\r\n")
	switch {
	case len(trimmed) == 0:
		return r, httpx.BadRequest("The request body is empty.")
	case !utf8.Valid(body):
		return r, httpx.BadRequest("The request body is not UTF-8.")
	}
	var syntax *json.SyntaxError
	var mistyped *json.UnmarshalTypeError
	err = json.Unmarshal(body, &r)
	switch {
	case errors.As(err, &syntax):
		return r, &httpx.Error{Status: http.StatusBadRequest, Cause: err,
			Detail: fmt.Sprintf("The request body is not valid JSON: the mistake is near byte %d.", syntax.Offset)}
	case trimmed[0] != '{':
		return r, httpx.BadRequest("The request body must be a JSON object.")
	case errors.As(err, &mistyped):
		return r, httpx.BadRequest("The field %s must be %s, not of the type %s.", mistyped.Field,
			cmp.Or(wanted[mistyped.Field], "a string"), mistyped.Value)
	case err != nil:
		return r, &httpx.Error{Status: http.StatusBadRequest, Detail: "The request body is not valid JSON.", Cause: err}
	}
	return r, nil
}

// wanted names the JSON type of each field that is not a string.
var wanted = map[string]string{"vendor": "an object", "vendor.missing_documents": "an array of strings"}

// typeName matches a valid action type.
var typeName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)

// action returns the reported action, without its times. Its texts may share memory with the
// body.
func (r report) action() (a activity.Action, err error) {
	a = activity.Action{Type: cmp.Or(r.Type, activity.TypeClick), Title: activity.CleanLabel(r.Title),
		Description: r.Description, RawURL: r.URL}
	switch {
	case a.Title == "":
		return a, httpx.BadRequest("The field title is required and must not be empty.")
	case !typeName.MatchString(a.Type):
		return a, httpx.BadRequest("The field type must be a word of at most 32 lower-case letters, digits, hyphens " +
			"and underscores, such as click.")
	case !isWebURL(r.URL):
		return a, httpx.BadRequest("The field url must be an absolute http or https URL of at most %d bytes.", maxURL)
	}
	a = a.Clean()
	a.Description = cmp.Or(a.Description, describe(a))
	return a, nil
}

// session returns the report's session ID. It refuses an ID with the replacement character,
// since several broken IDs would become the same one.
func (r report) session() (string, error) {
	switch {
	case r.SessionID == "":
		return "", httpx.BadRequest("The field session_id is required and must not be empty.")
	case len(r.SessionID) > maxID:
		return "", httpx.BadRequest("The field session_id must be at most %d bytes long.", maxID)
	case strings.ContainsRune(r.SessionID, utf8.RuneError):
		return "", httpx.BadRequest("The field session_id must not contain the character U+FFFD, or half a surrogate pair.")
	}
	return r.SessionID, nil
}

// isWebURL reports whether a URL is empty or an http or https URL with a host,
// of at most maxURL bytes.
func isWebURL(raw string) bool {
	if raw == "" {
		return true
	}
	u, err := url.Parse(raw)
	return err == nil && len(raw) <= maxURL && u.Hostname() != "" && (u.Scheme == "http" || u.Scheme == "https")
}

// vendor returns the reported vendor, or nil. It shares no memory with the body. Documents
// are cleaned, and duplicate or empty ones are dropped.
func (r report) vendor() (*Vendor, error) {
	v := r.Vendor
	switch {
	case v == nil:
		return nil, nil
	case v.ID == "":
		return nil, httpx.BadRequest("The field vendor.id is required and must not be empty.")
	case len(v.ID) > maxID:
		return nil, httpx.BadRequest("The field vendor.id must be at most %d bytes long.", maxID)
	case !slices.Contains(statuses, string(v.Status)):
		return nil, httpx.BadRequest("The field vendor.status must be one of %s.", strings.Join(statuses, ", "))
	case len(v.MissingDocuments) > maxDocuments:
		return nil, httpx.BadRequest("The field vendor.missing_documents must have at most %d strings.", maxDocuments)
	}
	documents := make([]string, 0, len(v.MissingDocuments))
	for _, document := range v.MissingDocuments {
		if name := activity.CleanLabel(document); name != "" && !slices.Contains(documents, name) {
			documents = append(documents, strings.Clone(name))
		}
	}
	return &Vendor{ID: strings.Clone(v.ID), Name: strings.Clone(activity.CleanLabel(v.Name)), Status: v.Status,
		MissingDocuments: documents}, nil
}
