package montecarlo

import (
	"fmt"
	"testing"

	"minsep/internal/montecarlo/internal/kernel"
	"minsep/internal/stattest"
	"minsep/internal/stream"
	"minsep/sampling"
)

const patternSteps = 6

// pattern is how often an owner's examples take part at each step.
type pattern [patternSteps]int

type programs = struct {
	formed sampling.Spec
	drawn  Spec
	stride int64
}

// lawPrograms are those of a law with at most two participations.
func lawPrograms(p float64) programs {
	law := sampling.Law{Start: []sampling.Start{{Prob: 0.5}, {Point: sampling.Point{Step: 1}, Prob: 0.5}}, Next: func(at sampling.Point) (float64, sampling.Point, sampling.Point) {
		in := sampling.Point{Step: at.Step + 2, State: at.State + 1}
		if at.State == 1 {
			in.Step = sampling.Never
		}
		return p, in, sampling.Point{Step: at.Step + 1, State: at.State}
	}}
	table, err := law.Tabulate(patternSteps)
	if err != nil {
		panic(err)
	}
	return programs{sampling.Spec{Law: table}, Spec{Scheme: Law, MinSep: table.Separation(), LawTable: table}, 1}
}

// twoPrograms are the schemes as batches are formed by them and as their losses are drawn. The rows
// of the first are multiples of stride.
var twoPrograms = map[string]programs{
	"b-min-sep":        {sampling.Spec{BMinSep: &sampling.BMinSep{Prob: 0.3, Steps: patternSteps, MinSep: 3}}, Spec{Scheme: BMinSep, MinSep: 3, Prob: 0.3}, 1},
	"b-min-sep, warm":  {sampling.Spec{BMinSep: &sampling.BMinSep{Prob: 0.3, Steps: patternSteps, MinSep: 3, WarmStart: true}}, Spec{Scheme: BMinSep, MinSep: 3, Prob: 0.3, WarmStart: true}, 1},
	"b-min-sep, once":  {sampling.Spec{BMinSep: &sampling.BMinSep{Prob: 0.4, Steps: patternSteps, MinSep: 9, WarmStart: true}}, Spec{Scheme: BMinSep, MinSep: 9, Prob: 0.4, WarmStart: true}, 1},
	"b-min-sep of two": {sampling.Spec{BMinSep: &sampling.BMinSep{Prob: 0.2, Steps: patternSteps, MinSep: 2, WarmStart: true}}, Spec{Scheme: BMinSep, MinSep: 2, Prob: 0.2, WarmStart: true, MaxExamplesPerOwner: 2}, 1},
	"epochs": {sampling.Spec{EpochMinSep: &sampling.EpochMinSep{Steps: patternSteps, MinSep: 2, EpochSteps: 4}},
		Spec{Scheme: EpochMinSep, MinSep: 2, EpochSteps: 4}, 1},
	"epochs of two": {sampling.Spec{EpochMinSep: &sampling.EpochMinSep{Steps: patternSteps, MinSep: 2, EpochSteps: 4}},
		Spec{Scheme: EpochMinSep, MinSep: 2, EpochSteps: 4, MaxExamplesPerOwner: 2}, 1},
	"epochs of three": {sampling.Spec{EpochMinSep: &sampling.EpochMinSep{Steps: patternSteps, MinSep: 2, EpochSteps: 4}},
		Spec{Scheme: EpochMinSep, MinSep: 2, EpochSteps: 4, MaxExamplesPerOwner: 3}, 1},
	"epochs of min-sep 1": {sampling.Spec{EpochMinSep: &sampling.EpochMinSep{Steps: patternSteps, MinSep: 1, EpochSteps: 3}},
		Spec{Scheme: EpochMinSep, MinSep: 1, EpochSteps: 3}, 1},
	"poisson":          {sampling.Spec{Poisson: &sampling.Poisson{Prob: 0.3, Steps: patternSteps}}, Spec{Scheme: Poisson, MinSep: 1, Prob: 0.3}, 1},
	"poisson of three": {sampling.Spec{Poisson: &sampling.Poisson{Prob: 0.1, Steps: patternSteps}}, Spec{Scheme: Poisson, MinSep: 1, Prob: 0.1, MaxExamplesPerOwner: 3}, 1},
	"balls-in-bins":    {sampling.Spec{BallsInBins: &sampling.BallsInBins{Steps: patternSteps, Period: 4}}, Spec{Scheme: BallsInBins, MinSep: 4}, 1},
	"bins, once":       {sampling.Spec{BallsInBins: &sampling.BallsInBins{Steps: patternSteps, Period: 8}}, Spec{Scheme: BallsInBins, MinSep: 8}, 1},
	"cyclic, one part": {sampling.Spec{CyclicPoisson: &sampling.CyclicPoisson{Prob: 0.4, Steps: patternSteps, MinSep: 4}}, Spec{Scheme: CyclicPoisson, MinSep: 4, Prob: 0.4}, 4},
	"cyclic, secret":   {sampling.Spec{CyclicPoisson: &sampling.CyclicPoisson{Prob: 0.4, Steps: patternSteps, MinSep: 4, SecretPartition: true}}, Spec{Scheme: CyclicPoisson, MinSep: 4, Prob: 0.4, WarmStart: true}, 1},
	"law":              lawPrograms(0.3),
	"rotation":         {sampling.Spec{Rotation: &sampling.Rotation{Steps: patternSteps, EpochSteps: 3}}, Spec{Scheme: Rotation, EpochSteps: 3, MinSep: 1}, 1},
	"rotation, once":   {sampling.Spec{Rotation: &sampling.Rotation{Steps: patternSteps, EpochSteps: 12}}, Spec{Scheme: Rotation, EpochSteps: 12, MinSep: 1}, 1},
	"multi-owner of two": {sampling.Spec{MultiOwner: &sampling.MultiOwner{Prob: 0.2, Steps: patternSteps, MinSep: 3}},
		Spec{Scheme: MultiOwner, MinSep: 3, Prob: 0.2, WarmStart: true, MaxExamplesPerOwner: 2}, 1},
}

const patternOwners = 100000

// formedPatterns counts the patterns of owners with k examples whose batches are formed by s.
func formedPatterns(s sampling.Spec, k int, stride int64, name string) map[pattern]int {
	src := stream.NewSource(testKeyOf("formed " + name))
	sampler := s.Process().Sampler(src)
	counts := map[pattern]int{}
	steps, owners := make([][]int32, k), make([][]int32, k)
	for owner := range int64(patternOwners) {
		for e := range steps {
			row := (owner*int64(k) + int64(e)) * stride
			steps[e], owners[e] = sampler.Append(steps[e][:0], src.IntAddress(row, 0), row), []int32{0}
		}
		taken := steps
		if s.MultiOwner != nil {
			taken = s.MultiOwner.Exclude(steps, owners)
		}
		var x pattern
		for _, list := range taken {
			for _, t := range list {
				x[t]++
			}
		}
		counts[x]++
	}
	return counts
}

// drawnPatterns counts the patterns of which the losses of s are drawn.
func drawnPatterns(s Spec, name string) map[pattern]int {
	s.Steps = patternSteps
	process, d := newParticipations(s), testDraws("drawn "+name)
	counts := map[pattern]int{}
	var hits []kernel.Hit
	for range patternOwners {
		hits = process.appendHits(hits[:0], d)
		var x pattern
		for i, hit := range hits {
			x[hit.Step] += hit.Times
			if i > 0 && hit.Step < hits[i-1].Step {
				x[0] = -1 // not sorted: a pattern that nobody forms
			}
		}
		counts[x]++
	}
	return counts
}

// differ compares two samples of the same size: given how often a pattern is seen in both, each of
// them is as likely to have it, and the tails of that hypergeometric distribution are below those
// of the binomial one (Hoeffding 1963, section 6).
func differ(a, b map[pattern]int) error {
	for _, counts := range []map[pattern]int{a, b} {
		for x := range counts {
			if err := stattest.Count(a[x], a[x]+b[x], 0.5); err != nil {
				return fmt.Errorf("pattern %v: %d and %d: %w", x, a[x], b[x], err)
			}
		}
	}
	return nil
}

// TestDrawsAreThoseOfBatches holds the participations of which losses are drawn against those that
// batches are formed of: two programs, of other random words, for one distribution. Those of
// another probability, min-sep or start are told apart.
func TestDrawsAreThoseOfBatches(t *testing.T) {
	covered := map[string]bool{}
	for name, c := range twoPrograms {
		covered[c.drawn.Scheme] = true
		if c.formed.Scheme().Name() != c.drawn.Scheme {
			t.Errorf("%s: compares %s with %s", name, c.formed.Scheme().Name(), c.drawn.Scheme)
		}
		formed := formedPatterns(c.formed, c.drawn.ExamplesPerOwner(), c.stride, name)
		if err := differ(formed, drawnPatterns(c.drawn, name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var wrong []Spec
		switch c.drawn.Scheme {
		case Rotation: // it has no min-sep
		case Law:
			wrong = append(wrong, lawPrograms(0.35).drawn)
		default:
			wrong = append(wrong, c.drawn)
			wrong[0].MinSep++
		}
		if c.drawn.EpochSteps > 0 {
			longer := c.drawn
			longer.EpochSteps++
			wrong = append(wrong, longer)
		}
		if c.drawn.Prob > 0 {
			other := c.drawn
			other.Prob *= 1.3
			wrong = append(wrong, other)
		}
		for _, w := range wrong {
			if differ(formed, drawnPatterns(w, name)) == nil {
				t.Errorf("%s: taken for %+v", name, w)
			}
		}
	}
	for name := range schemes {
		if !covered[name] {
			t.Errorf("%s: no case", name)
		}
	}
}
