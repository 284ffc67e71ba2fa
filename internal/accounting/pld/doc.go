// Package pld accounts for compositions of independent events by privacy loss distributions:
// Gaussian and Poisson-subsampled Gaussian releases, owners of several examples, truncated batches,
// cyclic Poisson sampling for banded strategies, random allocation, and mechanisms of which only
// points (ε, δ) are known.
//
// Every figure is a proven upper bound. The true privacy loss is put on a grid so that the result
// dominates it (connect the dots), and is composed by the Fourier transform under an exponential tilt
// that centres the loss of interest, so that the error of the arithmetic is relative to δ and not
// absolute. The mass outside the transform's window, the cut tails and a bound on all rounding are
// added. Both directions of the divergence are always computed (F3.5 and F6 of docs/formulas.md).
package pld
