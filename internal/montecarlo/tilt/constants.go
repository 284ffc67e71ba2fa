package tilt

// Tuned numbers, with the experiment or the reason behind each. Another value makes a table, a
// bound or a sample dearer or cheaper, and M larger or smaller; every bound holds with any.

// Sizes beyond which tables are not made.
const (
	// maxProducts bounds the multiplications of inner products and of the ages of pairs, about ten
	// seconds.
	maxProducts = 4e10

	// Limits of states times steps. A state takes some 5 ns at each step where the law is the same
	// at every step, and many steps are then spared; elsewhere it takes some 50
	// ns.
	leastWork     = 3e7 // that the least order always has
	maxLowWork    = 2e9 // of orders up to 3, which decide whether tilting helps at all
	maxAlikeWork  = 6e7 // of others, which gain a few per cent of σ, where the law is the same at every step
	maxOrderWork  = 3e7 // of others: with 6e7, and 256 MB, a certificate of epoch-min-sep took 48 CPU-s in place of 31
	maxOwnersWork = 6e6 // of several examples per owner, which have higher orders in blocks

	// beyondEstimate is how many times as many states as estimated a table may have. With more bands
	// than min-sep it may have any number: 40 bands and min-sep 8 have 8e6 states a step at order 2.
	beyondEstimate = 10

	// Limits of the multiplications of an order, about five seconds in clusters.
	maxClusterWork = 1e9
	maxBlockWork   = 1e8

	// Limits of the bytes that are held at one time. For four epochs of 1800 steps with min-sep 256,
	// orders up to 3 take 1.8 GB, and M of order 2 is a hundred times M of order 3.
	maxTableBytes = 140 << 20
	maxBlockBytes = 256 << 20 // in blocks
	maxPairBytes  = 1 << 30   // of order 2 of rotation
	maxLowBytes   = 2 << 30   // of orders up to 3

	maxOrder      = 12 // the highest θ of an exact table
	maxBlockOrder = 60 // the highest θ in blocks and clusters

	mostCodes = 3e5 // clusters of a size that are listed
)

// Blocks (F5.9).
const (
	// maxBlockParts bounds the blocks that hold the last min-sep - 1 steps.
	maxBlockParts = 12

	// blockShare converts a limit of work: it is the number of multiplications of a table in blocks
	// for each state of an exact table that the limit allows at a step.
	blockShare = 5

	// moveWork is the time to make a move over the time of a multiplication by it.
	moveWork = 50
)

// Classes and groups (F5.15, F5.5r).
const (
	// mostClassPlaces bounds the places of a class. The mean over fewer places is no smaller in the
	// convex order.
	mostClassPlaces = 400

	mostClassNorm = 100 // of ‖c_i‖²/σ² where classes are tried

	// smallClasses is the bound of H(Q,P) by classes below which no tangent is looked for: nobody
	// draws samples then, and the search takes seconds where steps are many.
	smallClasses = 1e-14

	mostGroups = 15 // of ages, or of first places
	fewGroups  = 5  // where a place may be both among the first and the last of a period, which makes a class of each pair
)

// Parts of a run (F5.14).
const (
	maxPartsOf = 4    // ε from which on the whole run serves
	smallFloor = 1e-4 // largest floor over M: a larger cut counts fewer pairs of parts twice

	// mostPerPair is the greatest ln N, for each pair of a tuple, at which f counts as near 1. One
	// epoch of 100,000 steps with 256 bands has 0.036 at (1, 1e-9); its M/δ is 460 in parts and 52,000
	// without.
	mostPerPair = 0.05
)

// partLengths are the lengths of parts that are tried, in bands.
var partLengths = [...]int{200, 100, 50, 25}

// Several examples per owner.
const (
	// Drawn ratios raise a mean of values in proportion to 1/R: by 1 to 3 % of the divergence at the
	// sizes in use (F4.8).
	ownerPaths = 768 // participations of one example that are drawn for one randomised f_k
	leastDraws = 32  // of k of them
)
