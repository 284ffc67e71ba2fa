package calibration

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"

	"minsep/internal/accounting"
	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/tilt"
	"minsep/sampling"
)

// CurvePoint is δ at one ε. Unless it is Proven it is an estimate: the noise multiplier was chosen by
// samples, and no protocol covers this point.
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

// Curve returns δ at ε around epsilon: proven if the run's method needs no samples, else estimated.
// An ε at which an estimate would take too many samples is left out.
func Curve(ctx context.Context, run accounting.Run, sigma, epsilon float64) (points []CurvePoint, err error) {
	method, err := run.Method()
	if err != nil {
		return nil, err
	}
	for _, part := range curveParts {
		p := CurvePoint{Epsilon: part * epsilon, Proven: WithoutSamples(method)}
		enough := true
		if p.Proven {
			p.Delta, err = provenDelta(run, sigma, p.Epsilon)
		} else {
			p, enough, err = estimatedPoint(ctx, run, run.Loss(sigma), p.Epsilon)
		}
		if err != nil {
			return nil, err
		}
		if enough {
			points = append(points, p)
		}
	}
	return points, nil
}

// provenDelta bounds δ of a run that needs no samples: by its own pair if this is known, and by the
// pair without truncation plus the cost of truncation. The smaller bound counts.
func provenDelta(run accounting.Run, sigma, epsilon float64) (float64, error) {
	least := 1.0
	if run.TruncatedPair() {
		pq, qp, err := run.Prove(sigma, epsilon)
		if err != nil {
			return 0, err
		}
		least = max(pq.Upper, qp.Upper)
	}
	if run.Sampler.Truncation == nil {
		return least, nil
	}
	pq, qp, err := run.Untruncated().Prove(sigma, epsilon)
	if err != nil {
		return 0, err
	}
	most := 0.0
	for i, d := range montecarlo.Directions {
		more, err := run.TruncationCost(d, epsilon)
		if err != nil {
			return 0, err
		}
		most = max(most, []float64{pq.Upper, qp.Upper}[i]+more.Cost)
	}
	return min(least, most), nil
}

// estimatedPoint estimates δ in both directions; enough is false if that takes too many samples. No
// samples are needed if a proven bound is far below the other direction's, and no more once a
// direction is shown to be below it.
func estimatedPoint(
	ctx context.Context,
	run accounting.Run,
	spec montecarlo.Spec,
	epsilon float64,
) (p CurvePoint, enough bool, err error) {
	p.Epsilon, enough = epsilon, true
	for _, direction := range montecarlo.Directions {
		d, err := newDivergence(ctx, tilt.Config{Spec: spec, Epsilon: epsilon, Direction: direction}, mostTables)
		if err != nil {
			return p, false, err
		}
		if run.Sampler.Truncation != nil {
			cost, err := run.TruncationCost(direction, epsilon)
			if err != nil {
				return p, false, err
			}
			d.cut = &cost
		}
		const scale = 1e-5 // of the estimate's logarithms: any δ serves
		s, l := d.estimateOf(runtime.GOMAXPROCS(0), scale)
		if d.proof.bound > Negligible*p.Delta {
			const work = 2e8 // 1e5 samples are enough for a figure that is only printed
			most := work / float64(max(leastSteps, spec.Steps()))
			isBelow := func() bool { return l.samples > 0 && math.Exp(l.most())*scale <= p.Delta } // the other direction
			for want := uint64(16 * Few); l.samples < want && !isBelow(); want = uint64(min(most, 8*float64(want), additionalEstimate*float64(l.samples)/max(l.sum, 1e-300))) {
				if err := s.draw(ctx, l, want); err != nil {
					return p, false, err
				}
			}
			enough = enough && (l.sum >= Apart*Apart || isBelow())
		}
		if delta := l.mean() + d.cost(); delta >= p.Delta {
			p.Delta = delta
			if l.samples > 0 {
				p.StdErr, p.Effort = l.mean()*l.stdErr(), d.bound()/max(delta, 1e-300)
			}
		}
	}
	return p, enough && p.Delta > 0, nil
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

// MultiOwnerEstimates estimates δ of Algorithm 3 for owners of 1 to MaxExamplesPerOwner examples, by
// both distributions: fewer examples may be worse. Figures for which an estimate would take too many
// samples are left out.
func MultiOwnerEstimates(
	ctx context.Context,
	run accounting.Run,
	sigma, epsilon float64,
) (list []MultiOwnerEstimate, err error) {
	if method, err := run.Method(); method != accounting.Unproven {
		return nil, errors.Join(fmt.Errorf("these estimates are for %s only", sampling.MultiOwner{}.Name()), err)
	}
	for k := 1; k <= run.MaxExamplesPerOwner; k++ {
		for _, published := range []bool{true, false} {
			e := MultiOwnerEstimate{Distribution: "F4.4", Examples: k}
			spec := run.Loss(sigma)
			spec.MaxExamplesPerOwner = k
			if published {
				e.Distribution, spec.Published = "F4.1", true
			}
			p, enough, err := estimatedPoint(ctx, run, spec, epsilon)
			if err != nil {
				return nil, err
			}
			if e.Delta, e.StdErr, e.Effort = p.Delta, p.StdErr, p.Effort; enough {
				list = append(list, e)
			}
		}
	}
	return list, nil
}
