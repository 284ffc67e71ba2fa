package mechanism

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

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

	ctx context.Context // see WithContext; nil: context.Background()
}

// WithContext returns p with optimisations that end, with ctx's error, at the first iteration after
// ctx ends. Without it they run to their end.
func (p Problem) WithContext(ctx context.Context) Problem {
	p.ctx = ctx
	return p
}

// context returns the context of WithContext, or the background.
func (p Problem) context() context.Context {
	if p.ctx == nil {
		return context.Background()
	}
	return p.ctx
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

// validate does Validate, and requires a size, of bands or buffers, from 1 to the steps.
func (p Problem) validate(name string, size int) error {
	check := param.Checker{}
	check.Add(p.Validate())
	if p.Workload != nil {
		steps := p.Workload.Steps
		check.Require(size >= 1 && size <= steps, name, size, fmt.Sprintf("must be 1 to %d", steps))
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

// Loss returns the loss of s: squared error times squared sensitivity. With a sensitivity that is
// only bounded, it is an upper bound.
func (p Problem) Loss(s *Strategy) (float64, error) {
	e, err := s.Error(p.Workload)
	if err != nil {
		return 0, err
	}
	sensitivity, err := s.Sensitivity(p.participation())
	if err != nil {
		return 0, err
	}
	root := e.RMSE
	if p.Objective == MaxError {
		root = e.MaxSE
	}
	return root * root * sensitivity.Value * sensitivity.Value, nil
}

// Convergence says how well an optimisation ended.
type Convergence struct {
	Loss       float64 // squared error times squared sensitivity, above 0
	Gap        float64 // relative, at least 0: see the optimisation
	Iterations int     // at least 0
}

// ErrNotConverged is wrapped by the error of every optimisation that did not reach its tolerance.
var ErrNotConverged = errors.New("the optimisation did not converge")

// notConverged returns the error for a gap above its limit.
func notConverged(c Convergence, limit float64) error {
	return fmt.Errorf(
		"%w: gap %.3g after %d iterations, must be at most %.3g",
		ErrNotConverged,
		c.Gap,
		c.Iterations,
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

// minimize minimises f by L-BFGS from x, in place. f is the logarithm of a loss, +Inf outside its
// domain, and sets grad, which is zero, to its gradient. Gap is the largest entry of the last
// gradient. When p's context ends, minimize returns its error before the next evaluation.
func (p Problem) minimize(x []float64, iterations int, f func(x, grad []float64) float64) (Convergence, error) {
	if err := p.context().Err(); err != nil {
		return Convergence{}, err
	}
	if len(x) == 0 {
		return Convergence{Loss: math.Exp(f(x, nil))}, nil
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
			if err := p.context().Err(); err != nil {
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
	if ended := p.context().Err(); ended != nil {
		return Convergence{Gap: math.Inf(1)}, ended
	}
	if result == nil {
		return Convergence{Gap: math.Inf(1)}, fmt.Errorf("%w: %w", ErrNotConverged, err)
	}
	copy(x, result.X)
	evaluate(x)
	c := Convergence{math.Exp(value), floats.Norm(grad, math.Inf(1)), result.MajorIterations}
	// A line search that finds no better point near the minimum is no failure: the gradient
	// decides.
	if !(c.Gap <= gradientLimit) {
		return c, notConverged(c, gradientLimit)
	}
	return c, nil
}

// Make returns the strategy of a kind for p. Size is the number of bands, of buffers or the arity,
// as the family's Size has it; families without a size do not use it. Free parameters are chosen
// for the least loss. Kinds that take a column and kinds of no family are refused.
func (p Problem) Make(kind string, size int) (*Strategy, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	f, ok := FamilyOf(kind)
	if !ok || f.TakesColumn {
		return nil, &ParamError{
			Param: "kind",
			Value: kind,
			Rule:  "must be one of " + strings.Join(ComparableKinds(), ", "),
		}
	}
	return f.makeFor(p, Params{Kind: kind, Steps: p.Workload.Steps, Bands: size, Buffers: size, Arity: size})
}

// givenOrBest returns the member of a one-parameter family with the given parameter, or the best
// member for the problem if given is nil.
func (p Problem) givenOrBest(
	given *float64,
	within *Parameter,
	normalized bool,
	member func(x float64) (*Strategy, error),
) (*Strategy, error) {
	if given != nil {
		return member(*given)
	}
	s, _, _, err := p.Search(within.Low, within.High, func(x float64) (*Strategy, error) {
		s, err := member(x)
		if err == nil && normalized && !s.Normalized {
			s = NormalizedColumns(s)
		}
		return s, err
	})
	return s, err
}

// Search returns the strategy of least loss of a one-parameter family, and its parameter. It takes
// the best of a grid over [low, high], and refines it by golden sections between its neighbours to
// 1e-6 of the range. family may refuse a value with an error: the value then counts as infinitely
// bad. Gap is the relative difference of the losses at the last two sections.
func (p Problem) Search(
	low, high float64,
	family func(x float64) (*Strategy, error),
) (*Strategy, float64, Convergence, error) {
	const grid = 24
	if err := p.Validate(); err != nil {
		return nil, 0, Convergence{}, err
	}
	var refusal error
	var best struct {
		s       *Strategy
		x, loss float64
	}
	best.loss = math.Inf(1)
	evaluations := 0
	loss := func(x float64) float64 {
		if p.context().Err() != nil { // the rest of the search takes no time
			return math.Inf(1)
		}
		evaluations++
		s, err := family(x)
		var value float64
		if err == nil {
			value, err = p.Loss(s)
		}
		if err != nil || !(value >= 0) {
			refusal = err
			return math.Inf(1)
		}
		if value < best.loss {
			best.s, best.x, best.loss = s, x, value
		}
		return value
	}
	for i := range grid + 1 {
		loss(low + (high-low)*float64(i)/grid)
	}
	if err := p.context().Err(); err != nil {
		return nil, 0, Convergence{}, err
	}
	if best.s == nil {
		return nil, 0, Convergence{Gap: math.Inf(1), Iterations: evaluations}, refusal
	}
	from, to := max(low, best.x-(high-low)/grid), min(high, best.x+(high-low)/grid)
	_, _, fa, fb := golden.Section(from, to, 1e-6*(high-low), loss)
	if err := p.context().Err(); err != nil {
		return nil, 0, Convergence{}, err
	}
	return best.s, best.x, Convergence{best.loss, math.Abs(fa-fb) / best.loss, evaluations}, nil
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
