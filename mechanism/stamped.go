package mechanism

import "minsep/internal/param"

// KindStamped is the block diagonal repetition of a shorter strategy. It is not a family:
// strategies of every family can be repeated.
const KindStamped = "stamped"

// Stamped returns the block diagonal strategy with s repeated: its noise starts afresh every
// s.Steps steps. It is held by columns.
func Stamped(s *Strategy, times int) (*Strategy, error) {
	check := param.Checker{Package: "mechanism"}
	check.AtLeast("stamps", times, 1)
	check.Add(s.Validate())
	if err := check.Err(); err != nil {
		return nil, err
	}
	stamped := &Strategy{Kind: KindStamped, Steps: s.Steps * times}
	block := s.columns()
	for range times {
		stamped.Columns = append(stamped.Columns, block...)
	}
	return valid(stamped)
}

// columns returns every column of s down to the last band, divided by its norm if s is normalised.
// Columns of a Toeplitz strategy share memory: do not change them.
func (s *Strategy) columns() [][]float64 {
	all := make([][]float64, s.Steps)
	if s.Columns != nil {
		for i := range all {
			all[i] = s.Column(nil, i)
		}
		return all
	}
	c := s.FirstColumn(nil)
	norms := s.ColumnNorms()
	for i := range all {
		all[i] = c[:min(len(c), s.Steps-i)]
		if s.Normalized {
			all[i] = append([]float64(nil), all[i]...)
			for j := range all[i] {
				all[i][j] /= norms[i]
			}
		}
	}
	return all
}

// NormalizedColumns returns s with its columns divided by their norms: with one participation, or
// at most min-sep bands, equal norms are never worse than unequal ones after the noise multiplier
// is set for the largest (arXiv 2405.15913, section 3.2).
func NormalizedColumns(s *Strategy) *Strategy {
	t := *s
	t.Normalized = true
	return &t
}
