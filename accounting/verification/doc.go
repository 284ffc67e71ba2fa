// Package verification turns a claim about a training run into a protocol, and computes the
// units of its verification, on one machine and without Beam. The pipelines do the same with
// many workers.
//
// # Estimates and proofs
//
// [Problem.Plan] estimates the noise multiplier that a run needs and fixes candidates and
// thresholds around it (F5). Its samples choose, nothing else, and their keys have another
// purpose than the keys of the verification. [NewWorker] computes ranges of a trial's samples;
// each is a function of the protocol, the trial and its number alone, wherever it is computed,
// so that anybody can draw it again. Only the release rule of package accounting, on complete
// trials, makes a certificate.
//
// # How values are drawn
//
// Tilted, or by a tangent (package tilt), where there is a proposal with M < 1, else as plain
// losses with M = 1. Runs without amplification and runs of independent events need no samples:
// their protocol holds proven bounds. Others have a proof without amplification (F5.16) beside the
// bounds of the proposals, and the smaller one counts.
//
// Stability: may change with every release.
package verification
