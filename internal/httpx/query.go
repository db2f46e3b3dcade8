package httpx

import (
	"errors"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// Query returns a request's query parameters. If the query string is malformed, the error is a 400.
func Query(r *http.Request) (url.Values, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, BadRequest("The query string is malformed.")
	}
	return query, nil
}

// Limit returns a request's query parameter limit, between zero and 2³¹-1: zero if
// it is missing or negative. If it is not an integer, or the query string is
// malformed, the error is a 400.
func Limit(r *http.Request) (int, error) {
	query, err := Query(r)
	if err != nil {
		return 0, BadRequest("The query string is malformed; limit must be an integer.")
	}
	limit, ok := Int(query, "limit")
	if !ok {
		return 0, BadRequest("The query parameter limit must be an integer.")
	}
	return max(limit, 0), nil
}

// Email returns the parameter email. A plus sign that is not escaped arrives as a space, which no address has.
func Email(query url.Values) string {
	return strings.ReplaceAll(strings.TrimSpace(query.Get("email")), " ", "+")
}

// Int returns a query parameter, or zero if it is missing. A number beyond 32 bits becomes
// the nearest one within. It reports false for anything but an integer.
func Int(query url.Values, name string) (n int, ok bool) {
	if !query.Has(name) {
		return 0, true
	}
	wide, err := strconv.ParseInt(query.Get(name), 10, 64)
	return int(min(max(wide, math.MinInt32), math.MaxInt32)), err == nil || errors.Is(err, strconv.ErrRange)
}
