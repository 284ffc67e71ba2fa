// Package tilt estimates and bounds the hockey-stick divergences of batches of any law with few
// samples: Rényi-tilted sampling.
//
// # Purpose
//
// A plain verifier of δ = 1e-8 draws y ~ P and takes v = max(1 - e^ε/f(y), 0) with f = P/Q: nearly
// all values are 0, and some 1e10 draws are needed. Here y is drawn with density f^θ/N_θ against Q,
// where N_θ = E_Q f^θ, so that
//
//	v = N_θ f^{1-θ} max(1 - e^ε/f, 0)   has mean exactly H(P,Q) and   0 ≤ v ≤ M_θ = N_θ e^{-aε} a^a/θ^θ,   a = θ-1.
//
// M_θ bounds H(P,Q) by itself: it is the Rényi bound of order θ. Often M_θ ≤ δ, and no sample is
// needed. Otherwise a few hundred times M_θ/δ samples are needed, by Chernoff's bound for values in
// [0, M] (F5.1′).
//
// # Why it is exact
//
// For integer θ the power f^θ is a sum over θ-tuples of participation patterns, of Gaussians with
// mean C(x_1+…+x_θ) (F5.2). N_θ is the sum of the tuples' weights; a backward recursion over the
// states of θ copies gives it, and a forward walk through the same table draws tuples (F5.3;
// package tuples). Both need C ≥ 0. If an example takes part at most once, clusters
// bound any order (F5.13).
//
// H(Q,P) is 0 where Pr[no participation] ≥ e^-ε. Elsewhere ln f is convex, and its tangents bound
// it from below. No y is drawn where a tangent shows that the value is 0, and M is the bound that
// the tangent proves (F5.4). M/δ of H(Q,P) is often a hundred times M/δ of H(P,Q), although H(Q,P)
// itself is far below δ. A verification does well to accept smaller means in this direction.
//
// # Use
//
// [NewProposal] chooses the proposal; a [Proposal] is public, goes through JSON, and is fixed
// before the first sample. [NewVerifier] makes the tables of a proposal, in any process;
// [Verifier.Values] and [Verifier.Sum] compute any range of samples, with the same result every
// time.
//
// # Limits
//
// At min-sep b an order θ has C(b+θ-2, θ-1) states at a step, or one more label under
// epoch-min-sep, and its table may take 140 MB, or 2 GiB for orders up to 3. If the law is the same
// at every step, one slice stands for many. So orders go up to 3 at min-sep 256, up to 5 at 32, and
// up to 7 at 16 steps. As M_θ ≥ e^{-aε} a^a/θ^θ, a small ε needs high orders, and exact tables may
// end below the order with the least M. Higher orders then have an upper bound in blocks of steps,
// from which tuples are drawn with weights of at most 1 (F5.9). Rotation has order 2, and a bound of
// the moment of order 3 (F5.5r). Algorithm 3 (F4.1) is not covered, and refused with ErrNotTilted, as
// is a law whose tables are too large.
//
// # At most once
//
// Where ε and δ are small, f is near 1, and no available order singles out the outputs that matter.
// The run of a Toeplitz strategy is then divided into parts (F5.14). One part is sampled, and
// moments and classes of steps that are as far apart as the number of bands (F5.15) bound the
// contribution of the others. Classes bound H(Q,P) too, which then mostly takes no
// samples.
//
// # Several examples per owner
//
// Orders above k are in blocks of steps, for every number k of examples. Where the likelihood ratio of
// k examples has no cheap recursion, it is drawn from posterior paths of one example (F4.8), in values
// that are linear in (f - γ)_+ or (1 - γf)_+ only.
//
// # Rounding
//
// Everything is float64. The effect of rounding is bounded: N_θ is raised by at least 1e-9, and
// every value by Proposal.Slack of M, so that a mean of values can only be too large. Labels
// (F5.2, …) are labels of docs/formulas.md, which has the proofs. Steps are 0-based here and
// 1-based there.
package tilt
