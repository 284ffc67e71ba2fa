package search

import "math"

// Tuned numbers, with the experiment or the reason behind each.

// How many samples say how much. Values are over M.
const (
	// Negligible is the part of δ below which a divergence that is proven is not looked at.
	Negligible = 1e-3

	Few = 256 // of a first look: they show leastCount values up to an M/δ of 16

	// As many equal values as these tell a standard error that is no matter of luck, and tell anything
	// at all; leastSeen is the sum of values that is needed besides. Plans of one to five examples per
	// owner took 138 CPU-s with them and 550 with five whole values of M, and TestFewValues holds the
	// errors to what is proven.
	leastCount, leastTold, leastSeen = 16, 6, 0.1

	near = math.Ln2 // how far below δ, in ln, a divergence may be for more samples to be drawn there

	// Far is a gap above which a σ is far too small, e times δ, about, and how far in ln σ a search
	// goes beyond the only end that is known.
	Far = 0.1

	mostByPace = 0.7 // of a tolerance: at it, half of the variance is the pace's, and another look is due
)

// Little is how many times as much noise is little more: a candidate with more is behind, a longer
// budget pays, and more of the data does not make up for it. Rows of plans differ by less where
// families are as good as each other.
const Little = 1.05

// Standard errors of ln σ: of an estimate that is given where a smaller error takes too many
// samples, and of one that is enough for a candidate that is clearly behind. With rough/Apart as
// the second, and √½ as mostByPace, plans leave out no candidate early (TestSeveralExamples of
// package planner).
const rough, behindError = Far, 0.03

// The search.
const (
	MaxLooks = 20  // a search that takes more does not converge
	Farthest = 0.3 // in ln σ between looks: beyond it a curve tells too little

	// Step is the least distance of looks in ln σ, as in arXiv 2602.09338, Algorithm 5.
	Step = 0.01

	// Where all the samples of a look show too little, those at a noise multiplier so much smaller may
	// show enough, since a divergence falls faster with σ than M does (TestRetreat); not where the
	// samples would show less than half of leastSeen of a divergence of δ. A search that begins where
	// there are no tables goes on at as much more noise.
	retreat, mostRetreats, mostRaised = 2 * Far, 2, 4

	// paceDrift is the standard deviation of how the pace differs between similar candidates.
	// b-min-sep, epoch-min-sep and balls-in-bins had paces of .97 to 1.22 at (.5, 1e-4), (2, 1e-6) and
	// (8, 1e-5).
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

	// Parts of the samples that a rough estimate may take: of a candidate, also in the other
	// direction, and of one that may be the first.
	RoughShare, refinedShare = 0.125, 4 * RoughShare

	// Balanced min-sep must show enough for a rough estimate in RoughShare of the samples or, with
	// several examples per owner, in ownersShare: a candidate that does not takes hours to verify.
	ownersShare = 2 * RoughShare
)

// Tables of an order.
const (
	// leastWork is the work of the coarsest tables, in states times steps of some 5 ns each, and
	// dearer how many times as much the next ones take: 3 to 500 ms. Tables pay where many samples are
	// drawn.
	leastWork, dearer = 5e5, 6

	// coarseError is the standard error of ln σ from which on an estimate is coarse.
	coarseError = Tolerance / 2

	worthTables = 0.5 // of M, that finer tables must leave to be taken

	// dearSamples of balanced min-sep, or of several examples per owner, take as long as the next
	// finer tables, and cheapSamples times as many of others.
	dearSamples, cheapSamples = 2048, 4

	// coarseDraws are draws of the likelihood ratio of an owner's examples where an estimate is
	// coarse: they raise σ by about .3 %.
	coarseDraws = 64
)
