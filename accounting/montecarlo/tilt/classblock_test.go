package tilt

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"minsep/accounting/montecarlo"
	"minsep/accounting/montecarlo/internal/kernel"
	"minsep/accounting/montecarlo/internal/likelihood"
	"minsep/internal/stattest"
	"minsep/sampling/balanced"
	"minsep/sampling/stream"
)

func (c balancedCase) blocks(t testing.TB, size int) *classBlocks {
	t.Helper()
	table, err := newClassBlocks(c.distribution(), c.theta, size, likelihood.NewColumns(c.c), 1/(c.sigma*c.sigma), true, math.Inf(1))
	if err != nil {
		t.Fatalf("%v size=%d: %v", c, size, err)
	}
	return table
}

// randomClassBlockCase draws small problems; dense ones, with overlaps that are largest at a large
// distance, make it matter who is free and when.
func randomClassBlockCase(rng *rand.Rand) (c balancedCase, size int) {
	for {
		n, b := 2+rng.IntN(8), 1+rng.IntN(5)
		times := []float64{1, 2, 3, .6, 1.5, 2.25, 1 + 2*rng.Float64()}[rng.IntN(7)]
		if _, err := balanced.New(n, b, times); err != nil {
			continue
		}
		w := 1 + rng.IntN(min(b, n))
		c = balancedCase{varying(n, w), b, times, .3 + rng.Float64(), 1 + rng.IntN(3)}
		switch kind := rng.IntN(4); {
		case kind == 0:
			c.c = toeplitz(n, []float64{1, .7, .5, .4, .35}[:w]...)
		case kind == 1:
			c.c = toeplitz(n, []float64{1, 1, 1, 1, 1}[:w]...)
		case kind == 2 && w > 1:
			c.c = lateOverlap(rng, n, w)
		}
		return c, 1 + rng.IntN(b)
	}
}

// heldClasses checks V̂ of a table against F5.5k after everything that can happen, with overlaps
// and freedom of its own.
type heldClasses struct {
	c     balancedCase
	w     *classBlockWalker
	gram  [][]float64 // inner products of columns over σ²
	seen  map[string]bool
	worst float64 // largest ln of what F5.5k makes of V̂ over V̂
}

func holdClasses(c balancedCase, t *classBlocks) float64 {
	h := &heldClasses{c: c, seen: map[string]bool{}, worst: math.Inf(-1)}
	h.w = &classBlockWalker{t: t, left: make([]int, c.theta), last: make([]int, c.theta), labels: make([]uint16, c.theta)}
	for i := range c.c.Steps {
		h.gram = append(h.gram, nil)
		for j := range c.c.Steps {
			h.gram[i] = append(h.gram[i], dot(image(c.c, []int{i}), image(c.c, []int{j}))/(c.sigma*c.sigma))
		}
	}
	l := c.distribution()
	most, less := l.Starts()
	left, last := make([]int, c.theta), make([]int, c.theta)
	for subset := range 1 << c.theta {
		for r := range left {
			left[r], last[r] = l.Most-subset>>r&1, notYet
		}
		if subset == 0 && most > 0 || less > 0 {
			h.check(0, left, last)
		}
	}
	return h.worst
}

// bound is ln V̂ before a step.
func (h *heldClasses) bound(i int, left, last []int) float64 {
	copy(h.w.left, left)
	copy(h.w.last, last)
	return math.Log(h.w.value(i, 0))
}

func (h *heldClasses) check(i int, left, last []int) {
	key := fmt.Sprint(i, left, last)
	if h.seen[key] || i == h.c.c.Steps {
		return
	}
	h.seen[key] = true
	l := h.c.distribution()
	here, sum := h.bound(i, left, last), 0.0
	for subset := range 1 << h.c.theta {
		term, count, overlap := 1.0, 0, 0.0
		nextLeft, nextLast := slices.Clone(left), slices.Clone(last)
		for r := range left {
			free := left[r] > 0 && (last[r] == notYet || i-last[r] >= h.c.sep)
			switch in := subset>>r&1 == 1; {
			case in && !free:
				term = 0
			case in:
				term *= l.Hazard(left[r], i)
				nextLeft[r], nextLast[r] = left[r]-1, i
				count++
			case free:
				term *= 1 - l.Hazard(left[r], i)
			}
			if last[r] != notYet {
				overlap += h.gram[last[r]][i]
			}
		}
		if term == 0 {
			continue
		}
		exponent := float64(count*(count-1)/2)*h.gram[i][i] + float64(count)*overlap
		sum += term * math.Exp(exponent+h.bound(i+1, nextLeft, nextLast)-here)
		h.check(i+1, nextLeft, nextLast)
	}
	h.worst = max(h.worst, math.Log(sum))
}

// TestClassBlocksAreASupersolution holds the inequality that everything else rests on in every
// state that small problems can reach, and N̂ against the sum over all tuples.
func TestClassBlocksAreASupersolution(t *testing.T) {
	rng := rand.New(rand.NewPCG(60, 1))
	random := 100
	if stattest.Long() {
		random = 2000
	}
	loose, tight := 0, 0
	for range random {
		c, size := randomClassBlockCase(rng)
		table, err := newClassBlocks(c.distribution(), c.theta, size, likelihood.NewColumns(c.c), 1/(c.sigma*c.sigma), true, math.Inf(1))
		if errors.Is(err, ErrTable) {
			continue // the sums leave the range of float32
		} else if err != nil {
			t.Fatal(err)
		}
		if worst := holdClasses(c, table); worst > 0 {
			t.Fatalf("%v size=%d: V̂ is too small by e^%.3g", c, size, worst)
		}
		exact := c.table(t, false)
		switch {
		case table.lnN < exact.lnN:
			t.Fatalf("%v size=%d: N̂ = e^%v, N = e^%v", c, size, table.lnN, exact.lnN)
		case table.lnN > exact.lnN+1e-3:
			loose++
		default:
			tight++
		}
	}
	if loose < random/10 || tight < random/10 {
		t.Errorf("in %d cases N̂ is above N, in %d it is not: want both", loose, tight)
	}
}

// TestClassBlocksRescale: values beyond the range of units of one layer. With columns that meet
// only at the same step, and min-sep 1, blocks of one step lose nothing.
func TestClassBlocksRescale(t *testing.T) {
	c := balancedCase{toeplitz(60, 1), 1, 24, .85, 3}
	table, exact := c.blocks(t, 1), c.table(t, false)
	if table.layers[0].exp2 == 0 {
		t.Fatalf("no layer was rescaled, of N̂ = e^%v", table.lnN)
	}
	if table.lnN < exact.lnN || table.lnN > exact.lnN+1e-3 {
		t.Errorf("ln N̂ = %v, ln N = %v", table.lnN, exact.lnN)
	}
}

// TestClassBlocksOfOneStep: with columns that meet only at the same step, blocks of one step and
// min-sep 2 lose nothing, and longer blocks lose more.
func TestClassBlocksOfOneStep(t *testing.T) {
	c := balancedCase{toeplitz(40, 1), 2, 3, .6, 3}
	exact := c.table(t, false)
	if got := c.blocks(t, 1).lnN; got < exact.lnN || got > exact.lnN+1e-4 {
		t.Errorf("ln N̂ = %v in blocks of one step, ln N = %v", got, exact.lnN)
	}
	c = balancedCase{toeplitz(60, 1, .8, .6, .5, .4, .3, .2, .1), 8, 3, .6, 3}
	exact = c.table(t, false)
	last := math.Inf(1)
	for _, size := range []int{8, 4, 1} {
		got := c.blocks(t, size).lnN
		if got < exact.lnN || got > last {
			t.Errorf("size=%d: ln N̂ = %v, ln N = %v, in longer blocks %v", size, got, exact.lnN, last)
		}
		last = got
	}
	if last > exact.lnN+.6 {
		t.Errorf("ln N̂ = %v in blocks of one step, ln N = %v", last, exact.lnN)
	}
}

// TestTuplesOfClassBlocksFollowTheirDistribution holds drawn tuples, and how many walks end without
// one, against enumeration; those of another number or noise are rejected.
func TestTuplesOfClassBlocksFollowTheirDistribution(t *testing.T) {
	for n, c := range balancedCases {
		if c.theta > 3 && !stattest.Long() {
			continue
		}
		list := balancedPatterns(c.distribution())
		size := 1 + n%min(c.sep, 3)
		judge := func(table *classBlocks) error {
			const draws = 6000
			weights, total := map[string]float64{}, 0.0
			eachTuple(c.c, list, c.sigma, c.theta, func(tuple []int, w float64) {
				weights[tupleKey(list, tuple)] += w
				total += w
			})
			walk := classBlockSource{table}.weightedWalker()
			finished := 0
			u := &uniforms{bulk: stream.NewBulk(stream.PublicKey("test", []byte(c.String())))}
			var weight float64
			var hits []kernel.Hit
			for i := range draws {
				u.reset(uint64(i))
				if hits, weight = walk(hits, u); weight == 1 {
					finished++
				} else if weight != 0 || len(hits) > 0 {
					t.Fatalf("%v: a weight of %v, %v", c, weight, hits)
				}
			}
			mean := draws * total / math.Exp(table.lnN)
			if err := stattest.Sum(float64(finished), mean, mean, 1); err != nil {
				return fmt.Errorf("finished walks: %w", err)
			}
			// Given that it finishes, a walk is a tuple of the exact distribution.
			sample := uint64(0)
			whole := func(hits []kernel.Hit, _ *uniforms) []kernel.Hit {
				for {
					u.reset(sample)
					sample++
					var weight float64
					if hits, weight = walk(hits, u); weight == 1 {
						return hits
					}
				}
			}
			return tuplesFollow(weights, total, c.String(), whole, draws)
		}
		if err := judge(c.blocks(t, size)); err != nil {
			t.Errorf("%v size=%d: %v", c, size, err)
		}
		for _, twin := range []balancedCase{{c.c, c.sep, c.times, 1.5 * c.sigma, c.theta}, {c.c, c.sep, .8 * c.times, c.sigma, c.theta}} {
			if twin.times < c.times && !stattest.Long() {
				break
			}
			if judge(twin.blocks(t, size)) == nil {
				t.Errorf("%v size=%d: the test accepts the tuples of %v", c, size, twin)
			}
		}
	}
}

// TestMeanOfClassBlocks: means of values that are drawn in blocks are the divergence; with a moment
// that is a tenth too small they are not.
func TestMeanOfClassBlocks(t *testing.T) {
	const epsilon, samples = .4, 20000
	for _, c := range []balancedCase{{toeplitz(2, 1), 1, 1.5, .9, 2}, {toeplitz(2, 1, .5), 2, 1, .9, 3}, {toeplitz(2, 1, .5), 2, .6, .9, 3}} {
		var means [][]float64
		var weights []float64
		for _, a := range balancedPatterns(c.distribution()) {
			means, weights = append(means, image(c.c, a.hits)), append(weights, a.prob)
		}
		want, _ := twoSteps(means, weights, c.sigma, epsilon)
		s := classBlockSource{c.blocks(t, 1)}
		p := Proposal{Config: Config{c.spec(), epsilon, montecarlo.P}, Method: Tilted, Members: []Member{{Order: c.theta, Weight: 1, LogN: s.logN(), Block: 1}}}
		p.Slack = lossError(epsilon) + 2*s.walkError()
		p.Bound = mixture{p.Members, epsilon, 1}.bound() * (1 + 2*p.Slack)
		p.Divergence = min(1, p.Bound)
		if p.Divergence < want {
			t.Errorf("%v: %v is proven, the divergence is %v", c, p.Divergence, want)
		}
		v, err := NewVerifier(p, stream.PublicKey("test", []byte(c.String())))
		if err != nil {
			t.Fatal(err)
		}
		if err := meanError(v, samples, want); err != nil {
			t.Errorf("%v: %v", c, err)
		}
		wrong := *v
		wrong.mixture.members = []Member{{Order: c.theta, Weight: 1, LogN: s.logN() - .1, Block: 1}}
		wrong.ready = false
		if meanError(&wrong, samples, want) == nil {
			t.Errorf("%v: the test accepts a wrong moment", c)
		}
		fork := make([]float64, 16)
		v.Fork().Values(fork, 40)
		values := make([]float64, 64)
		v.Values(values, 0)
		if !slices.Equal(fork, values[40:56]) {
			t.Errorf("%v: a fork has other values", c)
		}
	}
}

// TestIntervals: every participation less than min-sep old is in one interval, which only grows
// until it is left out, and no long one is young.
func TestIntervals(t *testing.T) {
	for _, c := range []struct{ steps, sep, size int }{{7200, 256, 16}, {100, 7, 3}, {50, 1, 1}, {9, 20, 4}, {64, 8, 8}} {
		all := blockIntervals(c.steps, c.sep, c.size)
		for block, begins := range all {
			first, end := block*c.size, block*c.size
			for d, begin := range begins {
				youngest, length := first-end+1, end-begin
				if length < 1 || length > c.size && float64(length) > coarseness*float64(youngest) {
					t.Fatalf("%v: block %d has an interval of %d steps of age %d", c, block, length, youngest)
				}
				if d == len(begins)-1 && begin > max(0, first-c.sep+1) {
					t.Fatalf("%v: block %d: the intervals begin at step %d", c, block, begin)
				}
				if block+1 < len(all) { // where the interval goes
					begin, end := begin, end
					inside := slices.ContainsFunc(all[block+1], func(next int) bool { return next == begin })
					merged := slices.ContainsFunc(begins[d:], func(older int) bool { return older < begin && slices.Contains(all[block+1], older) })
					if dropped := first+c.size-end+1 >= c.sep; !inside && !merged && !dropped {
						t.Fatalf("%v: block %d: the interval from step %d is lost", c, block, begin)
					}
				}
				end = begin
			}
		}
	}
}

// TestRoundedUp: no value is below what it is for, and the next smaller one is.
func TestRoundedUp(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 32))
	inf := float32(math.Inf(1))
	for i := range 20_000 {
		x := math.Exp(200*rng.Float64() - 110)
		switch i {
		case 0:
			x = 0
		case 1:
			x = 5e-324
		case 2:
			x = math.MaxFloat32
		case 3:
			x = math.MaxFloat32 * (1 + 1e-9)
		case 4:
			x = 1e300
		case 5:
			x = math.Inf(1)
		}
		up := roundedUp(x)
		if float64(up) < x || up > 0 && float64(math.Nextafter32(up, 0)) >= x && up != inf {
			t.Errorf("%v becomes %v", x, up)
		}
		if want := math.Nextafter32(float32(x), inf); float64(float32(x)) < x && up != want {
			t.Errorf("%v becomes %v, want %v", x, up, want)
		}
	}
}
