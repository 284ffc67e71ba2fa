package calibration

import "time"

// DefaultCPUTime is the budget of one processor where none is given.
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
	fine      = Tolerance / 3

	// Rough is the standard error of ln σ that is enough if a smaller one takes too many samples, and a
	// first step in ln σ.
	Rough = 0.1

	// Farthest is the largest distance in ln σ between noise multipliers that are looked at: the
	// unknown slope leaves an error of Rough there.
	Farthest = Apart * Rough

	// slopeError is the standard deviation of the slope of a run that nothing is known of; between
	// similar runs it is a third. b-min-sep, epoch-min-sep and balls-in-bins had slopes of .97 to 1.22
	// at (.5, 1e-4), (2, 1e-6) and (8, 1e-5).
	slopeError   = 0.24
	similarError = slopeError / 3

	// bend is the error of a gap g on the scale, over g²: divergences are not quite straight there. By
	// the divergences of all schemes, known from both ends.
	bend = 0.25

	// Few samples are drawn first: they show enough values up to an M/δ of some 28.
	Few = 256

	// Negligible is the part of δ below which a proven divergence gets no samples.
	Negligible = 1e-3

	// mostWork is the largest number of samples times steps of an estimate in a plan, and roughShare the
	// part of it that is enough once something is seen: a plan of 60 epochs has some sixty candidates.
	mostWork, roughShare = 3e7, 1. / 6

	// leastTables, planTables and mostTables limit tables, in states times steps: of the first estimates, of
	// those in plans, and of all. In between, tables may take as long as the samples that they replace.
	leastTables, planTables, mostTables = 3e6, 3e7, 2e9

	// stepsPerSecond are about the steps of samples that a processor computes, and statesPerSecond the
	// states of tables. Estimates are limited by them, not by a clock.
	stepsPerSecond  = 1e8
	statesPerSecond = 2 * stepsPerSecond

	// estimateShare is the part of a budget that estimates may take, and tableShare the part that the
	// tables of one noise multiplier may take.
	estimateShare, tableShare = 0.4, 0.2

	// mainErrors and fallbackErrors are the distances of the accepted mean above the expected one, in
	// standard errors of estimate and trial together: the main candidate is accepted nine times in
	// ten, and the fallback in all but one of a thousand cases.
	mainErrors, fallbackErrors = 1.3, 3.2

	// fallbackShare is the part of the samples that the fallback may take.
	fallbackShare = 1. / 6

	// mostAccepted is the part of δ up to which the default budget accepts means, and that a proof
	// without samples may take beside trials: the rest is for failure probabilities.
	mostAccepted = 0.9

	// VerifySamples is the number of samples, in multiples of M/δ, for a claim that accepts up to 0.9 δ,
	// with estimates and both candidates.
	VerifySamples = 9500

	// additionalEstimate is the number of samples, in multiples of M/δ, of the estimate for an
	// additional ε, and additionalErrors how far its accepted mean is above it: some 1.4 times the true
	// one.
	additionalEstimate, additionalErrors = 400, 2
)

// Numbers that follow from others, or that no noise multiplier depends on.
const (
	// nearDelta is the part of δ that estimates look for: a verification accepts less than δ.
	nearDelta = 0.8

	// fewest is the least number of samples of an estimate: fewer show nothing.
	fewest = 50

	// placeShare is the part of a budget in time after which estimates end, and a candidate that serves
	// is good enough;
	// unspared the part of what is left that trials may take, as samples take longer on a busier
	// machine; leastLeft the part of the whole that they always have.
	placeShare, unspared, leastLeft = 0.6, 0.8, 0.1

	// samplesFor is the number of samples of a whole budget, in multiples of M/δ, that is advised if
	// nothing was seen, and leastSamples that of the smallest estimate.
	samplesFor, leastSamples = 300, 10

	// coarseDraws are draws of the likelihood ratio of an owner's examples in plans: they raise σ by
	// about .3 %.
	coarseDraws = 64

	// leastSteps is the number of steps with which shorter runs count in the estimate of a figure that
	// is only printed.
	leastSteps = 2000

	// ownersFactor is the time of a sample of an owner of k examples over k times that of one example.
	ownersFactor = 2.7
)

// Little is the ratio of noise multipliers up to which one has little more noise.
const Little = 1.05
