package connector

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/activity/intake"
	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/jsontext"
	"github.com/liveactivity/liveactivity/internal/options"
	"github.com/liveactivity/liveactivity/internal/origin"
)

// maxLink is the largest body of a link, in bytes.
const maxLink = 16 << 10

// linkRequest is the body of a link.
type linkRequest struct {
	ProductID      string      `json:"product_id"`
	SessionID      string      `json:"session_id"`
	ConversationID jsontext.ID `json:"conversation_id"`
	Desk           string      `json:"desk"` // the product's first one by default
	// UserHash and Token prove the session's user, as the properties $user_hash and
	// $identity_token of an event do; without either the link is a stranger's.
	UserHash string `json:"user_hash"`
	Token    string `json:"token"`
}

// linkClaim returns the link that the request asks for. It is bySigned if there is any proof; the
// proof itself is checked later, once the session's user is known.
func (l *linkRequest) linkClaim() linkClaim {
	c := linkClaim{productID: l.ProductID, Link: Link{l.Desk, string(l.ConversationID)},
		proof: intake.Proof{UserHash: l.UserHash, Token: l.Token}}
	if c.proof != (intake.Proof{}) {
		c.by = bySigned
	}
	return c
}

// ServeLink links a session to a conversation at the request of a page of the product.
// Mount it under POST /sessions/link, and ServeLinkPreflight under OPTIONS. The Origin
// must be one of the product's. Because any program can send any Origin, such a link
// leads to notes only, and to nothing that the contact sees, unless the page proves the
// session's user.
//
// The answer is 200 with the status linked or already_linked. An unknown session gets a
// 404, as does a user's own session without a proof, and a proof that does not sign the
// session's user a 401. A page retries both for a while, because the events that identify
// the session or its user may still be on their way. A session of another conversation, and
// a conversation that is full, get a 409, and too many links a 429 with Retry-After.
func (c *Connector) ServeLink(w http.ResponseWriter, r *http.Request) {
	httpx.Handler(c.serveLink).ServeHTTP(w, r)
}

// ServeLinkPreflight answers the preflight requests of ServeLink. Any origin may ask,
// because a preflight does not name the product.
func (c *Connector) ServeLinkPreflight(w http.ResponseWriter, r *http.Request) {
	w.Header().Add("Vary", "Origin")
	allowPage(w.Header(), r.Header.Get("Origin"))
	httpx.Preflight(w, http.MethodPost, "Content-Type")
}

// allowPage lets pages of an origin read the answer.
func allowPage(h http.Header, from string) {
	if from != "" {
		h.Set("Access-Control-Allow-Origin", from)
		h.Set("Access-Control-Expose-Headers", "Retry-After")
	}
}

// errOrigin is the answer to a page of another origin, and to a request without an Origin.
var errOrigin = httpx.Errorf(http.StatusForbidden, "Pages of this origin may not link sessions of the product.")

// serveLink implements ServeLink. The body names the product, so it is read before the origin is
// checked; until then no page may read the answer.
func (c *Connector) serveLink(w http.ResponseWriter, r *http.Request) error {
	w.Header().Add("Vary", "Origin")
	if err := checkJSON(r); err != nil {
		return err
	}
	from := r.Header.Get("Origin")
	if from == "" {
		return errOrigin
	}
	body, err := httpx.ReadBody(w, r, maxLink, "")
	if err != nil {
		return err
	}
	defer body.Release()
	var link linkRequest
	if err := decodeLink(body.Bytes(), &link); err != nil {
		return err
	}
	var product Product
	err = access.CheckCurrent(c.products, link.ProductID, func() (err error) {
		if product, err = c.product(link.ProductID); err == nil && !origin.Allows(product.AllowedOrigins, from) {
			err = errOrigin
		}
		return err
	})
	if err != nil {
		return err
	}
	allowPage(w.Header(), from)
	if link.Desk, err = chooseDesk(product, link.Desk); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), storageTime)
	defer cancel()
	result, claim := linked, link.linkClaim()
	attempt := func() (err error) {
		result, err = c.linker.link(ctx, claim, link.SessionID)
		return linkFailed(err)
	}
	if claim.by == bySigned { // under secrets that another server may have changed just now
		err = access.CheckCurrent(c.products, link.ProductID, attempt)
	} else {
		err = attempt()
	}
	if err != nil {
		return err
	}
	httpx.WriteJSON(w, http.StatusOK, map[string]status{"status": result})
	return nil
}

// decodeLink decodes the body of a link and checks that the required fields are present. It
// ignores unknown fields. The error is the HTTP answer.
func decodeLink(body []byte, link *linkRequest) error {
	if err := json.Unmarshal(body, link); err != nil {
		return httpx.BadRequest("The body must be a JSON object with product_id, session_id and conversation_id.")
	}
	for _, field := range []struct{ name, value string }{
		{"product_id", link.ProductID}, {"session_id", link.SessionID}, {"conversation_id", string(link.ConversationID)}} {
		if strings.TrimSpace(field.value) == "" {
			return httpx.BadRequest("The field %s is missing or empty.", field.name)
		}
	}
	if len(link.ConversationID) > maxConversationID {
		return httpx.BadRequest("The field conversation_id is longer than %d bytes.", maxConversationID)
	}
	return nil
}

// chooseDesk returns the name of the desk that a page asks for, the product's first
// one by default. The error is the HTTP answer.
func chooseDesk(product Product, name string) (string, error) {
	if len(product.Desks) == 0 {
		return "", httpx.NotFound("The product has no help desk.")
	}
	if name == "" {
		return product.Desks[0].Name, nil
	}
	if _, ok := product.find(name); !ok {
		return "", httpx.BadRequest("The field desk does not name a help desk of the product.")
	}
	return name, nil
}

// linkFailed returns the answer to a failed link, and nil for no error. Any error that is not
// one of the linker's own comes from storage and gets a 503.
func linkFailed(err error) error {
	var quota *quotaError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errUnsigned):
		return httpx.Unauthorized("The signature of the session's user is wrong or has expired.", "")
	case errors.Is(err, errLinked):
		return httpx.Errorf(http.StatusConflict, "The session is linked to another conversation.")
	case errors.Is(err, errTooManySessions):
		return httpx.Errorf(http.StatusConflict, "Pages have linked too many sessions to the conversation already.")
	case errors.As(err, &quota):
		e := httpx.Errorf(http.StatusTooManyRequests, "Pages have linked %d sessions of the product within a minute.",
			MaxStrangeLinks)
		e.Header = http.Header{"Retry-After": {strconv.Itoa(int(math.Ceil(quota.Wait.Seconds())))}}
		return e
	case errors.Is(err, errUnknownSession):
		return httpx.NotFound("Unknown session: nothing has been reported of it yet.")
	}
	return httpx.Unavailable(err)
}

// Snippet returns a script for the product's pages, as HTML, that defines
// liveactivity.link(conversationID). A page calls it when a conversation of the desk
// begins, if no webhook can name the conversation's contact. It links the session of
// posthog-js, or the one given as the second argument, and returns a promise of the status.
// The third argument proves the session's user: {user_hash: …} or {token: …}. The base is
// the service's public URL; an empty desk means the product's default. The error joins all
// mistakes, each an [*option.Error].
func Snippet(base, productID, desk string) (string, error) {
	_, ok := origin.Base(base)
	m := options.Mistakes{Package: "connector"}
	m.Require(ok, "base", "must be a URL such as https://live.example.com")
	m.Require(productID != "" && !strings.Contains(productID, "/"), "productID", "must be one path segment")
	if err := m.Err(); err != nil {
		return "", err
	}
	fixed := map[string]string{"product_id": productID}
	if desk != "" {
		fixed["desk"] = desk
	}
	// Package encoding/json escapes < and >, as HTML needs. It never fails for strings.
	link, _ := json.Marshal(fixed)
	quoted, _ := json.Marshal(strings.TrimRight(base, "/") + "/sessions/link")
	return strings.NewReplacer("URL", string(quoted), "LINK", string(link)).Replace(snippet), nil
}

// snippet is the script. It retries while the session or its user is not known yet,
// because posthog-js reports only every few seconds, and while the service is
// unavailable.
const snippet = `<script>
(function () {
  var url = URL, link = LINK;
  function send(conversation, session, identity, pause) {
    return new Promise(function (ask) {
      session = session || posthog.get_session_id();
      if (!session) throw new Error('posthog-js has not loaded');
      var body = Object.assign({}, identity, {conversation_id: String(conversation), session_id: session}, link);
      ask(fetch(url, {method: 'POST', headers: {'Content-Type': 'application/json'}, body: JSON.stringify(body)}));
    })
      .then(function (r) {
        if (r.ok) return r.json().then(function (answer) { return answer.status; });
        if (r.status !== 401 && r.status !== 404 && r.status !== 429 && r.status < 500) return 'refused';
        throw new Error('status ' + r.status);
      })
      .catch(function (err) {
        if (pause > 16000) throw err;
        return new Promise(function (go) { setTimeout(go, pause); })
          .then(function () { return send(conversation, session, identity, 2 * pause); });
      });
  }
  window.liveactivity = {link: function (conversation, session, identity) {
    return send(conversation, session, identity, 1000);
  }};
})();
</script>
`
