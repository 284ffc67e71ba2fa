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
	// Certificates take fine, beyond which the chance of their trials decides more.
	Tolerance, fine = 0.009, 0.003

	// Rough is the standard error of ln σ that is enough where a smaller one takes too many samples.
	Rough = 0.1

	// Farthest is the largest distance in ln σ between noise multipliers that are looked at: the
	// unknown slope leaves an error of Rough there.
	Farthest = Apart * Rough

	// slopeError is the standard deviation of the slope of a run that nothing is known of, and
	// similarError of the difference of slopes between similar runs. b-min-sep, epoch-min-sep and
	// balls-in-bins had slopes of .97 to 1.22 at (.5, 1e-4), (2, 1e-6) and (8, 1e-5).
	slopeError, similarError = 0.24, 0.08

	// bend is the error of a gap g on the scale, over g²: divergences are not quite straight there. By
	// the divergences of all schemes, known from both ends.
	bend = 0.25

	// Few samples are drawn first: they show enough values up to an M/δ of some 28.
	Few = 256

	// Negligible is the part of δ below which a proven divergence gets no samples.
	Negligible = 1e-3

	// mostWork is the largest number of samples times steps of an estimate in a plan, at .1 to .2 µs
	// each. RoughShare is the part of it that a look may take that shows enough for a rough estimate.
	mostWork, RoughShare = 2e8, 0.125

	// leastSteps is the number of steps with which shorter runs count in the estimate of a figure that
	// is only printed: 1e5 samples are enough for it.
	leastSteps = 2000

	// leastTables and mostTables limit the tables of a look, in states times steps of some 5 ns each.
	// In between, tables may take as long as the samples that they replace.
	leastTables, mostTables = 3e6, 2e9

	// fewest is the least number of samples of a look: fewer show nothing.
	fewest = 50

	// nearDelta is the part of δ that estimates look for: a verification accepts less than δ.
	nearDelta = 0.8

	// statesPerSecond and stepsPerSecond are about the states of tables and the steps of samples that a
	// processor computes. Estimates are limited by them, not by a clock.
	statesPerSecond, stepsPerSecond = 2e8, 2e7

	// estimateShare is the part of a budget that estimates may take, and tableShare the part that the
	// tables of one noise multiplier may take.
	estimateShare, tableShare = 0.4, 0.2

	// placeShare is the part of a budget in time after which a candidate that serves is good enough.
	placeShare = 0.6

	// mainErrors and fallbackErrors are the distances of the accepted mean above the expected one, in
	// standard errors of estimate and trial together: the main candidate is accepted nine times in
	// ten, and the fallback in all but one of a thousand cases.
	mainErrors, fallbackErrors = 1.3, 3.2

	// fallbackShare is the part of the samples that the fallback may take.
	fallbackShare = 1. / 6

	// samplesFor is the number of samples of a whole budget, in multiples of M/δ, that is advised if
	// nothing was seen: estimates at several noise multipliers, and a verification of ten times as many.
	samplesFor = 300

	// VerifySamples is the number of samples, in multiples of M/δ, for a claim that accepts up to 0.9 δ,
	// with estimates and both candidates; enoughSamples is that for up to 0.85 δ, and leastSamples that
	// of the smallest estimate.
	VerifySamples, enoughSamples, leastSamples = 9500, 4500, 10

	// FarShare is the part of the samples that a direction needs if its divergence is far below δ, as
	// H(Q,P) mostly is.
	FarShare = 1. / 15

	// coarseDraws are draws of the likelihood ratio of an owner's examples in plans: they raise σ by
	// about .3 %.
	coarseDraws = 64

	// The δ of an additional ε is expected to be accepted at the smallest candidate, by estimates of
	// additionalEstimate times M/δ samples, and accepted means additionalErrors standard errors above:
	// some 1.4 times the true one.
	additionalEstimate, additionalErrors = 400, 2

	// mostAccepted is the part of δ up to which the default budget accepts means, and that a proof
	// without samples may take beside trials: the rest is for failure probabilities.
	mostAccepted = 0.9
)

// Little is the ratio of noise multipliers up to which one has little more noise.
const Little = 1.05

// OwnersFactor is the time of a sample of an owner of k examples over k times that of one example.
const OwnersFactor = 2.7
