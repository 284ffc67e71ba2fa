package accounting

import (
	"fmt"
	"math"
	"sort"
	"strings"

	"minsep/internal/binomial"
	"minsep/internal/golden"
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
// that there is such a step.
type TruncationRule string

// The rules. The one with the smallest cost is taken.
const (
	NeverCut     TruncationRule = "no batch can be cut"
	Twice        TruncationRule = "2 tau1"
	AnyFull      TruncationRule = "tau"
	Once         TruncationRule = "tau1"
	GammaAndOnce TruncationRule = "(1 + gamma) tau1"
	NearOnce     TruncationRule = "tau1 (kappa + 1)"
	Sharp        TruncationRule = "tau1 (kappa + h1) + 3 tau2"
	SharpAlone   TruncationRule = "tau1 h1 + 3 tau2" // for independent steps, where kappa is 0
)

// keepsPlace reports whether the rule uses h₁, and so holds only for an example that is zeroed but
// keeps its place in its batches. If the example is removed, the divergence may be larger. The
// other rules hold for both.
func (r TruncationRule) keepsPlace() bool { return r == Sharp || r == SharpAlone }

var truncationRules = []TruncationRule{NeverCut, Twice, AnyFull, Once, GammaAndOnce, NearOnce, Sharp, SharpAlone}

// Moments are moments of the run without truncation at one noise multiplier. With them the cost in
// H(P,Q) may be far below 2 τ₁. The zero Moments give bounds that hold for every noise multiplier.
type Moments struct {
	NoiseMultiplier float64  // σ, above 0; 0 in the zero Moments
	Orders          []Moment // by rising order
}

// Moment is ln N_θ = ln E_Q f^θ of one example (F5.2), or an upper bound of it. LogN is for the run
// as it starts. Cold is for the steps before or after a known participation, where the scheme
// starts cold. +Inf stands for an unknown value.
type Moment struct {
	Order      int     // θ, at least 2
	LogN, Cold float64 // in nats
}

// participation holds the facts that F3.11 needs of one example's participations.
type participation struct {
	rates  []rate // at the steps at which it may take part, rounded upward
	drawn  int64  // number of entries that may be drawn at such a step, the owner's included
	never  float64
	spread float64 // u: bounds the probability at one step, given a participation at another; set only with separate
	minSep int
	// independent says that participations at different steps are independent. separate says that
	// the distribution is b-min-sep.
	independent, separate, cold bool
}

// rate is the probability of taking part at each of some steps.
type rate struct {
	prob  float64
	steps int
}

// truncatedAnalysis is for schemes that sample examples independently of each other. Their cut
// batches are accounted for by the pair without truncation (F3.11), which needs only marginal
// probabilities.
type truncatedAnalysis interface {
	participation() participation
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
	method, err := r.analysis().method()
	if err == nil && method != PLD {
		_, err = r.refuseBy(noTruncation)
	}
	return err
}

// TruncationCost bounds the amount that the run's maximum batch size adds to the divergence of a
// direction at e^epsilon (F3.11). m must be moments of this run, or zero.
func (r Run) TruncationCost(d montecarlo.Direction, epsilon float64, m Moments) (Truncated, error) {
	c := param.Checker{}
	c.Add(r.Validate())
	c.Require(epsilon >= 0, "epsilon", epsilon, "must be at least 0")
	c.Require(d == montecarlo.P || d == montecarlo.Q, "direction", d, "must be P or Q")
	if err := c.Err(); err != nil {
		return Truncated{}, err
	}
	distribution, ok := r.analysis().(truncatedAnalysis)
	if !ok || r.Sampler.Truncation == nil {
		_, err := r.refuseBy(noTruncation)
		return Truncated{}, err
	}
	return r.truncationCost(distribution.participation(), d, epsilon, m), nil
}

func (r Run) truncationCost(
	distribution participation,
	d montecarlo.Direction,
	epsilon float64,
	m Moments,
) Truncated {
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
	best := Truncated{AnyFull, any}
	offer := func(rule TruncationRule, cost float64) {
		if cost < best.Cost {
			best = Truncated{rule, cost}
		}
	}
	sharp := func(kappa float64) float64 {
		return ((kappa+r.known(distribution, epsilon, m))*once + 3*distribution.both(others, full)) * upward
	}
	switch {
	case any == 0:
		return Truncated{Rule: NeverCut}
	case distribution.independent:
		offer(Once, once)
		if d == montecarlo.P && own == 1 && r.sharp(distribution) {
			offer(SharpAlone, sharp(0))
		}
	case d == montecarlo.Q:
		if distribution.neverEnough(epsilon, int(own)) {
			offer(Once, once)
		}
		offer(GammaAndOnce, (1+math.Exp(epsilon))*once*upward)
	default:
		offer(Twice, 2*once)
		kappa := m.kappa(epsilon, int(own))
		offer(NearOnce, (kappa+1)*once*upward)
		if own == 1 && r.sharp(distribution) {
			offer(Sharp, sharp(kappa))
		}
	}
	return best
}

// neverEnough reports whether H(Q,P) is 0 without truncation, and so at most τ₁ with it: the
// probability that the owner takes part at no step is large enough.
func (p participation) neverEnough(epsilon float64, examples int) bool {
	return math.Pow(p.never, float64(examples)) >= math.Exp(-epsilon)*upward
}

// kappa bounds the loss of an owner who avoids the full batches: κ, at most 1. An owner of k
// examples has f_k ≤ f^k (F4.3), so moments of order θ/k apply.
func (m Moments) kappa(epsilon float64, examples int) float64 {
	seldom, often := 0.0, 0.0 // logarithms, for q' ≤ 1/2 and above
	for _, o := range m.Orders {
		theta := float64(o.Order) / float64(examples)
		a := theta - 1
		if a <= 0 {
			continue
		}
		seldom = min(seldom, theta*math.Ln2-a*epsilon+o.LogN)
		often = min(often, math.Ln2+o.logBound(theta, epsilon)/theta)
	}
	return min(1, math.Exp(max(seldom, often))*upward)
}

// logBound is ln M_θ (F5.2).
func (o Moment) logBound(theta, epsilon float64) float64 {
	a := theta - 1
	return o.LogN - a*epsilon + a*math.Log(a) - theta*math.Log(theta)
}

// sharp reports whether the bound by a known participation holds: the scheme is b-min-sep of one
// example, and columns do not overlap and are shifts of one another.
func (r Run) sharp(distribution participation) bool {
	return distribution.separate && r.Strategy.Bands() <= distribution.minSep && r.Strategy.Columns == nil &&
		!r.Strategy.Normalized
}

// known bounds H(P,Q) of an example with one known participation: h₁.
func (r Run) known(distribution participation, epsilon float64, m Moments) float64 {
	norm := 0.0
	for _, v := range r.Strategy.FirstColumn(nil) {
		norm += v * v
	}
	norm /= m.NoiseMultiplier * m.NoiseMultiplier
	least := 0.0
	for _, o := range m.Orders {
		theta := float64(o.Order)
		h := o.logBound(theta, epsilon) - o.LogN + 2*o.Cold + theta*(theta-1)*norm/2
		if distribution.cold && distribution.minSep > 1 {
			h -= theta * float64(distribution.minSep-1) * math.Log1p(-distribution.spread)
		}
		least = min(least, h)
	}
	return math.Exp(least) * upward
}

// both bounds τ₂: the sum, over pairs of steps, of the probability that the example takes part at
// both and that the others fill both batches.
func (p participation) both(others, full int) float64 {
	most, steps := 0.0, 0
	for _, at := range p.rates {
		most, steps = max(most, min(1, at.prob)), steps+at.steps
	}
	apart := float64(max(0, steps-p.minSep))
	pairs := apart * (apart + 1) / 2
	// If the others fill two steps, the sum of their counts is at least twice full.
	tail := func(lambda float64) float64 {
		s := math.Expm1(lambda)
		return float64(others)*math.Log1p(most*s*(2+p.spread*s)) - 2*lambda*float64(full)
	}
	from, to, _, _ := golden.Section(0, 8, 1e-3, tail)
	lambda := (from + to) / 2
	return pairs * most * p.spread * min(1, math.Exp(tail(lambda)+1e-12*lambda*float64(full))) * upward
}

// SuggestedShare is the largest share of δ that a suggested maximum batch size costs.
const SuggestedShare = 0.01

// SuggestMaxBatchSize returns the smallest maximum batch size that costs at most SuggestedShare of
// delta in either direction. In H(Q,P) it may cost half of delta where truncation is all there is.
// The run's own maximum is ignored. The result is 0 where no size is known, as for a scheme that
// cannot be truncated, or without the number of examples.
func (r Run) SuggestMaxBatchSize(epsilon, delta float64, m Moments) (int, error) {
	if err := r.Untruncated().Validate(); err != nil {
		return 0, err
	}
	analysis, ok := r.analysis().(truncatedAnalysis)
	if !ok || r.Examples == 0 {
		return 0, nil
	}
	distribution := analysis.participation()
	affordable := func(size int) bool {
		cut := r
		cut.Sampler.Truncation = &sampling.Truncation{MaxBatchSize: size}
		for _, d := range montecarlo.Directions {
			most := SuggestedShare * delta
			if d == montecarlo.Q && distribution.neverEnough(epsilon, r.MaxExamplesPerOwner) {
				most = delta / 2 // without truncation this direction has divergence 0
			}
			if !(cut.truncationCost(distribution, d, epsilon, m).Cost <= most) {
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
