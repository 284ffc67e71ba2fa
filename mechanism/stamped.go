package mechanism

import "minsep/internal/param"

// KindStamped is the block diagonal repetition of a shorter strategy. It is not a family:
// strategies of every family can be repeated.
const KindStamped = "stamped"

// Stamped returns the block diagonal strategy with s repeated: its noise starts afresh every
// s.Steps steps. It is held by columns.
func Stamped(s *Strategy, times int) (*Strategy, error) {
	check := param.Checker{}
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
