package httpx

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
)

var loggedMissing sync.Map // names of path values

// PathValue returns a request's path value, which may be empty. If the handler is mounted
// on a pattern without that value, it fails with a 500, so that the handler does not serve
// an empty value, and logs that once for each name.
func PathValue(r *http.Request, name string) (string, error) {
	value := r.PathValue(name)
	if value != "" || strings.Contains(r.Pattern, "{"+name) {
		return value, nil
	}
	if _, logged := loggedMissing.LoadOrStore(name, true); !logged {
		slog.Default().Error("a handler is mounted on a pattern without a path value that it needs", "path_value", name,
			"pattern", r.Pattern)
	}
	return "", &Error{Status: http.StatusInternalServerError,
		Detail: "The handler is mounted on a pattern without {" + name + "}.",
		Cause:  fmt.Errorf("httpx: pattern %q has no {%s}", r.Pattern, name)}
}
