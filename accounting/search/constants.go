package search

import "math"

// Tuned numbers, with the experiment or the reason behind each.

// How many samples say how much. Values are over M.
const (
	Few = 256 // of a first look: fewer take no less time than the tables

	// As many equal values as these tell a standard error that is no matter of luck, and tell
	// anything at all; leastSeen is the sum of values that is needed besides. Plans of one to five
	// examples per owner took 138 CPU-s with them and 550 with five whole values of M, and TestFewValues
	// holds the errors to what is proven.
	leastCount, leastTold, leastSeen = 16, 6, 0.1

	leastSum = 5        // a sum of values that is 0 by chance less than once in a hundred times
	near     = math.Ln2 // how far below δ, in ln, a divergence may be for more samples to be drawn there

	// Of as many values of M as surelySeen none is seen once in a thousand times; littleSeen is next to
	// none.
	surelySeen, littleSeen = 7, 0.3

	far = 0.1 // a gap above which a σ is far too small: e times δ, about

	mostByPace = 0.7 // of a tolerance: at it, half of the variance is the pace's, and another look is due

	// How many times the samples of a look may grow at once, at least and at most, and how much more
	// than is expected to be needed: estimates of errors are rough.
	leastGrowth, mostGrowth, growMargin = 1.1, 16, 1.05
)

// Standard errors of ln σ: of an estimate that is given where a smaller error takes too many
// samples, and of one that is enough for a candidate that is clearly behind.
const rough, behindError = 0.1, 0.03

// The search.
const (
	maxLooks = 20  // a search that takes more does not converge
	farthest = 0.3 // in ln σ between looks: beyond it the curve tells too little
	beyond   = 0.1 // likewise from the only end that is known

	// Where all the samples of a look show too little, those at a noise multiplier so much smaller may
	// show enough, since a divergence falls faster with σ than M does (TestRetreat); not where the
	// samples would show so little of a divergence of δ, as a sum of values over M. A search that
	// begins where there are no tables goes on at as much more noise.
	retreat, mostRetreats, mostRaised = 0.18, 2, 2
	leastHope                         = 0.05

	// paceDrift is the standard deviation of how the pace differs between similar candidates. Over
	// schemes, (ε, δ) and steps paces are 1 to 1.15.
	paceDrift = 0.08
)

// Samples.
const (
	mostWork = 2e8 // samples times steps of an estimate: at .1 to .2 µs a step, half a minute

	// wideBands is from how many bands on a sample takes as many times as long as there are more: the
	// noisy outputs are correlated with every column.
	wideBands = 32

	// OwnersFactor is how many times as long, over the number of examples, a sample of several
	// examples per owner takes as one of one example: the ratio is drawn for each of them.
	OwnersFactor = 2.7

	// Parts of the samples that a rough estimate may take: of a candidate, and of one that may be
	// the first.
	roughShare, refinedShare = 0.125, 0.5

	// Parts of the samples in which balanced min-sep must show enough for a rough estimate,
	// with one example per owner and with several: a candidate that does not takes hours to
	// verify.
	balancedShare, ownersShare = 0.1, 0.3
)

// Tables of an order.
const (
	// Work, in states times steps of some 5 ns each, where owners have several examples, where an
	// estimate is coarse and where it is fine: tables take 3 to 500 ms and pay where more samples than
	// dearSamples would be drawn without.
	ownersWork, coarseWork, fineWork, finestWork = 5e5, 3e6, 2e7, 1e8
	coarseError                                  = 0.005

	worthTables = 0.5 // of M, that finer tables must leave to be taken

	// Samples of balanced min-sep, or of several examples per owner, that take as long as the next
	// finer table; four times as many of others, and dearer times as many for each finer one: as much
	// as the works rise.
	dearSamples, dearer = 2048, 6

	// coarseDraws are draws of the likelihood ratio of an owner's examples where an estimate is coarse:
	// they raise σ by about .3 %.
	coarseDraws = 64
)
