// Package planner compares the mechanisms by which a training run can be made private, and
// ranks them by the error that they leave in the model. It is the engine of `minsep plan`.
//
// A [Request] names the examples, the steps, the batch size, the privacy budget, the workload
// and the limits of a trainer. [Request.Plan] makes candidates of every scheme and strategy
// family that has an analysis for it, finds the noise multiplier of each, and ranks them by
// their error.
//
// Candidates sample examples and, where each example has one owner, owners that bring one example
// each ([sampling.OwnerSampling]).
//
// # Proof and estimate
//
// Nothing here is a certificate. The noise multiplier of a candidate is either proven without
// samples (closed form, privacy loss distributions: [calibration.Noise.Proven]) or estimated by tilted
// sampling with a standard error, which is carried into every figure that depends on it. Two
// candidates are estimated further where such an error could change their order, and shown as
// tied where that does not separate them. The noise multiplier of a candidate with only H(P,Q)
// looked at ([calibration.Noise.OneDirection]) is at least the one that is shown: such a candidate can lose
// against another one by it, and never win.
//
// Results are functions of the request: samples are drawn with public keys that follow from
// Seed and from the samples' purpose.
package planner
