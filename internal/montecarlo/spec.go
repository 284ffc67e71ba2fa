package montecarlo

import (
	"encoding/json"
	"errors"
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
	Drawn     Exactness = "drawn from those of one example, so that δ is too large on average"
	NotProven Exactness = "published accounting, not proven"
)

// maxSquaredNorm limits ‖c_i‖²/σ²: beyond it a loss in 64-bit floats has an error above 1e-9.
const maxSquaredNorm = 1e6

// MaxPerOwner is the largest k_u that there are losses for.
const MaxPerOwner = 1000

// Spec is one accounting problem: how an example takes part, a strategy and a noise multiplier. All
// of it is public.
type Spec struct {
	// Law is how one example takes part: a valid table. In JSON it is its hash, from which it cannot
	// be read again.
	Law *sampling.Table `json:"law"`

	// MultiOwner is, in place of Law, Algorithm 3 of arXiv 2602.09338 with the published distribution
	// (F4.1): never certified.
	MultiOwner *sampling.MultiOwner `json:"multi_owner,omitempty"`

	// NoiseMultiplier is σ, the standard deviation of z in units of the clip norm, whatever the
	// norms of C's columns.
	NoiseMultiplier float64             `json:"noise_multiplier"`
	Strategy        *mechanism.Strategy `json:"strategy"`

	// MaxExamplesPerOwner is k_u; 0 stands for 1. Each example is in a process of its own, except for
	// MultiOwner.
	MaxExamplesPerOwner int `json:"max_examples_per_owner,omitempty"`
}

// MarshalJSON writes the hash of the law in its place.
func (s Spec) MarshalJSON() ([]byte, error) {
	type plain Spec
	hashed := struct {
		plain
		Law string `json:"law,omitempty"`
	}{plain: plain(s)}
	if s.Law != nil {
		hashed.Law = s.Law.Hash()
	}
	return json.Marshal(hashed)
}

// Steps is n, the number of steps of a valid Spec.
func (s Spec) Steps() int { return s.Strategy.Steps }

// MinSep is b of a valid Spec: two participations of an example, or of an owner, are at least b steps
// apart.
func (s Spec) MinSep() int {
	if s.MultiOwner != nil {
		return s.MultiOwner.MinSep
	}
	return s.Law.Separation()
}

// ExamplesPerOwner is k_u, at least 1.
func (s Spec) ExamplesPerOwner() int { return max(1, s.MaxExamplesPerOwner) }

// Factor is 1/σ².
func (s Spec) Factor() float64 { return 1 / (s.NoiseMultiplier * s.NoiseMultiplier) }

// Validate returns every fault joined. Its cost is mostly the validation of the strategy.
func (s Spec) Validate() error {
	check := param.Checker{}
	check.Positive("noise multiplier", s.NoiseMultiplier)
	check.Requiref(
		s.MaxExamplesPerOwner >= 0 && s.MaxExamplesPerOwner <= MaxPerOwner,
		"max examples per owner",
		s.MaxExamplesPerOwner,
		"must be at most %d", MaxPerOwner,
	)
	check.Require(
		(s.Law == nil) != (s.MultiOwner == nil),
		"law",
		nil,
		"must be given, or the parameters of multi-owner",
	)
	if s.Strategy == nil {
		check.Require(false, "strategy", "nil", "is needed")
		return check.Err()
	}
	check.Add(s.Strategy.Validate())
	if s.MultiOwner != nil {
		check.Add(s.MultiOwner.Validate())
	}
	if err := check.Err(); err != nil {
		return err
	}
	steps := s.Strategy.Steps
	if s.Law != nil {
		check.Requiref(
			s.Law.Steps == steps,
			"steps of the law",
			s.Law.Steps,
			"must be the %d steps of the strategy", steps,
		)
	} else {
		check.Requiref(
			s.MultiOwner.Steps == steps,
			"steps",
			s.MultiOwner.Steps,
			"must be the %d steps of the strategy", steps,
		)
	}
	s.checkColumns(&check, likelihood.NewColumns(s.Strategy))
	return check.Err()
}

// checkColumns checks the needs of the recursions for C.
func (s Spec) checkColumns(check *param.Checker, c *likelihood.Columns) {
	check.Require(
		s.Strategy.NonNegative() || c.InnerNonNegative(),
		"strategy",
		"",
		"must have no negative entry: the analysis of random participations does not cover one",
	)
	largest := s.largestNorm(c)
	check.Requiref(largest <= maxSquaredNorm, "squared column norm over squared noise multiplier", largest,
		"must be at most %g: losses lose their accuracy beyond", maxSquaredNorm)
	if s.MultiOwner != nil {
		check.Requiref(
			c.Bands <= s.MinSep(),
			"bands",
			c.Bands,
			"must be at most min-sep, %d, for multi-owner: no loss is known otherwise", s.MinSep(),
		)
	}
}

// largestNorm is the largest ‖c_i‖²/σ².
func (s Spec) largestNorm(c *likelihood.Columns) float64 {
	return slices.Max(c.SquaredNorms(s.Factor()))
}

// Exactness says how exact losses of a valid Spec are; it is the same in both directions.
func (s Spec) Exactness() Exactness {
	switch {
	case s.MultiOwner != nil:
		return NotProven
	case s.ExamplesPerOwner() > 1 && !s.paired(s.Strategy.Bands()):
		return Drawn
	}
	return Exact
}

// paired says that an owner has two examples, with a recursion of their own: of a law with one state,
// which is the same at every step.
func (s Spec) paired(bands int) bool {
	if s.MaxExamplesPerOwner != 2 || len(s.Law.Rows) != 1 || len(s.Law.Rows[0]) != 1 {
		return false
	}
	wait := s.Law.Rows[0][0].In.Wait // of one example after a participation of the other one
	return wait >= bands && s.Law.Steps*(wait+2) <= likelihood.MaxTurnsTogether
}

// errDrawn says that there is no recursion.
var errDrawn = errors.New("the loss of several examples is drawn from those of one")

// newRatio returns the recursion of the loss.
func (s Spec) newRatio(c *likelihood.Columns) (likelihood.Ratio, error) {
	switch {
	case s.MultiOwner != nil:
		return likelihood.NewPublishedOwner(*s.MultiOwner, c, s.ExamplesPerOwner(), s.Factor())
	case s.ExamplesPerOwner() > 1 && s.paired(c.Bands):
		return likelihood.NewExamples(s.Law, c, s.Factor(), s.MaxExamplesPerOwner)
	case s.ExamplesPerOwner() > 1:
		return nil, errDrawn
	}
	ratio, err := likelihood.NewPoints(s.Law, c, s.Factor())
	if err != nil {
		return nil, &ParamError{Param: "bands", Value: c.Bands, Rule: "must be fewer: " + err.Error()}
	}
	return ratio, nil
}

// LogRatio returns ln P(y)/Q(y) as a function of as many finite entries as there are steps: the
// reference for the sampler. It holds to 1e-9 for ratios up to e^±10000, and is not safe for concurrent
// use.
func (s Spec) LogRatio() (func(y []float64) float64, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	c := likelihood.NewColumns(s.Strategy)
	ratio, err := s.newRatio(c)
	return func(y []float64) float64 { return likelihood.LogRatio(ratio, c, s.NoiseMultiplier, y) }, err
}
