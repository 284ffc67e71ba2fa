package verification

import "minsep/accounting/search"

// Tuned numbers, with the experiment or the reason behind each. They choose which noise multipliers
// are tried, and what the budget is spent on; no claim depends on them.

// Estimates.
const (
	// tolerance is the standard error of ln σ at which the samples of an estimate are enough: below it
	// the chance of the trials decides more.
	tolerance = 0.002

	// enough is the standard error of ln δ, near the target, at which estimates end: about 0.5 % of
	// the noise multiplier. The chance of the trials is as large.
	enough = search.Far

	// estimateParts is a number of equal parts of the budget that is left: an estimate takes at most
	// one of them.
	estimateParts = 4

	// leastSamples is the least number of samples of an estimate where the budget has them, since
	// tables take as long as some thousands. It is the largest number for the second direction where
	// the first one says that the noise is too little. A trial with this number takes next to no time.
	leastSamples = search.DearSamples

	fewest = 50 // samples of an estimate, where the budget allows no more

	// nearDelta is the part of δ near which estimates are made: a verification accepts less than δ.
	nearDelta = 0.75

	// fitReach is the largest distance in ln δ from the nearest estimate to the target at which a
	// search may end because the budget of the estimates is used up: beyond it the pace is not known
	// well enough.
	fitReach = search.Apart

	// affordable is the part of the budget left that an estimate or a verification may take where
	// its cost follows from an interpolated M, which is known to some tenths only.
	affordable = 0.7
)

// leastEffort is the least number of samples of an estimate, in multiples of M/δ.
const leastEffort = 10

// leastEfforts has this number for each direction: fewer for the second one, which often has by far
// the larger M and decides little.
var leastEfforts = [...]float64{leastEffort, search.Apart}

// Parts of a budget.
const (
	planShare  = 1.0 / 3           // that estimates may take
	mostShare  = 0.55              // that they may take until one of them is near δ
	proofShare = search.RoughShare // of the search for a smaller noise multiplier that needs no samples

	// givenShare is the part of the budget that estimates may take where the noise multiplier is
	// given: far less than where it is looked for.
	givenShare = proofShare

	// planned is the part of the budget that candidates are chosen for: their cost is known only
	// when their tables are made.
	planned = 0.93

	// advisedEstimates is the advised size of a whole budget, in multiples of the fewest samples of
	// one estimate. It covers several noise multipliers in two directions, out of the share of the
	// estimates, and a verification of some ten times as many samples.
	advisedEstimates = search.Apart * leastEffort
)

// proofRatio is the ratio to which the search finds the smallest noise multiplier that needs no
// samples, where there are samples for others: the candidates that samples decide are far below
// that one. With 1.05 certificates of two directions have .3 % more noise (TestCandidatesAreRobust,
// SIMULATE=24).
const proofRatio = 1.03

// Candidates. Whether one is accepted is chance: the main one should be most times, the spare one
// whenever the main one is not, and the safe one where even the estimates were far too low.
// Candidates cost samples, not failure probability, so that there are few.
const (
	// Standard errors of estimates, and of trials, below the accepted mean. TestCandidatesAreRobust
	// holds how much noise they cost, and how often none is accepted.
	mainErrors  = 0.8 // accepted about six times out of seven
	spareErrors = 2.5 // whenever the main one is not
	safeErrors  = 4   // without it 2 of 40 certificates of a busy minute have no sampled candidate

	safeChance = 1. / 50 // that the safe one is released

	// leastApart is the least ratio of the noise of a candidate to the noise of the one before: a
	// smaller difference is below the errors of both estimates.
	leastApart = (1 + tolerance) * (1 + tolerance)

	noneCosts = 2 // where no candidate is accepted, this multiple of the noise counts

	// mostAccepted is the share of δ up to which the default budget raises δ', since samples buy
	// little beyond it. The bound of the provable candidate may take this share too: δ_v is above it
	// in all but the smallest budgets.
	mostAccepted = 0.9

	// cheap is the part of δ that truncation may cost without a look at its own pair: σ falls by far
	// less.
	cheap = search.Little - 1
)

// shares are the shares that the spare candidate may have of the budget that the safe one leaves.
// The safe candidate has the first of them.
var shares = []float64{1. / 12, 1. / 6, 1. / 3}

// The δ of a further point is the δ expected to be accepted at the smallest candidate, by an
// estimate of alsoEstimate times M/δ samples and trials of alsoVerify times M/δ: some 1.4 times
// the true one.
const (
	alsoEstimate = 400
	alsoVerify   = estimateParts * alsoEstimate // as of budgets
	alsoErrors   = 2                            // standard errors of the estimate, and of the trial, that the accepted mean lies above
)

// Samples are timed.
const (
	leastTimed = 0.05       // seconds of processors that they take at least
	fewTimed   = search.Few // of them at least
)
