package planner

import (
	"cmp"
	"context"
	"math"
	"slices"

	"minsep/internal/accounting/calibration"
	"minsep/mechanism"
	"minsep/sampling"
)

// plannedSchemes and plannedKinds are the schemes and strategies of candidates.
var (
	plannedSchemes = []string{"poisson", "cyclic-poisson", "b-min-sep", "epoch-min-sep", "balls-in-bins", "fixed", "rotation", sampling.LawScheme}
	plannedKinds   = []string{mechanism.KindIdentity, mechanism.KindBandedToeplitz, mechanism.KindAmplified, mechanism.KindBanded, mechanism.KindBSR, mechanism.KindBFR, mechanism.KindBISR, mechanism.KindBIFR, mechanism.KindBandInv,
		mechanism.KindLambdaCGD, mechanism.KindBLT, mechanism.KindDense}
)

// epoch is the mean number of steps between two participations, and between b and b rounded down.
func (s *setting) epoch() float64 { return float64(s.units()) / s.batch }

// widest is the largest min-sep that the batch size allows.
func (s *setting) widest() int { return int(min(math.Floor(s.epoch()*(1+1e-12)), 1<<31-1)) }

// sequence is candidates of a setting that are looked at one after another, in a stage of the
// plan: first candidates that are proven without samples, then candidates that are cheap to
// estimate and often best, and owners of several examples last, by rising k_u. A later stage
// knows the least error of the stages before.
type sequence struct {
	name  string
	stage int
	run   func(ctx context.Context, p *part) error
}

// sequences are the candidates of a setting.
func (s *setting) sequences() []sequence {
	if s.rotation != nil {
		return []sequence{{"rotation", 1, rotationPart}}
	}
	// What is proven costs little, and its least error lets later stages leave out the hopeless.
	list := []sequence{{"independent events", 0, cyclicPart}}
	if s.Law != nil && s.most() == 1 && s.batch == s.BatchSizes[0] { // its batches are of one size
		list = append(list, sequence{"law", 1, lawPart})
	}
	if !s.owners { // fixed draws examples
		list = append(list, sequence{"fixed", 0, fixedPart})
	}
	if s.most() == 1 {
		return append(list, sequence{"least distance", 1, separatedPart}, sequence{"bins", 2, binsPart})
	}
	// An estimate for more examples per owner takes longer, and fewer of them tell which candidates
	// are worth it: hence one stage for each k_u, by rising k_u.
	return append(list, sequence{"least distance", 1 + s.most(), separatedPart})
}

// with are the parameters of a scheme with the request's steps and the setting's batch size.
func (p *part) with(scheme string, minSep int) sampling.Params {
	s := sampling.Params{Scheme: scheme, Steps: p.Steps, MinSep: minSep, BatchSize: p.batch}
	switch scheme {
	case "epoch-min-sep":
		s.BatchSize, s.EpochSteps = 0, max(minSep, int(min(math.Round(p.epoch()), math.MaxInt32)))
	case "rotation":
		s.BatchSize, s.MinSep, s.EpochSteps = 0, 0, p.rotation.period
	case "balls-in-bins":
		s.BatchSize, s.MinSep = 0, p.period()
	case "fixed":
		s.BatchSize = math.Round(p.batch)
	case sampling.LawScheme:
		s.BatchSize, s.Law = 0, p.Law
	}
	if p.owners {
		s.Sample, s.ExamplesPerOwner = sampling.SampleOwners, 1
	}
	return s
}

// period is the number of bins of balls-in-bins.
func (p *part) period() int { return int(min(max(1, math.Round(p.epoch())), sampling.MaxSteps)) }

// banded are the parameters of a strategy of some bands, for participations at least a period
// apart.
func (p *part) banded(kind string, bands, period int) mechanism.Params {
	s := p.workload(kind)
	s.Bands = bands
	if period > 0 {
		s.MinSep = min(period, p.Steps)
	}
	return s
}

// start is the number of bands where a climb begins.
func (p *part) start(limit int) int {
	// The rule of thumb of arXiv 2405.15913 for the best number of bands with amplification is ε√n/k.
	each := max(1, math.Round(float64(p.Steps)*p.batch/float64(p.units())))
	bands := max(1, min(float64(p.Steps), math.Round(p.Epsilon*math.Sqrt(float64(p.Steps))/each)))
	return min(limit, 1<<int(math.Round(math.Log2(bands))))
}

// once evaluates a candidate, or returns the row of an earlier call for it.
func (p *part) once(ctx context.Context, scheme sampling.Params, strategy mechanism.Params) (*Row, error) {
	for _, row := range p.rows {
		if row.Scheme.Scheme == scheme.Scheme && row.Scheme.MinSep == scheme.MinSep && described(row.Strategy) == described(strategy) {
			return row, nil
		}
	}
	return p.evaluate(ctx, scheme, strategy)
}

// climb looks for the size from low to high with the least error: from start by factors of two
// while the error falls, then beside it. It returns 0 where no size can be used. The rows are all
// kept.
func (p *part) climb(ctx context.Context, start, low, high int, candidate func(size int) (sampling.Params, mechanism.Params)) (int, error) {
	value := func(size int) (float64, error) {
		scheme, strategy := candidate(size)
		row, err := p.once(ctx, scheme, strategy)
		if err != nil || row == nil || row.Refused != "" {
			return math.Inf(1), err
		}
		return row.Relative, nil
	}
	if high < low {
		return 0, nil
	}
	best := min(max(start, low), high)
	least, err := value(best)
	for err == nil && math.IsInf(least, 1) && best > low { // a size that cannot be used is too large
		best = max(low, best/2)
		least, err = value(best)
	}
	if err != nil {
		return 0, err
	}
	for _, factor := range []float64{2, .5, 1.5, .75} {
		// The finer factors are for schemes that may still come first.
		if factor == 1.5 && least > calibration.Little*p.least() {
			break
		}
		for {
			next := min(max(int(math.Round(float64(best)*factor)), low), high)
			v, err := value(next)
			if err != nil {
				return 0, err
			}
			if !(v < least) {
				break
			}
			best, least = next, v
		}
	}
	if math.IsInf(least, 1) {
		return 0, nil
	}
	return best, nil
}

// least is the least error so far, of this sequence and of the stages before.
func (p *part) least() float64 {
	least := math.Inf(1)
	if p.known != nil {
		least = p.known.Relative
	}
	for _, row := range p.rows {
		if row.Refused == "" {
			least = min(least, row.Relative)
		}
	}
	return least
}

// cyclicPart are independent noise with Poisson sampling, and cyclic Poisson sampling: both are
// proven without samples.
func cyclicPart(ctx context.Context, p *part) error {
	if _, err := p.evaluate(ctx, p.with("poisson", 0), p.workload(mechanism.KindIdentity)); err != nil {
		return err
	}
	high := min(p.widest(), p.mostBands())
	if p.most() > 1 || p.owners { // the public partition is one of examples
		return nil
	}
	_, err := p.climb(ctx, p.start(high), 2, high, func(bands int) (sampling.Params, mechanism.Params) {
		return p.with("cyclic-poisson", bands), p.banded(mechanism.KindBandedToeplitz, bands, 0)
	})
	return err
}

// separatedSchemes have a least distance between participations, and an estimated noise
// multiplier.
var separatedSchemes = []string{"b-min-sep", "epoch-min-sep"}

// separatedPart estimates schemes with a least distance, with banded strategies. It looks for the
// best number of bands where min-sep is equal to it, then tries larger min-seps, and then other
// families of strategies at the best of these. The better kind for the scheme before, or with fewer
// examples per owner, is likely to be the better one here, and the only one that is tried.
func separatedPart(ctx context.Context, p *part) error {
	high := min(int(roomy*p.epoch()), p.mostBands())
	start := p.start(high)
	for _, scheme := range separatedSchemes {
		once := p.epoch() >= float64(p.Steps) // at most one participation: all are b-min-sep with min-sep n
		if scheme != "b-min-sep" && once {
			continue
		}
		with := func(bands int) sampling.Params {
			if once {
				return p.with(scheme, p.Steps)
			}
			return p.with(scheme, bands)
		}
		kinds := []string{mechanism.KindBandedToeplitz, mechanism.KindBSR}
		if hint := cmp.Or(latest(p.fewer, scheme, ""), latest(p.rows, separatedSchemes[0], "")); hint != nil {
			start = min(hint.Bands, high)
			kinds = slices.DeleteFunc(kinds, func(kind string) bool {
				return (kind == mechanism.KindBSR) != (hint.Strategy.Kind == mechanism.KindBSR)
			})
		}
		for _, kind := range kinds {
			bands, err := p.climb(ctx, start, 2, high, func(bands int) (sampling.Params, mechanism.Params) {
				return with(bands), p.banded(kind, bands, 0)
			})
			if err != nil {
				return err
			}
			if bands > 0 {
				start = bands
			}
		}
		if err := p.finish(ctx, scheme, high, with); err != nil {
			return err
		}
	}
	return nil
}

// finish tries what may be better than the best row of a scheme: the amplified strategy, columns of
// equal norms, and larger min-seps.
func (p *part) finish(ctx context.Context, scheme string, high int, with func(bands int) sampling.Params) error {
	best := latest(p.rows, scheme, "")
	if best == nil {
		return nil
	}
	if err := p.amplify(ctx, best, high, with); err != nil {
		return err
	}
	best = latest(p.rows, scheme, "")
	if _, err := p.evaluate(ctx, best.Scheme, p.equalNorms(best)); err != nil || scheme == "rotation" {
		return err
	}
	return p.widen(ctx, scheme, latest(p.rows, scheme, ""))
}

// equalNorms are the parameters of a strategy like the one of a row, with columns of norm one.
func (p *part) equalNorms(of *Row) mechanism.Params {
	if of.Strategy.Kind == mechanism.KindBandedToeplitz {
		return p.banded(mechanism.KindBanded, of.Bands, 0)
	}
	strategy, normalized := of.Strategy, true // the other kinds have no family of their own for it
	strategy.Normalized = &normalized
	return strategy
}

// latest returns the row of a scheme with the most examples per owner, and among several the one
// with the least error. Unless kind is empty, only rows of that kind of strategy count. It is nil
// if there is none.
func latest(rows []*Row, scheme, kind string) (best *Row) {
	for _, row := range rows {
		if row.Refused != "" || row.Scheme.Scheme != scheme || kind != "" && row.Strategy.Kind != kind {
			continue
		}
		if best == nil || row.MaxPerOwner > best.MaxPerOwner || row.MaxPerOwner == best.MaxPerOwner && row.Relative < best.Relative {
			best = row
		}
	}
	return best
}

// widen tries larger min-seps for the strategy of a row while the error falls.
func (p *part) widen(ctx context.Context, scheme string, best *Row) error {
	for minSep := 2 * best.Scheme.MinSep; minSep <= int(roomy*p.epoch()) && best.Scheme.MinSep < p.Steps; minSep *= 2 {
		row, err := p.evaluate(ctx, p.with(scheme, minSep), best.Strategy)
		if err != nil {
			return err
		}
		if row == nil || row.Refused != "" || row.Relative >= best.Relative {
			return nil
		}
		best = row
	}
	return nil
}

// binsPart is balls-in-bins, which takes any strategy.
func binsPart(ctx context.Context, p *part) error {
	if math.Abs(math.Log(p.epoch()/float64(p.period()))) > math.Log(calibration.Little) { // an epoch has whole steps
		return nil
	}
	return p.anyStrategy(ctx, "balls-in-bins", p.period(), 0)
}

// lawPart is a law of the user's own, with independent noise and with bands up to its least distance.
func lawPart(ctx context.Context, p *part) error {
	if _, err := p.evaluate(ctx, p.with(sampling.LawScheme, 0), p.workload(mechanism.KindIdentity)); err != nil {
		return err
	}
	high := min(p.Law.Separation(), p.mostBands())
	for _, kind := range []string{mechanism.KindBandedToeplitz, mechanism.KindBSR} {
		if _, err := p.climb(ctx, p.start(high), 2, high, func(bands int) (sampling.Params, mechanism.Params) {
			return p.with(sampling.LawScheme, 0), p.banded(kind, bands, 0)
		}); err != nil {
			return err
		}
	}
	return nil
}

// fixedPart is the baseline without amplification, for owners of one example.
func fixedPart(ctx context.Context, p *part) error {
	if p.most() > 1 || p.widest() < 1 || p.batch < 1 {
		return nil
	}
	minSep := min(p.widest(), p.Steps)
	if err := p.anyStrategy(ctx, "fixed", minSep, minSep); err != nil {
		return err
	}
	if p.Steps > min(dearBands, p.mostBands()) {
		return nil
	}
	dense := p.workload(mechanism.KindDense)
	dense.MinSep = minSep
	_, err := p.evaluate(ctx, p.with("fixed", minSep), dense)
	return err
}

// lambdas are the parameters of KindLambdaCGD that are tried.
var lambdas = []float64{.7, .8, .9, .95, .975, .9875}

// anyStrategy tries every family for a scheme with participations a period apart: each over its sizes,
// of bands or of lambdas. Inverse families keep no state, and draw as many normals a value.
func (p *part) anyStrategy(ctx context.Context, scheme string, period, minSep int) error {
	wide, inverse := min(p.mostBands(), period), min(p.mostBands(), 2*fewBands)
	few := min(wide, fewBands)
	for _, family := range []struct {
		kind             string
		start, low, high int
		like             string // the kind whose best size is the only one, if there is one
	}{
		{mechanism.KindBandedToeplitz, p.start(wide), 2, wide, ""},
		{mechanism.KindBSR, few, 2, wide, ""},
		{mechanism.KindBISR, few, 2, inverse, ""},
		{mechanism.KindBandInv, few, 2, inverse, ""},
		{mechanism.KindBFR, few, 1, wide, mechanism.KindBSR},
		{mechanism.KindBIFR, few, 1, inverse, mechanism.KindBISR},
		{mechanism.KindLambdaCGD, 3, 1, len(lambdas), ""},
		{mechanism.KindBLT, 0, 0, 0, ""},
	} {
		if family.like != "" {
			if best := latest(p.rows, scheme, family.like); best != nil {
				family.start = best.Strategy.Bands
			}
			family.low, family.high = family.start, family.start
		}
		if _, err := p.climb(ctx, family.start, family.low, family.high, func(size int) (sampling.Params, mechanism.Params) {
			s := p.banded(family.kind, size, period)
			switch family.kind {
			case mechanism.KindBandedToeplitz: // is made for any period
				s.MinSep = 0
			case mechanism.KindLambdaCGD:
				s.Bands = 0
				s.SetParameter("lambda", lambdas[size-1])
			}
			return p.with(scheme, minSep), s
		}); err != nil {
			return err
		}
	}
	return nil
}
