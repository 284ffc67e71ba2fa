package verification

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"minsep/accounting"
	"minsep/accounting/montecarlo"
	"minsep/accounting/search"
)

// CurvePoint is δ at one ε. Unless it is Proven it is an estimate: the noise multiplier was chosen
// by samples, and no protocol covers this point.
type CurvePoint struct {
	Epsilon float64 `json:"epsilon"`           // at least 0
	Delta   float64 `json:"delta"`             // of the worse direction, 0 to 1
	StdErr  float64 `json:"std_err,omitempty"` // standard error of Delta; 0 if Proven
	Effort  float64 `json:"effort,omitempty"`  // M/δ; 0 if Proven
	Proven  bool    `json:"proven"`            // by a method that needs no samples
}

// Attacks bounds membership attacks by a curve: at two standard errors above its estimates, which
// certify nothing.
func Attacks(curve []CurvePoint) accounting.AttackBounds {
	var g accounting.Guarantee
	worth := "estimated"
	for _, p := range curve {
		if p.Proven {
			worth = "proven"
		}
		g = append(g, accounting.EpsilonDelta{Epsilon: p.Epsilon, Delta: min(1, p.Delta+2*p.StdErr)})
	}
	return g.AttackBounds(worth)
}

// curveParts are the ε of a curve, as parts of the claim's.
var curveParts = []float64{0.25, 0.5, 0.75, 1, 1.25, 1.5, 2}

// Curve returns δ at ε around epsilon: proven where the run's method needs no samples, else
// estimated. An ε at which an estimate would take too many samples is left out.
func Curve(ctx context.Context, run accounting.Run, noiseMultiplier, epsilon float64) (points []CurvePoint, err error) {
	_, proven, err := search.Provable(run)
	if err != nil {
		return nil, err
	}
	cost := func(epsilon float64, d montecarlo.Direction) (float64, error) {
		if run.Sampler.Truncation == nil {
			return 0, nil
		}
		cost, err := search.TruncationCost(run, noiseMultiplier, epsilon, d)
		return cost.Cost, err
	}
	for _, part := range curveParts {
		point := CurvePoint{Epsilon: part * epsilon, Proven: proven}
		if point.Proven {
			if point.Delta, err = provenDelta(run, noiseMultiplier, point.Epsilon, cost); err != nil {
				return nil, err
			}
			points = append(points, point)
			continue
		}
		enough := true
		for _, d := range montecarlo.Directions {
			s, err := newHockeyStick(ctx, run.Untruncated(), noiseMultiplier, point.Epsilon, d)
			if err != nil {
				return nil, err
			}
			e, ok, err := unaimed(ctx, s, point.Delta)
			if err != nil {
				return nil, err
			}
			if e.Truncation, err = cost(point.Epsilon, d); err != nil {
				return nil, err
			}
			enough = enough && ok
			if e.Delta() >= point.Delta {
				point.Delta, point.StdErr, point.Effort = e.Delta(), e.StdErr, e.Bound/e.Delta()
			}
		}
		if enough && point.Delta > 0 {
			points = append(points, point)
		}
	}
	return points, nil
}

// provenDelta bounds δ of a run that needs no samples: by its own pair where this is known, and by
// the pair without truncation plus the cost of truncation. The smaller bound counts.
func provenDelta(run accounting.Run, noiseMultiplier, epsilon float64, cost func(float64, montecarlo.Direction) (float64, error)) (float64, error) {
	least := 1.0
	if run.TruncatedPair() {
		pq, qp, err := run.Prove(noiseMultiplier, epsilon)
		if err != nil {
			return 0, err
		}
		least = max(pq.Upper, qp.Upper)
	}
	if run.Sampler.Truncation == nil {
		return least, nil
	}
	pq, qp, err := run.Untruncated().Prove(noiseMultiplier, epsilon)
	if err != nil {
		return 0, err
	}
	most := 0.0
	for i, d := range montecarlo.Directions {
		more, err := cost(epsilon, d)
		if err != nil {
			return 0, err
		}
		most = max(most, []float64{pq.Upper, qp.Upper}[i]+more)
	}
	return min(least, most), nil
}

// unaimed estimates a divergence of unknown size: a few samples say how many are needed. None
// are needed where a proven bound is far below the other direction's.
func unaimed(ctx context.Context, s hockeyStick, other float64) (e Estimate, ok bool, err error) {
	e = Estimate{Direction: s.direction, Bound: s.bound()}
	if s.divergence() <= search.Negligible*other {
		e.Mean = s.divergence()
		return e, true, nil
	}
	draw := estimator{epsilon: s.epsilon, workers: runtime.GOMAXPROCS(0), share: share{clock: processorTime}}
	worker, err := draw.worker(s)
	if err != nil {
		return e, false, err
	}
	limit := estimateSamples(s.spec.Steps) / estimateParts
	e, err = draw.drawUntil(ctx, e, worker, leastSamples, func(e Estimate) (uint64, bool) {
		return uint64(min(limit, 8*float64(e.Samples), alsoEstimate*e.Bound/max(e.Mean, 1e-300))), false
	})
	return e, float64(e.Samples)*e.Mean >= leastEfforts[0]*e.Bound, err
}

// MultiOwnerEstimate is the estimated δ of Algorithm 3 for an owner of Examples examples, by one of
// two distributions of their participations. None of it is proven.
type MultiOwnerEstimate struct {
	// Distribution is F4.1, as published (cold start), or F4.4, of the owner's examples alone.
	Distribution string `json:"law"`

	Examples int     `json:"examples"` // of the owner, at least 1
	Delta    float64 `json:"delta"`    // at ε, above 0
	StdErr   float64 `json:"std_err"`  // of Delta, at least 0
	Effort   float64 `json:"effort"`   // M/δ
}

// MultiOwnerEstimates estimates δ of Algorithm 3 for owners of 1 to MaxExamplesPerOwner examples,
// by both distributions: fewer examples may be worse. Figures for which an estimate would take too
// many samples are left out.
func MultiOwnerEstimates(ctx context.Context, run accounting.Run, noiseMultiplier, epsilon float64) (list []MultiOwnerEstimate, err error) {
	if method, err := run.Method(); method != accounting.Unproven {
		return nil, errors.Join(fmt.Errorf("verification: these estimates are for %s only", montecarlo.MultiOwner), err)
	}
	for k := 1; k <= run.MaxExamplesPerOwner; k++ {
		for _, published := range []bool{true, false} {
			estimate := MultiOwnerEstimate{Distribution: "F4.4", Examples: k}
			enough := true
			for _, d := range montecarlo.Directions {
				s := hockeyStick{spec: run.Loss(noiseMultiplier), epsilon: epsilon, direction: d}
				s.spec.MaxExamplesPerOwner = k
				if published {
					estimate.Distribution, s.spec.Published, s.spec.WarmStart = "F4.1", true, false
				}
				e, ok, err := unaimed(ctx, s, estimate.Delta)
				if err != nil {
					return nil, err
				}
				enough = enough && (ok || e.Mean == 0)
				if e.Mean >= estimate.Delta {
					estimate.Delta, estimate.StdErr, estimate.Effort = e.Mean, e.StdErr, e.Bound/e.Mean
				}
			}
			if enough && estimate.Delta > 0 {
				list = append(list, estimate)
			}
		}
	}
	return list, nil
}
