// Package search finds the noise multiplier at which a run is (ε, δ)-differentially private.
//
// All who ask for a noise multiplier before there is a certificate ask here: plans, dry runs,
// forecasts, comparisons with DP-SGD, and the certificates' own estimates. [Claim.Noise] is proven
// without samples where [Provable] says so, by closed forms or privacy loss distributions, and else
// estimated by tilted sampling, with a standard error. [Noise.Refine] asks for a smaller error, and
// [Claim.Both] looks at H(Q,P), which the first estimate leaves out.
//
// # The loop
//
// Plans, dry runs and certificates ask in one loop, [Walk]: a [Source] says how a divergence is
// looked at (tilted samples with tables, plain samples, bounds without samples), how well, and with
// which budget. The loop chooses the noise multipliers.
//
// # The model
//
// A divergence falls with σ as a Gaussian mechanism's does with a power of σ, the pace, which is
// near 1. A [Curve] is the distribution of such functions by what samples have shown
// at any noise multipliers, and says where the divergence is δ, how well that is known, and how
// large the divergence may be elsewhere.
//
// Nothing here is a certificate. Samples are drawn with public keys of a purpose of their own that
// follow from Seed, so that a result is a function of the claim.
//
// Stability: may change with every release.
package search
