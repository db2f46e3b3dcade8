package stream

import "errors"

// short truncates an id for a log.
func short(id string) string {
	const enough = 128
	if len(id) <= enough {
		return id
	}
	return id[:enough] + "…"
}

// errNoErasure is the error of a delivery that is no erasure.
var errNoErasure = errors.New("no erasure")

// decodeSummary returns the summary of a "summary" entry.
func decodeSummary(m Message) (s Summary, err error) {
	if err := m.Decode(&s); err != nil {
		return s, err
	}
	if s.Type != m.Type || s.SessionID != m.SessionID {
		return s, errors.New("duplicate field")
	}
	return s, nil
}
