package accounting

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"minsep/internal/binomial"
	"minsep/internal/digits"
	"minsep/internal/montecarlo"
	"minsep/internal/param"
	"minsep/sampling"
)

// Truncated is the cost in one direction of cutting batches to a maximum size (F3.11). The
// divergence of the pair without truncation must be smaller than δ by Cost.
type Truncated struct {
	Rule TruncationRule `json:"rule"` // the bound that gives Cost
	Cost float64        `json:"cost"` // in δ, at least 0, rounded upward
}

// TruncationRule is one of the bounds of F3.11, by its formula. τ₁ bounds the expected number of
// steps at which the owner is sampled and the others may fill the batch; τ bounds the probability
// that there is such a step. Each holds for an example that is zeroed, and for one that is removed.
type TruncationRule string

// The rules. The one with the smallest cost is taken.
const (
	NeverCut     TruncationRule = "no batch can be cut"
	Twice        TruncationRule = "2 tau1"
	AnyFull      TruncationRule = "tau"
	Once         TruncationRule = "tau1"
	GammaAndOnce TruncationRule = "(1 + gamma) tau1"
)

var truncationRules = []TruncationRule{NeverCut, Twice, AnyFull, Once, GammaAndOnce}

// participation holds the facts that F3.11 needs of one example's participations.
type participation struct {
	rates       []rate  // at the steps at which it may take part, rounded upward
	drawn       int64   // number of entries that may be drawn at such a step, the owner's included
	never       float64 // probability of taking part at no step, rounded downward
	independent bool    // whether participations at different steps are independent
}

// rate is the probability of taking part at each of some steps.
type rate struct {
	prob  float64
	steps int
}

// participation follows from the law of a scheme whose examples take part independently of each
// other. Rates and the probability of none are products of at most two factors a step.
func (r Run) participation() (p participation, err error) {
	table, err := sampling.TableOf(r.Sampler.Scheme())
	if err != nil {
		return p, err
	}
	above := upward * (1 + float64(table.Steps)*0x1p-50)
	p = participation{drawn: r.Examples, never: table.Never() / above, independent: isIndependent(table)}
	if s, ok := r.Sampler.Scheme().(sampling.CyclicPoisson); ok && !s.SecretPartition {
		parts := int64(s.MinSep)
		p.drawn = (r.Examples + parts - 1) / parts // the largest part is the worst
	}
	for _, prob := range slices.Sorted(slices.Values(table.Rates())) {
		if prob == 0 {
			continue
		}
		prob = min(1, digits.Up(prob*above, 10))
		if last := len(p.rates) - 1; last >= 0 && p.rates[last].prob == prob {
			p.rates[last].steps++
		} else {
			p.rates = append(p.rates, rate{prob, 1})
		}
	}
	return p, nil
}

// isIndependent reports whether an example takes part at each step independently of all others: each
// point leads to the same next one, whatever happens there.
func isIndependent(t *sampling.Table) bool {
	for _, row := range t.Rows {
		for _, x := range row {
			if x.In != x.Out {
				return false
			}
		}
	}
	return len(t.Starts) == 1
}

// isCut reports whether batches of independent examples are cut. They are accounted for by the pair
// without truncation, which needs only marginal probabilities (F3.11, see TruncationCost); some have
// a pair of their own too, see TruncatedPair.
func (r Run) isCut() bool {
	_, independent := r.Sampler.Scheme().(sampling.Independent)
	return independent && r.Sampler.Truncation != nil
}

// upward is a factor above 1 that exceeds the rounding of a few products, powers and sums of
// positive numbers.
const upward = 1 + 1e-9

// Untruncated returns the run without its maximum batch size. F3.11 samples it in place of the run.
func (r Run) Untruncated() Run {
	r.Sampler.Truncation = nil
	return r
}

// TruncatedPair reports whether the pair for truncated batches themselves is composed of events.
// Without it only F3.11 applies.
func (r Run) TruncatedPair() bool { return r.truncatedPair() == nil }

func (r Run) truncatedPair() error {
	if r.Sampler.Truncation == nil {
		return nil
	}
	if r.MaxExamplesPerOwner > 1 {
		_, err := r.refuse("a maximum batch size %s by its own pair", exampleOnly)
		return err
	}
	if r.allocated() {
		_, err := r.refuse("%s in periods that are composed (F6.3)", noTruncation.reason)
		return err
	}
	if s := r.Sampler.CyclicPoisson; s != nil && s.SecretPartition {
		_, err := r.refuseBy(secretSizes)
		return err
	}
	method, err := r.schemeMethod()
	if err == nil && method != PLD {
		_, err = r.refuseBy(noTruncation)
	}
	return err
}

// TruncationCost bounds the amount that the run's maximum batch size adds to the divergence of a
// direction at e^epsilon (F3.11), at any noise multiplier.
func (r Run) TruncationCost(d montecarlo.Direction, epsilon float64) (Truncated, error) {
	c := param.Checker{}
	c.Add(r.Validate())
	c.Require(epsilon >= 0, "epsilon", epsilon, "must be at least 0")
	c.Require(d == montecarlo.P || d == montecarlo.Q, "direction", d, "must be P or Q")
	if err := c.Err(); err != nil {
		return Truncated{}, err
	}
	if !r.isCut() {
		_, err := r.refuseBy(noTruncation)
		return Truncated{}, err
	}
	distribution, err := r.participation()
	if err != nil {
		return Truncated{}, err
	}
	return r.truncationCost(distribution, d, epsilon), nil
}

// MostTruncationCost is the cost in the direction in which it is larger.
func (r Run) MostTruncationCost(epsilon float64) (most float64, err error) {
	for _, d := range montecarlo.Directions {
		cost, err := r.TruncationCost(d, epsilon)
		if err != nil {
			return 0, err
		}
		most = max(most, cost.Cost)
	}
	return most, nil
}

func (r Run) truncationCost(distribution participation, d montecarlo.Direction, epsilon float64) Truncated {
	own := min(int64(r.MaxExamplesPerOwner), max(1, distribution.drawn))
	others, full := int(max(0, distribution.drawn-own)), r.Sampler.Truncation.MaxBatchSize-int(own)+1
	once, any := 0.0, 0.0 // τ₁ and τ
	for _, at := range distribution.rates {
		p := min(1, at.prob)
		tail := float64(at.steps) * binomial.UpperTail(others, p, full)
		any += tail
		once += float64(own) * p * tail
	}
	once, any = min(float64(own)*float64(r.steps()), once*upward), min(1, any*upward)
	least := Truncated{Twice, 2 * once}
	switch {
	case any == 0:
		return Truncated{Rule: NeverCut}
	case distribution.independent, d == montecarlo.Q && distribution.neverEnough(epsilon, int(own)):
		least = Truncated{Once, once}
	case d == montecarlo.Q:
		least = Truncated{GammaAndOnce, (1 + math.Exp(epsilon)) * once * upward}
	}
	if any <= least.Cost {
		least = Truncated{AnyFull, any}
	}
	return least
}

// neverEnough reports whether H(Q,P) is 0 without truncation, and so at most τ₁ with it: the
// probability that the owner takes part at no step is large enough.
func (p participation) neverEnough(epsilon float64, examples int) bool {
	return math.Pow(p.never, float64(examples)) >= math.Exp(-epsilon)*upward
}

// SuggestedShare is the largest share of δ that a suggested maximum batch size costs.
const SuggestedShare = 0.01

// SuggestMaxBatchSize returns the smallest maximum batch size that costs at most SuggestedShare of
// delta in either direction. In H(Q,P) it may cost half of delta where truncation is all there is.
// The run's own maximum is ignored. The result is 0 where no size is known, as for a scheme that
// cannot be truncated, or without the number of examples.
func (r Run) SuggestMaxBatchSize(epsilon, delta float64) (int, error) {
	if err := r.Untruncated().Validate(); err != nil {
		return 0, err
	}
	if _, independent := r.Sampler.Scheme().(sampling.Independent); !independent || r.Examples == 0 {
		return 0, nil
	}
	distribution, err := r.participation()
	if err != nil {
		return 0, err
	}
	affordable := func(size int) bool {
		cut := r
		cut.Sampler.Truncation = &sampling.Truncation{MaxBatchSize: size}
		for _, d := range montecarlo.Directions {
			most := SuggestedShare * delta
			if d == montecarlo.Q && distribution.neverEnough(epsilon, r.MaxExamplesPerOwner) {
				most = delta / 2 // without truncation this direction has divergence 0
			}
			if !(cut.truncationCost(distribution, d, epsilon).Cost <= most) {
				return false
			}
		}
		return true
	}
	// Nothing is cut at the last size.
	return sort.Search(int(distribution.drawn), func(size int) bool { return size > 0 && affordable(size) }), nil
}

// TruncationError says that a maximum batch size costs more of δ than the claim leaves. It wraps
// ErrNotVerified.
type TruncationError struct {
	MaxBatchSize int     // in examples, at least 1
	Cost, Delta  float64 // the cost, and the δ that includes it
	Suggested    int     // in examples: the smallest maximum batch size that costs at most SuggestedShare of δ
}

func (e *TruncationError) Error() string {
	return fmt.Sprintf("not verified: batches of at most %d examples add %.3g to a delta of %.3g; "+
		"the smallest maximum batch size that adds at most %g %% of delta is %d", e.MaxBatchSize, e.Cost, e.Delta, 100*SuggestedShare, e.Suggested)
}

func (e *TruncationError) Unwrap() error { return ErrNotVerified }

// Pair returns the run with the pair that the trial samples or bounds.
func (t Trial) Pair(run Run) Run {
	if t.Truncation != nil {
		return run.Untruncated()
	}
	return run
}

func (t *Truncated) check(c *param.Checker) {
	known := false
	var names []string
	for _, rule := range truncationRules {
		known = known || rule == t.Rule
		names = append(names, string(rule))
	}
	c.Require(known, "rule of the truncation", t.Rule, "must be one of "+strings.Join(names, "; "))
	c.Require(t.Cost >= 0 && t.Cost < 1, "cost of the truncation", t.Cost, "must be at least 0 and below 1")
}

// cost is 0 for a trial of the run's own pair.
func (t *Truncated) cost() float64 {
	if t == nil {
		return 0
	}
	return t.Cost
}
