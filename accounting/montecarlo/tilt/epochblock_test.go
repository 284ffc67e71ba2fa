package tilt

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"minsep/accounting/montecarlo/internal/likelihood"
	"minsep/internal/stattest"
)

// epochBlockCase is an epochCase in blocks of a size.
type epochBlockCase struct {
	epochCase
	size int
}

func (c epochBlockCase) blocks(keep bool) (*epochBlocks, error) {
	e := likelihood.Epochs{Steps: c.c.Steps, MinSep: c.sep, Epoch: c.epoch}
	return newEpochBlocks(e, c.theta, c.size, likelihood.NewColumns(c.c), 1/(c.sigma*c.sigma), keep, math.Inf(1))
}

// randomEpochBlockCase draws small problems around where blocks, min-sep, epochs and the run meet,
// dense ones among them.
func randomEpochBlockCase(rng *rand.Rand) (c epochBlockCase) {
	b := []int{1, 2, 2, 3, 4, 4, 5, 6}[rng.IntN(8)]
	c.size = 1 + rng.IntN(b)
	n := min(9, []int{1, c.size, b + 1, 2*b + 1, 3 * b, 1 + rng.IntN(9)}[rng.IntN(6)])
	c.sep, c.sigma, c.theta = b, .3+rng.Float64(), []int{1, 2, 2, 3, 3, 3, 4}[rng.IntN(7)]
	c.epoch = b + []int{0, 1, rng.IntN(4), max(0, n-b), n}[rng.IntN(5)]
	w := 1 + rng.IntN(min(b, n))
	c.c = varying(n, w)
	switch rng.IntN(3) {
	case 0:
		c.c = toeplitz(n, []float64{1, .7, .5, .4, .35, .3}[:w]...)
	case 1:
		c.c = toeplitz(n, []float64{1, 1, 1, 1, 1, 1}[:w]...)
	}
	return c
}

// heldEpochs checks V̂ against F3.8 and F5.5 in everything that can happen, by definitions of its
// own. Copies are told by the step of their last participation, of a virtual one below 0.
type heldEpochs struct {
	t     *epochBlocks
	c     epochBlockCase
	gram  [][]float64 // inner products of columns over σ²
	seen  map[string]bool
	worst float64 // largest ln of what the recursion makes of V̂ over V̂
}

const never = -1 << 20

func holdEpochs(c epochBlockCase, t *epochBlocks) float64 {
	h := &heldEpochs{t: t, c: c, seen: map[string]bool{}, worst: math.Inf(-1)}
	for i := range c.c.Steps {
		h.gram = append(h.gram, nil)
		for j := range c.c.Steps {
			h.gram[i] = append(h.gram[i], dot(image(c.c, []int{i}), image(c.c, []int{j}))/(c.sigma*c.sigma))
		}
	}
	copies := make([]int, c.theta)
	var start func(at, from int)
	start = func(at, from int) {
		if at == c.theta {
			past := slices.DeleteFunc(slices.Clone(copies), func(x int) bool { return x == never })
			h.check(0, slices.Clone(copies), past)
			return
		}
		for age := from; age < c.sep; age++ {
			if copies[at] = -age; age == 0 {
				copies[at] = never
			}
			start(at+1, age)
		}
	}
	start(0, 0)
	return h.worst
}

// bound returns ln V̂ before a step of a block, by the steps of all participations so far.
func (h *heldEpochs) bound(step, block int, copies, past []int) float64 {
	t := h.t
	counts, c := make([]uint8, t.parts), 0
	for _, at := range past {
		for d := range t.parts + 1 {
			if k := block - d; k >= 0 && t.begins[k] <= at && at < t.begins[k+1] {
				if d == 0 {
					c++
				} else {
					counts[d-1]++
				}
			}
		}
	}
	left := 0
	for _, last := range copies {
		if last < t.begins[block]/h.c.epoch*h.c.epoch {
			left++
		}
	}
	layer, rank := t.layers[block], t.rank(t.place[block], left+c, counts)
	if step == t.begins[block] {
		return layer.scale + math.Log(layer.start[rank])
	}
	return layer.scale + math.Log(layer.rows[int(layer.offsets[rank])+(step-t.begins[block]-1)*int(layer.widths[rank])+c])
}

func (h *heldEpochs) hazard(last, i int) float64 {
	epoch, b := h.c.epoch, h.c.sep
	if last > i-b || last >= i/epoch*epoch {
		return 0
	}
	return 1 / float64(epoch-max(i%epoch, b-1))
}

func (h *heldEpochs) check(i int, copies, past []int) {
	slices.Sort(copies)
	slices.Sort(past)
	recent := slices.DeleteFunc(slices.Clone(past), func(at int) bool { return i-at >= 3*h.c.sep })
	key := fmt.Sprint(i, copies, recent)
	if h.seen[key] || i == h.c.c.Steps {
		return
	}
	h.seen[key] = true
	block, _ := slices.BinarySearch(h.t.begins, i+1)
	block--
	here, sum := h.bound(i, block, copies, past), 0.0
	for subset := range 1 << len(copies) {
		prob, exponent, taking := 1.0, 0.0, 0
		next, then := slices.Clone(copies), slices.Clone(past)
		for l, last := range copies {
			hazard := h.hazard(last, i)
			if subset>>l&1 == 0 {
				prob *= 1 - hazard
				continue
			}
			prob *= hazard
			for _, at := range past {
				if at >= 0 && at > i-h.c.sep {
					exponent += h.gram[at][i]
				}
			}
			taking++
			next[l], then = i, append(then, i)
		}
		if prob == 0 {
			continue
		}
		exponent += float64(taking*(taking-1)/2) * h.gram[i][i]
		after := h.bound(i+1, block, next, then)
		sum += prob * math.Exp(exponent+after-here)
		switch {
		case i+1 == h.c.c.Steps:
			h.worst = max(h.worst, -after) // V̂ ≥ 1 after the last step
		case i+1 == h.t.begins[block+1]:
			h.worst = max(h.worst, h.bound(i+1, block+1, next, then)-after)
		}
		h.check(i+1, next, then)
	}
	if worst := math.Log(sum); !(worst <= h.worst) {
		h.worst = worst
	}
}

// TestEpochBlocksAreASupersolution holds the inequality that everything else rests on in every
// state that small problems can reach, and N̂ against the exact table.
func TestEpochBlocksAreASupersolution(t *testing.T) {
	rng := rand.New(rand.NewPCG(61, 1))
	refused, random := 0, 80
	if stattest.Long() {
		random = 250
	}
	for i := range random + 30 {
		c := randomEpochBlockCase(rng)
		if i >= random && c.sep > 1 && c.c.Steps > 1 {
			c.c = lateOverlap(rng, c.c.Steps, min(c.sep, c.c.Steps))
		}
		table, err := c.blocks(true)
		if errors.Is(err, ErrTable) {
			refused++ // epochs too short for blocks that hold the last min-sep - 1 steps
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		if worst := holdEpochs(c, table); !(worst <= 1e-12) {
			t.Fatalf("%v size=%d: V̂ is too small by e^%.3g", c, c.size, worst)
		}
		if exact := c.table(t, false).lnN; table.lnN < exact*(1-1e-13)-1e-12 {
			t.Fatalf("%v size=%d: N̂ = e^%v, N = e^%v", c, c.size, table.lnN, exact)
		}
	}
	if refused > 100 {
		t.Errorf("%d cases were refused", refused)
	}
}

// TestStartsOfEpochBlocksAddUp: the probabilities of the waits are those of all starts, also where
// a block that is kept is older than every wait: in the first case.
func TestStartsOfEpochBlocksAddUp(t *testing.T) {
	rng := rand.New(rand.NewPCG(62, 1))
	for i := range 150 {
		c := epochBlockCase{epochCase{toeplitz(5, 1, .5), 6, 11, .7, 2}, 4}
		if i > 0 {
			c = randomEpochBlockCase(rng)
		}
		table, err := c.blocks(true)
		if errors.Is(err, ErrTable) {
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		if youngest, oldest := table.waits(table.parts - 1); i == 0 && oldest >= youngest-1 {
			t.Errorf("%v size=%d: the last block has the ages from %d to %d", c, c.size, youngest, oldest)
		}
		sum := 0.0
		for _, counts := range table.states(table.first).counts {
			sum += table.startProb(counts)
		}
		if math.Abs(sum-1) > 1e-12 {
			t.Errorf("%v size=%d: the probabilities of starts add up to %v", c, c.size, sum)
		}
	}
}

// TestEpochBlocksOfOneStepAreClose: longer blocks lose more, and those of one step little where
// overlaps fall with the distance.
func TestEpochBlocksOfOneStepAreClose(t *testing.T) {
	c := epochBlockCase{epochCase{toeplitz(60, 1, .6, .4), 4, 20, .8, 3}, 0}
	exact, last := c.table(t, false).lnN, math.Inf(1)
	for _, c.size = range []int{4, 2, 1} {
		table, err := c.blocks(false)
		if err != nil {
			t.Fatal(err)
		}
		if table.lnN < exact || table.lnN > last {
			t.Errorf("size=%d: ln N̂ = %v, ln N = %v, in longer blocks %v", c.size, table.lnN, exact, last)
		}
		last = table.lnN
	}
	if last > exact+.1 {
		t.Errorf("ln N̂ = %v in blocks of one step, ln N = %v", last, exact)
	}
}

// weightedEpochs is weightedDistribution of the tuples of a table.
func weightedEpochs(t *testing.T, c epochBlockCase, table *epochBlocks, draws int) error {
	t.Helper()
	return weightedDistribution(t, c.String(), c.c, epochPatterns(c.c.Steps, c.sep, c.epoch), c.sigma, c.theta, table.lnN, epochBlockSource{table}.weightedWalker(), draws)
}

var epochBlockCases = []epochBlockCase{
	{epochCase{toeplitz(7, 1, .6), 2, 3, .8, 2}, 2},
	{epochCase{toeplitz(8, 1, .6, .4), 3, 4, 1.1, 3}, 1},
	{epochCase{toeplitz(9, 1, .6, .4), 4, 5, .9, 2}, 2},
	{epochCase{toeplitz(6, 1, .6, .4), 3, 9, .9, 3}, 3},
	{epochCase{varying(6, 4), 4, 4, 1.2, 2}, 4},
	{epochCase{toeplitz(6, 1), 1, 2, .9, 3}, 1},
	{epochCase{toeplitz(5, 1, .6, .4), 6, 7, 1, 4}, 2},
}

func TestTuplesOfEpochBlocksFollowTheirDistribution(t *testing.T) {
	for _, c := range epochBlockCases {
		const draws = 20000
		table, err := c.blocks(true)
		if err != nil {
			t.Fatalf("%v: %v", c, err)
		}
		if err := weightedEpochs(t, c, table, draws); err != nil {
			t.Errorf("%v size=%d: %v", c, c.size, err)
		}
		wrong := c
		wrong.epoch++
		if table, err = wrong.blocks(true); err != nil {
			t.Fatal(err)
		}
		if weightedEpochs(t, c, table, draws) == nil {
			t.Errorf("%v size=%d: the test accepts the tuples of another epoch", c, c.size)
		}
	}
}
