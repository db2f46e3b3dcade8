package servercmd

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/internal/origin"
)

// clientFlags select the server that a command talks to, and the product.
type clientFlags struct {
	URL     string `env:"LIVEACTIVITY_URL" default:"http://127.0.0.1:8080" placeholder:"URL" help:"The server's address."`
	Config  string `env:"LIVEACTIVITY_CONFIG" placeholder:"FILE" help:"Product file, for the product's secret and key."`
	Product string `placeholder:"ID" help:"The product: by default the first of the file, or demo without a file."`
	Key     string `env:"LIVEACTIVITY_KEY" placeholder:"KEY" help:"A key of the product, where no file has one."`
}

// client is a command's view of a server. Without a product file, product has only its ID.
type client struct {
	base, key string // base has no trailing slash; key may be empty
	product   liveactivity.Product
}

// client returns the client for the flags. Its key comes from the flags, or else is the file's
// first key with the scope. Mistakes are added to the call's; after one, the client must not be
// used.
func (f clientFlags) client(scope access.Scope, of call) client {
	c := client{strings.TrimRight(f.URL, "/"), f.Key, liveactivity.Product{ProductID: cmp.Or(f.Product, demoProduct)}}
	defer of.checkURL("--url", f.URL, "http://127.0.0.1:8080") // afterwards: load fails after any mistake
	if f.Config == "" {
		return c
	}
	file, err := of.load(f.Config, f.Product)
	if err != nil || len(file.Products) == 0 {
		return c
	}
	c.product = file.Products[0]
	for _, k := range file.Keys {
		if c.key == "" && k.ExternalID == c.product.ProductID && (k.Scopes == nil || slices.Contains(k.Scopes, scope)) {
			c.key = k.Key
		}
	}
	return c
}

// checkURL adds a mistake unless paths can be added to a flag's text, a server's URL.
func (c call) checkURL(flag, text, example string) {
	if _, ok := origin.Base(text); !ok {
		c.wrong.Check(flag, errors.New("must be a URL such as "+example))
	}
}

// url returns the URL of one of the product's resources on the server, whose path has the
// product's ID between before and after.
func (c client) url(before, after string) string {
	return c.base + before + url.PathEscape(c.product.ProductID) + after
}

// maxAnswer is the maximum number of bytes read from an answer.
const maxAnswer = 8 << 20

// do makes a request and decodes the answer's JSON into answer, unless that is nil; a *[]byte
// receives the raw answer. A status other than 200 is a *statusError. If ctx ends, the error is
// its cause. All errors are sentences for the terminal. The answer's own text is made printable,
// because anybody may run the server.
func (c client) do(ctx context.Context, method, address string, header http.Header, body []byte, answer any) error {
	limited, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(limited, method, address, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header = header
	response, err := noRedirects.Do(request)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("no server answers at %s: %w", c.base, errors.Unwrap(err))
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("the answer of %s breaks off: %w", c.base, err)
	}
	raw, isRaw := answer.(*[]byte)
	switch {
	case response.StatusCode != http.StatusOK:
		return c.refused(response, data)
	case isRaw:
		*raw = data
	case answer != nil && json.Unmarshal(data, answer) != nil:
		return fmt.Errorf("%s does not answer as a server of liveactivity", c.base)
	}
	return nil
}

// noRedirects treats a redirect as the answer, so that no other server receives the secret in a
// header.
var noRedirects = &http.Client{
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// refused returns the *statusError for an answer with this body.
func (c client) refused(response *http.Response, body []byte) error {
	var failed struct{ Detail string }
	_ = json.Unmarshal(body, &failed) // not every proxy answers in JSON
	if to := response.Header.Get("Location"); to != "" {
		failed.Detail = "it leads to " + to
	}
	text := fmt.Sprintf("%s answers %s", c.base, response.Status)
	detail := printable(failed.Detail)
	if detail != "" {
		text += ": " + detail
	}
	return &statusError{response.StatusCode, detail, text}
}

// statusError is an answer with a status other than 200.
type statusError struct {
	status       int
	detail, text string // detail is the server's text, or ""
}

func (e *statusError) Error() string { return e.text }

// printable replaces each character that a terminal might interpret with a space.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
}
