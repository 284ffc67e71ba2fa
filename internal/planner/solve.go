package planner

import (
	"context"
	"errors"
	"fmt"
	"math"

	"minsep/internal/accounting"
	"minsep/internal/accounting/calibration"
	"minsep/internal/accounting/pld"
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

// Solve finds the value of a quantity up to which the target can be had as noise relative to the
// batch, to 2 %, and makes the plan for it: the least batch size, or the least ε. Noise
// relative to the batch falls with the batch size and with ε. Each value that is tried takes a whole plan; DP-SGD's noise, which is known at once, says which.
func (r Request) Solve(ctx context.Context, quantity string, target float64) (*Result, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	if !(target > 0) {
		return nil, &ParamError{Param: "target", Value: target, Rule: "must be above 0"}
	}
	s := &solver{
		quantity: quantity,
		easy:     r.BatchSizes[len(r.BatchSizes)-1],
		hard:     r.BatchSizes[0],
		target:   target,
		share:    1,
	}
	switch quantity {
	case SolveBatchSize:
	case SolveEpsilon:
		s.easy, s.hard = r.Epsilon, r.Epsilon/1000
	default:
		return nil, &ParamError{Param: "solve", Value: quantity, Rule: "must be " + inWords(Quantities)}
	}
	// A whole plan for each value is dear. DP-SGD's noise is known at once, and the best
	// mechanism's share of it changes slowly, so the share of the last plan says where to look next.
	for range mostPlans {
		x, more := s.next(ctx, r)
		if !more {
			break
		}
		out, err := s.with(r, x).Plan(ctx)
		var bad *ParamError
		// A value at which nothing can be used is one that does not reach the target, unless it is the
		// easiest one: then nothing does.
		none := errors.Is(err, ErrNone) || errors.As(err, &bad)
		if err != nil && (!none || x == s.easy) {
			return out, err
		}
		at := &tried{x, math.Inf(1), out}
		if !none {
			at.noise = out.Rows[0].Relative
			if base := s.base(ctx, r, x); base > 0 {
				s.share = at.noise / base
			}
		}
		switch {
		case at.noise <= target:
			s.good = at
		case x == s.easy:
			return nil, s.unreached(at.noise)
		default:
			s.bad = at
		}
	}
	if s.good == nil {
		return nil, ErrNone
	}
	s.good.out.Solved = s.found(s.good.x)
	return s.good.out, nil
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
	sigma, err := p.dpsgd(units, perOwner).noiseMultiplier(batch, 1, 0, 10*calibration.Narrow)
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

// EpsilonOf is the ε of DP-SGD with a noise multiplier: the budget of a run that is trained
// with it. DP-SGD is independent noise with Poisson sampling, with the k_u of the first
// population and the least batch size.
func (r Request) EpsilonOf(noiseMultiplier float64) (float64, error) {
	of := r.Populations[0]
	units, perOwner := of.Examples, r.perOwner(of)
	if r.Sample == sampling.SampleOwners {
		units, perOwner = of.Owners, 1
	}
	prob := r.BatchSizes[0] / float64(units)
	if !(noiseMultiplier > 0) || !(prob > 0 && prob <= 1) || r.Steps < 1 {
		return 0, &ParamError{
			Param: "noise multiplier",
			Value: noiseMultiplier,
			Rule:  "must be above 0, with a batch size of at most the examples",
		}
	}
	run := accounting.Run{
		Sampler:             sampling.Spec{Poisson: &sampling.Poisson{Prob: prob, Steps: r.Steps}},
		Strategy:            mechanism.Identity(r.Steps),
		MaxExamplesPerOwner: perOwner,
	}
	var composition *pld.Composition
	composition, err := calibration.Claim{Run: run}.Compose(noiseMultiplier)
	if bad := (*ParamError)(nil); errors.As(err, &bad) { // without the place in a list of steps
		return 0, bad
	}
	if err != nil {
		return 0, err
	}
	b, err := composition.Epsilon(r.Delta)
	if err == nil && math.IsInf(b.Upper, 1) {
		err = &ParamError{Param: "noise multiplier", Value: noiseMultiplier, Rule: "gives no finite epsilon"}
	}
	return b.Upper, err
}
