package montecarlo

import (
	"maps"
	"slices"
	"strings"

	"minsep/internal/montecarlo/internal/kernel"
	"minsep/internal/montecarlo/internal/likelihood"
	"minsep/internal/param"
)

// scheme is how examples take part: how losses under it are computed, and how participations are
// drawn. Each scheme has a file.
type scheme interface {
	// check reports the faults of all parameters except steps, min-sep and σ, which every scheme has.
	check(s Spec, c *param.Checker)
	// bands says how many bands a strategy may have.
	bands(s Spec) bandLimit
	// exactness says how exact losses are for a strategy with this number of bands.
	exactness(s Spec, bands int) Exactness
	// ratio is the recursion of the loss in one direction.
	ratio(s Spec, d Direction, c *likelihood.Columns) likelihood.Ratio
	// draw appends the participations of one example to dst, sorted by step; for MultiOwner, of
	// all examples of one owner.
	draw(p participations, dst []kernel.Hit, d *draws) []kernel.Hit
}

// bandLimit is the largest number of bands that a strategy may have, with the parameter that sets
// it and the analysis that needs it, in words; the zero value is no limit.
type bandLimit struct {
	most          int
	parameter, by string
}

// atMostMinSep is the limit of a scheme, or of a part of it, by min-sep.
func (s Spec) atMostMinSep(by string) bandLimit { return bandLimit{s.MinSep, "min-sep", by} }

// schemes has the schemes by their names. The init function of each scheme's file adds the scheme.
var schemes = map[string]scheme{}

// schemeNames lists them in words.
func schemeNames() string {
	names := slices.Sorted(maps.Keys(schemes))
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// checkOneExample refuses several examples per owner and truncated batches.
func checkOneExample(s Spec, c *param.Checker) {
	k := s.ExamplesPerOwner()
	c.Require(k == 1, "max examples per owner", k, "must be 1 for "+s.Scheme+": no loss is known for more")
	checkUntruncated(s, c)
}

// checkUntruncated refuses truncated batches.
func checkUntruncated(s Spec, c *param.Checker) {
	c.Require(s.MaxBatchSize == 0, "max batch size", s.MaxBatchSize, "must be 0 for "+s.Scheme+": no loss is known for truncated batches")
}
