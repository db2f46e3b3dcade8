package liveactivity

// Patterns returns what the service's handler serves.
func (s *Service) Patterns() []string { return s.mux.Patterns() }
