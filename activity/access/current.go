package access

import (
	"errors"
	"net/http"

	"github.com/liveactivity/liveactivity/internal/httpx"
)

// CheckCurrent returns the result of check: nil or an HTTP error. A 401, 403 or 404 may
// be based on a stale registration, so the product is then refreshed and checked again;
// the second result counts. So a secret that another server has just issued is valid
// immediately. The answer is 503 while the product cannot be refreshed.
//
// refresh is nil if no other process changes products. It returns once the product's
// registration is no older than the call. It may block while storage does, and is called
// concurrently, also for products that do not exist.
func CheckCurrent(refresh func(productID string) error, productID string, check func() error) error {
	err := check()
	if refresh == nil || !isRefusal(err) {
		return err
	}
	if err := refresh(productID); err != nil {
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
