package tilt

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"minsep/internal/accounting/pld"
	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/internal/likelihood"
	"minsep/mechanism"
	"minsep/sampling"
)

// parts bounds and samples H(P,Q) of an example that takes part at most once, by the runs of parts
// (F5.14). The steps are put on a circle, and count gaps of bands-1 steps each are left out, at a
// random place. The parts between the gaps have independent ratios. Each ratio is at most B, the
// ratio of a separate run of spec.Steps steps. So
//
//	H(P,Q) ≤ scale · E(mean of count independent B - threshold)_+.
//
// Moments of B give bounds of the sum of parts. Only the one part that is above cut is sampled,
// with density B^θ/N_θ. The value of a sample is
//
//	floor + scale · count · gain(B)/(B^θ/N_θ),   gain(x) ≥ E(((B_2 + …) + x)/count - threshold)_+;
//
// floor is scale times the divergence with no part above cut.
type parts struct {
	count            int
	scale, threshold float64
	spec             montecarlo.Spec // of one part
	columns          *likelihood.Columns

	cut   int       // a point of the grid of ln B
	gain  []float64 // gain at the points from cut on
	floor float64
	proof float64 // a bound of H(P,Q) without samples
}

// Constants of parts. Losses are on a grid of partGrid from partLow.
const (
	partGrid  = 0.005
	partLow   = -3
	partReach = 6 // how far beyond count·threshold the grid goes, in ln B
	mostParts = 4096
	fewDigits = 1e-6 // a 1 - never below it has an error that inflation does not cover
)

// bulky says that a moment is not far from 1. Then the patterns of most tuples do not overlap, and f
// is near 1. The limit grows with the order, since a tuple of a high order has more pairs that may
// overlap.
func bulky(m Moment) bool {
	pairs := float64(m.Order*(m.Order-1)) / 2
	return m.LogN <= max(1, mostPerPair*pairs)
}

// partable says whether the run of a config may be divided. It also returns the distribution of
// participation, and the first column of the strategy without the zeros at its end.
func partable(c Config) (once uniformOnce, column []float64, ok bool) {
	once, is := singleOf(c.Spec)
	s := c.Spec.Strategy
	if !is || c.Spec.MaxExamplesPerOwner > 1 || s.Toeplitz == nil || s.Normalized || c.Epsilon >= maxPartsOf {
		return once, nil, false
	}
	column = s.FirstColumn(nil)
	for _, x := range column {
		if !(x >= 0) {
			return once, nil, false
		}
	}
	for len(column) > 1 && column[len(column)-1] == 0 {
		column = column[:len(column)-1]
	}
	return once, column, c.Direction == montecarlo.P
}

// newParts divides the run into a number of parts, without the tables of their sum.
func newParts(c Config, count int) (*parts, error) {
	once, column, ok := partable(c)
	bands := len(column)
	kept := c.Spec.Steps() - count*(bands-1)
	if !ok || count < 2 || count > mostParts || kept < count*bands {
		return nil, fmt.Errorf("%w in %d parts", ErrNotTilted, count)
	}
	steps := (c.Spec.Steps() + count - 1) / count
	strategy, err := mechanism.Toeplitz(steps, column)
	if err != nil {
		return nil, err
	}
	p := &parts{count: count, columns: likelihood.NewColumns(strategy)}
	law, err := sampling.EpochMinSep{Steps: steps, MinSep: 1, EpochSteps: steps}.Law().Tabulate(steps)
	if err != nil {
		return nil, err
	}
	p.spec = montecarlo.Spec{Law: law, NoiseMultiplier: c.Spec.NoiseMultiplier, Strategy: strategy}
	if err := p.spec.Validate(); err != nil {
		return nil, err
	}
	// f = 1-q + q g with g of exactly once; g ≤ ratio · the mean of the B that dominate the parts.
	q := 1 - once.never
	if q < fewDigits {
		q = float64(c.Spec.Steps()) * once.each
	}
	ratio := float64(count) * float64(steps) / float64(kept)
	p.scale = q * ratio * (1 + inflation)
	p.threshold = (math.Expm1(c.Epsilon)/q + 1) / ratio * (1 - inflation)
	return p, nil
}

// moments makes the tables of the orders that serve, from 2 on.
func (p *parts) moments(ctx context.Context) (moments []Moment, walkError float64) {
	level := math.Log(float64(p.count) * max(p.threshold-1, 0.1))
	least := math.Inf(1)
	var s *source
	for order := 2; order <= maxOrder; order++ {
		if !familyOf(p.spec).affordable(p.spec, order) {
			break
		}
		next, err := sourceAbove(ctx, s, p.spec, p.columns, order, math.Inf(1))
		if err != nil {
			break
		}
		if s = next; s.walker == nil {
			break
		}
		walkError = max(walkError, s.walkError)
		m := Moment{Order: order, LogN: s.logN(), Tables: s.version}
		moments = append(moments, m)
		bound := m.logBound(level, 1)
		if bound > least+3 {
			break
		}
		least = min(least, bound)
	}
	return moments, walkError
}

// excess bounds E(B-x)_+ at ln x, by the mean, the variance (Scarf) and moments: order θ gives
// N_θ x^{-a} a^a/θ^θ, a = θ-1.
func excess(moments []Moment, logX float64) float64 {
	x := math.Exp(logX)
	variance := math.Expm1(moments[0].LogN)
	root := math.Sqrt(variance + (x-1)*(x-1))
	bound := 1.0
	switch {
	case x <= 1:
		bound = (root + 1 - x) / 2
	case !math.IsInf(variance, 1): // the same without cancellation
		bound = variance / (root + x - 1) / 2
	}
	for _, m := range moments {
		bound = min(bound, m.bound(logX, 1))
	}
	return max(0, min(1, bound))
}

// class is the ratio of a part with its steps in classes, in which steps are as far apart as the
// number of bands (F5.15). It is above B in the convex order, and near B where B is not large.
func (p *parts) class() pld.Allocation {
	return stepClass(p.spec, p.columns, max(1, p.spec.Steps()/p.columns.Bands))
}

// prepare makes the sum of the other parts, from moments and classes, and the gain of one part from
// the cut on. Where cut is 0, prepare chooses the cut.
func (p *parts) prepare(moments []Moment, cut int) error {
	if len(moments) == 0 {
		return fmt.Errorf("%w: parts of %d steps", ErrTable, p.spec.Steps())
	}
	total := float64(p.count) * p.threshold
	low, high := int(math.Floor(partLow/partGrid)), int(math.Ceil((math.Log(total)+partReach)/partGrid))
	class, err := p.class().Majorant(partGrid)
	if err != nil {
		return err
	}
	bounds := make([]float64, high-low+1)
	for j := range bounds {
		logX := partGrid * float64(low+j)
		bounds[j] = min(excess(moments, logX), class.Excess(math.Exp(logX)))
	}
	one, err := pld.NewMajorant(partGrid, low, bounds)
	if err != nil {
		return err
	}
	others := one.Sum(p.count - 1)
	p.proof = p.scale / float64(p.count) * others.Plus(one).Excess(total)
	from := 1 // a cut is at least B = e^partGrid
	if cut > 0 {
		from = cut
	}
	if from >= high {
		return fmt.Errorf("parts: a cut of %d is beyond the grid", cut)
	}
	gain := make([]float64, high-from+1)
	for j := range gain {
		gain[j] = others.Excess(total-math.Exp(partGrid*float64(from+j))) / float64(p.count)
	}
	p.cut, p.gain = from, gain
	floor := func(cut int) float64 { return p.scale / float64(p.count) * one.Cut(cut).Sum(p.count).Excess(total) }
	if cut == 0 {
		top := p.choose(moments)
		most := smallFloor * p.bound(p.best(moments))
		for lo, hi := p.cut, max(p.cut, top); hi-lo > 4; {
			if mid := (lo + hi) / 2; floor(mid) <= most {
				p.gain, p.cut, lo = p.gain[mid-p.cut:], mid, mid
			} else {
				hi = mid
			}
		}
	}
	p.floor = floor(p.cut)
	return nil
}

// choose raises the cut, which is at the first point of gain, by the least amount with which M of
// the best order comes from parts that are large by themselves. It returns the grid point from
// which a part is large by itself.
func (p *parts) choose(moments []Moment) (top int) {
	top = int(math.Log(float64(p.count)*max(p.threshold-1, 0.1))/partGrid) - p.cut
	best, cut := math.Inf(1), 0
	for _, m := range moments {
		most := 0.0
		j := len(p.gain) - 2
		for ; j >= 0; j-- {
			value := p.gain[j+1] * math.Exp(-m.logDensity(partGrid*float64(p.cut+j)))
			if j < top && value > most {
				break
			}
			most = max(most, value)
		}
		if most < best {
			best, cut = most, j+1
		}
	}
	top += p.cut
	p.gain, p.cut = p.gain[cut:], p.cut+cut
	return top
}

// bound is M of an order above 1. Gains rise, and densities too. So between two points
// of the grid a value is at most the gain at the upper point over the density at the lower point.
// Beyond the grid gain(x) is at most 2x/count, and its ratio to the density falls.
func (p *parts) bound(m Moment) float64 {
	most := 0.0
	for j := range p.gain[1:] {
		most = max(most, p.gain[j+1]*math.Exp(-m.logDensity(partGrid*float64(p.cut+j))))
	}
	end := partGrid * float64(p.cut+len(p.gain)-1)
	most = max(most, 2/float64(p.count)*math.Exp(end-m.logDensity(end)))
	return (p.floor + p.scale*float64(p.count)*most) * (1 + inflation)
}

// value is the value of a part with ln B = logB, drawn with a weight. gain is convex, so that it is
// below the chord between two points of the grid.
func (p *parts) value(m Moment, logB, weight float64) float64 {
	at := logB/partGrid - float64(p.cut)
	if at <= 0 {
		return p.floor
	}
	x, gain := math.Exp(logB), 0.0
	if j := int(at); j < len(p.gain)-1 {
		x0, x1 := math.Exp(partGrid*float64(p.cut+j)), math.Exp(partGrid*float64(p.cut+j+1))
		share := min(1, max(0, (x-x0)/(x1-x0)))
		gain = p.gain[j] + share*(p.gain[j+1]-p.gain[j])
	} else {
		last := len(p.gain) - 1
		gain = p.gain[last] + (x-math.Exp(partGrid*float64(p.cut+last)))/float64(p.count)
	}
	return p.floor + weight*p.scale*float64(p.count)*gain*math.Exp(-m.logDensity(logB))*(1+inflation)
}

// best returns the moment with the least M.
func (p *parts) best(moments []Moment) Moment {
	return slices.MinFunc(moments, func(a, b Moment) int { return cmp.Compare(p.bound(a), p.bound(b)) })
}

// partsProposal is the proposal of H(P,Q) in parts, where that serves.
func partsProposal(ctx context.Context, c Config) (Proposal, bool) {
	_, column, ok := partable(c)
	if !ok {
		return Proposal{}, false
	}
	var best *parts
	var moments []Moment
	least, walkError := math.Inf(1), 0.0
	for _, length := range partLengths {
		count := c.Spec.Steps() / (length * len(column))
		if best != nil && count == best.count {
			continue
		}
		p, err := newParts(c, count)
		if ctx.Err() != nil {
			return Proposal{}, false
		}
		if err != nil || p.threshold <= 1.05 {
			continue
		}
		list, walk := p.moments(ctx)
		if len(list) == 0 {
			continue
		}
		level, bound := math.Log(float64(count)*(p.threshold-1)), math.Inf(1)
		for _, m := range list {
			bound = min(bound, math.Log(p.scale)+m.logBound(level, 1))
		}
		if bound < least-math.Ln2 {
			best, moments, least, walkError = p, list, bound, walk
		}
	}
	if best == nil || best.prepare(moments, 0) != nil {
		return Proposal{}, false
	}
	m := best.best(moments)
	proposal := Proposal{Config: c, Method: Tilted, Moment: m, Parts: best.count, Cut: best.cut}
	proposal.Slack = lossError(c.Epsilon) + 2*walkError
	proposal.Bound = max(leastBound, best.bound(m)*(1+2*proposal.Slack))
	proposal.Divergence = min(1, proposal.Bound, max(leastBound, best.proof))
	return proposal, proposal.Bound < 1
}
