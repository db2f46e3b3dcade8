package access

import (
	"errors"
	"net/http"

	"github.com/liveactivity/liveactivity/internal/httpx"
)

// Refresher is a part of products, which other processes may change. A refusal based on
// a stale registration is checked again after a refresh, so a secret that another server
// has just issued is valid immediately.
type Refresher interface {
	// Refresh returns once the product's registration is no older than the call. It may block
	// while storage does, and is called concurrently, also for products that do not exist. It
	// returns nil if no other process changes products.
	Refresh(productID string) error
}

// CheckCurrent returns the result of check: nil or an HTTP error. If that is 401, 403 or
// 404, the product is refreshed and checked again; the second result counts. The answer is
// 503 while the product cannot be refreshed.
func CheckCurrent(products Refresher, productID string, check func() error) error {
	err := check()
	if !isRefusal(err) {
		return err
	}
	if err := products.Refresh(productID); err != nil {
		return httpx.Unavailable(err)
	}
	return check()
}

func isRefusal(err error) bool {
	answer, ok := errors.AsType[*httpx.Error](err)
	if !ok {
		return false
	}
	switch answer.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
		return true
	}
	return false
}
