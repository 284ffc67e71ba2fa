package sampling

import "minsep/internal/param"

// Spec is a scheme as manifests, plans and certificates hold it. Exactly one scheme is set. If
// Owners is set, owners follow the scheme in place of examples; Truncation is applied last. In JSON
// the scheme's parameters are under its name on the command line:
//
//	{"b-min-sep": {"prob": 0.25, "steps": 1000, "min_sep": 16, "warm_start": true}}
type Spec struct {
	BMinSep       *BMinSep       `json:"b-min-sep,omitempty"` // nil unless it is the scheme, as are the others
	Poisson       *Poisson       `json:"poisson,omitempty"`
	BallsInBins   *BallsInBins   `json:"balls-in-bins,omitempty"`
	CyclicPoisson *CyclicPoisson `json:"cyclic-poisson,omitempty"`
	EpochMinSep   *EpochMinSep   `json:"epoch-min-sep,omitempty"`
	MultiOwner    *MultiOwner    `json:"multi-owner,omitempty"`
	Fixed         *Fixed         `json:"fixed,omitempty"`
	Rotation      *Rotation      `json:"rotation,omitempty"`
	Law           *Table         `json:"law,omitempty"`        // the scheme of a [Law]
	Owners        *OwnerSampling `json:"owners,omitempty"`     // nil: examples take part on their own
	Truncation    *Truncation    `json:"truncation,omitempty"` // of any scheme but fixed; nil for none
}

// Kinds lists the schemes that users can choose, in the order of listings.
var Kinds = []Kind{
	bMinSepKind,
	epochMinSepKind,
	poissonKind,
	ballsInBinsKind,
	cyclicPoissonKind,
	multiOwnerKind,
	fixedKind,
	rotationKind,
	lawKind,
}

// Kind describes a scheme to users: everything that does not depend on its parameters. It is
// declared in the scheme's file.
type Kind struct {
	Name   string    // as on the command line, in plans, and as the field of Spec
	Help   string    // a description, in lines of at most 104 columns
	Pools  bool      // whether the scheme needs a table with pools; other schemes refuse one
	Owners Ownership // how the batches depend on owners
	// Takes names the parameters that only this scheme, and others that name them, accept.
	Takes []string
	// ExactBatchSize says that every batch has exactly the batch size, which then needs no number
	// of examples.
	ExactBatchSize bool

	examplesOnly string                                      // rule of the error where owners cannot follow it in place of examples; "" if they can
	untruncated  string                                      // rule of the error where batches cannot be truncated; "" if they can
	check        func(p Params, c *param.Checker)            // checks the parameters outside Takes
	spec         func(p Params, of Population) (Spec, error) // makes the spec of valid parameters
	scheme       func(s Spec) Scheme                         // nil unless it is set
}

// Ownership says how batches depend on the owners of examples.
type Ownership int

// Values of Ownership.
const (
	OwnersIgnored Ownership = iota // every copy of an example takes part by itself
	OwnersIfKnown                  // examples are told apart by their owners; without a graph each example is its own owner
	OwnersNeeded                   // there are no batches without a graph of owners
)

func kindOf(name string) (Kind, bool) {
	for _, k := range Kinds {
		if k.Name == name {
			return k, true
		}
	}
	return Kind{}, false
}

// KindNames returns the names of [Kinds].
func KindNames() (names []string) {
	for _, k := range Kinds {
		names = append(names, k.Name)
	}
	return names
}

// orNil converts a field of Spec to a Scheme, nil if it is not set.
func orNil[S Scheme](s *S) Scheme {
	if s == nil {
		return nil
	}
	return *s
}

// schemes returns the schemes that are set.
func (s Spec) schemes() (set []Scheme) {
	for _, k := range Kinds {
		if scheme := k.scheme(s); scheme != nil {
			set = append(set, scheme)
		}
	}
	return set
}

// Scheme returns the scheme that is set. It panics if there is none: the spec must be valid.
func (s Spec) Scheme() Scheme { return s.schemes()[0] }

// Kind returns the kind of the scheme that is set, or a zero Kind if none is, as in a damaged file.
func (s Spec) Kind() Kind {
	for _, k := range Kinds {
		if k.scheme(s) != nil {
			return k
		}
	}
	return Kind{}
}

// LooksAtOwners reports whether batches depend on the owners of examples.
func (s Spec) LooksAtOwners() bool { return s.Owners != nil || s.Kind().Owners != OwnersIgnored }

// Process returns the process from which one copy of an example draws its participations, or its
// coins for [MultiOwner]. It is nil for [Fixed], where examples do not draw.
func (s Spec) Process() Process {
	switch scheme := s.Scheme().(type) {
	case Independent:
		return scheme.Process()
	case MultiOwner:
		return scheme.Coins()
	}
	return nil
}

// ExpectedBatchSize is the expected size of a batch before truncation, once the scheme is
// stationary. It counts owners where they follow the scheme.
func (s Spec) ExpectedBatchSize(of Population) float64 {
	if s.Owners != nil {
		of = of.ofOwners()
	}
	switch scheme := s.Scheme().(type) {
	case Independent:
		return scheme.ExpectedBatchSize(of.Examples)
	case MultiOwner:
		return scheme.ExpectedBatchSize(of.Neighborhoods)
	case Fixed:
		return float64(scheme.BatchSize)
	}
	panic("sampling: a scheme of no known family")
}

// ExpectedExamples is the expected number of examples of a batch before truncation, once the scheme
// is stationary.
func (s Spec) ExpectedExamples(of Population) float64 {
	size := s.ExpectedBatchSize(of)
	if s.Owners == nil {
		return size
	}
	return size * float64(of.Owners.Drawn(s.Owners.ExamplesPerOwner)) / float64(of.Owners.Total())
}

// DrawnPerStep is the expected number of examples that are drawn for a step, including blocked
// coins. For padded batches of owners it is the number of all entries.
func (s Spec) DrawnPerStep(of Population) float64 {
	if t := s.Truncation; s.Owners != nil && t != nil && t.Pad {
		return float64(t.MaxBatchSize) * float64(s.Owners.ExamplesPerOwner)
	}
	if m := s.MultiOwner; m != nil {
		return float64(of.Examples) * m.Prob
	}
	return s.ExpectedExamples(of)
}

// ExpectedCoins is the expected number of coins that a scheme draws before it knows which of them
// are participations. It is 0 for a scheme that draws participations.
func (s Spec) ExpectedCoins(copies int64) float64 {
	if m := s.MultiOwner; m != nil {
		return float64(copies) * m.Prob * float64(m.Steps+m.MinSep-1)
	}
	return 0
}

// Validate returns every fault of the parameters, joined.
func (s Spec) Validate() error {
	c := param.Checker{}
	set := s.schemes()
	c.Require(len(set) == 1, "schemes", len(set), "must be exactly 1")
	for _, scheme := range set {
		c.Add(scheme.Validate())
	}
	if s.Owners != nil && len(set) == 1 {
		s.checkOwners(&c, set[0])
	}
	if s.Truncation != nil {
		c.Add(s.Truncation.Validate())
		for _, scheme := range set {
			kind, _ := kindOf(scheme.Name())
			c.Requiref(
				kind.untruncated == "",
				"truncation",
				s.Truncation.MaxBatchSize,
				"must not be given with %s batches", kind.Name,
			)
		}
	}
	return c.Err()
}
