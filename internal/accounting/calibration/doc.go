// Package calibration finds the noise multiplier of a training run, and verifies it.
//
// All who ask for a noise multiplier ask here: plans, dry runs, comparisons with DP-SGD and
// certificates. An estimate is [Claim.Noise]; a certificate begins with [Problem.Plan].
//
// # From a claim to a certificate
//
//  1. A run that independent events compose is proven without samples: in closed form or by privacy
//     loss distributions. All others go on.
//  2. Tilted samples (package tilt) estimate ln δ at a few noise multipliers, from a little below that
//     of cyclic Poisson sampling, which is proven; a line is fitted to them. Tables are as fine as
//     the samples that they save are long.
//  3. A protocol is fixed with one noise multiplier that is likely to be accepted, and one fallback
//     with more noise; with one that is safe if the budget has no time for the tables of two. Either
//     may be proven without samples, by the moments of the same tables (F5.2) or by the Gaussian
//     mechanism of the largest participation (F5.16). The protocol is written before its first sample
//     exists.
//  4. [NewWorker] computes the samples of the protocol's trials. Each is a function of the protocol,
//     the trial and its number alone, so that anybody can draw it again. [Release] goes through the
//     candidates; only the release rule of package accounting makes a certificate.
//
// Estimates choose, nothing else: their keys have another purpose than those of the verification,
// and no claim depends on them.
//
// # The fitted line
//
// A divergence falls with σ nearly as a Gaussian mechanism's falls with a power of σ near 1, the
// slope. On the scale of a Gaussian mechanism at the same ε and δ its logarithm is a straight line
// of ln σ.
package calibration
