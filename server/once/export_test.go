package once

// Claims returns how many claims a Redis remembers: of what runs here, or has yet to be
// written.
func (s *Redis) Claims() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.claims)
}
