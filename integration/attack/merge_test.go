package attack

// Merge adds the observations of another sample of the same attack.
func (s *Sample) Merge(o *Sample) {
	s.LogRatios = append(s.LogRatios, o.LogRatios...)
	s.adapted = append(s.adapted, o.adapted...)
	s.squares = append(s.squares, o.squares...)
	s.products = append(s.products, o.products...)
	if s.small == nil {
		s.small, s.same = make([]int, len(o.small)), make([]int, len(o.same))
	}
	for t := range o.small {
		s.small[t] += o.small[t]
		s.same[t] += o.same[t]
	}
}
