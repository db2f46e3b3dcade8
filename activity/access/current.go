package access

import (
	"errors"
	"net/http"

	"github.com/liveactivity/liveactivity/internal/httpx"
)

// Refresher is implemented by a program's products if other processes may change
// them: what is refused by what is known of a product is checked again by what it
// is now, so that a secret that another server has just given out fits at once.
type Refresher interface {
	// Refresh returns when what is known of the product is no older than the call.
	Refresh(productID string) error
}

// CheckCurrent returns what check says of a request: nil or an HTTP error. If that
// refuses it (401, 403 or 404) and products is a [Refresher], the product is
// refreshed, and what check says then counts. While the product cannot be refreshed the
// answer is 503.
func CheckCurrent(products any, productID string, check func() error) error {
	err := check()
	refresher, ok := products.(Refresher)
	if !ok || !isRefusal(err) {
		return err
	}
	if err := refresher.Refresh(productID); err != nil {
		return httpx.Unavailable(err)
	}
	return check()
}

func isRefusal(err error) bool {
	var answer *httpx.Error
	if !errors.As(err, &answer) {
		return false
	}
	switch answer.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
		return true
	}
	return false
}
