// Package montecarlo draws privacy losses: ln P(y)/Q(y) of outputs y of a training run, with
// one owner's data (P) against without (Q), for every law of participation that has a table, and for
// Algorithm 3 of arXiv 2602.09338.
//
// # Guarantee
//
// The mechanism releases Cx + σz, z ~ N(0, I) over the steps, x(i) how many of one owner's examples
// participate at step i, in units of the clip norm: the dominating pair of zero-out adjacency (F3,
// F3.0a). For an example with P/Q = f the mechanism is (ε, δ)-private with δ = max(H(P,Q), H(Q,P)),
//
//	H(P,Q) = E_{y~P} max(1 - e^ε/f(y), 0),   H(Q,P) = E_{y~Q} max(1 - e^ε f(y), 0),
//
// and both are always needed. A mean of samples is an estimate: only the verifier of package
// accounting makes a certificate of it.
//
// Samples are numbered. Sample i of a (key, [Spec], [Direction]) is the same wherever and whenever
// it is computed, for one [KernelID].
//
// # Sources
//
// Labels (F3.2, …) refer to docs/formulas.md, which has the proofs; arXiv 2602.09338 is the
// paper on b-min-sep subsampling and Monte Carlo accounting. Steps are 0-based here and 1-based
// there.
package montecarlo
