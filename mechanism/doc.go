// Package mechanism holds the strategies that correlate noise across training steps: [Params.Make]
// makes one of a family, and [FromRows] one of your own. [Strategy.Error] and [Strategy.Sensitivity]
// are its figures.
//
// A mechanism releases G + ζ σ C⁻¹ Z: the clipped gradient sums G [steps, coordinates] with noise
// that is correlated by the inverse of the strategy matrix C, Z iid N(0,1), ζ the clip norm and σ
// the noise multiplier. Its privacy is the privacy of C G + ζ σ Z, so it follows from C, from σ and
// from the participations alone; package privacy does that. This package never adds noise and
// never reads data: everything in it is public.
//
// C is not normalised implicitly: σ is the standard deviation of Z in units of the clip norm,
// whatever the norms of C's columns are. Steps are 0-based here and 1-based in the papers.
//
// A family of strategies is one file of this package. The file has the constructors, and registers
// the family: its kind, a line of help, its unit of size, its free parameter and its construction
// (see [Family], and lambdacgd.go for a short one). A new family also needs a row in
// docs/strategies.md, and a field of [Params] if its parameter has a name that no other family
// uses. Commands, plans and tests find it by [Families].
//
// Labels of formulas (F0, F2, …) refer to docs/formulas.md. Papers are cited by arXiv number:
//
//   - 2405.15913: Scaling up the Banded Matrix Factorization Mechanism for Differentially Private
//     ML
//   - 2211.06530: Multi-Epoch Matrix Factorization Mechanisms for Private Machine Learning
//   - 2605.18379: Beyond Square Roots: Explicit Memory-Efficient Factorization for Multi-Epoch
//     Private Learning
//   - 2602.09338: Privacy Amplification for BandMF via b-Min-Sep Subsampling
//   - 2601.22334: DP-λCGD: Efficient Noise Correlation for Differentially Private Model Training
//
// A strategy is the best for a [Workload]: prefix sums, by which papers compare, or the
// recursion by which the optimizer of a [Training] carries the noise of each step until the
// model has forgotten it.
//
// Stability: stable.
package mechanism
