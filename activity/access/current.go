package access

import (
	"errors"
	"net/http"

	"github.com/liveactivity/liveactivity/internal/httpx"
)

// Refresher is implemented by products that other processes may change. A refusal
// based on a stale registration is checked again after a refresh, so a secret that
// another server has just issued is valid immediately.
type Refresher interface {
	// Refresh returns once the product's registration is no older than the call. It may block
	// while storage does, and is called concurrently, also for products that do not exist.
	Refresh(productID string) error
}

// CheckCurrent returns the result of check: nil or an HTTP error. If that is 401,
// 403 or 404 and products is a [Refresher], the product is refreshed and checked
// again; the second result counts. The answer is 503 while the product cannot be
// refreshed.
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
