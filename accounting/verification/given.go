package verification

import (
	"context"
	"fmt"
	"math"
	"slices"

	"minsep/accounting"
	"minsep/accounting/internal/normal"
	"minsep/accounting/montecarlo"
	"minsep/accounting/search"
	"minsep/internal/bisect"
)

// How a budget is spent on the only noise multiplier, which the user gives. A protocol may fix
// a threshold δ' for each direction before its first sample: a small one for a direction with a
// divergence far below δ, which takes few samples, and one near δ for the other. Estimates,
// with a key of their own, choose them. They enter no certificate.
const (
	// The accepted means are up to mostGiven standard errors, of the estimates and of the trials
	// together, above the estimates. More would buy nothing: the rest of the budget is then not drawn.
	// Where the budget is too small, the accepted means are up to mostGiven standard errors below.
	mostGiven = search.Apart
)

// fixed makes the protocol for the given noise multiplier.
func (p Problem) fixed(ctx context.Context, e *estimator, out *Plan) error {
	e.report(Phase{Text: PhaseTables})
	divergences, err := p.divergences(ctx, e, []float64{p.NoiseMultiplier})
	if err != nil {
		return err
	}
	pair := divergences[0]
	if max(pair[0].total(), pair[1].total()) > p.Delta-p.claim().Earlier {
		if err := p.estimateGiven(ctx, e, pair, out); err != nil {
			return err
		}
		if err := p.refuseAbove(out.Estimates); err != nil {
			return err
		}
	}
	p = p.priced(e)
	out.Protocol, err = p.fixGiven(pair, out)
	return e.priced(err, false, func() float64 {
		_, samples, _ := p.claim().Samples(p.Delta/2, []float64{pair[0].bound(), pair[1].bound()})
		return sum(samples)
	})
}

// estimateGiven adds estimates of the given noise multiplier to the plan; none where δ' is given,
// and where the budget has no samples for estimates. Where the budget has none for a trial, a few
// samples say whether δ is far too large: more budget would then buy nothing.
func (p Problem) estimateGiven(ctx context.Context, e *estimator, pair [2]hockeyStick, out *Plan) error {
	if _, err := e.time(ctx, pair[0]); err != nil {
		return err
	}
	_, least, err := p.claim().Samples(0, []float64{pair[0].bound(), pair[1].bound()})
	if p.Accept > 0 || err != nil {
		return nil
	}
	most := math.Inf(1)
	if float64(least[0]+least[1]) > (1-givenShare)*e.allLeft() {
		most = leastSamples
	}
	if e.limitTo(givenShare); e.left() < 2*fewest {
		return nil
	}
	e.report(Phase{Text: "estimating δ"})
	l := NoiseEstimate{NoiseMultiplier: p.NoiseMultiplier}
	for i, s := range pair {
		if l.Estimates[i], err = p.estimateDirection(ctx, e, s, min(most, e.left()/float64(len(pair)-i))); err != nil {
			return err
		}
	}
	out.Estimates = []NoiseEstimate{l}
	return nil
}

// estimateDirection doubles the samples of an estimate, up to a limit, as long as that is expected
// to save more in the trial.
func (p Problem) estimateDirection(ctx context.Context, e *estimator, s hockeyStick, limit float64) (Estimate, error) {
	out := Estimate{Direction: s.direction, Bound: s.bound(), Effort: s.bound() / p.Delta, Truncation: s.cost()}
	if p.goal(s, accounting.Goal{}).Proven {
		out.Bound, out.Mean, out.Effort = s.divergence(), s.divergence(), 0
		return out, nil
	}
	begin, worked := e.used(), e.worked
	worker, err := e.worker(s)
	if err != nil {
		return out, err
	}
	e.estimates, e.tables = 1, e.tables+e.used()-begin-(e.worked-worked).Seconds()
	return e.drawUntil(ctx, out, worker, uint64(max(fewest, min(leastSamples, limit))), func(out Estimate) (uint64, bool) {
		want := 2 * out.Samples
		return want, float64(want) > limit || p.above(out) || !p.paysOff(s, out)
	})
}

// above says that an estimate is so far above δ that it is next to certain to be too large.
func (p Problem) above(l Estimate) bool { return l.Delta()-mostGiven*l.StdErr > p.Delta }

// refuseAbove is the error of a noise multiplier that is estimated to be too small. A protocol
// would accept it by chance only, which its failure probability allows. A user who knows the
// estimate would take this chance knowingly.
func (p Problem) refuseAbove(estimates []NoiseEstimate) error {
	for _, at := range estimates {
		for _, l := range at.Estimates {
			if p.above(l) {
				return fmt.Errorf("%w: at noise multiplier %g, delta at epsilon %g is estimated to be %.4g in direction %s, with a standard error of %.2g: more than %d of them above %g",
					ErrEstimatedAbove, at.NoiseMultiplier, p.Epsilon, l.Delta(), l.Direction, l.StdErr, mostGiven, p.Delta)
			}
		}
	}
	return nil
}

// paysOff says whether doubling the samples of an estimate saves more samples in the trial than it
// takes, if the mean stays. It does where no number of samples is enough for a trial yet.
func (p Problem) paysOff(s hockeyStick, l Estimate) bool {
	samples := func(l Estimate) float64 {
		_, tests, err := p.claim().Allocate([]accounting.Goal{p.goalGiven(s, l, mostGiven)})
		if err != nil {
			return math.Inf(1)
		}
		return float64(tests[0].Samples)
	}
	twice := l
	twice.Samples *= 2
	before := samples(l)
	return math.IsInf(before, 1) || before-samples(twice) > float64(l.Samples)
}

// goalGiven is the goal of a trial with this number of standard errors, at most mostGiven.
func (p Problem) goalGiven(s hockeyStick, l Estimate, errors float64) accounting.Goal {
	return p.goal(s, accounting.Goal{Mean: l.Mean, Errors: min(errors, mostGiven), Seen: float64(l.Samples)})
}

// fixGiven makes the protocol of one candidate. Without estimates, or where by them the budget
// allows no trial, both directions accept up to the same mean.
func (p Problem) fixGiven(pair [2]hockeyStick, out *Plan) (*accounting.Protocol, error) {
	divergences := [][2]hockeyStick{pair}
	if len(out.Estimates) > 0 {
		if t, tests, ok := p.likeliest(pair, out.Estimates[0].Estimates); ok {
			return p.assemble(divergences, out.Method, t, tests)
		}
	}
	return p.fixAlike(divergences, out.Method)
}

// likeliest chooses the thresholds and the tests that are accepted in both directions with the
// largest probability that the budget allows, by the estimates. Where the budget allows mostGiven
// standard errors in both directions, it takes these. ok says that the budget allows any tests.
func (p Problem) likeliest(pair [2]hockeyStick, estimates [2]Estimate) (best accounting.Thresholds, of []accounting.Test, ok bool) {
	budget, _ := p.allowance()
	try := func(errors [2]float64) (t accounting.Thresholds, tests []accounting.Test, affordable bool) {
		var goals []accounting.Goal
		for i, s := range pair {
			goals = append(goals, p.goalGiven(s, estimates[i], errors[i]))
		}
		t, tests, err := p.claim().Allocate(goals)
		return t, tests, err == nil && p.weights.total(tests) <= budget
	}
	if best, of, ok = try([2]float64{mostGiven, mostGiven}); ok {
		return best, of, true
	}
	most := math.Inf(-1)
	for more := -2.; more <= 2; more++ { // standard errors of the second direction
		both := func(errors float64) [2]float64 { return [2]float64{errors, errors + more} }
		low, high := -mostGiven+min(0, -more), mostGiven+max(0, -more)
		low, _ = bisect.Between(low, high, 0.03, func(errors float64) bool {
			_, _, affordable := try(both(errors))
			return affordable
		})
		t, tests, affordable := try(both(low))
		if !affordable {
			continue
		}
		chance := 0.0 // ln of the probability
		for _, errors := range both(low) {
			chance += math.Log(normal.Tail(-min(errors, mostGiven)))
		}
		if chance > most {
			best, of, ok, most = t, tests, true, chance
		}
	}
	return best, of, ok
}

// Advised is a budget in samples for a rejected noise multiplier that is given again. It is enough
// to accept means this number of standard errors above the means that were seen; see
// [accounting.NotVerifiedError.Need] for ok.
func Advised(rejected *accounting.NotVerifiedError, errors float64) (samples float64, ok bool) {
	samples, ok = rejected.Need(errors)
	return samples / (1 - givenShare), ok
}

// weights are the costs of one sample of each direction, in the samples that a budget counts.
type weights [2]float64

// direction is the index of a direction.
func direction(d montecarlo.Direction) int { return slices.Index(montecarlo.Directions[:], d) }

// total is the cost of tests, given in pairs of both directions.
func (w weights) total(tests []accounting.Test) (samples float64) {
	if w == (weights{}) {
		w = weights{1, 1}
	}
	for i, test := range tests {
		samples += w[i%2] * float64(test.Samples)
	}
	return samples
}

// mean is the average cost of a sample where each trial has samples in proportion to its bound.
// Trials come in pairs of both directions.
func (w weights) mean(bounds []float64) float64 {
	if w == (weights{}) {
		return 1
	}
	all, weighted := 1e-300, 1e-300 // of proofs alone
	for i, bound := range bounds {
		all, weighted = all+bound, weighted+w[i%2]*bound
	}
	return weighted / all
}

// sum is the number of samples of trials.
func sum(samples []uint64) (all float64) {
	for _, n := range samples {
		all += float64(n)
	}
	return all
}
