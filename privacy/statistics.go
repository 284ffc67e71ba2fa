package privacy

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"minsep/internal/param"
)

// Kinds of a [Statistic].
const (
	Counts    = "counts"    // of the examples in each class
	Mean      = "mean"      // of the values
	Variance  = "variance"  // of the values
	Quantiles = "quantiles" // of the values, one for each rank
)

// Statistic is a statistic of one column over the examples of a bounded table. An example counts
// once, however many copies are kept, and not at all without a value.
type Statistic struct {
	Column string `json:"column"`
	Kind   string `json:"kind"`

	// Classes are the texts that [Counts] counts; others count nowhere. They must not be taken from
	// the data.
	Classes []string `json:"classes,omitempty"`
	// Lower and Upper are the bounds to which the values of the other kinds are clamped, finite and
	// Lower < Upper. They must not be taken from the data.
	Lower float64 `json:"lower,omitempty"`
	Upper float64 `json:"upper,omitempty"`

	Ranks []float64 `json:"ranks,omitempty"` // of [Quantiles], from 0 to 1
}

// Statistics asks for a release of private statistics, with the noise of the Laplace mechanism.
type Statistics struct {
	Name       string      `json:"name" flag:"name" help:"name of the release: small letters, digits, - and _"`                   // of the release: small letters, digits, - and _
	Epsilon    float64     `json:"epsilon" flag:"epsilon" help:"epsilon of the whole release, at least 1e-12 for each statistic"` // of the whole release, at least 1e-12 for each statistic, which takes an equal part
	Statistics []Statistic `json:"statistics"`
}

// Release is what a request released. It is public. It is (Epsilon, 0)-differentially private under
// zero-out adjacency, for an owner with at most MaxExamplesPerOwner examples: the values of the
// owner's examples are left out. Whoever sees the release and a training sees what both promise
// together, which `minsep compose` adds up.
type Release struct {
	Statistics
	Examples            string      `json:"examples"` // the bounded table, as run.json names it: the graph is public
	MaxExamplesPerOwner int         `json:"max_examples_per_owner"`
	Results             [][]float64 `json:"results"` // of each statistic: one for each class or rank, else one
}

// releaseName matches the names of releases, which are names of files.
var releaseName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

// Validate reports every fault.
func (s Statistics) Validate() error {
	k := param.Checker{}
	k.Require(releaseName.MatchString(s.Name), "name", s.Name,
		"must be of small letters, digits, - and _, at most 64")
	least := 1e-12 * float64(max(1, len(s.Statistics)))
	k.Require(s.Epsilon >= least && !math.IsInf(s.Epsilon, 1), "epsilon", s.Epsilon,
		fmt.Sprintf("must be finite and at least %g, 1e-12 for each statistic: less releases nothing but noise", least))
	k.Require(len(s.Statistics) > 0, "statistics", "none", "must be at least one")
	for _, one := range s.Statistics {
		one.check(&k)
	}
	return k.Err()
}

func (s Statistic) check(k *param.Checker) {
	name := s.Kind + " of " + s.Column
	k.Require(s.Column != "", "column", s.Column, "must have a name")
	for _, text := range append([]string{s.Column}, s.Classes...) {
		k.Require(utf8.ValidString(text), name, fmt.Sprintf("%q", text), "must be text in UTF-8")
	}
	k.Require(slices.Contains([]string{Counts, Mean, Variance, Quantiles}, s.Kind), "kind", s.Kind,
		"must be counts, mean, variance or quantiles")
	if s.Kind == Counts {
		k.Require(len(s.Classes) > 0, name, "no classes",
			"must name the classes that are counted: which ones occur is not public")
		sorted := slices.Sorted(slices.Values(s.Classes))
		k.Require(len(slices.Compact(sorted)) == len(s.Classes), name, strings.Join(s.Classes, ", "),
			"must name each class once")
		return
	}
	k.Require(s.Lower < s.Upper && !math.IsInf(s.Lower, 0) && !math.IsInf(s.Upper, 0) && !math.IsInf(s.Upper-s.Lower, 0),
		name, fmt.Sprintf("%g to %g", s.Lower, s.Upper),
		"must have finite bounds, the lower one below the upper one: without them one value has no bounded effect")
	k.Require(s.Kind != Variance || !math.IsInf((s.Upper-s.Lower)*(s.Upper-s.Lower), 0),
		name, fmt.Sprintf("%g to %g", s.Lower, s.Upper), "must have bounds whose distance has a finite square")
	k.Require(len(s.Classes) == 0, name, strings.Join(s.Classes, ", "), "must have no classes")
	k.Require((s.Kind == Quantiles) == (len(s.Ranks) > 0), name, fmt.Sprintf("%d ranks", len(s.Ranks)),
		"must have ranks if quantiles are asked for, and only then")
	for _, rank := range s.Ranks {
		k.Require(rank >= 0 && rank <= 1, name, rank, "must have ranks from 0 to 1")
	}
}

// Claim says in words what was released, and what that costs.
func (r Release) Claim() string {
	var what []string
	for _, s := range r.Statistics.Statistics {
		what = append(what, s.Kind+" of "+s.Column)
	}
	return fmt.Sprintf("(%g, 0)-DP for an owner with at most %d of the examples: %s", r.Epsilon,
		r.MaxExamplesPerOwner, strings.Join(what, ", "))
}
