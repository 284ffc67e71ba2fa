package mechanism

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"minsep/internal/param"
)

// Family is a family of strategies, which users select by its kind. The file with its constructors
// registers it. Commands, plans and their help know families by [Families] only.
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

	// options are the flags of its parameters that are neither its size nor its free parameter.
	options []string

	// check adds faults of p that the fields above do not tell; nil: none.
	check func(p Params, c *param.Checker)

	// make returns the best strategy for the problem with the valid p, before its columns are divided
	// by their norms. The problem may have fewer steps than the caller's plan. It is nil for a family
	// with a Parameter.
	make func(ctx context.Context, problem Problem, p Params) (*Strategy, error)

	// member returns the strategy of a family with a Parameter for a value of it.
	member func(p Params, x float64) (*Strategy, error)

	// least returns the least value of Parameter if it depends on p; nil: Parameter.Low.
	least func(p Params) float64

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
	Name string  // of its field in [Params], and of its flag
	Low  float64 // the least value, finite
	High float64 // the largest; +Inf if there is none
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

// familyOf returns the family of a kind, and whether there is one.
func familyOf(kind string) (Family, bool) {
	i := slices.IndexFunc(registered, func(f Family) bool { return f.Kind == kind })
	if i < 0 {
		return Family{}, false
	}
	return registered[i], true
}

// Kinds returns the kinds of the families for which ok is true, by rank.
func Kinds(ok func(Family) bool) (kinds []string) {
	for _, f := range Families() {
		if ok(f) {
			kinds = append(kinds, f.Kind)
		}
	}
	return kinds
}

// FamilyParameter returns the parameter of a strategy's family and its value in the strategy. ok is
// false if the family has none, or if the strategy is too small to show it.
func FamilyParameter(s *Strategy) (p Parameter, value float64, ok bool) {
	f, known := familyOf(s.Kind)
	if !known || f.Parameter == nil {
		return Parameter{}, 0, false
	}
	value, ok = f.parameterOf(s)
	return *f.Parameter, value, ok
}

// lowest returns the least value of the family's parameter.
func (f Family) lowest(p Params) float64 {
	if f.least != nil {
		return f.least(p)
	}
	return f.Parameter.Low
}

// makeFor makes the strategy of the valid p, with the parameter given or of least loss, and divides
// its columns by their norms if p, or by default the family, says so: with one participation, or at
// most min-sep bands, equal norms are never worse than unequal ones after the noise multiplier is
// set for the largest (arXiv 2405.15913, section 3.2).
func (f Family) makeFor(ctx context.Context, problem Problem, p Params) (*Strategy, error) {
	p.Buffers, p.Arity = cmp.Or(p.Buffers, defaultBuffers), cmp.Or(p.Arity, defaultArity)
	normalize := func(s *Strategy, err error) (*Strategy, error) {
		if err == nil && (p.Normalized == nil && f.Normalized || p.Normalized != nil && *p.Normalized) {
			s.Normalized = true
		}
		return s, err
	}
	if f.Parameter == nil {
		return normalize(f.make(ctx, problem, p))
	}
	if given := *p.parameters()[f.Parameter.Name]; given != nil {
		return normalize(f.member(p, *given))
	}
	low, high := f.lowest(p), f.Parameter.High
	if !math.IsInf(high, 1) {
		return search(ctx, problem, low, high, func(x float64) (*Strategy, error) { return normalize(f.member(p, x)) })
	}
	return search(ctx, problem, 0, .999, func(t float64) (*Strategy, error) {
		return normalize(f.member(p, t/(1-t)+low))
	})
}

// valid returns s, or the error of its validation.
func valid(s *Strategy) (*Strategy, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	return s, nil
}
