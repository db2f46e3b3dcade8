package ledger

// Stats counts the state of a ledger.
type Stats struct {
	InHand int // entries received and not finished
	Behind int // keys
	Held   int // of these, keys that wait for Resume
}

// Stats returns the current counts.
func (l *Ledger) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Stats{Behind: l.behind, Held: l.held.Len()}
	for _, a := range l.accounts {
		s.InHand += len(a.entries)
	}
	return s
}
