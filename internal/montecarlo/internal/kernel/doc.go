// Package kernel computes losses of eight samples at a time: normals, outputs, correlation with the
// columns of C, and the recursions of package likelihood, in one walk backward in time over blocks
// that stay in the cache.
//
// A [Row] is one step of eight samples. Lanes 0–3 and 4–7 of a row are also the real and imaginary
// parts of four complex numbers, so that one transform serves eight samples without moving a number
// between lanes.
//
// # Exactness
//
// Losses agree with the log-domain recursions of package likelihood at the same outputs to
// 1e-12 of their size. Where ratios could leave the range of 64-bit floats between two looks,
// or the correlations of a batch the range of the exponential, the batch is computed with the
// log-domain recursions instead: never a silent overflow.
//
// The normals have 52 bits of radius: their tail ends at 8.49 standard deviations, which changes
// the distribution of 10,000 of them by 2e-12 in total variation. Fewer bits would change it by
// more than a δ of 1e-8.
//
// # Bits
//
// A batch is a function of (columns, noise multiplier, recursions, hits, key, number) for one [ID]:
// the order of batches does not matter, nor whether the processor has vector instructions. The
// inner loops fuse a product and a sum only where they say so (math.FMA), in portable Go and in the
// assembly alike, and each lane does its operations in one order. Where a processor has no fused
// operations at all, the bits are the same and the kernel is slow.
package kernel
