package mechanism

import (
	"cmp"
	"fmt"
	"slices"

	"minsep/internal/param"
)

// Family is a family of strategies, which users select by its kind. The file with its constructors
// registers it. Commands, plans and their help know families by [Families] and [FamilyOf] only.
type Family struct {
	Kind string // its name in commands, plans and strategy files
	Help string // a line that describes it, with parameters by the command's flags, such as --bands
	Rank int    // its place in lists and comparisons, from the lowest; no other family has the same

	// Size is the unit of the family's size, if it has one: BandsSize, BuffersSize or AritySize.
	// The number is the field of that name in [Params].
	Size string

	// Parameter is the family's free parameter, which is chosen for the least loss where it is not
	// given; nil if it has none.
	Parameter *Parameter

	// TakesColumn says that the strategy is the user's own, by its first column: comparisons of all
	// kinds leave it out.
	TakesColumn bool

	// Normalized says that the columns are divided by their norms unless [Params] say otherwise.
	Normalized bool

	// MaxSteps is the largest number of steps, at least 1; 0 stands for the package's
	// [MaxSteps]. Families that hold their matrix as a whole have a limit of their own.
	MaxSteps int

	// bands returns the number of bands of C if it is known before C is made, and 0 otherwise. It
	// is nil if the number is never known. The steps of p are one stamp.
	bands func(p Params) int

	// seconds estimates the time of one processor for making the strategy, on top of the time that
	// every strategy takes; nil stands for nothing.
	seconds func(p Params) float64

	// check adds faults of p that the fields above do not tell; nil: none.
	check func(p Params, c *param.Checker)

	// make returns the best strategy for the problem with the valid p. The problem may have fewer
	// steps than the caller's plan. With normalized, the strategy is chosen for columns of norm
	// one; make may leave dividing them to the caller.
	make func(problem Problem, p Params, normalized bool) (*Strategy, error)

	// parameterOf returns the value of Parameter in a strategy of the family, and whether it can be
	// told.
	parameterOf func(s *Strategy) (float64, bool)
}

// givenBands is Family.bands for a C with as many bands as p says.
func givenBands(p Params) int { return p.Bands }

// allBands is Family.bands for a C that is not banded.
func allBands(p Params) int { return p.Steps }

// inverseBands is Family.bands for a C⁻¹ with as many bands as p says: C then has one, or all.
func inverseBands(p Params) int {
	if p.Bands == 1 {
		return 1
	}
	return p.Steps
}

// unlessZero returns bands, or 0 for an unknown number if the free parameter is given as 0: the
// strategy may then have fewer bands, such as the one of the identity.
func unlessZero(given *float64, bands int) int {
	if given != nil && *given == 0 {
		return 0
	}
	return bands
}

// Sizes of families, by the names of their fields in [Params].
const (
	BandsSize   = "bands"   // of C, or of C⁻¹ for families of an inverse; 1 to the steps, no default
	BuffersSize = "buffers" // of a BLT, at most; at least 1, default 4
	AritySize   = "arity"   // of a tree; at least 2, default 2
)

// Sizes of families that have a default.
const (
	defaultBuffers = 4
	defaultArity   = 2
)

// maxWholeSteps is the largest number of steps of a family whose matrix is dense, and is decomposed as
// a whole: in some ten seconds.
const maxWholeSteps = 1 << 12

// Parameter is the free parameter of a family. Families may share one.
type Parameter struct {
	Name   string  // of its field in [Params], and of its flag
	Symbol string  // in the papers
	Low    float64 // the least value, finite
	High   float64 // the largest; +Inf if there is none
}

// registered has the families in the order in which their files were initialised. The order has no
// meaning.
var registered []Family

// register adds a family. It panics if another one has the same kind or rank: that is a mistake in
// this package.
func register(f Family) {
	for _, other := range registered {
		if other.Kind == f.Kind || other.Rank == f.Rank {
			panic(fmt.Sprintf("mechanism: families %s and %s have the same kind or rank", other.Kind, f.Kind))
		}
	}
	registered = append(registered, f)
}

// Families returns every family by rank. The slice is the caller's.
func Families() []Family {
	return slices.SortedFunc(
		slices.Values(registered),
		func(a, b Family) int { return cmp.Compare(a.Rank, b.Rank) },
	)
}

// FamilyOf returns the family of a kind, and whether there is one.
func FamilyOf(kind string) (Family, bool) {
	i := slices.IndexFunc(registered, func(f Family) bool { return f.Kind == kind })
	if i < 0 {
		return Family{}, false
	}
	return registered[i], true
}

// Kinds returns the kinds of every family by rank.
func Kinds() []string { return kindsWhere(func(Family) bool { return true }) }

// ComparableKinds returns the kinds of the families that can be compared with each other, by rank:
// all but those that take a user's own column.
func ComparableKinds() []string { return kindsWhere(func(f Family) bool { return !f.TakesColumn }) }

// KindsBySize returns the kinds of the families with a size, by rank.
func KindsBySize(size string) []string {
	return kindsWhere(func(f Family) bool { return f.Size == size })
}

// KindsByParameter returns the kinds of the families with a parameter of a name, by rank.
func KindsByParameter(name string) []string {
	return kindsWhere(func(f Family) bool { return f.Parameter != nil && f.Parameter.Name == name })
}

// kindsWhere returns the kinds of the families for which ok is true, by rank.
func kindsWhere(ok func(Family) bool) (kinds []string) {
	for _, f := range Families() {
		if ok(f) {
			kinds = append(kinds, f.Kind)
		}
	}
	return kinds
}

// Parameters returns the parameters of families, each name once, by the rank of the first family
// that has it.
func Parameters() (all []Parameter) {
	for _, f := range Families() {
		if f.Parameter != nil &&
			!slices.ContainsFunc(all, func(p Parameter) bool { return p.Name == f.Parameter.Name }) {
			all = append(all, *f.Parameter)
		}
	}
	return all
}

// FamilyParameter returns the parameter of a strategy's family and its value in the strategy. ok is
// false if the family has none, or if the strategy is too small to show it.
func FamilyParameter(s *Strategy) (p Parameter, value float64, ok bool) {
	f, known := FamilyOf(s.Kind)
	if !known || f.Parameter == nil {
		return Parameter{}, 0, false
	}
	value, ok = f.parameterOf(s)
	return *f.Parameter, value, ok
}

// makeFor makes the strategy, and divides its columns by their norms if p, or by default the
// family, says so.
func (f Family) makeFor(problem Problem, p Params) (*Strategy, error) {
	normalized := f.Normalized
	if p.Normalized != nil {
		normalized = *p.Normalized
	}
	s, err := f.make(problem, p, normalized)
	if err == nil && normalized && !s.Normalized {
		s = NormalizedColumns(s)
	}
	return s, err
}

// checkFamily requires at least one step, 1 to steps bands, and a parameter in [0, 1].
func checkFamily(steps, bands int, name string, value float64) error {
	check := param.Checker{}
	check.AtLeast("steps", steps, 1)
	check.Require(bands >= 1 && bands <= steps, "bands", bands, "must be 1 to the steps")
	check.Require(value >= 0 && value <= 1, name, value, "must be in [0, 1]")
	return check.Err()
}

// valid returns s, or the error of its validation.
func valid(s *Strategy) (*Strategy, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	return s, nil
}
