package pld

import (
	"math"

	"minsep/internal/binomial"
	"minsep/internal/param"
)

// Release is a clipped gradient sum over a random batch plus normal noise.
//
// Each of the owner's examples is in the batch with probability Prob, independently of everything
// else. The dominating pair, in units of the noise, is a mixture of normals with means
// j·Sensitivity/NoiseMultiplier and weights Pr[Binom(Examples, Prob) = j], against the standard
// normal. F3.0a proves that it dominates for gradients that the adversary chooses adaptively (see
// also Lemma 4.5 of arXiv 2310.15526). An owner of fewer examples has zeros among the gradients.
type Release struct {
	Prob            float64     // participation probability of one example, in (0,1]
	NoiseMultiplier float64     // σ, above 0: standard deviation of the noise in units of the clip norm
	Sensitivity     float64     // norm of the strategy's column at this step, above 0; 1 without a strategy
	Examples        int         // the owner's examples, at most; at least 1, which is example-level privacy
	Truncation      *Truncation // nil: batches of any size
}

// Truncation cuts a batch that is larger than MaxBatchSize down to a uniformly random subset of
// that size.
//
// The analysis is for the zero-out adjacency of one example: its zeroed twin still takes a place in
// the batch. Let r be the number of other examples in the untruncated batch. The adversary is told
// r, and the order in which the others would leave. So exactly one known other example o makes room
// if the example is sampled and survives, which has probability Prob·s with s = MaxBatchSize/(r+1).
// The sums then differ by g - g_o against -g_o, of norms ≤ 2 and ≤ 1. Given r ≥ MaxBatchSize, the
// dominating pair is a mixture of means 0 and 2 against one of means 0 and -1, with weight Prob·s
// each (arXiv 2602.09338, Corollary D.2, with min-sep 1; F3.6). Given r < MaxBatchSize, it is the
// pair without truncation.
//
// Steps are independent: r is drawn afresh from Binom(Others, Prob) at each step. A pair with
// smaller s is dominated by one with larger s, because it is a mixture of that pair with (N(0,1),
// N(0,1)), and hockey-stick divergences are jointly convex. So values of r can be grouped.
type Truncation struct {
	MaxBatchSize int // at least 1
	Others       int // other examples that are sampled at this step, at least 0
}

// Validate reports every fault.
func (e Release) Validate() error {
	c := param.Checker{}
	c.Probability("prob", e.Prob)
	c.Positive("noise multiplier", e.NoiseMultiplier)
	c.Positive("sensitivity", e.Sensitivity)
	c.AtLeast("max examples per owner", e.Examples, 1)
	if least := LeastNoiseMultiplier(e.Sensitivity, e.Examples); e.NoiseMultiplier < least {
		c.Requiref(
			false,
			"noise multiplier",
			e.NoiseMultiplier,
			"must be at least %g, examples × sensitivity / %d: less gives no privacy to speak of",
			least,
			maxRatio,
		)
	}
	if t := e.Truncation; t != nil {
		c.AtLeast("max batch size", t.MaxBatchSize, 1)
		c.AtLeast("other examples", t.Others, 0)
		c.Require(
			e.Examples == 1,
			"max examples per owner",
			e.Examples,
			"must be 1 with a maximum batch size: truncation for several examples per owner is not derived",
		)
	}
	return c.Err()
}

// maxRatio bounds the largest mean over the noise, and so losses to about maxRatio². Beyond it
// there is no privacy to speak of, and the grid would need more cells than memory has.
const maxRatio = 200

// LeastNoiseMultiplier returns the smallest noise multiplier that an event may have, for the
// largest sensitivity of a step and the number of the owner's examples.
func LeastNoiseMultiplier(sensitivity float64, examples int) float64 {
	return sensitivity * float64(examples) / maxRatio
}

// part is one alternative of a release: the adversary is told which alternative happened.
type part struct {
	probability float64
	pair        pair // dominates the true pair
}

// parts returns the release's dominating pair as a list of alternatives. rest is the probability of
// none of them, which counts as a total loss of privacy.
func (e Release) parts() (list []part, rest float64) {
	mu := e.Sensitivity / e.NoiseMultiplier
	whole := pair{num: multiples(e.Examples, e.Prob, mu), den: []component{{1, 0}}}
	if e.Truncation == nil {
		return []part{{1, whole}}, 0
	}
	below, groups, rest := e.Truncation.groups(e.Prob)
	if below > 0 {
		list = append(list, part{below, whole})
	}
	for _, g := range groups {
		a := e.Prob * float64(e.Truncation.MaxBatchSize) / float64(g.first+1)
		truncated := pair{num: []component{{1 - a, 0}, {a, 2 * mu}}, den: []component{{1 - a, 0}, {a, -mu}}}
		if a == 1 {
			truncated = pair{num: []component{{1, 2 * mu}}, den: []component{{1, -mu}}}
		}
		list = append(list, part{g.probability, truncated})
	}
	return list, rest
}

// multiples returns the mixture of means 0, mu, …, k·mu with binomial weights. Weights below 1e-30
// move to the next larger mean, which raises the divergence: components that never matter would cost
// time in every density.
func multiples(k int, p, mu float64) (cs []component) {
	carried := 0.0
	for j := range k + 1 {
		weight := binomial.Mass(k, p, j) + carried
		if carried = weight; weight >= 1e-30 || j == k && weight > 0 {
			cs, carried = append(cs, component{weight, float64(j) * mu}), 0
		}
	}
	return cs
}

func (e Release) resolution(tail float64) resolution {
	out := resolution{fine: math.Inf(1), adds: true}
	parts, _ := e.parts()
	for _, part := range parts {
		pq, qp := part.pair.resolution(tail), part.pair.mirrored().resolution(tail)
		out.fine = min(out.fine, pq.fine, qp.fine)
		out.least = max(out.least, pq.least, qp.least)
		out.variance += part.probability * max(pq.variance, qp.variance)
	}
	return out
}

// losses discretises every alternative, in both directions, and mixes them by their probabilities.
func (e Release) losses(grid, tail float64) (pq, qp atoms) {
	parts, rest := e.parts()
	pq.inf, qp.inf = rest, rest
	for _, part := range parts {
		pq = pq.plus(part.pair.discretize(grid, tail), part.probability)
		qp = qp.plus(part.pair.mirrored().discretize(grid, tail), part.probability)
	}
	return pq, qp
}
