package montecarlo

import (
	"fmt"
	"math"
	"slices"

	"minsep/internal/montecarlo/internal/likelihood"
	"minsep/internal/param"
	"minsep/mechanism"
	"minsep/sampling"
)

// ParamError is a parameter with a value that breaks a rule.
type ParamError = param.Error

// Direction says which of the pair the outputs are drawn from.
type Direction string

const (
	P Direction = "P" // with the owner's data: for H(P,Q)
	Q Direction = "Q" // without: for H(Q,P)
)

// Directions lists both: a privacy claim needs both.
var Directions = [...]Direction{P, Q}

// Exactness says how exact a loss is.
type Exactness string

const (
	Exact     Exactness = "exact"
	Bound     Exactness = "bound" // P/Q is bounded from the side that makes δ too large
	Drawn     Exactness = "drawn from those of one example, so that δ is too large on average"
	NotProven Exactness = "published accounting, not proven"
)

// maxSquaredNorm limits ‖c_i‖²/σ²: beyond it a loss in 64-bit floats has an error above 1e-9.
const maxSquaredNorm = 1e6

// maxSteps bounds the steps that a loss may need memory for.
const maxSteps = 1 << 22

// MaxPerOwner is the largest k_u that there are losses for.
const MaxPerOwner = 1000

// Spec is one accounting problem: a sampler, a strategy and a noise multiplier. All of it is
// public.
type Spec struct {
	Scheme string `json:"scheme"` // one of the names of schemes of this package
	Steps  int    `json:"steps"`  // n, 1 to 2^22

	// MinSep is b: two participations of an example are at least b steps apart. It is the period (an
	// epoch) of balls-in-bins, the number of parts of cyclic Poisson, and 1 for Poisson.
	MinSep int `json:"min_sep"`

	// Prob is the probability with which an available example participates at a step. For cyclic
	// Poisson these are the steps of its part. For Algorithm 3 it is the probability of being sampled,
	// blocked or not. It is 0 for balls-in-bins, epoch-min-sep and rotation.
	Prob float64 `json:"prob"`

	// EpochSteps is T of epoch-min-sep and rotation: an example, or an owner, participates exactly
	// once in every T steps. 0 for others.
	EpochSteps int `json:"epoch_steps,omitempty"`

	// LawTable is how an example takes part under the scheme law; nil for others.
	LawTable *sampling.Table `json:"law,omitempty"`

	// WarmStart starts in the stationary distribution: Algorithm 2 of arXiv 2602.09338. For cyclic
	// Poisson the part of the example is then uniform; else it is the first part, which has the most
	// steps.
	WarmStart bool `json:"warm_start"`

	// NoiseMultiplier is σ, the standard deviation of z in units of the clip norm, whatever the
	// norms of C's columns.
	NoiseMultiplier float64             `json:"noise_multiplier"`
	Strategy        *mechanism.Strategy `json:"strategy"`

	// MaxExamplesPerOwner is k_u; 0 stands for 1. Each example is in a process of its own, except for
	// MultiOwner.
	MaxExamplesPerOwner int `json:"max_examples_per_owner,omitempty"`

	// Published takes, for MultiOwner, the published distribution F4.1 (cold start) and not the
	// exact one F4.4 of one owner's examples alone.
	Published bool `json:"published_law,omitempty"`

	// MaxBatchSize, unless 0, is the size that batches are cut to at random; Examples, the size of
	// the data set, is needed with it.
	MaxBatchSize int `json:"max_batch_size,omitempty"`
	Examples     int `json:"examples,omitempty"`
}

// ExamplesPerOwner is k_u, at least 1.
func (s Spec) ExamplesPerOwner() int { return max(1, s.MaxExamplesPerOwner) }

// Factor is 1/σ².
func (s Spec) Factor() float64 { return 1 / (s.NoiseMultiplier * s.NoiseMultiplier) }

func (s Spec) process() likelihood.Process {
	return likelihood.Process{Steps: s.Steps, MinSep: s.MinSep, Prob: s.Prob, WarmStart: s.WarmStart}
}

// Validate returns every fault joined, among them the combinations that have no exact loss and
// no bound. Its cost is mostly the validation of the strategy.
func (s Spec) Validate() error {
	check := param.Checker{Package: "montecarlo"}
	s.checkNumbers(&check)
	if s.Strategy == nil {
		check.Require(false, "strategy", "nil", "is needed")
		return check.Err()
	}
	if err := s.Strategy.Validate(); err != nil {
		check.Add(err)
		return check.Err()
	}
	check.Require(s.Strategy.Steps == s.Steps, "strategy's steps", s.Strategy.Steps, fmt.Sprintf("must be the %d steps of the sampler", s.Steps))
	s.checkColumns(&check, likelihood.NewColumns(s.Strategy))
	return check.Err()
}

// checkNumbers checks all but the strategy.
func (s Spec) checkNumbers(check *param.Checker) {
	check.AtLeast("steps", s.Steps, 1)
	check.AtLeast("min-sep", s.MinSep, 1)
	check.Require(s.Steps <= maxSteps, "steps", s.Steps, fmt.Sprintf("must be at most %d", maxSteps))
	check.Require(s.MinSep <= maxSteps, "min-sep", s.MinSep, fmt.Sprintf("must be at most %d", maxSteps))
	check.Positive("noise multiplier", s.NoiseMultiplier)
	k := s.ExamplesPerOwner()
	check.Require(s.MaxExamplesPerOwner >= 0 && s.MaxExamplesPerOwner <= MaxPerOwner, "max examples per owner", s.MaxExamplesPerOwner,
		fmt.Sprintf("must be at most %d", MaxPerOwner))
	check.AtLeast("max batch size", s.MaxBatchSize, 0)
	scheme, ok := schemes[s.Scheme]
	if !ok {
		check.Require(false, "scheme", s.Scheme, "must be "+schemeNames())
		return
	}
	scheme.check(s, check)
	check.Require(s.EpochSteps == 0 || s.Scheme == EpochMinSep || s.Scheme == Rotation, "epoch steps", s.EpochSteps, "is for epoch-min-sep and rotation only")
	check.Require(s.LawTable == nil || s.Scheme == Law, "law", "given", "is for the scheme law only")
	check.Require(!s.Published || s.Scheme == MultiOwner, "published distribution", s.Published, "is for multi-owner only")
	if s.MaxBatchSize > 0 {
		check.Require(k == 1, "max examples per owner", k, "must be 1 with a max batch size: no loss is known for more")
		check.AtLeast("examples", s.Examples, 1)
	}
}

// checkColumns checks the needs of the recursions for C.
func (s Spec) checkColumns(check *param.Checker, c *likelihood.Columns) {
	check.Require(c.NonNegative(), "strategy", s.kind(), "must have no negative entry: the analysis of random participations does not cover one")
	largest := slices.Max(s.norms(c))
	check.Require(largest <= maxSquaredNorm, "squared column norm over squared noise multiplier", largest,
		fmt.Sprintf("must be at most %g: losses lose their accuracy beyond", maxSquaredNorm))
	if scheme, ok := schemes[s.Scheme]; ok {
		l := scheme.bands(s)
		check.Require(l.by == "" || c.Bands <= l.most, "bands", c.Bands, fmt.Sprintf("must be at most %s, %d, for %s: no loss is known otherwise", l.parameter, l.most, l.by))
	}
}

func (s Spec) kind() string {
	if s.Strategy == nil {
		return "given"
	}
	return s.Strategy.Kind
}

// Exactness says how exact losses of a valid Spec are; it is the same in both directions.
func (s Spec) Exactness() Exactness {
	return s.exactness(s.Strategy.Bands())
}

func (s Spec) exactness(bands int) Exactness { return schemes[s.Scheme].exactness(s, bands) }

// newRatio returns the recursion of the loss in one direction.
func (s Spec) newRatio(d Direction, c *likelihood.Columns) likelihood.Ratio {
	return schemes[s.Scheme].ratio(s, d, c)
}

// norms are the squared norms of the columns over σ².
func (s Spec) norms(c *likelihood.Columns) []float64 { return c.SquaredNorms(s.Factor()) }

// Evaluator computes losses of given outputs in log domain, one at a time: the reference for the
// sampler, and the arithmetic of `minsep loss`. It is not safe for concurrent use.
type Evaluator struct {
	spec    Spec
	columns *likelihood.Columns
	ratio   likelihood.Ratio
}

// NewEvaluator validates s. Where the loss is a bound, the direction decides which.
func NewEvaluator(s Spec, d Direction) (*Evaluator, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if d != P && d != Q {
		return nil, &ParamError{Package: "montecarlo", Param: "direction", Value: d, Rule: "must be P or Q"}
	}
	return newEvaluator(s, d, likelihood.NewColumns(s.Strategy)), nil
}

func newEvaluator(s Spec, d Direction, c *likelihood.Columns) *Evaluator {
	return &Evaluator{s, c, s.newRatio(d, c)}
}

// LogRatio returns ln P(y)/Q(y), or its bound, for Steps finite entries of y. It holds to 1e-9 for
// ratios up to e^±10000. For a Spec with MaxBatchSize use LogRatioCounts.
func (e *Evaluator) LogRatio(y []float64) (float64, error) {
	if e.spec.MaxBatchSize > 0 {
		return 0, &ParamError{Package: "montecarlo", Param: "counts", Value: "none", Rule: "are needed for truncated batches"}
	}
	return e.logRatio(y)
}

// LogRatioCounts is LogRatio for truncated batches, conditional on counts: how many other examples
// were sampled at each step (F3.6).
func (e *Evaluator) LogRatioCounts(y []float64, counts []int) (float64, error) {
	truncated, ok := e.ratio.(*likelihood.Truncated)
	check := param.Checker{Package: "montecarlo"}
	check.Require(ok, "counts", "given", "are for truncated batches only")
	check.Require(len(counts) == e.spec.Steps, "counts", len(counts), fmt.Sprintf("must be one a step, %d", e.spec.Steps))
	for i, count := range counts {
		check.AtLeast(fmt.Sprintf("count at step %d", i), count, 0)
	}
	if err := check.Err(); err != nil {
		return 0, err
	}
	truncated.Counts = counts
	return e.logRatio(y)
}

func (e *Evaluator) logRatio(y []float64) (float64, error) {
	check := param.Checker{Package: "montecarlo"}
	check.Require(len(y) == e.spec.Steps, "length of y", len(y), fmt.Sprintf("must be the number of steps, %d", e.spec.Steps))
	for i, v := range y {
		check.Require(!math.IsNaN(v) && !math.IsInf(v, 0), fmt.Sprintf("y[%d]", i), v, "must be finite")
	}
	if err := check.Err(); err != nil {
		return 0, err
	}
	loss := likelihood.LogRatio(e.ratio, e.columns, e.spec.NoiseMultiplier, y)
	check.Require(!math.IsNaN(loss) && !math.IsInf(loss, 0), "log ratio", loss, "is out of range for this y")
	return loss, check.Err()
}
