package accounting

import (
	"math"
	"slices"
	"testing"

	"minsep/internal/accounting/pld"
	"minsep/internal/normal"
	"minsep/mechanism"
	"minsep/sampling"
)

// TestAllocations: every step is a place of a period, the last period cut too, and what is no
// composition of periods is not taken for one.
func TestAllocations(t *testing.T) {
	of := func(steps, epoch int, s *mechanism.Strategy) Run {
		return Run{Sampler: sampling.Spec{Rotation: &sampling.Rotation{Steps: steps, EpochSteps: epoch}}, Strategy: s, MaxExamplesPerOwner: 1}
	}
	for _, c := range []struct {
		steps, epoch int
		places       []int // by period, a period for each of Count
	}{{8, 4, []int{4, 4}}, {10, 4, []int{4, 4, 2}}, {9, 4, []int{4, 4, 1}}, {3, 4, []int{3}}, {5, 1, []int{1, 1, 1, 1, 1}}} {
		periods, ok := of(c.steps, c.epoch, mechanism.Identity(c.steps)).Allocations(0.7)
		var places []int
		for _, p := range periods {
			a := p.Event.(pld.Allocation)
			if a != (pld.Allocation{Steps: float64(c.epoch), Places: a.Places, NoiseMultiplier: 0.7, Sensitivity: 1}) {
				t.Errorf("%d steps in periods of %d: %+v", c.steps, c.epoch, p)
			}
			places = append(places, slices.Repeat([]int{a.Places}, p.Count)...)
		}
		if !ok || !slices.Equal(places, c.places) {
			t.Errorf("%d steps in periods of %d: places %v, want %v", c.steps, c.epoch, places, c.places)
		}
	}

	bands := &mechanism.Strategy{Kind: mechanism.KindDense, Steps: 4, Columns: [][]float64{{.8, .6}, {.8, .6}, {.8, .6}, {1}}}
	unequal := &mechanism.Strategy{Kind: mechanism.KindDense, Steps: 4, Columns: [][]float64{{1}, {2}, {1}, {1}}}
	several, cut := of(8, 4, mechanism.Identity(8)), of(8, 4, mechanism.Identity(8))
	several.MaxExamplesPerOwner = 2
	cut.Sampler.Truncation = &sampling.Truncation{MaxBatchSize: 3}
	apart := Run{Sampler: sampling.Spec{EpochMinSep: &sampling.EpochMinSep{Steps: 8, MinSep: 2, EpochSteps: 4}}, Strategy: mechanism.Identity(8), MaxExamplesPerOwner: 1}
	sampled := func(s sampling.Spec) Run {
		return Run{Sampler: s, Strategy: mechanism.Identity(8), MaxExamplesPerOwner: 1}
	}
	for name, run := range map[string]Run{
		"a cold start":        sampled(sampling.Spec{BMinSep: &sampling.BMinSep{Prob: .3, Steps: 8, MinSep: 8}}),
		"b-min-sep, twice":    sampled(sampling.Spec{BMinSep: &sampling.BMinSep{Prob: .3, Steps: 8, MinSep: 7, WarmStart: true}}),
		"bins of other sizes": sampled(sampling.Spec{BallsInBins: &sampling.BallsInBins{Steps: 8, Period: 5}}),
		"two bands":           of(4, 2, bands), "columns of other norms": of(4, 2, unequal), "several examples": several, "a maximum batch size": cut, "a min-sep of two": apart,
	} {
		if periods, ok := run.Allocations(1); ok {
			t.Errorf("%s: is a composition of %v", name, periods)
		}
	}
}

// pattern is a set of steps at which an owner takes part, with its probability.
type pattern struct {
	prob  float64
	steps []int
}

// enumerated integrates the divergences of independent noise over all outputs, the mixture over
// patterns against none of them.
func enumerated(patterns []pattern, steps int, sigma, epsilon float64, nodes int) (pq, qp float64) {
	const edge = 8.
	d, gamma, at := 2*edge/float64(nodes), math.Exp(epsilon), make([]int, steps)
	for {
		weight := math.Pow(d, float64(steps))
		for _, j := range at {
			weight *= normal.Density(-edge + (float64(j)+0.5)*d)
		}
		f := 0.
		for _, p := range patterns {
			loss := 0.
			for _, i := range p.steps {
				loss += (-edge+(float64(at[i])+0.5)*d)/sigma - 1/(2*sigma*sigma)
			}
			f += p.prob * math.Exp(loss)
		}
		pq += weight * max(0, f-gamma)
		qp += weight * max(0, 1-gamma*f)
		i := 0
		for ; i < steps; i++ {
			if at[i]++; at[i] < nodes {
				break
			}
			at[i] = 0
		}
		if i == steps {
			return pq, qp
		}
	}
}

// renewal is b-min-sep from a warm start, by its chain: the owner waits w more steps.
func renewal(prob float64, steps, minSep int) (patterns []pattern) {
	total := 1 + float64(minSep-1)*prob
	var walk func(step, wait int, p float64, took []int)
	walk = func(step, wait int, p float64, took []int) {
		switch {
		case step == steps:
			patterns = append(patterns, pattern{p, slices.Clone(took)})
		case wait > 0:
			walk(step+1, wait-1, p, took)
		default:
			walk(step+1, minSep-1, p*prob, append(slices.Clone(took), step))
			walk(step+1, 0, p*(1-prob), took)
		}
	}
	walk(0, 0, 1/total, nil)
	for wait := 1; wait < minSep; wait++ {
		walk(0, wait, prob/total, nil)
	}
	return patterns
}

// inBins is balls-in-bins, bin by bin, and with one epoch a uniform step of an epoch.
func inBins(steps, period int) (patterns []pattern) {
	for bin := range period {
		p := pattern{prob: 1 / float64(period)}
		for t := bin; t < steps; t += period {
			p.steps = append(p.steps, t)
		}
		patterns = append(patterns, p)
	}
	return patterns
}

// TestAllocationsAgainstEnumeration: schemes in which an owner takes part once, or always in one
// bin, are proven at no less than the integral over all outputs, and hardly more.
func TestAllocationsAgainstEnumeration(t *testing.T) {
	for name, c := range map[string]struct {
		sampler  sampling.Spec
		patterns []pattern
		steps    int
		norm     float64 // of a column of the strategy
	}{
		"b-min-sep":                 {sampling.Spec{BMinSep: &sampling.BMinSep{Prob: .3, Steps: 3, MinSep: 3, WarmStart: true}}, renewal(.3, 3, 3), 3, 1},
		"b-min-sep, wide":           {sampling.Spec{BMinSep: &sampling.BMinSep{Prob: .5, Steps: 2, MinSep: 5, WarmStart: true}}, renewal(.5, 2, 5), 2, 1.3},
		"b-min-sep, certainly":      {sampling.Spec{BMinSep: &sampling.BMinSep{Prob: 1, Steps: 2, MinSep: 2, WarmStart: true}}, renewal(1, 2, 2), 2, 1},
		"balls-in-bins":             {sampling.Spec{BallsInBins: &sampling.BallsInBins{Steps: 3, Period: 3}}, inBins(3, 3), 3, 1},
		"balls-in-bins, unfinished": {sampling.Spec{BallsInBins: &sampling.BallsInBins{Steps: 2, Period: 3}}, inBins(2, 3), 2, 1},
		"balls-in-bins, epochs":     {sampling.Spec{BallsInBins: &sampling.BallsInBins{Steps: 4, Period: 2}}, inBins(4, 2), 4, .6},
		"epoch-min-sep":             {sampling.Spec{EpochMinSep: &sampling.EpochMinSep{Steps: 2, MinSep: 2, EpochSteps: 4}}, inBins(2, 4), 2, 1},
	} {
		column := mechanism.Identity(c.steps)
		if c.norm != 1 {
			column = &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: c.steps, Toeplitz: []float64{c.norm}}
		}
		run := Run{Sampler: c.sampler, Strategy: column, MaxExamplesPerOwner: 1}
		if method, err := run.Method(); method != PLD {
			t.Fatalf("%s: method %q, %v", name, method, err)
		}
		nodes := map[int]int{2: 600, 3: 90, 4: 44}[c.steps]
		for _, sigma := range []float64{.7, 1.5} {
			for _, epsilon := range []float64{0, .3, 1} {
				want, mirrored := enumerated(c.patterns, c.steps, sigma/c.norm, epsilon, nodes)
				pq, qp, err := run.Prove(sigma, epsilon)
				if err != nil {
					t.Fatal(err)
				}
				for i, d := range [][2]float64{{pq, want}, {qp, mirrored}} {
					if d[0] < d[1]*(1-5e-3)-1e-7 || d[0] > 1.03*d[1]+1e-5 {
						t.Errorf("%s, σ = %v, ε = %v, direction %d: %.6g, enumeration %.6g", name, sigma, epsilon, i, d[0], d[1])
					}
				}
			}
		}
	}
}
