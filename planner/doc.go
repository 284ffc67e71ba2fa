// Package planner compares the mechanisms by which a training run can be made private, and ranks
// them by the error that they leave in the model: what `minsep plan` does.
//
// A [Request] says what is given: examples, steps, the batch size, the privacy budget, the workload
// and what a trainer can hold. [Request.Plan] makes candidates of every scheme and strategy family
// that has an analysis for it, finds the noise multiplier of each, and ranks them by their error.
//
// Candidates sample examples and, where each example has one owner, owners that bring one example
// each ([sampling.OwnerSampling]). balanced-min-sep is tried for owners of at most two examples.
//
// # What is proven and what is estimated
//
// Nothing here is a certificate. The noise multiplier of a candidate is either proven without
// samples (closed form, privacy loss distributions: [Noise.Proven]) or estimated by tilted sampling
// with a standard error, which is carried into every figure that depends on it. Two candidates
// whose order such an error could change are estimated further, and shown as tied where that does
// not separate them. That of a candidate of which only H(P,Q) was looked at ([Noise.OneDirection])
// is at least what is said: it can lose against another one by that, and never win.
//
// Results are functions of the request: samples are drawn with public keys that follow from Seed
// and from what they are for.
//
// Stability: may change with every release.
package planner
