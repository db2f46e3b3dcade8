package httpx

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
)

// Limit returns the query parameter limit of a request, between zero and 2³¹-1:
// zero if it is missing or negative. Anything but an integer is answered 400, and so
// is a query string that cannot be read.
func Limit(r *http.Request) (int, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return 0, BadRequest("The query string is malformed; limit must be an integer.")
	}
	if !query.Has("limit") {
		return 0, nil
	}
	limit, err := strconv.ParseInt(query.Get("limit"), 10, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, BadRequest("The query parameter limit must be an integer.")
	}
	// A number too large for 64 bits is a limit above any cap (or below any).
	return int(min(max(limit, 0), 1<<31-1)), nil
}
