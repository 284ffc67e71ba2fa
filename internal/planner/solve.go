package planner

import (
	"context"
	"errors"
	"fmt"
	"math"

	"minsep/internal/bisect"
	"minsep/internal/digits"
	"minsep/internal/param"
	"minsep/internal/words"
)

// Quantities that Solve finds.
const (
	SolveBatchSize = "batch-size" // the least from the first to the last of the request's batch sizes
	SolveEpsilon   = "epsilon"    // the least from a thousandth of the request's ε to the whole
)

// Quantities are all that Solve finds.
var Quantities = []string{SolveBatchSize, SolveEpsilon}

// solver makes the plans of a request for values of a quantity.
type solver struct {
	Request
	quantity string
	target   float64
	found    *Result // of the least value that reaches the target
	value    float64
}

// with is the request for a value of the quantity, rounded to one that reads well.
func (s *solver) with(x float64) (Request, float64) {
	r := s.Request
	if s.quantity == SolveBatchSize && x > 100 {
		x = math.Round(x)
	} else {
		x = digits.Nearest(x, 3)
	}
	if r.BatchSizes = []float64{x}; s.quantity == SolveEpsilon {
		r.Epsilon, r.BatchSizes = x, s.BatchSizes
	}
	if watch := r.Watch; watch != nil {
		r.Watch = func(p Progress) {
			p.At = fmt.Sprintf("%s %.6g", s.quantity, x)
			watch(p)
		}
	}
	return r, x
}

// above is ln of the noise relative to the batch over the target, at ln of a value; infinite if no
// mechanism can be used.
func (s *solver) above(ctx context.Context, logX float64) (float64, error) {
	r, x := s.with(math.Exp(logX))
	out, err := r.Plan(ctx)
	var bad *ParamError
	switch {
	case errors.Is(err, ErrNone), errors.As(err, &bad):
		return math.Inf(1), nil
	case err != nil:
		return 0, err
	}
	y := math.Log(out.Rows[0].Relative / s.target)
	if y <= 0 && (s.found == nil || x < s.value) {
		s.found, s.value = out, x
	}
	return y, nil
}

// Solve finds the value of a quantity up to which the target can be had as noise relative to the
// batch, to 2 %, and makes the plan for it: the least batch size, or the least ε. Noise relative to
// the batch falls with both. Each value that is tried takes a whole plan.
func (r Request) Solve(ctx context.Context, quantity string, target float64) (*Result, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	if !(target > 0) {
		return nil, param.Fault("target", target, "must be above 0")
	}
	s := &solver{Request: r, quantity: quantity, target: target}
	hard, easy, name, help := r.BatchSizes[0], r.BatchSizes[len(r.BatchSizes)-1], "A batch size of", "give larger batch sizes, or fewer steps"
	switch quantity {
	case SolveBatchSize:
	case SolveEpsilon:
		hard, easy, name, help = r.Epsilon/1000, r.Epsilon, "Epsilon", "give larger batches, fewer steps, or a larger epsilon as the most to try"
	default:
		return nil, &ParamError{Param: "solve", Value: quantity, Rule: "must be " + words.List(Quantities)}
	}
	ends := [2]bisect.Point{{X: math.Log(hard)}, {X: math.Log(easy)}}
	for _, i := range []int{1, 0} {
		var err error
		if ends[i].Y, err = s.above(ctx, ends[i].X); err != nil {
			return nil, err
		}
		if s.found == nil { // at the easy end
			return nil, param.Fault("target", target, "is not reached: %s %g has %.4g; %s", quantity, easy, target*math.Exp(ends[1].Y), help)
		}
	}
	until := ", of those that were to be tried."
	if ends[0].Y > 0 {
		until = ", to 2 %."
		const width = 0.0198 // of ln 1.02
		f := func(x float64) (float64, error) { return s.above(ctx, x) }
		if _, _, err := bisect.Falling(f, ends[0], ends[1], width, 0, width/4); err != nil {
			return nil, err
		}
	}
	s.found.Solved = fmt.Sprintf("%s %.6g is the least with noise of at most %g of the batch%s", name, s.value, target, until)
	return s.found, nil
}
