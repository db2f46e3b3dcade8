package bridge

// ReadSession returns the session of a report's body.
func ReadSession(body []byte) (string, error) {
	r, err := readReport(body)
	if err != nil {
		return "", err
	}
	return r.session()
}
