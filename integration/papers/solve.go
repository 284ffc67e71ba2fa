package main

import (
	"encoding/json"
	"fmt"
	"math"

	"minsep/accounting"
	"minsep/accounting/montecarlo"
	"minsep/accounting/montecarlo/tilt"
	"minsep/mechanism"
	"minsep/sampling/stream"
)

// claim is a run whose noise multiplier is sought: the smallest σ that is (Epsilon,
// Delta)-differentially private. The noise multiplier of Spec is where the search starts.
type claim struct {
	montecarlo.Spec
	Epsilon, Delta float64
}

// effort is how many times M/δ samples an estimate near the answer takes: 10 at least, below which
// a standard error is a matter of luck.
const effort = 15

// estimate is an estimated noise multiplier: not a certificate.
type estimate struct {
	sigma, stdErr float64
}

// look is an estimate of δ at ln σ = x.
type look struct {
	x      float64
	excess float64 // ln of estimated over wanted δ, -Inf where the estimate is 0
	stdErr float64 // of excess
	rough  bool    // fewer than 10 M/δ samples: says where to look next, and nothing else
}

// few samples say where to look, most is what one estimate may take.
const few, most = 4000, 400_000

// at estimates the divergence of one direction, with few samples only when that is asked for or the
// estimate would take too many.
func (c claim) at(x float64, d montecarlo.Direction, rough bool) (look, error) {
	spec := c.Spec
	spec.NoiseMultiplier = math.Exp(x)
	plan, err := tilt.NewProposal(tilt.Config{Spec: spec, Epsilon: c.Epsilon, Direction: d})
	if err != nil {
		return look{}, err
	}
	if plan.Divergence < c.Delta/1000 { // proven
		return look{x: x, excess: math.Inf(-1)}, nil
	}
	config, err := json.Marshal(plan)
	if err != nil {
		return look{}, err
	}
	v, err := tilt.NewVerifier(plan, stream.PublicKey("papers", config))
	if err != nil {
		return look{}, err
	}
	least := plan.MinSamples(c.Delta)
	if rough || least > most {
		var values [few]float64
		v.Values(values[:], 0)
		mean := 0.0
		for _, value := range values {
			mean += value / few
		}
		return look{x: x, excess: math.Log(mean / c.Delta), rough: true}, nil
	}
	e, err := v.Estimate(max(few, uint64(effort/10*float64(least))), c.Delta)
	return look{x: x, excess: math.Log(e.Mean / c.Delta), stdErr: e.StdErr / e.Mean}, err
}

// near is how far from 0 an excess may be to take part in the answer.
const near = 1.0

// search estimates σ for one direction: steps along a secant until two looks are near.
func (c claim) search(x float64, d montecarlo.Direction) (estimate, error) {
	const steps = 40
	var good []look
	slope, measured := -15.0, false // of ln δ by ln σ; a typical one until two looks give it
	low, high := math.Inf(-1), math.Inf(1)
	over, under := false, false
	scouting := true // in large steps, until a few samples see the divergence
	for range steps {
		l, err := c.at(x, d, scouting)
		if err != nil {
			return estimate{}, err
		}
		if scouting {
			switch {
			case l.excess > 2:
				x += min(.3, l.excess/-slope)
			case l.excess < -1:
				x -= .25
			default:
				scouting = false
			}
			over, under = over || l.excess > 2, under || l.excess < -1
			scouting = scouting && !(over && under)
			continue
		}
		if l.excess > near {
			low = max(low, x)
		} else if l.excess < -near {
			high = min(high, x)
		}
		if !l.rough && math.Abs(l.excess) < 2.5 {
			for _, g := range good {
				if g.x != x && math.Abs(g.excess-l.excess) > 0.5 {
					slope, measured = min(-4, max(-60, (g.excess-l.excess)/(g.x-x))), true
				}
			}
			good = append(good, l)
		}
		if e, ok := combine(good, slope); ok && measured {
			return e, nil
		}
		// The slope grows steeper towards small δ; a step of more than a fifth would trust it too
		// far.
		step := max(-.2, min(.2, -l.excess/slope))
		if !l.rough && math.Abs(l.excess) < near {
			step = -(l.excess + math.Copysign(.6, l.excess)) / slope // to the other side, for the slope
		}
		next := x + step
		if next <= low || next >= high {
			next = (low + high) / 2
		}
		x = next
	}
	return estimate{}, fmt.Errorf("no noise multiplier found in %d steps near %.4g", steps, math.Exp(x))
}

// combine is the weighted mean of what the looks near 0 say, once there are two.
func combine(looks []look, slope float64) (estimate, bool) {
	weights, sum, count := 0.0, 0.0, 0
	for _, l := range looks {
		if math.Abs(l.excess) < near {
			w := 1 / (l.stdErr * l.stdErr)
			weights, sum, count = weights+w, sum+w*(l.x-l.excess/slope), count+1
		}
	}
	if count < 2 {
		return estimate{}, false
	}
	sigma := math.Exp(sum / weights)
	return estimate{sigma, sigma / math.Sqrt(weights) / math.Abs(slope)}, true
}

// noiseMultiplier estimates σ by the divergence H(P,Q).
func (c claim) noiseMultiplier() (estimate, error) {
	return c.search(math.Log(c.NoiseMultiplier), montecarlo.P)
}

// both returns the larger of e, the answer for H(P,Q), and that for H(Q,P), which is sought only
// where an estimate at e leaves it in doubt.
func (c claim) both(e estimate) (estimate, error) {
	l, err := c.at(math.Log(e.sigma), montecarlo.Q, false)
	if err != nil || !l.rough && (math.IsInf(l.excess, -1) || math.Exp(l.excess)*(1+3*l.stdErr) < 1) {
		return e, err
	}
	other, err := c.search(math.Log(e.sigma), montecarlo.Q)
	if other.sigma > e.sigma {
		e = other
	}
	return e, err
}

// figure is the amplified RMSE of a strategy for prefix sums.
type figure struct {
	claim
	estimate
	rms float64 // of A C⁻¹
}

func (f figure) rmse() float64 { return f.sigma * f.rms }

// spread is the standard error of the RMSE.
func (f figure) spread() float64 { return f.stdErr * f.rms }

// startShare is the part of the noise multiplier without amplification that a search begins with.
const startShare = 0.65

// amplified estimates the RMSE of c by H(P,Q). An unset noise multiplier starts at a part of that
// without amplification.
func amplified(c claim) (f figure, err error) {
	n := c.Steps
	e, err := c.Strategy.Error(mechanism.Prefix(n))
	if err != nil {
		return f, err
	}
	if c.NoiseMultiplier == 0 {
		period := c.MinSep
		if c.Scheme == montecarlo.BMinSep {
			period = int(1/c.Prob) + c.MinSep - 1
		}
		s, err := c.Strategy.Sensitivity(mechanism.Participation{MinSep: min(period, n)})
		if err != nil {
			return f, err
		}
		if c.NoiseMultiplier, err = accounting.GaussianNoiseMultiplier(c.Epsilon, c.Delta, startShare*s.Value); err != nil {
			return f, err
		}
	}
	f = figure{claim: c, rms: e.RMSE}
	f.estimate, err = c.noiseMultiplier()
	return f, err
}

// confirmed looks at the other direction too.
func (f figure) confirmed() (figure, error) {
	var err error
	f.estimate, err = f.both(f.estimate)
	return f, err
}

// climb returns the figure with the least RMSE over the indices 0 … count-1 of a family, starting
// at start and as long as it falls.
func climb(start, count int, family func(i int) (claim, error)) (int, figure, error) {
	known := map[int]figure{}
	get := func(i int) (figure, error) {
		if f, ok := known[i]; ok {
			return f, nil
		}
		c, err := family(i)
		if err != nil {
			return figure{}, err
		}
		known[i], err = amplified(c)
		return known[i], err
	}
	best := start
	least, err := get(start)
	if err != nil {
		return 0, least, err
	}
	for _, step := range []int{1, -1} {
		for best+step >= 0 && best+step < count {
			f, err := get(best + step)
			if err != nil {
				return 0, least, err
			}
			if f.rmse() >= least.rmse() {
				break
			}
			best, least = best+step, f
		}
		if best != start {
			break
		}
	}
	least, err = least.confirmed()
	return best, least, err
}
