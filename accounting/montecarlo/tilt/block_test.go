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
	"minsep/mechanism"
	"minsep/sampling/stream"
)

// randomBlockCase draws small problems around where blocks, min-sep and the run meet, dense ones
// among them.
func randomBlockCase(rng *rand.Rand) (c tableCase, size int, warm bool) {
	b := []int{1, 2, 2, 3, 4, 4, 4, 6}[rng.IntN(8)]
	for size = 1 + rng.IntN(b); b%size != 0; {
		size = 1 + rng.IntN(b)
	}
	n := min(9, []int{1, size, b + 1, 2*b + 1, 3 * b, 1 + rng.IntN(9)}[rng.IntN(6)])
	if b == 1 {
		n = min(n, 4)
	}
	w := 1 + rng.IntN(min(b, n))
	c = tableCase{varying(n, w), b, []float64{.02, .1, .3, .6, .95}[rng.IntN(5)], .3 + rng.Float64(), 1 + rng.IntN(3)}
	switch rng.IntN(3) {
	case 0:
		c.c = toeplitz(n, []float64{1, .7, .5, .4, .35, .3}[:w]...)
	case 1:
		c.c = toeplitz(n, []float64{1, 1, 1, 1, 1, 1}[:w]...)
	}
	return c, size, rng.IntN(2) == 0
}

// lateOverlap has columns that overlap most at the largest distance, and little or not at all one
// step apart.
func lateOverlap(rng *rand.Rand, n, bands int) *mechanism.Strategy {
	column := make([]float64, bands)
	for r := range column {
		column[r] = []float64{0, 0, .1}[rng.IntN(3)]
	}
	column[0], column[bands-1] = 1, 1
	return toeplitz(n, column...)
}

// denseBlockCase draws problems where the copies meet often and gain much by it, so that it matters
// which of them are free: little noise, a large probability, and overlaps that rise with the
// distance, or none. The last block may be short.
func denseBlockCase(rng *rand.Rand) (c tableCase, size int, warm bool) {
	b := []int{2, 3, 4, 4, 4, 6}[rng.IntN(6)]
	for size = 1 + rng.IntN(b); b%size != 0; {
		size = 1 + rng.IntN(b)
	}
	n := min(b+1+rng.IntN(b+1), 7)
	c = tableCase{toeplitz(n, 1), b, []float64{.3, .6, .9}[rng.IntN(3)], .3 + .5*rng.Float64(), 2 + rng.IntN(3)}
	if rng.IntN(3) > 0 {
		c.c = lateOverlap(rng, n, 2+rng.IntN(b-1))
	}
	return c, size, rng.IntN(2) == 0
}

func (c tableCase) blocks(t testing.TB, size int, warm, keep bool) *blockTable {
	t.Helper()
	table, err := newBlockTable(newProcess(c.c, c.sep, c.p, warm, c.sigma), c.theta, size, keep, math.Inf(1))
	if err != nil {
		t.Fatalf("%v size=%d: %v", c, size, err)
	}
	return table
}

// past is what happened before a step: how many copies took part when, and the ages before the
// first step that waits stand for.
type past struct {
	step  int
	hits  []kernel.Hit
	waits []int // ages
}

// held checks V̂ against F5.3 after everything that can happen, by definitions of its own.
type held struct {
	t     *blockTable
	c     tableCase
	gram  [][]float64 // inner products of columns over σ²
	after []float64   // ln of the scale of the layer of every block
	seen  map[string]bool
	worst float64 // largest ln of what F5.3 makes of V̂ over V̂
}

func holdBlocks(c tableCase, t *blockTable, warm bool) float64 {
	h := &held{t: t, c: c, after: make([]float64, t.blocks), seen: map[string]bool{}, worst: math.Inf(-1)}
	for b := t.blocks - 2; b >= 0; b-- {
		h.after[b] = h.after[b+1] + math.Log(t.layer(b+1).norm)
	}
	for i := range c.c.Steps {
		h.gram = append(h.gram, nil)
		for j := range c.c.Steps {
			h.gram[i] = append(h.gram[i], dot(image(c.c, []int{i}), image(c.c, []int{j}))/(c.sigma*c.sigma))
		}
	}
	var start func(waits []int, least int)
	start = func(waits []int, least int) {
		h.check(past{waits: waits})
		for age := least; age < c.sep && warm && len(waits) < c.theta; age++ {
			start(append(slices.Clone(waits), age), age)
		}
	}
	start(nil, 1)
	return h.worst
}

// bound returns ln V̂ after some past: within a block, or at its beginning or its end.
func (h *held) bound(p past, block int) float64 {
	t := h.t
	counts, c := make([]uint8, t.parts), 0
	put := func(at, times int) {
		switch d := block - int(math.Floor(float64(at)/float64(t.size))); {
		case d == 0:
			c += times
		case d <= t.parts:
			counts[d-1] += uint8(times)
		}
	}
	for _, hit := range p.hits {
		put(hit.Step, hit.Times)
	}
	for _, age := range p.waits {
		put(-age, 1)
	}
	layer, rank := t.layer(block), t.rank(counts)
	r := p.step - block*t.size
	if r == 0 {
		return h.after[block] + math.Log(layer.start[rank])
	}
	state := t.states[rank]
	return h.after[block] + math.Log(layer.rows[state.offset+(r-1)*(state.free+1)+c])
}

func (h *held) check(p past) {
	i, n, b := p.step, h.c.c.Steps, h.c.sep
	recent := slices.DeleteFunc(slices.Clone(p.hits), func(hit kernel.Hit) bool { return i-hit.Step >= 2*b })
	key := fmt.Sprint(i, recent, p.waits)
	if h.seen[key] || i == n {
		return
	}
	h.seen[key] = true
	free, overlap := h.c.theta, 0.0
	for _, hit := range p.hits {
		if i-hit.Step < b {
			free -= hit.Times
			overlap += float64(hit.Times) * h.gram[hit.Step][i]
		}
	}
	for _, age := range p.waits {
		if age+i < b {
			free--
		}
	}
	block, sum := i/h.t.size, 0.0
	here := h.bound(p, block)
	for j := range free + 1 {
		next := past{i + 1, slices.Clone(p.hits), p.waits}
		if j > 0 {
			next.hits = append(next.hits, kernel.Hit{Step: i, Times: j})
		}
		after := h.bound(next, block)
		sum += binomial(free, j, h.c.p) * math.Exp(float64(j*(j-1)/2)*h.gram[i][i]+float64(j)*overlap+after-here)
		switch {
		case i+1 == n:
			h.worst = max(h.worst, -after) // V̂ ≥ 1 after the last step
		case (i+1)%h.t.size == 0:
			h.worst = max(h.worst, h.bound(next, block+1)-after)
		}
		h.check(next)
	}
	h.worst = max(h.worst, math.Log(sum))
}

// TestBlocksAreASupersolution holds the inequality that everything else rests on in every state
// that thousands of small problems can reach, cold and warm, and N̂ against the sum over all
// tuples.
func TestBlocksAreASupersolution(t *testing.T) {
	rng := rand.New(rand.NewPCG(59, 1))
	refused, random := 0, 400
	if stattest.Long() {
		random = 1200
	}
	for i := range random + 30 {
		c, size, warm := randomBlockCase(rng)
		if i >= random {
			c, size, warm = denseBlockCase(rng)
		}
		table, err := newBlockTable(newProcess(c.c, c.sep, c.p, warm, c.sigma), c.theta, size, true, math.Inf(1))
		if errors.Is(err, ErrTable) {
			refused++ // the sums leave the range of float64
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		if worst := holdBlocks(c, table, warm); worst > 1e-12 {
			t.Fatalf("%v size=%d warm=%v: V̂ is too small by e^%.3g", c, size, warm, worst)
		}
		exact, err := newTable(newProcess(c.c, c.sep, c.p, warm, c.sigma), c.theta, false, maxTableBytes)
		if err != nil {
			t.Fatal(err)
		}
		if table.lnN < exact.lnN*(1-1e-13)-1e-12 {
			t.Fatalf("%v size=%d warm=%v: N̂ = e^%v, N = e^%v", c, size, warm, table.lnN, exact.lnN)
		}
	}
	if refused > 100 {
		t.Errorf("%d cases were refused", refused)
	}
}

// TestBlocksOfOneStepAreExact: with overlaps that fall with the distance they lose nothing, and
// longer ones lose more.
func TestBlocksOfOneStepAreExact(t *testing.T) {
	for _, warm := range []bool{false, true} {
		c := tableCase{toeplitz(40, 1, .6, .4), 4, .05, .8, 3}
		exact, err := newTable(newProcess(c.c, c.sep, c.p, warm, c.sigma), c.theta, false, maxTableBytes)
		if err != nil {
			t.Fatal(err)
		}
		last := math.Inf(1)
		for _, size := range []int{4, 2, 1} {
			got := c.blocks(t, size, warm, false).lnN
			if got < exact.lnN || got > last {
				t.Errorf("warm=%v size=%d: ln N̂ = %v, ln N = %v, in longer blocks %v", warm, size, got, exact.lnN, last)
			}
			last = got
		}
		// Columns that are cut count in full, and equal blocks add at most steadyLoss.
		if last > exact.lnN+.2 {
			t.Errorf("warm=%v: ln N̂ = %v in blocks of one step, ln N = %v", warm, last, exact.lnN)
		}
	}
}

// weightedDistribution tests the sums of weights of the tuples that a walk draws against
// enumeration of those of patterns, whose normaliser is at most e^lnN.
func weightedDistribution(t *testing.T, name string, c *mechanism.Strategy, list []pattern, sigma float64, theta int, lnN float64,
	walk func([]kernel.Hit, *uniforms) ([]kernel.Hit, float64), draws int) error {
	t.Helper()
	want := map[string]float64{}
	eachTuple(c, list, sigma, theta, func(tuple []int, w float64) { want[tupleKey(list, tuple)] += w })
	got := map[string]float64{}
	u := &uniforms{bulk: stream.NewBulk(stream.PublicKey("test", []byte(name)))}
	var hits []kernel.Hit
	var weight float64
	sum, squares := 0.0, 0.0
	for i := range draws {
		u.reset(uint64(i))
		hits, weight = walk(hits, u)
		sum, squares = sum+weight, squares+weight*weight
		if !(weight >= 0 && weight <= 1+1e-12) {
			t.Fatalf("%s: a weight of %v", name, weight)
		}
		if weight > 0 {
			got[hitsKey(hits)] += weight
		}
	}
	n := float64(draws)
	for key := range got {
		if want[key] == 0 {
			return fmt.Errorf("drew an impossible tuple %s", key)
		}
	}
	total := 0.0
	for key, w := range want {
		mean := w / math.Exp(lnN)
		total += mean
		if err := stattest.Sum(got[key], n*mean, n*mean, 1); err != nil { // weights are at most 1
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return stattest.Sum(sum, n*total, max(0, squares-n*total*total)+1, 1)
}

// weightedBlocks is weightedDistribution of the tuples of a table.
func weightedBlocks(t *testing.T, c tableCase, warm bool, table *blockTable, draws int) error {
	t.Helper()
	return weightedDistribution(t, c.String(), c.c, patterns(c.c.Steps, c.sep, c.p, warm), c.sigma, c.theta, table.lnN, blockSource{table}.weightedWalker(), draws)
}

var blockCases = []struct {
	tableCase
	size int
}{
	{tableCase{toeplitz(7, 1, .6), 2, .3, .8, 2}, 2},
	{tableCase{toeplitz(6, 1, .6, .4), 4, .15, 1.1, 3}, 2},
	{tableCase{toeplitz(8, 1, .6, .4, .3), 4, .15, 1.1, 2}, 4},
	{tableCase{toeplitz(6, 1, .6, .4), 3, .2, .9, 3}, 1},
	{tableCase{varying(5, 4), 6, .15, 1.2, 3}, 2},
	{tableCase{&mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: 7, Toeplitz: []float64{1, .6, .4}, Normalized: true}, 4, .2, 1, 3}, 2},
}

func TestTuplesOfBlocksFollowTheirDistribution(t *testing.T) {
	for _, c := range blockCases {
		for _, warm := range []bool{false, true} {
			const draws = 20000
			if err := weightedBlocks(t, c.tableCase, warm, c.blocks(t, c.size, warm, true), draws); err != nil {
				t.Errorf("%v size=%d warm=%v: %v", c, c.size, warm, err)
			}
			wrong := c.tableCase
			wrong.p *= .5
			if weightedBlocks(t, c.tableCase, warm, wrong.blocks(t, c.size, warm, true), draws) == nil {
				t.Errorf("%v size=%d warm=%v: the test accepts the tuples of another probability", c, c.size, warm)
			}
		}
	}
}

// TestSteadyBlocks: in a long run one layer stands for most blocks, is a supersolution, and the
// weights of tuples have the mean N/N̂.
func TestSteadyBlocks(t *testing.T) {
	for _, warm := range []bool{false, true} {
		c := tableCase{toeplitz(200, 1, .6, .4), 4, .03, .8, 3}
		table := c.blocks(t, 2, warm, true)
		if table.steady == nil || len(table.tail) > 50 {
			t.Fatalf("warm=%v: %d blocks of %d are not taken for equal", warm, len(table.tail), table.blocks)
		}
		exact, err := newTable(newProcess(c.c, c.sep, c.p, warm, c.sigma), c.theta, false, maxTableBytes)
		if err != nil {
			t.Fatal(err)
		}
		walk := blockSource{table}.weightedWalker()
		u := &uniforms{bulk: stream.NewBulk(stream.PublicKey("test", []byte("steady")))}
		sum, squares := 0.0, 0.0
		const draws = 5000
		mean := math.Exp(exact.lnN - table.lnN)
		for i := range draws {
			u.reset(uint64(i))
			_, weight := walk(nil, u)
			if !(weight > 0 && weight <= 1+1e-10) {
				t.Fatalf("warm=%v: a weight of %v", warm, weight)
			}
			sum += weight
			squares += (weight - mean) * (weight - mean)
		}
		if err := stattest.Sum(sum, mean*draws, squares, 1); err != nil {
			t.Errorf("warm=%v: %v", warm, err)
		}
	}
}

// blockProposal is a proposal in blocks for an owner of two steps, whatever NewProposal would
// choose.
func blockProposal(t *testing.T, c Config, order, size, draws int) Proposal {
	t.Helper()
	s, err := bMinSep{}.blockSource(c.Spec, likelihood.NewColumns(c.Spec.Strategy), order, size, false, math.Inf(1))
	if err != nil {
		t.Fatal(err)
	}
	p := Proposal{Config: c, Method: Tilted, Members: []Member{{Order: order, Weight: 1, LogN: s.logN(), Block: size}}, Draws: draws}
	p.Slack = lossError(c.Epsilon) + 2*s.walkError()
	p.Bound = mixture{p.Members, c.Epsilon, max(1, c.Spec.MaxExamplesPerOwner)}.bound() * (1 + 2*p.Slack)
	p.Divergence = min(1, p.Bound)
	return p
}

// ownerOfTwoSteps has the exact divergences of an owner of k examples by quadrature.
func ownerOfTwoSteps(k int, prob, sigma float64, warm bool, epsilon float64) (spec montecarlo.Spec, pq, qp float64) {
	c := toeplitz(2, 1, .5)
	spec = montecarlo.Spec{Scheme: montecarlo.BMinSep, Steps: 2, MinSep: 2, Prob: prob, WarmStart: warm, NoiseMultiplier: sigma, Strategy: c, MaxExamplesPerOwner: k}
	list := patterns(2, 2, prob, warm)
	var means [][]float64
	var weights []float64
	var add func(left int, mean []float64, weight float64)
	add = func(left int, mean []float64, weight float64) {
		if left == 0 {
			means, weights = append(means, mean), append(weights, weight)
			return
		}
		for _, a := range list {
			x := image(c, a.hits)
			add(left-1, []float64{mean[0] + x[0], mean[1] + x[1]}, weight*a.prob)
		}
	}
	add(k, []float64{0, 0}, 1)
	pq, qp = twoSteps(means, weights, sigma, epsilon)
	return spec, pq, qp
}

// TestMeanInBlocksIsTheDivergence: with exact ratios means of values are the divergence, and with
// randomised ones little above it.
func TestMeanInBlocksIsTheDivergence(t *testing.T) {
	for _, k := range []int{1, 2, 3} {
		for _, warm := range []bool{false, true} {
			spec, want, _ := ownerOfTwoSteps(k, .3, .9, warm, .4)
			for size := 1; size <= 2; size++ {
				for _, draws := range []int{0, 20} {
					if k == 1 && draws > 0 {
						continue
					}
					proposal := blockProposal(t, Config{spec, .4, montecarlo.P}, 2*k, size, draws)
					v, err := NewVerifier(proposal, stream.PublicKey("test", []byte(fmt.Sprint(k, warm, size, draws))))
					if err != nil {
						t.Fatal(err)
					}
					if proposal.Divergence < want {
						t.Errorf("k=%d warm=%v size=%d: %v is proven, the divergence is %v", k, warm, size, proposal.Divergence, want)
					}
					samples := 12000
					err = meanError(v, samples, want)
					if draws == 0 && err != nil {
						t.Errorf("k=%d warm=%v size=%d: %v", k, warm, size, err)
					}
					if draws > 0 {
						if err != nil && !above(v, samples, want) {
							t.Errorf("k=%d warm=%v size=%d draws=%d: %v", k, warm, size, draws, err)
						}
					}
				}
			}
		}
	}
}

// above says that a mean is above want, by at most 5 %.
func above(v *Verifier, samples int, want float64) bool {
	buffer := make([]float64, samples)
	v.Values(buffer, 0)
	sum := 0.0
	for _, x := range buffer {
		sum += x
	}
	mean := sum / float64(samples)
	return mean > want && mean < 1.05*want
}

// TestOwnersOfManyHaveProposals: five and eight examples per owner have values with M far below 1,
// where exact tables of orders above five are too large.
func TestOwnersOfManyHaveProposals(t *testing.T) {
	c := benchCase(t, 200, 16, 128./50000, 1.1, 6)
	c.Spec.MaxExamplesPerOwner = 5
	proposal, err := NewProposal(c)
	if err != nil {
		t.Fatal(err)
	}
	if proposal.Bound > .01 || proposal.Members[0].Block == 0 || proposal.Draws != ownerDraws(5) {
		t.Errorf("proposal %+v: M is too large", proposal)
	}
	if s, err := (bMinSep{}).source(c.Spec, likelihood.NewColumns(c.Spec.Strategy), proposal.Members[0].Order, true, nil); !errors.Is(err, ErrTable) {
		t.Errorf("order %d has an exact table: %v, %v", proposal.Members[0].Order, s, err)
	}
	v, err := NewVerifier(proposal, stream.PublicKey("test", nil))
	if err != nil {
		t.Fatal(err)
	}
	values := make([]float64, 64)
	v.Values(values, 0)
	again := make([]float64, 16)
	v.Fork().Values(again, 40)
	if !slices.Equal(again, values[40:56]) {
		t.Error("a fork has other values")
	}
}

// TestLimitedWorkServesOwners: those who limit the work of tables have an M for owners that is not
// far above that of all orders.
func TestLimitedWorkServesOwners(t *testing.T) {
	for _, k := range []int{3, 5} {
		c := benchCase(t, 200, 16, 128./50000, .3+.16*float64(k), 8)
		c.Spec.MaxExamplesPerOwner = k
		all, err := NewProposal(c)
		if err != nil {
			t.Fatal(err)
		}
		some, _, err := NewProposalWithin(c, 3e6)
		if err != nil {
			t.Fatal(err)
		}
		if some.Bound > 10*all.Bound {
			t.Errorf("k=%d: M = %g with limited work, %g without: %v, %v", k, some.Bound, all.Bound, some.Members, all.Members)
		}
	}
}

// TestLeastOrderInBlocks: with three examples and more, a limited work is one of the least order
// too, which has no table of all steps then.
func TestLeastOrderInBlocks(t *testing.T) {
	c := benchCase(t, 64, 32, 128./50000, .8, 8)
	c.Spec.MaxExamplesPerOwner = 4
	p, tables, err := NewProposalWithin(c, 100)
	if err != nil {
		t.Fatal(err)
	}
	if p.Members[0].Block == 0 {
		t.Errorf("%+v", p.Members)
	}
	if _, err := tables.NewVerifier(p, stream.PublicKey("test", nil)); err != nil {
		t.Error(err)
	}
}

// TestOneExampleInBlocks: at a min-sep whose exact tables end at order 2, and a small ε, blocks
// have a hundredth of the M, and the same divergence.
func TestOneExampleInBlocks(t *testing.T) {
	c := benchCase(t, 800, 240, .001, 1.2, 1)
	proposal, err := NewProposal(c)
	if err != nil {
		t.Fatal(err)
	}
	if proposal.Members[0].Block == 0 || proposal.Members[0].Order < 4 || proposal.Draws != 0 {
		t.Fatalf("proposal %+v: not in blocks", proposal)
	}
	pairs := mixture{epsilon: c.Epsilon, examples: 1}
	for order := 1; order <= 2; order++ {
		s, err := (bMinSep{}).source(c.Spec, likelihood.NewColumns(c.Spec.Strategy), order, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		pairs.members = append(pairs.members, Member{Order: order, LogN: s.logN()})
	}
	pairs = pairs.best()
	exact := Proposal{Config: c, Method: Tilted, Members: pairs.members, Bound: pairs.bound() * (1 + 1e-6), Divergence: 1, Slack: 1e-7}
	if proposal.Bound > exact.Bound/30 {
		t.Errorf("M = %g in blocks, %g with pairs", proposal.Bound, exact.Bound)
	}
	mean := func(p Proposal) (mean, variance float64) {
		v, err := NewVerifier(p, stream.PublicKey("test", nil))
		if err != nil {
			t.Fatal(err)
		}
		values := make([]float64, 6000)
		v.Values(values, 0)
		for _, x := range values {
			mean, variance = mean+x/6000, variance+x*x/6000
		}
		return mean, (variance - mean*mean) / 6000
	}
	blocks, variance := mean(proposal)
	want, other := mean(exact)
	if diff := math.Abs(blocks - want); diff > reject9*math.Sqrt(variance+other) || math.Sqrt(variance) > .1*blocks {
		t.Errorf("mean %g ± %g in blocks, %g ± %g with pairs", blocks, math.Sqrt(variance), want, math.Sqrt(other))
	}
	t.Logf("%+v: M %g, %g; mean %g ± %g, %g ± %g", proposal.Members, proposal.Bound, exact.Bound, blocks, math.Sqrt(variance), want, math.Sqrt(other))
}
