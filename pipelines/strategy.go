package pipelines

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"minsep/internal/param"
	"minsep/internal/store"
	"minsep/mechanism"
)

// StrategyKinds are the kinds of strategies that [StrategyParams] can make.
var StrategyKinds = append(slices.Clone(mechanism.Makeable), mechanism.KindToeplitz)

// Learning-rate schedules of a momentum workload.
const (
	ConstantRates    = "constant"
	CooldownRates    = "cooldown"     // arXiv 2211.06530: linearly to 0.05 over the last quarter
	LinearDecayRates = "linear-decay" // arXiv 2602.09338: linearly to 0.05 between a quarter and three quarters
)

// StrategyParams say which strategy to make and what it is the best for, as a user gives them. Zero values stand for what is not given.
type StrategyParams struct {
	Kind  string `json:"kind"`
	Steps int    `json:"steps"`
	Bands int    `json:"bands,omitempty"` // of C, or of C⁻¹ for the inverse kinds

	Workload      string  `json:"workload,omitempty"`               // prefix (the default), momentum, or a file of a mechanism.Workload
	Momentum      float64 `json:"momentum,omitempty" strict:"zero"` // of the momentum workload
	LearningRates string  `json:"learning_rates,omitempty"`         // constant (the default), cooldown, linear-decay

	Objective         string `json:"objective,omitempty"` // mean (the default) or max
	MinSep            int    `json:"min_sep,omitempty"`   // 0: one participation
	MaxParticipations int    `json:"max_participations,omitempty"`
	Phases            bool   `json:"phases,omitempty"` // epochs of MinSep steps in a fixed order

	// Parameters of the families; what is nil is chosen for the least loss.

	Lambda     *float64  `json:"lambda,omitempty"`     // λ-CGD
	Gamma      *float64  `json:"gamma,omitempty"`      // BFR, BIFR
	Offset     *float64  `json:"offset,omitempty"`     // one-parameter
	Normalized *bool     `json:"normalized,omitempty"` // divide the columns by their norms; nil: λ-CGD only
	Buffers    int       `json:"buffers,omitempty"`    // of a BLT at most; 0: 4
	Arity      int       `json:"arity,omitempty"`      // of trees; 0: 2
	Column     []float64 `json:"column,omitempty"`     // toeplitz: first column of C
	Stamps     int       `json:"stamps,omitempty"`     // make the strategy for Steps/Stamps steps and repeat it
}

// maxEntries bounds the entries of a matrix that has to be held, which is about 2 GiB.
const maxEntries = 1 << 28

// Validate reports every fault that can be seen before the strategy is made.
func (p StrategyParams) Validate() error {
	c := param.Checker{Package: "pipelines"}
	c.Require(slices.Contains(StrategyKinds, p.Kind), "kind", fmt.Sprintf("%q", p.Kind), "must be one of "+strings.Join(StrategyKinds, ", "))
	c.Require(p.Steps >= 1 && p.Steps <= mechanism.MaxSteps, "steps", p.Steps, fmt.Sprintf("must be 1 to %d", mechanism.MaxSteps))
	switch p.Kind {
	case mechanism.KindTree, mechanism.KindFenwick, mechanism.KindFFT, mechanism.KindDense:
		c.Require(p.Steps <= 1<<14, "steps", p.Steps, "must be at most 2^14 for "+p.Kind+", which is held as a whole matrix")
	case mechanism.KindBanded:
		c.Require(p.Bands <= maxEntries/max(1, p.Steps), "bands", p.Bands, "steps times bands must be at most 2^28 for banded, which is held as a whole")
	case mechanism.KindToeplitz:
		c.Require(len(p.Column) > 0, "column", "[]", "must be given for toeplitz")
	}
	c.Require(p.Kind == mechanism.KindToeplitz || p.Column == nil, "column", p.Column, "is for toeplitz only")
	if p.banded() {
		c.Require(p.Bands >= 1 && p.Bands <= p.Steps/max(1, p.Stamps), "bands", p.Bands, fmt.Sprintf("must be 1 to %d for %s", max(1, p.Steps/max(1, p.Stamps)), p.Kind))
	} else {
		c.AtLeast("bands", p.Bands, 0)
	}
	c.AtLeast("buffers", p.Buffers, 0)
	c.AtLeast("arity", p.Arity, 0)
	c.AtLeast("stamps", p.Stamps, 0)
	if p.Stamps > 1 {
		c.Require(p.Steps%p.Stamps == 0, "stamps", p.Stamps, fmt.Sprintf("must divide the steps, %d", p.Steps))
		c.Require(!p.fromFile() && p.rates() == ConstantRates, "workload", p.Workload, "must be prefix, or momentum with constant learning rates, to make a stamp for")
	}
	c.Require(p.MinSep != 0 || p.MaxParticipations <= 1 && !p.Phases, "min-sep", p.MinSep, "must be given with max-participations or phases")
	c.AtLeast("min-sep", p.MinSep, 0)
	c.AtLeast("max-participations", p.MaxParticipations, 0)
	switch p.rates() {
	case ConstantRates, CooldownRates, LinearDecayRates:
		c.Require(p.rates() == ConstantRates || p.Workload == "momentum", "learning rates", p.LearningRates, "are for the momentum workload")
	default:
		c.Require(false, "learning rates", p.LearningRates, "must be constant, cooldown or linear-decay")
	}
	c.Require(p.Momentum == 0 || p.Workload == "momentum", "momentum", p.Momentum, "is for the momentum workload")
	return c.Err()
}

// banded reports whether the kind is one of a number of bands.
func (p StrategyParams) banded() bool {
	switch p.Kind {
	case mechanism.KindBandedToeplitz, mechanism.KindBanded, mechanism.KindOneParameter, mechanism.KindBSR, mechanism.KindBFR,
		mechanism.KindBISR, mechanism.KindBIFR, mechanism.KindBandInv:
		return true
	}
	return false
}

func (p StrategyParams) rates() string {
	if p.LearningRates == "" {
		return ConstantRates
	}
	return p.LearningRates
}

func (p StrategyParams) fromFile() bool {
	return p.Workload != "" && p.Workload != "prefix" && p.Workload != "momentum"
}

// Problem returns what strategies of these parameters are made for and measured by.
func (p StrategyParams) Problem(ctx context.Context) (mechanism.Problem, error) {
	problem := mechanism.Problem{Objective: p.Objective}
	if p.MinSep != 0 {
		problem.Participation = mechanism.Participation{MinSep: p.MinSep, MaxParticipations: p.MaxParticipations, Phases: p.Phases}
	}
	switch p.Workload {
	case "", "prefix":
		problem.Workload = mechanism.Prefix(p.Steps)
	case "momentum":
		var rates []float64
		switch p.rates() {
		case CooldownRates:
			rates = mechanism.Cooldown(p.Steps, .25, .05)
		case LinearDecayRates:
			rates = mechanism.LinearDecay(p.Steps, .05)
		}
		problem.Workload = mechanism.Momentum(p.Steps, p.Momentum, rates)
	default:
		a, err := readWorkload(ctx, p.Workload)
		if err != nil {
			return problem, err
		}
		if a.Steps != p.Steps {
			return problem, &ParamError{Package: "pipelines", Param: "steps", Value: p.Steps, Rule: fmt.Sprintf("must be %d, as the workload %s has", a.Steps, p.Workload)}
		}
		problem.Workload = a
	}
	return problem, problem.Validate()
}

func readWorkload(ctx context.Context, path string) (*mechanism.Workload, error) {
	f, err := store.Open(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("pipelines: workload: must be prefix, momentum or a file: %w", err)
	}
	defer f.Close()
	a, err := mechanism.ReadWorkload(io.LimitReader(store.Text(f), maxText))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", &ParamError{Package: "pipelines", Param: "workload", Value: path, Rule: "cannot be used"}, err)
	}
	return a, nil
}

// Make makes the strategy. An optimisation may take minutes; it is left behind when ctx ends.
func (p StrategyParams) Make(ctx context.Context) (*mechanism.Strategy, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	type made struct {
		s   *mechanism.Strategy
		err error
	}
	done := make(chan made, 1)
	go func() {
		s, err := p.make(ctx)
		done <- made{s, err}
	}()
	select {
	case m := <-done:
		return m.s, m.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p StrategyParams) make(ctx context.Context) (*mechanism.Strategy, error) {
	if p.Stamps > 1 {
		block := p
		block.Steps, block.Stamps = p.Steps/p.Stamps, 0
		s, err := block.make(ctx)
		if err != nil {
			return nil, err
		}
		return mechanism.Stamped(s, p.Stamps)
	}
	problem, err := p.Problem(ctx)
	if err != nil {
		return nil, err
	}
	if p.Kind == mechanism.KindDense && p.MinSep != 0 {
		problem.Participation.Phases = true // the only participation for which the dense optimum is known
	}
	return p.makeFor(problem)
}

// makeFor makes the strategy by its given parameters, or the best one where they are not given.
func (p StrategyParams) makeFor(problem mechanism.Problem) (*mechanism.Strategy, error) {
	normalized := p.Kind == mechanism.KindLambdaCGD
	if p.Normalized != nil {
		normalized = *p.Normalized
	}
	norm := func(s *mechanism.Strategy, err error) (*mechanism.Strategy, error) {
		if err == nil && normalized && !s.Normalized {
			s = mechanism.NormalizedColumns(s)
		}
		return s, err
	}
	// given makes the member of a family with the parameter, or with the best one in [0, 1] where it is nil.
	given := func(x *float64, family func(x float64) (*mechanism.Strategy, error)) (*mechanism.Strategy, error) {
		if x != nil {
			return norm(family(*x))
		}
		s, _, _, err := problem.Search(0, 1, func(x float64) (*mechanism.Strategy, error) { return norm(family(x)) })
		return s, err
	}
	n := p.Steps
	switch p.Kind {
	case mechanism.KindLambdaCGD:
		return given(p.Lambda, func(x float64) (*mechanism.Strategy, error) { return mechanism.LambdaCGD(n, x, normalized) })
	case mechanism.KindBFR:
		return given(p.Gamma, func(x float64) (*mechanism.Strategy, error) { return mechanism.BFR(n, p.Bands, x) })
	case mechanism.KindBIFR:
		return given(p.Gamma, func(x float64) (*mechanism.Strategy, error) { return mechanism.BIFR(n, p.Bands, x) })
	case mechanism.KindOneParameter:
		if p.Offset != nil {
			return norm(mechanism.OneParameter(n, p.Bands, *p.Offset))
		}
		s, _, _, err := problem.OptimalOneParameter(p.Bands, normalized)
		return s, err
	case mechanism.KindToeplitz:
		return norm(mechanism.Toeplitz(n, p.Column))
	}
	return norm(problem.Make(p.Kind, p.size()))
}

// size is what [mechanism.Problem.Make] takes for the kind.
func (p StrategyParams) size() int {
	switch p.Kind {
	case mechanism.KindBLT:
		if p.Buffers == 0 {
			return 4
		}
		return p.Buffers
	case mechanism.KindTree, mechanism.KindFenwick:
		if p.Arity == 0 {
			return 2
		}
		return p.Arity
	}
	return p.Bands
}

// FamilyParameter returns the parameter by which a strategy's family has it, and its name; "" for kinds without one.
func FamilyParameter(s *mechanism.Strategy) (name string, value float64) {
	switch {
	case s.Kind == mechanism.KindLambdaCGD && len(s.InverseToeplitz) > 1:
		return "lambda", -s.InverseToeplitz[1]
	case s.Kind == mechanism.KindBIFR && len(s.InverseToeplitz) > 1:
		return "gamma", -s.InverseToeplitz[1]
	case s.Kind == mechanism.KindBFR && len(s.Toeplitz) > 1:
		return "gamma", s.Toeplitz[1]
	case s.Kind == mechanism.KindOneParameter && s.Toeplitz != nil:
		return "offset", s.Toeplitz[0] - 1
	}
	return "", 0
}
