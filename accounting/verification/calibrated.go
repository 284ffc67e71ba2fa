package verification

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"minsep/accounting"
	"minsep/accounting/montecarlo/tilt"
	"minsep/accounting/search"
)

// phaseProofs is the text of the phase in which a proof is looked for.
const phaseProofs = "looking for a σ that needs no samples"

// start is the noise multiplier that is tried first, and one that needs no samples, if there is
// one.
func (p Problem) start(ctx context.Context, e *estimator) (first float64, provable tilt.Provable, err error) {
	e.report(Phase{Text: phaseProofs, Left: e.timeLeft(e.share.seconds)})
	if first, err = accounting.GaussianNoiseMultiplier(p.Epsilon, p.Delta, slices.Max(p.Run.ColumnNorms())); err != nil {
		return first, provable, err
	}
	provable, err = p.provable(ctx, first, e.timeForProofs)
	switch {
	case err == nil && p.simulated == nil && len(provable.Tried) == 0 && !p.pair().Majorized(): // a pattern of many participations says little of the noise
		first = min(first, firstTried(provable, p.Delta))
	case err == nil:
		first = firstTried(provable, p.Delta)
	case !errors.Is(err, tilt.ErrNotTilted) && !errors.Is(err, tilt.ErrNotProvable):
		return first, provable, err
	}
	return first, provable, nil
}

// firstTried is the noise multiplier that is tried first where provable needs no samples. The
// bounds that the search for provable saw are about leastEfforts[0] times δ there. It is
// search.Far/2 to search.Farthest below provable in ln σ.
func firstTried(provable tilt.Provable, delta float64) float64 {
	least, most := provable.NoiseMultiplier*math.Exp(-search.Farthest), provable.NoiseMultiplier*math.Exp(-search.Far/2)
	target := leastEfforts[0] * delta // far less than at most noise multipliers of use, so that the estimate is cheap
	for i := len(provable.Tried) - 1; i > 0; i-- {
		a, b := provable.Tried[i-1], provable.Tried[i]
		if a.Bound > target && target >= b.Bound && b.Bound > 0 && !math.IsInf(a.Bound, 1) {
			x := math.Log(a.Bound/target) / math.Log(a.Bound/b.Bound)
			return min(max(a.NoiseMultiplier*math.Pow(b.NoiseMultiplier/a.NoiseMultiplier, x), least), most)
		}
	}
	return most
}

// calibrated estimates the noise multiplier, then fixes candidates around it.
func (p Problem) calibrated(ctx context.Context, e *estimator, out *Plan) error {
	start, provable, err := p.start(ctx, e)
	if err != nil {
		return err
	}
	e.beginEstimates()
	known, err := p.bounds(provable)
	if err != nil {
		return err
	}
	choose := func() error {
		out.again = func(samples uint64) error {
			p.before.samples += samples
			return p.chosen(ctx, e, out, provable, known)
		}
		return out.again(0)
	}
	if out.Estimates, err = e.search(ctx, start, nearDelta*p.Delta, known); err == nil {
		if provable.NoiseMultiplier > 0 && !p.pair().Majorized() && !sampled(out.Estimates) {
			err = fmt.Errorf("%w: all estimates are far below δ", accounting.ErrTooFewSamples)
		} else {
			err = choose()
		}
	}
	if err != nil && !errors.Is(err, accounting.ErrTooFewSamples) || err == nil && !out.dear() || p.pair().Majorized() {
		return err
	}
	if e.lengthen(p) {
		before, protocol := err, out.Protocol
		if err = p.goOn(ctx, e, out, start, known); err == nil {
			err = choose()
		}
		if errors.Is(err, accounting.ErrTooFewSamples) && before == nil { // keep the protocol of the shorter budget
			out.Protocol, err = protocol, nil
		}
	}
	proven := provable.NoiseMultiplier
	switch {
	case proven == 0, err != nil && !errors.Is(err, accounting.ErrTooFewSamples), err == nil && takesSamples(out.Protocol.Candidates[0]):
		return err
	case !p.unamplified(proven):
		return p.provenOnly(ctx, e, out, provable)
	case err == nil && out.dear(): // this much noise is certified only where it is asked for
		provable = tilt.Provable{}
		if err = choose(); err == nil {
			return nil
		}
	case err == nil:
		return nil
	}
	return withProven(err, proven)
}

// withProven adds a noise multiplier that needs no samples to an error about too few of them.
func withProven(err error, noiseMultiplier float64) error {
	if !errors.Is(err, accounting.ErrTooFewSamples) {
		return err
	}
	var few *TooFewError
	if !errors.As(err, &few) {
		few = &TooFewError{Cause: err}
	}
	few.Proven = noiseMultiplier
	return few
}

// unamplified says that a noise multiplier is proven by the Gaussian mechanism alone. It may be
// many times the smallest one.
func (p Problem) unamplified(noiseMultiplier float64) bool {
	if p.simulated != nil || noiseMultiplier == 0 {
		return false
	}
	pq, qp, err := p.pair().Prove(noiseMultiplier, p.Epsilon)
	return err == nil && max(pq.Upper, qp.Upper) <= p.Delta
}

// sampled says whether any estimate drew samples: a divergence that needs none is far below δ.
func sampled(estimates []NoiseEstimate) bool {
	return slices.ContainsFunc(estimates, func(l NoiseEstimate) bool { return l.Estimates[0].Samples > 0 || l.Estimates[1].Samples > 0 })
}

// dear says that the best candidate has far more noise than was estimated: the budget buys few
// samples, or none. Where no budget was given, a longer one is then worth its time.
func (out *Plan) dear() bool {
	return out.Protocol.Candidates[0].NoiseMultiplier > search.Little*out.Estimate
}

// takesSamples says whether a candidate is not proven without them.
func takesSamples(c accounting.Candidate) bool {
	return slices.ContainsFunc(c.Trials, func(t accounting.Trial) bool { return t.Samples > 0 })
}

// goOn makes more estimates, in their share of a longer budget, and adds them to the estimates of
// the plan. It begins where the estimates of the plan have the target, or at from where there are
// none.
func (p Problem) goOn(ctx context.Context, e *estimator, out *Plan, from float64, known NoiseEstimate) error {
	target := nearDelta * p.Delta
	if len(out.Estimates) > 0 {
		from = newModel(e.scale, out.Estimates, known).at(target)
	}
	more, err := e.search(ctx, from, target, known)
	for _, l := range more {
		if !isTried(out.Estimates, math.Log(l.NoiseMultiplier)) {
			out.Estimates = insert(out.Estimates, l)
		}
	}
	if len(out.Estimates) > 0 && errors.Is(err, accounting.ErrTooFewSamples) {
		return nil // the estimates so far must do
	}
	return err
}

// chosen fixes the candidates around the estimated noise multiplier.
func (p Problem) chosen(ctx context.Context, e *estimator, out *Plan, provable tilt.Provable, known NoiseEstimate) error {
	m := newModel(e.scale, out.Estimates, known)
	out.Estimate = m.at(p.Delta)
	p = p.priced(e)
	out.Table = nil
	p.table(e, m, out)
	sigmas, err := p.candidates(m, provable.NoiseMultiplier)
	if err == nil {
		e.report(Phase{Text: PhaseTables})
		var divergences [][2]hockeyStick
		if divergences, err = p.divergences(ctx, e, sigmas, provable); err != nil {
			return err
		}
		out.Protocol, err = p.fix(divergences, out.Method, &m)
		if err == nil && len(out.Protocol.Candidates) < len(sigmas) { // with their own bounds, other ones fit
			m.learn(divergences)
			p = p.priced(e) // their tables took time
			if sigmas, err = p.candidates(m, provable.NoiseMultiplier); err == nil {
				if divergences, err = p.divergences(ctx, e, sigmas, provable); err != nil {
					return err
				}
				var again *accounting.Protocol
				if again, err = p.fix(divergences, out.Method, &m); err == nil {
					out.Protocol = again
				}
			}
			if errors.Is(err, accounting.ErrTooFewSamples) { // the first ones must do
				err = nil
			}
		}
	}
	return e.priced(err, true, func() float64 { return 0 })
}

// tableShares has, for each row of the table, the δ that is expected at the row's noise multiplier,
// as a part of the claim's δ.
var tableShares = []float64{0.25, 0.5, 0.8, 0.9, 0.95}

func (p Problem) table(e *estimator, m model, out *Plan) {
	for _, share := range tableShares {
		row := Row{NoiseMultiplier: m.at(share * p.Delta)}
		t, tests, err := p.claim().Allocate(m.goals(row.NoiseMultiplier, 0))
		if err != nil {
			continue // more samples than any verification may have
		}
		row.Accept, row.Samples = t.Accept, weights{1, 1}.total(tests)
		row.Seconds = e.weights().total(tests) * e.each().Seconds()
		out.Table = append(out.Table, row)
	}
}
