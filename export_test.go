package liveactivity

// Patterns returns the patterns of the service's handler.
func (s *Service) Patterns() []string { return s.mux.Patterns() }
