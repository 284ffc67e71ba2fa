package mechanism

import (
	"context"
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/optimize"

	"minsep/internal/golden"
	"minsep/internal/param"
)

// Objectives of an optimisation.
const (
	MeanError = "mean" // ‖A C⁻¹‖_F² / n, the squared RMSE
	MaxError  = "max"  // ‖A C⁻¹‖_{2→∞}², the squared MaxSE
)

// Problem is the objective of an optimisation: the loss is the objective's squared error on the
// workload times the squared sensitivity under the participation.
type Problem struct {
	Workload      *Workload     // the workload of the error; not nil
	Objective     string        // MeanError or MaxError; empty: MeanError
	Participation Participation // zero: one participation, the sensitivity is the largest column norm
}

// Validate returns every fault of p joined, or nil.
func (p Problem) Validate() error {
	check := param.Checker{}
	if p.Workload == nil {
		check.Require(false, "workload", nil, "must be given")
	} else {
		check.Add(p.Workload.Validate())
	}
	check.Require(
		p.Objective == "" || p.Objective == MeanError || p.Objective == MaxError,
		"objective",
		p.Objective,
		"must be mean or max",
	)
	if p.Participation != (Participation{}) {
		check.Add(p.Participation.Validate())
	}
	return check.Err()
}

// participation returns p.Participation, or the schema of one participation if it is empty.
func (p Problem) participation() Participation {
	if p.Participation == (Participation{}) {
		return Participation{MinSep: p.Workload.Steps, MaxParticipations: 1}
	}
	return p.Participation
}

// squaredError returns the squared error of s by p's objective.
func (p Problem) squaredError(s *Strategy) (float64, error) {
	e, err := s.Error(p.Workload)
	if p.Objective == MaxError {
		return e.MaxSE * e.MaxSE, err
	}
	return e.RMSE * e.RMSE, err
}

// Loss returns the loss of s: squared error times squared sensitivity. With a sensitivity that is
// only bounded, it is an upper bound.
func (p Problem) Loss(s *Strategy) (float64, error) {
	squared, err := p.squaredError(s)
	if err != nil {
		return 0, err
	}
	sensitivity, err := s.Sensitivity(p.participation())
	if err != nil {
		return 0, err
	}
	return squared * sensitivity.Value * sensitivity.Value, nil
}

// Make returns the strategy of a kind for p. Size is the number of bands, of buffers or the arity,
// as the family's Size has it; families without a size do not use it. Free parameters are chosen
// for the least loss. Kinds that take a column and kinds of no family are refused. An optimisation
// may take minutes; after ctx ends, Make returns ctx's error at its next iteration.
func (p Problem) Make(ctx context.Context, kind string, size int) (*Strategy, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	params := Params{Kind: kind, Steps: p.Workload.Steps}
	f, _ := familyOf(kind)
	switch f.Size {
	case BandsSize:
		params.Bands = size
	case BuffersSize:
		params.Buffers = size
	case AritySize:
		params.Arity = size
	}
	if err := params.Validate(); err != nil {
		return nil, err
	}
	return f.makeFor(ctx, p, params)
}

// Figures returns the figures of s on p's workload and participation.
func (p Problem) Figures(s *Strategy) (Figures, error) {
	e, err := s.Error(p.Workload)
	if err != nil {
		return Figures{}, err
	}
	sensitivity, err := s.Sensitivity(p.participation())
	if err != nil {
		return Figures{}, err
	}
	step, err := s.StepNoise()
	if err != nil {
		return Figures{}, err
	}
	f := Figures{
		Kind:        s.Kind,
		Bands:       s.Bands(),
		RMSE:        e.RMSE,
		MaxSE:       e.MaxSE,
		Sensitivity: sensitivity,
		StepNoise:   step,
	}
	f.State, f.Normals, f.MultiplyAdds = noiseCost(s)
	return f, nil
}

// finish returns s if it is valid, and if its loss by the definition is the optimiser's. Otherwise
// the optimiser worked with a formula that does not hold for s.
func (p Problem) finish(s *Strategy, loss float64) (*Strategy, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	own, err := p.Loss(s)
	if err != nil {
		return nil, err
	}
	if err := checkLoss(own, loss); err != nil {
		return nil, err
	}
	return s, nil
}

// checkLoss requires that a loss by the definition is the optimiser's, but for rounding.
func checkLoss(own, optimised float64) error {
	const limit = 1e-8
	if gap := math.Abs(own/optimised - 1); !(gap <= limit) {
		return notConverged(gap, 0, limit)
	}
	return nil
}

// ErrNotConverged is wrapped by the error of every optimisation that did not reach its tolerance.
var ErrNotConverged = errors.New("the optimisation did not converge")

// notConverged returns the error for a gap above its limit.
func notConverged(gap float64, iterations int, limit float64) error {
	return fmt.Errorf(
		"%w: gap %.3g after %d iterations, must be at most %.3g",
		ErrNotConverged,
		gap,
		iterations,
		limit,
	)
}

// An optimisation by L-BFGS ends when no entry of the gradient of ln(loss) by scale-free parameters
// exceeds gradientTarget. It also ends when the loss stops falling in double precision; then no
// entry may exceed gradientLimit.
const (
	gradientTarget = 1e-7
	gradientLimit  = 1e-4
)

// minimize minimises f by L-BFGS from x, in place, and returns exp(f(x)). f is the logarithm of a
// loss, +Inf outside its domain, and sets grad, which is zero, to its gradient. When ctx ends,
// minimize returns its error before the next evaluation.
func minimize(ctx context.Context, x []float64, iterations int, f func(x, grad []float64) float64) (loss float64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if len(x) == 0 {
		return math.Exp(f(x, nil)), nil
	}
	// gonum asks for value and gradient apart, at the same place
	at, grad, value := make([]float64, len(x)), make([]float64, len(x)), math.NaN()
	evaluate := func(y []float64) {
		if math.IsNaN(value) || !floats.Equal(y, at) {
			copy(at, y)
			clear(grad)
			value = f(at, grad)
			if math.IsNaN(value) {
				value = math.Inf(1)
			}
		}
	}
	problem := optimize.Problem{
		Func: func(y []float64) float64 { evaluate(y); return value },
		Grad: func(g, y []float64) { evaluate(y); copy(g, grad) },
		Status: func() (optimize.Status, error) { // asked before every evaluation
			if err := ctx.Err(); err != nil {
				return optimize.Failure, err
			}
			return optimize.NotTerminated, nil
		},
	}
	settings := &optimize.Settings{
		GradientThreshold: gradientTarget,
		MajorIterations:   iterations,
		FuncEvaluations:   20 * iterations,
		Converger:         &optimize.FunctionConverge{Relative: 1e-14, Absolute: 1e-14, Iterations: 20},
	}
	result, err := optimize.Minimize(
		problem,
		x,
		settings,
		&optimize.LBFGS{Store: 20, Linesearcher: &optimize.Bisection{CurvatureFactor: .9}},
	)
	if ended := ctx.Err(); ended != nil {
		return 0, ended
	}
	if result == nil {
		return 0, fmt.Errorf("%w: %w", ErrNotConverged, err)
	}
	copy(x, result.X)
	evaluate(x)
	// A line search that finds no better point near the minimum is no failure: the gradient
	// decides.
	if gap := floats.Norm(grad, math.Inf(1)); !(gap <= gradientLimit) {
		return 0, notConverged(gap, result.MajorIterations, gradientLimit)
	}
	return math.Exp(value), nil
}

// search returns the strategy of least loss for p among those that member makes of a number in
// [low, high]. It takes the best of a grid, and refines it by golden sections between its neighbours
// to 1e-6 of the range. member may refuse a number with an error: it then counts as infinitely bad.
func search(
	ctx context.Context,
	p Problem,
	low, high float64,
	member func(x float64) (*Strategy, error),
) (*Strategy, error) {
	const grid = 24
	var refusal error
	var best *Strategy
	bestX, least := low, math.Inf(1)
	loss := func(x float64) float64 {
		if ctx.Err() != nil { // the rest of the search takes no time
			return math.Inf(1)
		}
		s, err := member(x)
		var value float64
		if err == nil {
			value, err = p.Loss(s)
		}
		if err != nil || !(value >= 0) {
			refusal = err
			return math.Inf(1)
		}
		if value < least {
			best, bestX, least = s, x, value
		}
		return value
	}
	for i := range grid + 1 {
		loss(low + (high-low)*float64(i)/grid)
	}
	if best != nil {
		from, to := max(low, bestX-(high-low)/grid), min(high, bestX+(high-low)/grid)
		golden.Section(from, to, 1e-6*(high-low), loss)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if best == nil {
		return nil, refusal
	}
	return best, nil
}
