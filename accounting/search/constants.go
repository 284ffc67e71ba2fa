package search

// Tuned numbers, with the experiment or the reason behind each. "Plans" are the first and the third
// of docs/background/planner.md, and one of 10,000 examples, 200 steps, batches of 128 and (2,
// 1e-5).

// How many samples say how much. Values are over M.
const (
	// Negligible is the share of δ below which a proven divergence gets no samples: it changes σ by
	// far less than the error of any estimate.
	Negligible = 1e-3

	// Few samples are drawn first. They show leastCount values up to an M/δ of some 28.
	Few = 256

	// Values tell something where they count as at least leastCount equal values, which are Apart
	// standard errors above 0, and where their sum is at least leastSeen. TestFewValues compares the
	// errors with proven divergences. Plans told 6 values from 16 before, and took as long.
	leastCount, leastSeen = Apart * Apart, 1. / leastCount

	// Far is the gap above which a σ is far too small: its divergence is about e times δ. It is also
	// the distance in ln σ by which a search goes beyond the only end that is known.
	Far = 0.1

	// luck raises the variance of few values. Samples are drawn until their values are enough, and the
	// error is known only by the spread of these values. By TestFewValues.
	luck = 4
)

// Little is the ratio of noise multipliers up to which one has little more noise. Above it a
// candidate is behind, a longer budget pays, and more of the data does not make up for the noise.
// Rows of plans differ by less where families are as good as each other.
const Little = 1.05

// Standard errors of ln σ.
const (
	// Tolerance is the standard error that an estimate is made to. Ties are estimated to half of it:
	// most candidates differ by more.
	Tolerance = 0.009

	// rough is enough where a smaller error takes too many samples. An error of rough still tells a σ
	// from one that is far too small.
	rough = Far

	// behindError is enough for a candidate that is clearly behind.
	behindError = rough / Apart
)

// The search.
const (
	// Farthest is the largest distance between looks, in ln σ: beyond it a curve tells too little,
	// since an unknown pace leaves an error of Far.
	Farthest = Apart * Far

	// Retreat is a step in ln σ. Where all the samples of a look show too little, samples one step
	// below may show enough, since a divergence falls faster with σ than M does (TestRetreat). A
	// search makes at most mostRetreats such steps, and none where the samples would show less than
	// leastSeen of a divergence of δ. A search that begins where there are no tables goes on at more
	// noise, also mostRetreats times at most.
	Retreat, mostRetreats = Farthest, 2

	// paceDrift is the standard deviation of the difference of paces between similar candidates.
	// Between any two it is Apart times as large. b-min-sep, epoch-min-sep and balls-in-bins had paces
	// of .97 to 1.22 at (.5, 1e-4), (2, 1e-6) and (8, 1e-5).
	paceDrift = 0.08

	// bend is the error of a gap g from δ beside the error of its samples, over g²: curves of schemes
	// are no curves of a Gaussian mechanism. By curves of all schemes that were known from both ends.
	bend = 0.25

	// leastShape is the shape of λ before any value is seen: as if each order of magnitude, of some
	// 30, were as likely.
	leastShape = 0.03
)

// Samples.
const (
	mostWork = 2e8 // samples times steps of an estimate: at .1 to .2 µs a step, half a minute

	// RoughShare is the share of these samples that a rough estimate may take.
	RoughShare = 0.125

	// FarShare is the share of the samples that a direction needs if its divergence is far below δ, as
	// H(Q,P) mostly is.
	FarShare = 1. / 15
)

// Tables of an order.
const (
	// leastWork is the work of the coarsest tables, in states times steps of some 5 ns each. dearer is
	// the work of the tables of a level over the work of the level before. Tables take 3 to 500 ms.
	// Tables pay where many samples are drawn.
	leastWork, dearer = 5e5, 6

	// DearSamples take as long as the next finer tables. Plans had 2048 for several
	// examples per owner, 8192 for others, and took as long.
	DearSamples = 16 * Few

	// coarseDraws are draws of the likelihood ratio of an owner's examples where an estimate is not of
	// ties: they raise σ by about .3 %.
	coarseDraws = 64
)
