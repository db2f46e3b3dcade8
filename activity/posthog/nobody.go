package posthog

import (
	"strings"

	"github.com/google/uuid"
)

// cookieless is the distinct id of every visitor of a page that sets no cookies.
const cookieless = "$posthog_cookieless"

// Distinct ids that stand for many people: a program sent the name of a value
// instead of the value. They are those that PostHog itself never merges with
// others, in any case of letters and exactly as they stand here.
var (
	nobodyInAnyCase = ids("anonymous", "guest", "distinctid", "distinct_id", "id", "not_authenticated", "email",
		"undefined", "true", "false")
	nobody = ids("[object Object]", "NaN", "None", "none", "null", "0", uuid.Nil.String())
)

func ids(ids ...string) map[string]bool {
	set := map[string]bool{}
	for _, id := range ids {
		set[id] = true
	}
	return set
}

// isCookieless reports whether an event comes from a page that sets no cookies: its
// action is of no session and no user, and still goes to the stream.
func isCookieless(e *event) bool {
	return first(string(e.DistinctID), string(e.Properties.DistinctID)) == cookieless
}

// userID returns the user id that a distinct id stands for: the id itself, or ""
// for a blank or shared one. Quotation marks and white space around it are ignored.
func userID(distinctID string) string {
	id := strings.TrimSpace(distinctID)
	if n := len(id); n > 2 && (id[0] == '"' || id[0] == '\'') && id[0] == id[n-1] {
		id = strings.TrimSpace(id[1 : n-1])
	}
	if id == "" || id == cookieless || nobody[id] || nobodyInAnyCase[strings.ToLower(id)] {
		return ""
	}
	return distinctID
}
