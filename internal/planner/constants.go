package planner

// Tuned numbers, with the experiment or the reason behind each. Those of search count here too.
const (
	// sameData is from how many times as many examples on a row uses more of the data.
	sameData = 1.01

	// mostPools is how many pools a plan makes at most, each as long as a pass over the examples:
	// where there are more periods, the pools come in turn.
	mostPools = 64

	// mostTied is how many candidates that are tied with the first are estimated further. Plans that
	// looked at eight in the other direction had the same first.
	mostTied = 4

	// roomy is the part of an epoch up to which min-seps are tried: one of an epoch leaves nothing to
	// chance but the place in it. With .95 a plan of 1000 steps took 1.3 times as long.
	roomy = 0.9

	// fewBands are the bands with which a climb of families begins that need few, and half of the most
	// of families whose noise draws as many normals a value. With all bands a plan of 1000 steps took
	// 39 CPU-s in place of 20.
	fewBands = 16

	// dearBands is how many bands a candidate has at most that is estimated: each sample takes as
	// long as steps times bands, and many more samples are needed the fewer participations there
	// are. A dense strategy has a band for each step.
	dearBands = 512

	// mostProducts is how many entries C may have of a candidate that is estimated, within its bands:
	// inverse families have a band for each step, and took 10 CPU-s each at 2930 steps.
	mostProducts = 4e6

	// dear is from how many seconds of a processor on the making of a strategy is left out: a plan has
	// some dozens of candidates, and is to take a quarter of a minute.
	dear = 20

	// mostTables is how many steps times min-sep tables for a forecast may have: those of more take
	// too long.
	mostTables = 3e5
)
