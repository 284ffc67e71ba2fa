package planner

import (
	"context"
	"fmt"
	"math"

	"minsep/internal/accounting/calibration"
	"minsep/internal/bisect"
	"minsep/internal/digits"
	"minsep/mechanism"
	"minsep/sampling"
)

// Quantities that Solve finds.
const (
	SolveBatchSize = "batch-size" // the least from the first to the last of the request's batch sizes
	SolveEpsilon   = "epsilon"    // the least from a thousandth of the request's ε to the whole
)

// Quantities are all that Solve finds.
var Quantities = []string{SolveBatchSize, SolveEpsilon}

// solved is how close the value that Solve finds is to the last that reaches the target, as a
// factor: its results say 2 %. Its noise rises or falls at most about as fast.
const solved = 1.02

// mostPlans bounds the plans of a search that does not converge.
const mostPlans = 12

// solver looks for the last value of a quantity at which the best mechanism has at most a target as
// noise relative to the batch.
type solver struct {
	quantity   string
	easy, hard float64 // the range: at easy there is the least noise
	target     float64
	share      float64 // of the noise of DP-SGD that mechanisms have, as seen last

	good, bad *tried // next to each other, as far as known: one that reaches the target, and one that does not
}

// tried is a value that was tried.
type tried struct {
	x, noise float64 // noise is infinite where no mechanism can be used
	out      *Result
}

// with is a request for a value of the quantity.
func (s *solver) with(r Request, x float64) Request {
	switch s.quantity {
	case SolveEpsilon:
		r.Epsilon = x
	default:
		r.BatchSizes = []float64{x}
	}
	if watch := r.Watch; watch != nil {
		r.Watch = func(p Progress) {
			p.At = fmt.Sprintf("%s %.6g", s.quantity, x)
			watch(p)
		}
	}
	return r
}

// round is a value that reads well, next to x.
func (s *solver) round(x float64) float64 {
	if s.quantity == SolveBatchSize && x > 100 {
		return math.Round(x)
	}
	return digits.Nearest(x, 3)
}

// next is the value to try next, if there is one: nearer to hard than the values that reach the
// target, and nearer to easy than the others.
func (s *solver) next(ctx context.Context, r Request) (x float64, more bool) {
	from, to := s.easy, s.hard
	if s.good != nil {
		from = s.good.x
	}
	if s.bad != nil {
		to = s.bad.x
	}
	apart := math.Abs(math.Log(from / to))
	switch {
	case s.good != nil && (from == s.hard || s.good.noise*solved >= s.target):
		return 0, false
	case s.good != nil && s.bad != nil && (apart <= math.Log(solved) || s.quantity != SolveEpsilon && math.Abs(from-to) <= 1):
		return 0, false
	// Without a noise there is no share to guess by: halve the range.
	case s.bad != nil && math.IsInf(s.bad.noise, 1):
		x = math.Sqrt(from * to)
	default:
		x = s.guess(ctx, r, from, to)
	}
	if x = s.round(x); s.good != nil && x == from || s.bad != nil && x == to {
		if x = s.round(math.Sqrt(from * to)); s.good != nil && x == from || s.bad != nil && x == to {
			// Rounded values have run out. Without a plan that reaches the target, the easiest one is left.
			return s.easy, s.good == nil
		}
	}
	return x, true
}

// guess is the value between two at which DP-SGD's noise, times the share, is the target: from has
// less noise.
func (s *solver) guess(ctx context.Context, r Request, from, to float64) float64 {
	wanted := s.target / math.Sqrt(solved) / s.share // half of the way to a share that is close enough
	if s.base(ctx, r, to) <= wanted {
		return to
	}
	if s.base(ctx, r, from) > wanted {
		return from
	}
	way := math.Log(to / from)
	at := func(part float64) float64 { return from * math.Exp(part*way) }
	part, _ := bisect.Between(
		0,
		1,
		math.Log(solved)/8/math.Abs(way),
		func(part float64) bool { return s.base(ctx, r, at(part)) <= wanted },
	)
	return at(part)
}

// base is the noise of DP-SGD relative to the batch; 0 where it is not known.
func (s *solver) base(ctx context.Context, r Request, x float64) float64 {
	r = s.with(r, x)
	of, batch := r.Populations[0], r.BatchSizes[0]
	units, perOwner := of.Examples, r.perOwner(of)
	if r.Sample == sampling.SampleOwners {
		units, perOwner = of.Owners, 1
	}
	p := &planning{Request: &r}
	identity := p.make(ctx, r.workload(mechanism.KindIdentity))
	sigma, err := p.dpsgd(units, perOwner).noiseMultiplier(batch, 1, 10*calibration.Narrow)
	if err != nil || identity.err != nil {
		return 0
	}
	return sigma * r.error(identity.error) / batch
}

// unreached is the error of a target that not even the easiest value of the range reaches.
func (s *solver) unreached(best float64) error {
	rule := ""
	switch s.quantity {
	case SolveEpsilon:
		rule = fmt.Sprintf(
			"is not reached: epsilon %g has %.4g; give larger batches, fewer steps, or a larger epsilon as the most to try",
			s.easy,
			best,
		)
	default:
		rule = fmt.Sprintf(
			"is not reached: batches of %g have %.4g; give larger batch sizes, or fewer steps",
			s.easy,
			best,
		)
	}
	return &ParamError{Param: "target", Value: s.target, Rule: rule}
}

// found says the result in a sentence.
func (s *solver) found(x float64) string {
	text := map[string]string{SolveBatchSize: "A batch size of %.6g is the least", SolveEpsilon: "Epsilon %.4g is the least"}[s.quantity]
	text = fmt.Sprintf(text, x) + fmt.Sprintf(" with noise of at most %g of the batch", s.target)
	if x == s.hard {
		return text + ", of those that were to be tried."
	}
	return text + ", to 2 %."
}
