package httpx

import (
	"mime"
	"strconv"
	"strings"
)

// PrefersText reports whether a client with these Accept headers prefers text/plain to JSON.
// JSON is the default without a preference or a header. Malformed media ranges are ignored.
func PrefersText(accept []string) bool {
	var text, json preference
	for value := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		mediaRange, params, err := mime.ParseMediaType(value)
		if err != nil {
			continue
		}
		q := 1.0
		if s, ok := params["q"]; ok {
			if q, err = strconv.ParseFloat(s, 64); err != nil || !(0 <= q && q <= 1) {
				continue
			}
		}
		text.weigh("text/plain", mediaRange, q)
		json.weigh("application/json", mediaRange, q)
	}
	return text.q > json.q
}

// preference is a media type's quality according to the most specific range so far (RFC
// 9110, section 12.5.1). The zero value means not acceptable.
type preference struct {
	q           float64
	specificity int
}

// weigh adopts the quality of a range that covers the media type and is more specific than the
// previous one.
func (p *preference) weigh(mediaType, mediaRange string, q float64) {
	specificity := 0
	family, _, _ := strings.Cut(mediaType, "/")
	switch mediaRange {
	case mediaType:
		specificity = 3
	case family + "/*":
		specificity = 2
	case "*/*":
		specificity = 1
	}
	if specificity > p.specificity {
		*p = preference{q, specificity}
	}
}
