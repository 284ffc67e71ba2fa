package accounting

import (
	"fmt"
	"math"
	"math/rand/v2"

	"minsep/mechanism"
	"minsep/sampling"
)

// Whole truncated mechanisms of few examples and few steps, enumerated: every set of entries that
// is sampled, and every set of them that stays. Nothing here uses the code that is tested.

// distribution is how one entry takes part: patterns of steps as bits, with their probabilities.
type distribution map[int]float64

// distributions returns that of every entry of a run with so many entries.
func distributions(s sampling.Spec, entries int) []distribution {
	list := make([]distribution, entries)
	for e := range list {
		switch scheme := s.Scheme().(type) {
		case sampling.BMinSep:
			list[e] = renewalDistribution(scheme.Prob, scheme.Steps, scheme.MinSep, scheme.WarmStart)
		case sampling.Poisson:
			list[e] = renewalDistribution(scheme.Prob, scheme.Steps, 1, false)
		case sampling.BallsInBins:
			list[e] = turnsDistribution(scheme.Steps, scheme.Period, 1, -1)
		case sampling.EpochMinSep:
			list[e] = epochDistribution(scheme.Steps, scheme.EpochSteps, scheme.MinSep)
		case sampling.Rotation:
			list[e] = epochDistribution(scheme.Steps, scheme.EpochSteps, 1)
		case sampling.CyclicPoisson:
			part := e % scheme.MinSep
			if scheme.SecretPartition {
				part = -1
			}
			list[e] = turnsDistribution(scheme.Steps, scheme.MinSep, scheme.Prob, part)
		}
	}
	return list
}

func renewalDistribution(p float64, steps, minSep int, warm bool) distribution {
	out := distribution{}
	var walk func(step, pattern int, weight float64)
	walk = func(step, pattern int, weight float64) {
		if step >= steps || weight == 0 {
			out[pattern] += weight
			return
		}
		walk(step+1, pattern, weight*(1-p))
		walk(step+minSep, pattern|1<<step, weight*p)
	}
	if !warm {
		walk(0, 0, 1)
		return out
	}
	total := 1 + float64(minSep-1)*p
	for wait := range minSep {
		weight := p / total
		if wait == 0 {
			weight = 1 / total
		}
		walk(wait, 0, weight)
	}
	return out
}

// turnsDistribution is that of parts that take turns; part -1 is drawn.
func turnsDistribution(steps, parts int, p float64, part int) distribution {
	if part < 0 {
		out := distribution{}
		for part := range parts {
			for pattern, weight := range turnsDistribution(steps, parts, p, part) {
				out[pattern] += weight / float64(parts)
			}
		}
		return out
	}
	out := distribution{0: 1}
	for step := part; step < steps; step += parts {
		next := distribution{}
		for pattern, weight := range out {
			next[pattern] += weight * (1 - p)
			next[pattern|1<<step] += weight * p
		}
		out = next
	}
	return out
}

// epochDistribution is participation once an epoch: the place in the epoch before the first is
// uniform, and each next one is drawn as docs/formulas.md, F3.8 has it.
func epochDistribution(steps, epoch, minSep int) distribution {
	out := distribution{}
	var walk func(start, last, pattern int, weight float64)
	walk = func(start, last, pattern int, weight float64) {
		if start >= steps {
			out[pattern] += weight
			return
		}
		left := weight // of not yet taking part in this epoch
		for v := range epoch {
			step := start + v
			if step-last < minSep {
				continue
			}
			now := left / float64(epoch-max(v, minSep-1)) // the hazard
			next := pattern
			if step < steps {
				next |= 1 << step
			}
			walk(start+epoch, step, next, now)
			left -= now
		}
	}
	for place := range epoch {
		walk(0, place-epoch, 0, 1/float64(epoch))
	}
	return out
}

// counts are numbers of entries that are sampled, one a step.
type counts [4]int8

// countsOf is the joint distribution of how many of some entries are sampled at each step.
func countsOf(entries []distribution) map[counts]float64 {
	out := map[counts]float64{{}: 1}
	for _, l := range entries {
		next := map[counts]float64{}
		for c, weight := range out {
			for pattern, p := range l {
				d := c
				for i := range d {
					d[i] += int8(pattern >> i & 1)
				}
				next[d] += weight * p
			}
		}
		out = next
	}
	return out
}

// sums is a mixture: probabilities of the sums of gradients at each step.
type sums map[[4]float64]float64

// mechanismCase is a run with gradients that are fixed: entries 0 … own-1 are the owner's.
type mechanismCase struct {
	run            Run
	own            int
	sigma, epsilon float64
	gradients      [][4]float64 // of the owner's entries
	others         [4]float64   // of every other entry
	removed        bool         // Q has no entries of the owner, in place of entries of zero gradient
}

func (c mechanismCase) String() string {
	return fmt.Sprintf("%s %+v, batches of %d of %d, %d of one owner, C %v, σ = %g, ε = %g", c.run.Sampler.Scheme().Name(), c.run.Sampler.Scheme(),
		c.run.Sampler.Truncation.MaxBatchSize, c.run.Examples, c.own, c.run.Strategy.ColumnNorms(), c.sigma, c.epsilon)
}

// truth is H(P,Q) and H(Q,P) of the truncated mechanism for an adversary who knows the
// participations of all other entries, which is what the claim allows. pair is that without
// truncation.
func (c mechanismCase) truth(pair [2]float64) (truth [2]float64) {
	entries := distributions(c.run.Sampler, int(c.run.Examples))
	patterns := make([]int, c.own)
	for r, at := range countsOf(entries[c.own:]) {
		full := false
		for i := range c.run.steps() {
			full = full || int(r[i])+c.own > c.run.Sampler.Truncation.MaxBatchSize
		}
		if !full {
			truth[0], truth[1] = truth[0]+at*pair[0], truth[1]+at*pair[1]
			continue
		}
		p, q := sums{}, sums{}
		var draw func(e int, weight float64)
		draw = func(e int, weight float64) {
			if e == c.own {
				c.cut(0, patterns, r, weight, [4]float64{}, [4]float64{}, p, q)
				return
			}
			for pattern, chance := range entries[e] {
				patterns[e] = pattern
				draw(e+1, weight*chance)
			}
		}
		draw(0, 1)
		pq, qp := divergences(c.run, c.sigma, c.epsilon, p, q)
		truth[0], truth[1] = truth[0]+at*pq, truth[1]+at*qp
	}
	return truth
}

// pair is H(P,Q) and H(Q,P) without truncation.
func (c mechanismCase) pair() [2]float64 {
	p, q := sums{}, sums{{}: 1}
	for x, weight := range countsOf(distributions(c.run.Sampler, int(c.run.Examples))[:c.own]) {
		var at [4]float64
		for i := range at {
			at[i] = float64(x[i])
		}
		p[at] += weight
	}
	pq, qp := divergences(c.run, c.sigma, c.epsilon, p, q)
	return [2]float64{pq, qp}
}

// cut goes through the sets of entries that stay at each step.
func (c mechanismCase) cut(step int, patterns []int, r counts, weight float64, with, without [4]float64, p, q sums) {
	if weight == 0 {
		return
	}
	if step == c.run.steps() {
		p[with] += weight
		q[without] += weight
		return
	}
	var sampled []int
	for e, pattern := range patterns {
		if pattern>>step&1 == 1 {
			sampled = append(sampled, e)
		}
	}
	most, rest := c.run.Sampler.Truncation.MaxBatchSize, int(r[step])
	for stay := range 1 << len(sampled) {
		own, number := 0.0, 0
		for i, e := range sampled {
			if stay>>i&1 == 1 {
				own += c.gradients[e][step]
				number++
			}
		}
		chance, kept := 0.0, rest
		switch all := rest + len(sampled); {
		case all <= most && number == len(sampled):
			chance = 1
		case all > most && number <= most:
			kept = most - number
			chance = choose(rest, kept) / choose(all, most)
		}
		with[step] = own + float64(kept)*c.others[step]
		if c.removed {
			kept = min(rest, most)
		}
		without[step] = float64(kept) * c.others[step]
		c.cut(step+1, patterns, r, weight*chance, with, without, p, q)
	}
}

func choose(n, k int) float64 {
	if k < 0 || k > n {
		return 0
	}
	x := 1.0
	for i := range k {
		x = x * float64(n-i) / float64(i+1)
	}
	return x
}

// divergences are H(P,Q) and H(Q,P) of C times the sums with noise.
func divergences(run Run, sigma, epsilon float64, p, q sums) (pq, qp float64) {
	n := run.steps()
	times := func(list sums) sums {
		means := sums{}
		for at, weight := range list {
			var mean [4]float64
			for j := range n {
				for i, v := range run.Strategy.Column(nil, j) {
					mean[j+i] += v * at[j]
				}
			}
			means[mean] += weight
		}
		return means
	}
	return gridDivergences(n, []float64{0.02, 0.15, 0.33, 0.6}[n-1], sigma, epsilon, times(p), times(q))
}

// gridDivergences are H(P,Q) and H(Q,P) of mixtures of n-dimensional normal distributions by their
// means, over the cells of a grid, whose width is in units of σ: what is seen of outputs is their
// cell, so that nothing comes out too large, and, cells being small, little too small.
func gridDivergences(n int, width, sigma, epsilon float64, p, q sums) (pq, qp float64) {
	width *= sigma
	// The components of both mixtures, and along every axis the probabilities of cells.
	var first []float64 // weights of P then Q
	var means [][4]float64
	split := 0
	for _, m := range []sums{p, q} {
		for mean, weight := range m {
			first, means = append(first, weight), append(means, mean)
		}
		if split == 0 {
			split = len(first)
		}
	}
	axes := make([][][]float64, n) // by axis, cell, component
	for i := range axes {
		low, high := math.Inf(1), math.Inf(-1)
		for _, m := range means {
			low, high = min(low, m[i]), max(high, m[i])
		}
		low, high = low-5.5*sigma, high+5.5*sigma
		cells := int(math.Ceil((high - low) / width))
		axes[i] = make([][]float64, cells)
		for k := range axes[i] {
			axes[i][k] = make([]float64, len(means))
			for c, m := range means {
				from, to := 0.0, 1.0
				if k > 0 {
					from = math.Erfc(-(low+float64(k)*width-m[i])/(sigma*math.Sqrt2)) / 2
				}
				if k+1 < cells {
					to = math.Erfc(-(low+float64(k+1)*width-m[i])/(sigma*math.Sqrt2)) / 2
				}
				axes[i][k][c] = to - from
			}
		}
	}
	gamma := math.Exp(epsilon)
	partial := make([][]float64, n)
	for i := range partial {
		partial[i] = make([]float64, len(first))
	}
	var walk func(axis int, weights []float64)
	walk = func(axis int, weights []float64) {
		for _, cell := range axes[axis] {
			if axis+1 < n {
				next := partial[axis]
				for c, w := range weights {
					next[c] = w * cell[c]
				}
				walk(axis+1, next)
				continue
			}
			a, b := 0.0, 0.0
			for c, w := range weights[:split] {
				a += w * cell[c]
			}
			for c, w := range weights[split:] {
				b += w * cell[split+c]
			}
			pq += max(0, a-gamma*b)
			qp += max(0, b-gamma*a)
		}
	}
	walk(0, first)
	return pq, qp
}

// randomMechanism draws a case of so many steps, with corners among them.
func randomMechanism(rng *rand.Rand, steps int) (c mechanismCase) {
	pick := func(values ...float64) float64 { return values[rng.IntN(len(values))] }
	p := pick(0.05, 0.2, 0.5, 0.8, 1, rng.Float64())
	minSep := 1 + rng.IntN(steps)
	c.own = 1
	var s sampling.Spec
	switch rng.IntN(10) {
	case 0, 1, 2:
		s.BMinSep = &sampling.BMinSep{Prob: p, Steps: steps, MinSep: minSep, WarmStart: true}
	case 3:
		s.BMinSep = &sampling.BMinSep{Prob: p, Steps: steps, MinSep: minSep}
	case 4:
		s.Poisson, minSep = &sampling.Poisson{Prob: p, Steps: steps}, 1
	case 5:
		minSep = 1 + rng.IntN(steps+1)
		s.BallsInBins = &sampling.BallsInBins{Steps: steps, Period: minSep}
	case 6:
		if epoch := minSep + rng.IntN(3); rng.IntN(2) == 0 {
			s.EpochMinSep = &sampling.EpochMinSep{Steps: steps, EpochSteps: epoch, MinSep: minSep}
		} else {
			s.Rotation, minSep = &sampling.Rotation{Steps: steps, EpochSteps: epoch}, 1
		}
	default:
		s.CyclicPoisson = &sampling.CyclicPoisson{Prob: p, Steps: steps, MinSep: minSep, SecretPartition: rng.IntN(2) == 0}
	}
	bands := 1 + rng.IntN(minSep)
	if (s.BMinSep != nil || s.Poisson != nil) && rng.IntN(3) == 0 {
		if c.own = 2; s.Poisson != nil { // of several bands only one example
			bands = 1
		}
	} else if (s.BMinSep != nil || s.BallsInBins != nil) && rng.IntN(4) == 0 {
		bands = steps
	}
	bands = min(bands, steps)
	first := []float64{pick(1, 0.5+rng.Float64())}
	for len(first) < bands {
		first = append(first, rng.Float64()*first[len(first)-1])
	}
	c.run = Run{Sampler: s, MaxExamplesPerOwner: c.own, Strategy: &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: steps, Toeplitz: first}}
	if rng.IntN(5) == 0 {
		c.run.Strategy.Normalized = true
	}
	c.run.Examples = int64(c.own + 1 + rng.IntN(4))
	most := 1 + rng.IntN(int(c.run.Examples))
	if rng.IntN(3) == 0 {
		most = max(1, int(c.run.Examples)-c.own) // one too many at most, or two
	}
	c.run.Sampler.Truncation = &sampling.Truncation{MaxBatchSize: most}
	c.sigma, c.epsilon = pick(0.3, 0.5, 0.8, 1.2, 2), pick(0, 0.1, 0.5, 1, 2, 3)
	sign := func() float64 { return pick(-1, 1, 1-2*rng.Float64()) }
	for range c.own {
		var g [4]float64
		for i := range g {
			g[i] = sign()
		}
		c.gradients = append(c.gradients, g)
	}
	for i := range c.others {
		c.others[i] = sign()
		if rng.IntN(2) == 0 {
			c.others[i] = -c.gradients[0][i] // what is displaced adds to what is there
		}
	}
	if rng.IntN(2) == 0 {
		for e := range c.gradients {
			c.gradients[e] = [4]float64{1, 1, 1, 1}
		}
		c.others = [4]float64{-1, -1, -1, -1}
	}
	return c
}
