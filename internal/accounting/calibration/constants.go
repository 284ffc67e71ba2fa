package calibration

import "time"

// DefaultCPUTime is the budget of one processor if none is given.
const DefaultCPUTime = time.Minute

// Tuned numbers, with the experiment or the reason behind each. They choose which noise multipliers
// are tried, and what a budget is spent on; no claim depends on them.
const (
	// Apart is the least number of standard errors between two figures at which their order is taken
	// as known.
	Apart = 3

	// Tolerance is the standard error of ln σ that plans are made to: most candidates differ by more.
	// Certificates take a third of it, beyond which the chance of their trials decides more.
	Tolerance = 0.009

	// Rough is the standard error of ln σ that is enough if a smaller one takes too many samples, and a
	// first step in ln σ.
	Rough = 0.1

	// slopeError is the standard deviation of the power of σ with which a divergence falls as a
	// Gaussian mechanism's does. b-min-sep, epoch-min-sep and balls-in-bins had powers of .97 to 1.22
	// at (.5, 1e-4), (2, 1e-6) and (8, 1e-5).
	slopeError = 0.12

	// bend is the error of a gap g on the scale, over g²: divergences are not quite straight there. By
	// the divergences of all schemes, known from both ends.
	bend = 0.25

	// Few samples are drawn first: they show enough values up to an M/δ of some 28.
	Few = 256

	// Negligible is the part of δ below which a proven divergence gets no samples.
	Negligible = 1e-3

	// planWork is the largest number of samples times steps of an estimate in a plan, and of states
	// times steps of its tables: a plan of 60 epochs has some sixty candidates.
	planWork = 3e7

	// leastTables is the work of the first tables of an estimate, in states times steps.
	leastTables = 3e6

	// stepsPerSecond are about the steps of samples that a processor computes. Estimates are limited by
	// them, not by a clock.
	stepsPerSecond = 1e8

	// estimateShare is the part of a budget that estimates may take.
	estimateShare = 0.4

	// mainErrors is the distance of the accepted mean above the expected one, in standard errors of
	// estimate and trial together: the main candidate is accepted nine times in ten. That of the
	// fallback is Apart: it is rejected once in a thousand cases. Where the budget allows it, that of
	// the main candidate is up to mainMost, at which it is accepted 39 times in 40.
	mainErrors, mainMost = 1.3, 2

	// smallShare is the part of the samples that the fallback may take, and the part of planWork that
	// is enough once something is seen.
	smallShare = 1. / 6

	// mostAccepted is the part of δ up to which the default budget accepts means, and that a proof
	// without samples may take beside trials: the rest is for failure probabilities.
	mostAccepted = 0.9

	// spared is the part of a budget that trials leave, as samples take longer on a busier machine, and
	// the part of δ that estimates leave, as a verification accepts less than δ.
	spared = 0.2
)

// Numbers that follow from others.
const (
	// Farthest is the largest distance in ln σ between noise multipliers that are looked at.
	Farthest = Apart * Rough

	// fine is the standard error of ln σ of certificates, and leastStep the distance of two estimates.
	fine, leastStep = Tolerance / 3, Tolerance / 2

	// statesPerSecond are the states of tables times steps that a processor computes, and tableShare is
	// the part of a budget that the tables of one noise multiplier may take.
	statesPerSecond, tableShare = 2 * stepsPerSecond, estimateShare / 2

	// fewest is the least number of samples of an estimate, and the draws of the likelihood ratio of an
	// owner's examples in plans, which raise σ by about .3 %.
	fewest = Few / 4

	// seenEnough is the number of values of M of an estimate of δ that is not searched for: a standard
	// error of a twentieth.
	seenEnough = 400
)

// Limits and figures of forecasts, which no noise multiplier depends on.
const (
	// undrawn stands for the largest value of samples that cannot be drawn: far above 1, and near enough
	// that a line to the next one that is known leads to about the middle.
	undrawn = 100

	// mostTables limits the memory of tables, by states times steps.
	mostTables = 2e9

	// ample is the number of samples, in multiples of M/δ, of a verification that accepts up to 0.9 δ,
	// with estimates and both candidates; advised that of a budget that is enough.
	ample, advised = 9500, 300

	// maxBudget is the largest number of samples of a verification.
	maxBudget = 1e15
)

// Little is the ratio of noise multipliers up to which one has little more noise.
const Little = 1.05
