package bridge

import (
	"net/http"

	"github.com/liveactivity/liveactivity/internal/httpx"
)

// actions takes the report of one action. It checks everything before it keeps anything, so
// a refused report changes nothing. It releases the body when it returns, so the kept texts
// are copies.
func (b *Bridge) actions(w http.ResponseWriter, r *http.Request) error {
	if err := b.checkOrigin(r); err != nil {
		return err
	}
	body, err := httpx.ReadBody(w, r, maxBody, "")
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
	}{"accepted", b.record(session, compact(action), vendor)})
	return nil
}

// context answers with the context of a session. An unknown session also has one, because a
// widget asks before its user has done anything.
func (b *Bridge) context(w http.ResponseWriter, r *http.Request) error {
	c := b.Context(r.PathValue("session_id"))
	w.Header().Add("Vary", "Accept")
	if httpx.PrefersText(r.Header.Values("Accept")) {
		httpx.WriteText(w, c.Summary)
		return nil
	}
	return httpx.WriteLive(w, c)
}
