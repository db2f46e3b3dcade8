package bridge

import (
	"net/http"
	"strings"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/httpx"
)

// ServeActions takes the report of one action. It must be mounted under
//
//	POST /demo/actions
//
// The body is {"session_id", "title", "type", "description", "url", "vendor"},
// of which session_id and title are required; unknown fields are ignored. The
// Content-Type matters only to pages of an origin that is not allowed: theirs
// must be application/json, for which browsers ask first. Type is "click" by default, description is made from the
// title. Texts are cleaned and cut as [activity.CleanLabel] does, descriptions
// after 500 characters. The answer is 202 with how many actions the session's
// window holds; a report that is refused changes nothing.
func (b *Bridge) ServeActions(w http.ResponseWriter, r *http.Request) {
	b.share(w, r)
	httpx.Handler(b.actions).ServeHTTP(w, r)
}

func (b *Bridge) actions(w http.ResponseWriter, r *http.Request) error {
	if err := b.checkHost(r); err != nil {
		return err
	}
	if err := b.checkOrigin(r); err != nil {
		return err
	}
	body, err := httpx.ReadBody(w, r, b.maxBody, "")
	if err != nil {
		return err
	}
	defer body.Release()
	rep, err := readReport(body.Bytes())
	if err != nil {
		return err
	}
	session, err := rep.session()
	if err != nil {
		return err
	}
	action, err := rep.action()
	if err != nil {
		return err
	}
	vendor, err := rep.vendor()
	if err != nil {
		return err
	}
	httpx.WriteJSON(w, http.StatusAccepted, struct {
		Status string `json:"status"`
		Count  int    `json:"count"`
	}{"accepted", b.windows.report(strings.Clone(session), compact(action), vendor)})
	return nil
}

// ServeContext answers with the [Context] of a session, as JSON or, for a
// client that prefers text/plain, only its summary. It must be mounted under
//
//	GET /context/{session_id}
//
// The id may hold any character, percent-encoded. An unknown session is not an
// error.
func (b *Bridge) ServeContext(w http.ResponseWriter, r *http.Request) {
	b.share(w, r)
	httpx.Handler(b.context).ServeHTTP(w, r)
}

func (b *Bridge) context(w http.ResponseWriter, r *http.Request) error {
	if err := b.checkHost(r); err != nil {
		return err
	}
	c := b.Context(r.PathValue("session_id"))
	w.Header().Add("Vary", "Accept")
	if httpx.PrefersText(r.Header.Values("Accept")) {
		httpx.WriteText(w, c.Summary)
		return nil
	}
	body, err := activity.Marshal(c)
	if err != nil {
		return err
	}
	httpx.WriteEncoded(w, body)
	return nil
}
