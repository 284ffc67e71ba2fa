// Package pld accounts for compositions of independent events by privacy loss distributions:
// Gaussian and Poisson-subsampled Gaussian releases, owners of several examples, truncated batches,
// and cyclic Poisson sampling for banded strategies.
//
// Every figure is a bracket of two proven bounds. The true privacy loss is put on a grid once
// so that it dominates (connect the dots) and once so that it is dominated (merged outcomes);
// both are composed by the Fourier transform under an exponential tilt that centres the loss of
// interest, so that the error of the arithmetic is relative to δ and not absolute; and the mass
// outside the transform's window, the cut tails and a bound on all rounding are added to the
// upper figure and taken from the lower one. Both directions of the divergence are always
// computed (F3.5 and F6 of docs/formulas.md).
package pld
