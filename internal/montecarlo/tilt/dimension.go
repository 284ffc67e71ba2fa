package tilt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"minsep/internal/bisect"
	"minsep/internal/montecarlo"
	"minsep/internal/param"
)

// Provable is a noise multiplier at which a divergence bound in both directions is proven without
// samples.
type Provable struct {
	NoiseMultiplier float64     // σ, above 0
	Proposals       [2]Proposal // in the order of montecarlo.Directions
	Tried           []Tried     // by the search, by rising σ
}

// Tried is a noise multiplier that a search looked at.
type Tried struct {
	NoiseMultiplier float64 // σ, above 0
	Bound           float64 // a proven bound of one divergence, at least 0; +Inf where there is none
}

// ErrNotProvable is wrapped when no noise multiplier in reach proves a δ without samples.
var ErrNotProvable = errors.New("not provable without samples")

// SmallestProvableBelow searches, near the noise multiplier of spec, for the smallest one up to
// most at which the proposals of both directions prove δ ≤ delta with no sample, to 0.3 %: the last
// candidate of the procedure of F5, usually 5–20 % above the answer. It makes about six proposals,
// none of them above most, which may be +Inf. Before each proposal it asks more, if not nil,
// whether to go on. The argument proven is the smallest noise multiplier that is proven so far, 0
// without one. The argument ratio is the last one proven over the last one too small, +Inf without
// both. Where more returns false, the search ends with the smallest noise multiplier that is
// proven, or with an error that wraps ErrNotProvable where there is none. With an error too, also
// when ctx ends, the result has all that was tried.
func SmallestProvableBelow(
	ctx context.Context,
	spec montecarlo.Spec,
	most, epsilon, delta float64,
	more func(proven, ratio float64) bool,
) (Provable, error) {
	search := proofs{
		ctx:     ctx,
		spec:    spec,
		most:    math.Log(most),
		epsilon: epsilon,
		delta:   delta,
		more:    more,
		low:     math.NaN(),
		high:    math.NaN(),
	}
	found, err := search.run()
	slices.SortFunc(
		search.tried,
		func(a, b Tried) int { return cmp.Compare(a.NoiseMultiplier, b.NoiseMultiplier) },
	)
	found.Tried, search.best.Tried = search.tried, search.tried
	switch {
	case !errors.Is(err, errEnded):
		return found, err
	case search.best.NoiseMultiplier > 0:
		return search.best, nil
	}
	return Provable{
			Tried: search.tried,
		}, fmt.Errorf(
			"%w: δ = %g at ε = %g: %w",
			ErrNotProvable,
			delta,
			epsilon,
			err,
		)
}

// within is how near, in ln σ, the search comes to the least noise multiplier that is proven.
const within = 3e-3

// errEnded says that a search may make no more proposals.
var errEnded = errors.New("the time for the search is used up")

// run is the search.
func (s *proofs) run() (Provable, error) {
	spec, epsilon, delta := s.spec, s.epsilon, s.delta
	check := param.Checker{}
	check.Add(Config{spec, epsilon, montecarlo.P}.Validate())
	check.Require(delta > 0 && delta < 1, "delta", delta, "must be above 0 and below 1")
	if err := check.Err(); err != nil {
		return Provable{}, err
	}
	var low, high bisect.Point // ln σ of a noise multiplier too small and of one that is proven, with their excess
	var ofLow montecarlo.Direction
	at, step := math.Log(spec.NoiseMultiplier), 0.1
	for math.IsNaN(s.low) || math.IsNaN(s.high) {
		excess, err := s.excess(at)
		if err != nil {
			return Provable{}, err
		}
		if excess > 0 {
			// Bounds of several examples per owner have a floor, which more noise does not lower. Only two
			// bounds of the same direction show that floor.
			if fell := low.Y - excess; s.of == ofLow && excess > 1 && excess < math.Log(0.5/delta) && !math.IsInf(low.Y, 1) && at > low.X && fell < 0.25*(at-low.X) {
				return Provable{}, fmt.Errorf(
					"%w: δ = %g at ε = %g: more noise than %.4g does not lower the bound, %.3g",
					ErrNotProvable,
					delta,
					epsilon,
					math.Exp(at),
					delta*math.Exp(excess),
				)
			}
			low, ofLow = bisect.Point{X: at, Y: excess}, s.of
			if at >= s.most-within {
				return Provable{}, fmt.Errorf(
					"%w: δ = %g at ε = %g: no noise multiplier below %g",
					ErrNotProvable,
					delta,
					epsilon,
					math.Exp(s.most),
				)
			}
			at = min(at+step, s.most-within)
		} else {
			high = bisect.Point{X: at, Y: excess}
			at -= step
		}
		if step *= 1.6; step > 8 {
			return Provable{}, fmt.Errorf(
				"%w: δ = %g at ε = %g: none near noise multiplier %g",
				ErrNotProvable,
				delta,
				epsilon,
				spec.NoiseMultiplier,
			)
		}
	}
	if _, _, err := bisect.Falling(s.excess, low, high, within, 0, within/3); err != nil {
		return Provable{}, err
	}
	return s.best, nil
}

// proofs makes the proposals of a search and keeps the best that prove delta.
type proofs struct {
	ctx            context.Context
	spec           montecarlo.Spec
	most           float64 // ln σ
	epsilon, delta float64
	more           func(proven, ratio float64) bool
	low, high      float64 // the last ln σ too small and the last that is proven, NaN before there is one
	best           Provable
	tried          []Tried
	of             montecarlo.Direction // the last excess is by the bound of this direction
}

// excess is ln of the proven bound over delta at ln σ: at most 0 when it is proven; +Inf when
// no order has a table.
func (s *proofs) excess(logSigma float64) (excess float64, err error) {
	ratio := math.Inf(1)
	if s.high > s.low {
		ratio = math.Exp(s.high - s.low)
	}
	if s.more != nil && !s.more(s.best.NoiseMultiplier, ratio) {
		return 0, errEnded
	}
	found := Provable{NoiseMultiplier: math.Exp(logSigma)}
	defer func() {
		if err == nil {
			s.tried = append(s.tried, Tried{found.NoiseMultiplier, s.delta * math.Exp(excess)})
			if excess > 0 {
				s.low = logSigma
			} else {
				s.high = logSigma
			}
		}
	}()
	worst := math.Inf(-1)
	for i, direction := range montecarlo.Directions {
		c := Config{s.spec, s.epsilon, direction}
		c.Spec.NoiseMultiplier = found.NoiseMultiplier
		p, err := NewProposal(s.ctx, c)
		if errors.Is(err, ErrTable) {
			return math.Inf(1), nil
		}
		if err != nil {
			return 0, err
		}
		found.Proposals[i] = p
		if above := math.Log(p.Divergence / s.delta); above > worst {
			worst, s.of = above, direction
		}
		if worst > 0 {
			break
		}
	}
	worst = max(worst, -50) // of a divergence of 0
	if worst <= 0 && (s.best.NoiseMultiplier == 0 || found.NoiseMultiplier < s.best.NoiseMultiplier) {
		s.best = found
	}
	return worst, nil
}
