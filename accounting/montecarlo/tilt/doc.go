// Package tilt estimates and bounds the hockey-stick divergences of b-min-sep batches with few samples: Rényi-tilted sampling.
//
// # What it is for
//
// A plain verifier of δ = 1e-8 draws y ~ P and takes v = max(1 - e^ε/f(y), 0) with f = P/Q: nearly all values are 0, and some 1e10 draws
// are needed. Here y is drawn with density f^θ/N_θ against Q, where N_θ = E_Q f^θ, so that
//
//	v = N_θ f^{1-θ} max(1 - e^ε/f, 0)   has mean exactly H(P,Q) and   0 ≤ v ≤ M_θ = N_θ e^{-aε} a^a/θ^θ,   a = θ-1.
//
// M_θ bounds H(P,Q) by itself: it is the Rényi bound of order θ. Often M_θ ≤ δ, and no sample is needed; else a few hundred
// times M_θ/δ samples are, by Chernoff's bound for values in [0, M] (F5.1′).
//
// # Why it is exact
//
// For integer θ the power f^θ is a sum over θ-tuples of participation patterns, of Gaussians with mean C(x_1+…+x_θ) (F5.2). N_θ is
// the sum of the tuples' weights; a backward recursion over the blocked steps of θ replicas gives it, and a forward walk through
// the same table draws tuples (F5.3). Both need C ≥ 0 with at most b bands.
//
// # Rounding
//
// Everything is float64. What that can change is bounded, and N_θ is raised by at least 1e-9 to cover it, so that a mean of values can
// only be too large. Labels F… are those of the design notes, 003 is the paper on b-min-sep subsampling. Steps are 0-based here
// and 1-based there.
package tilt
