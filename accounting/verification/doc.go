// Package verification fixes protocols for runs and computes their units, on one machine and without Beam: what
// the pipelines do with many workers.
//
// [Design] finds a noise multiplier that is proven without samples, estimates how much less would do, and writes both and a few between
// into a protocol (F5). [NewWorker] computes ranges of a trial's samples; each is a function of the protocol, the trial and its number
// alone, wherever it is computed. Estimates use a key of their own, so that a verifier's samples are fresh.
package verification
