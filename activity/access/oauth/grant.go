package oauth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/internal/jsontext"
)

// A grant is one document, from the consent to its end, and each step is one compare-and-set:
//
//	state       Refresh  lives       leaves it by
//	code given  nil      CodeTTL     redeem → signed in
//	signed in   set      RefreshTTL  refresh → signed in, for RefreshTTL from then
//	ended       no document
//
// A grant ends when its time is over, when it is revoked, when an administrator ends it, when
// its key has too many newer ones, and when a code or a refresh token comes a second time,
// because then one of the two senders has stolen it (RFC 9700, section 4.14). A removed key
// leaves the document in place and makes every token invalid.

// grant is the stored form of a client's grant. Key, ClientID, RedirectURI, Challenge,
// Resource, Code and Created never change.
type grant struct {
	Key         []byte `json:"key"` // its digest
	ClientID    string `json:"client_id"`
	ClientName  string `json:"client_name,omitempty"`
	RedirectURI string `json:"redirect_uri"`
	Challenge   string `json:"challenge"`
	Resource    string `json:"resource"`

	Code    []byte        `json:"code"`              // digest; kept once spent, to tell a second use
	Refresh []byte        `json:"refresh,omitempty"` // digest of the newest; none until the code is used
	Access  []accessToken `json:"access,omitempty"`
	Created time.Time     `json:"created"` // of the code
	Used    time.Time     `json:"used"`    // stored at most once a minute
	Until   time.Time     `json:"until"`   // of the code, later of the newest refresh token
}

// accessToken is a token that is valid until Until. Expired ones stay in the list until the next
// refresh.
type accessToken struct {
	Digest []byte    `json:"digest"`
	Until  time.Time `json:"until"`
}

// maxAccess is how many access tokens of a grant are valid at a time. A client that
// refreshes more often loses the oldest.
const maxAccess = 8

const (
	grantPrefix = "oauth/grant/"
	useEvery    = time.Minute // how often the last use of a grant is stored
)

// The outcomes of a change to a grant.
var (
	errNoGrant = errors.New("oauth: no such grant")
	errReused  = errors.New("oauth: a spent code or token was used again")
	errEnded   = errors.New("oauth: the grant has ended")
)

// stored is a grant and its document, at the version that was read: a write of it fails if the
// grant has changed since.
type stored struct {
	grant
	doc document.Document
}

func (g *stored) id() string { return strings.TrimPrefix(g.doc.Name, grantPrefix) }

// decodeGrant returns the grant in a document. One that cannot be decoded is errNoGrant, like one
// that does not exist. The document expires with the grant: the clocks of servers may differ.
func decodeGrant(doc document.Document) (g stored, err error) {
	g.doc = doc
	if !doc.Exists() {
		return g, errNoGrant
	}
	if err := json.Unmarshal(doc.Value, &g.grant); err != nil {
		return g, fmt.Errorf("%w: %w", errNoGrant, err)
	}
	return g, nil
}

// read returns a grant, or errNoGrant.
func (s *Server) read(ctx context.Context, productID, id string) (stored, error) {
	docs, err := s.docs.Get(ctx, productID, grantPrefix+id)
	if err != nil {
		return stored{}, fmt.Errorf("oauth: read grant: %w", err)
	}
	return decodeGrant(docs[0])
}

// put returns the change that stores a grant for the rest of its time, at least a second: a
// time to live of zero would mean forever.
func (g *stored) put() (document.Change, error) {
	value, err := jsontext.Marshal(g.grant)
	return document.Put(g.doc, value, max(time.Until(g.Until), time.Second)), err
}

// change applies decide to a grant, again if another write came first, until ctx ends. So decide
// may run several times, each time on the grant as it is then, and must have no lasting effect.
// An error of decide leaves the grant as it was, but errReused and errEnded end it; change
// returns it. If there is no grant, the error is errNoGrant. After an error of storage, the grant
// may or may not have changed. [document.ErrDropped] is one: it does not mean that the grant has
// ended, because a server that has not yet loaded a new registration gets it, too.
func (s *Server) change(ctx context.Context, productID, id string, decide func(*grant) error) error {
	return document.Retry(ctx, func() error {
		g, err := s.read(ctx, productID, id)
		if err != nil {
			return err
		}
		verdict := decide(&g.grant)
		change, err := g.put()
		switch {
		case verdict == errReused, verdict == errEnded:
			change = document.Delete(g.doc)
		case verdict != nil:
			return verdict
		case err != nil:
			return err
		}
		if _, err = s.docs.Write(ctx, productID, change); err != nil {
			return fmt.Errorf("oauth: write grant: %w", err)
		}
		if verdict == errReused {
			s.log.Warn("a grant has ended: "+verdict.Error(), "product_id", productID, "grant_id", id)
		}
		return verdict
	})
}

// grantCode stores a grant for a key and returns its code, the only copy: the document has
// digests. Room is made first, so a failure in between ends an old grant early and nothing
// worse.
func (s *Server) grantCode(
	ctx context.Context, productID string, key [sha256.Size]byte, a *authorization,
) (code string, err error) {
	if err := s.makeRoom(ctx, productID, key[:]); err != nil {
		return "", err
	}
	t, now := token{productID, rand.Text(), rand.Text()}, time.Now()
	g := stored{grant: grant{
		Key: key[:], ClientID: a.clientID, ClientName: a.client.Name, RedirectURI: a.redirectURI,
		Challenge: a.challenge, Resource: s.resource, Code: digest(t.secret),
		Created: now, Used: now, Until: now.Add(CodeTTL),
	}, doc: document.Document{Name: grantPrefix + t.idOf()}}
	change, err := g.put()
	if err != nil {
		return "", err
	}
	if _, err := s.docs.Write(ctx, productID, change); err != nil {
		return "", fmt.Errorf("oauth: write grant: %w", err)
	}
	s.log.Info("a client has signed in", "product_id", productID, "grant_id", g.id(),
		"redirect_host", hostOf(a.redirectURI))
	return codePrefix + t.String(), nil
}

// makeRoom ends the least recently used grants of a key, so that it can have another. Sign-ins
// at the same moment may leave a few grants more than [MaxGrants]; the next one ends those.
func (s *Server) makeRoom(ctx context.Context, productID string, key []byte) error {
	all, err := s.list(ctx, productID)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(g stored) bool { return subtle.ConstantTimeCompare(g.Key, key) != 1 })
	slices.SortFunc(all, func(a, b stored) int { return a.Used.Compare(b.Used) })
	for _, g := range all[:max(0, len(all)-MaxGrants+1)] {
		_, err := s.docs.Write(ctx, productID, document.Delete(g.doc))
		if err != nil && !document.IsConflict(err) { // after one it has just been used, or has ended
			return fmt.Errorf("oauth: end grant: %w", err)
		}
	}
	return nil
}

// list returns the grants of a product, including ones whose code was not used yet. A grant that
// changes in the meantime may be seen before or after its change.
func (s *Server) list(ctx context.Context, productID string) (all []stored, err error) {
	err = document.Each(ctx, s.docs, productID, grantPrefix, func(doc document.Document) {
		if g, err := decodeGrant(doc); err == nil {
			all = append(all, g)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("oauth: list grants: %w", err)
	}
	return all, nil
}

// opens returns nil if the key of a grant still opens MCP for the product, and otherwise an
// error of [access.Keyring.ProductOf]. It is called at every use, so a token never outlives its
// key.
func (s *Server) opens(g *grant, productID string) error {
	if len(g.Key) != sha256.Size {
		return access.ErrInvalid
	}
	of, err := s.keys.ProductOfDigest([sha256.Size]byte(g.Key), access.MCP)
	if err == nil && of != productID {
		return access.ErrInvalid
	}
	return err
}

// tokens is the answer of the token endpoint.
type tokens struct {
	AccessToken  string `json:"access_token"`
	TokenType    string `json:"token_type"`
	ExpiresIn    int    `json:"expires_in"` // seconds
	RefreshToken string `json:"refresh_token"`
	Scope        string `json:"scope"`
}

// issue gives a grant new tokens in the family of t, a code or a refresh token of it. Earlier
// access tokens keep their time, the earlier refresh token is spent, and the grant lives for
// RefreshTTL from now. Only the answer has the secrets.
func (g *grant) issue(t token, now time.Time) tokens {
	refresh := token{t.productID, t.family, rand.Text()}
	opener := token{t.productID, t.idOf(), rand.Text()}
	g.Refresh, g.Used, g.Until = digest(refresh.secret), now, now.Add(RefreshTTL)
	g.Access = slices.DeleteFunc(g.Access, func(a accessToken) bool { return !now.Before(a.Until) })
	g.Access = append(g.Access[max(0, len(g.Access)-maxAccess+1):], accessToken{digest(opener.secret), now.Add(AccessTTL)})
	return tokens{AccessToken: accessPrefix + opener.String(), TokenType: "Bearer", ExpiresIn: int(AccessTTL.Seconds()),
		RefreshToken: refreshPrefix + refresh.String(), Scope: string(access.MCP)}
}

// keyOfAccess returns the key that an access token stands for. The error is
// [access.ErrInvalid], [access.ErrScope] or wraps [access.ErrUnavailable].
func (s *Server) keyOfAccess(ctx context.Context, t token) (key [sha256.Size]byte, productID string, err error) {
	ctx, cancel := context.WithTimeout(ctx, storageTime)
	defer cancel()
	g, err := s.read(ctx, t.productID, t.family)
	if errors.Is(err, errNoGrant) {
		return key, "", access.ErrInvalid
	}
	if err != nil {
		return key, "", fmt.Errorf("%w: %w", access.ErrUnavailable, err)
	}
	now := time.Now()
	isGood := func(a accessToken) bool { return isSecret(a.Digest, t.secret) && now.Before(a.Until) }
	if !slices.ContainsFunc(g.Access, isGood) {
		return key, "", access.ErrInvalid
	}
	if err := s.opens(&g.grant, t.productID); err != nil {
		return key, "", err
	}
	s.use(ctx, t.productID, &g, now)
	return [sha256.Size]byte(g.Key), t.productID, nil
}

// use stores the use of a grant, once in useEvery, because reading must not cost a write each
// time. Failing to store a use is not an error; g is not modified.
func (s *Server) use(ctx context.Context, productID string, g *stored, now time.Time) {
	if now.Sub(g.Used) < useEvery {
		return
	}
	_ = s.change(ctx, productID, g.id(), func(g *grant) error {
		g.Used = now
		return nil
	})
}

// Grant is the access of a client to a product, as administrators see it.
type Grant struct {
	GrantID      string  `json:"grant_id"`
	ClientID     string  `json:"client_id"`
	ClientName   string  `json:"client_name"`
	RedirectHost string  `json:"redirect_host"` // where the answer went
	Scope        string  `json:"scope"`
	CreatedAt    float64 `json:"created_at"`   // epoch seconds
	LastUsedAt   float64 `json:"last_used_at"` // epoch seconds; up to a minute behind
}

// Grants returns the grants of a product whose keys exist, the newest first. An error
// means that storage is unavailable.
func (s *Server) Grants(ctx context.Context, productID string) ([]Grant, error) {
	all, err := s.list(ctx, productID)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b stored) int { return b.Created.Compare(a.Created) })
	grants, ended := []Grant{}, map[string]bool{}
	for _, g := range all {
		key := string(g.Key)
		if _, asked := ended[key]; !asked {
			ended[key] = errors.Is(s.opens(&g.grant, productID), access.ErrInvalid)
		}
		if ended[key] || g.Refresh == nil {
			continue
		}
		grants = append(grants, Grant{g.id(), g.ClientID, g.ClientName, hostOf(g.RedirectURI), string(access.MCP),
			activity.Seconds(g.Created), activity.Seconds(g.Used)})
	}
	return grants, nil
}

// End ends a grant and all its tokens, immediately and on all servers. It reports false if no
// grant has that ID. An error means that storage is unavailable, and that the grant may or may
// not have ended.
func (s *Server) End(ctx context.Context, productID, grantID string) (ended bool, err error) {
	err = s.change(ctx, productID, grantID, func(*grant) error { return errEnded })
	if errors.Is(err, errEnded) || errors.Is(err, errNoGrant) {
		return err == errEnded, nil
	}
	return false, err
}
