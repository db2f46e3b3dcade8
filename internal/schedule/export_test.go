package schedule

// Stats counts the work that a scheduler has in flight.
type Stats struct {
	Items   int   // added and not finished
	Bytes   int64 // of these
	Failing int   // keys whose work is being retried
	Stuck   int   // items of these
}

// Stats returns the counts of the work in flight.
func (s *Scheduler[T]) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := Stats{Items: s.items, Bytes: s.bytes, Stuck: s.stuck}
	for _, l := range s.lanes {
		if l.isFailing() {
			stats.Failing++
		}
	}
	return stats
}
