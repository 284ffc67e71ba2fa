package sampling

import (
	"minsep/internal/param"
)

// Spec is one scheme, and a truncation if there is one, as parameters travel: exactly one scheme is set. In JSON the
// scheme's name on the command line holds its parameters:
//
//	{"b-min-sep": {"prob": 0.25, "steps": 1000, "min_sep": 16, "warm_start": true}}
type Spec struct {
	BMinSep       *BMinSep       `json:"b-min-sep,omitempty"`
	Poisson       *Poisson       `json:"poisson,omitempty"`
	BallsInBins   *BallsInBins   `json:"balls-in-bins,omitempty"`
	CyclicPoisson *CyclicPoisson `json:"cyclic-poisson,omitempty"`
	MultiOwner    *MultiOwner    `json:"multi-owner,omitempty"`
	Fixed         *Fixed         `json:"fixed,omitempty"`
	Truncation    *Truncation    `json:"truncation,omitempty"`
}

// schemes returns the schemes that are set.
func (s Spec) schemes() (set []Scheme) {
	if s.BMinSep != nil {
		set = append(set, *s.BMinSep)
	}
	if s.Poisson != nil {
		set = append(set, *s.Poisson)
	}
	if s.BallsInBins != nil {
		set = append(set, *s.BallsInBins)
	}
	if s.CyclicPoisson != nil {
		set = append(set, *s.CyclicPoisson)
	}
	if s.MultiOwner != nil {
		set = append(set, *s.MultiOwner)
	}
	if s.Fixed != nil {
		set = append(set, *s.Fixed)
	}
	return set
}

// Scheme returns the scheme that is set. The spec must be valid.
func (s Spec) Scheme() Scheme { return s.schemes()[0] }

// Independent returns the scheme if its examples draw independently of each other.
func (s Spec) Independent() (Independent, bool) {
	i, ok := s.Scheme().(Independent)
	return i, ok
}

// Validate returns every fault of the parameters, joined.
func (s Spec) Validate() error {
	c := param.Checker{Package: "sampling"}
	set := s.schemes()
	c.Require(len(set) == 1, "schemes", len(set), "must be exactly 1")
	for _, scheme := range set {
		c.Add(scheme.Validate())
	}
	if s.Truncation != nil {
		c.Add(s.Truncation.Validate())
		c.Require(s.Fixed == nil, "truncation", s.Truncation.MaxBatchSize, "must not be given with fixed batches")
	}
	return c.Err()
}
