package packed

// Spilled reports whether some records are in the temporary file.
func (s *Spool) Spilled() bool { return s.size > 0 }
