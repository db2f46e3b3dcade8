package bridge

// ReadSession returns the session that a report's body is of.
func ReadSession(body []byte) (string, error) {
	r, err := readReport(body)
	if err != nil {
		return "", err
	}
	return r.session()
}
