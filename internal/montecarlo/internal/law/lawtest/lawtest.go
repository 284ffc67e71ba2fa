// Package lawtest has a law for tests, and the patterns of any law, for enumerations.
package lawtest

import (
	"math"

	"minsep/internal/montecarlo/internal/law"
)

// Tide is a law that no scheme has. An example is of one of two sorts. The hazards differ between
// the sorts, and between the steps. A participation blocks the example for MinSep-1 steps. Label
// sort·MinSep + r has r steps to wait.
type Tide struct {
	law.Plain
	MinSep int     // at least 1
	Prob   float64 // of a participation at most, 0 to 1
}

func (l Tide) sort(label int) int { return label / l.MinSep }

func (l Tide) Labels() int { return 2 * l.MinSep }

func (l Tide) Free(label int) bool { return label%l.MinSep == 0 }

func (l Tide) Starts() (starts []law.Start, drawn bool) {
	return []law.Start{{Label: l.MinSep, Prob: .6, Log: math.Log(.6)}, {Label: 0, Prob: .4, Log: math.Log(.4)}}, true
}

func (l Tide) Hazard(label, step int) float64 {
	return l.Prob / float64(1+2*l.sort(label)) * float64(1+step%5) / 5
}

func (l Tide) Quiet(label, from, to int) float64 {
	quiet := 1.0
	for i := from; i < to; i++ {
		quiet *= 1 - l.Hazard(label, i)
	}
	return quiet
}

func (l Tide) Age(label int) int {
	if r := label % l.MinSep; r > 0 {
		return l.MinSep - r
	}
	return 0
}

func (l Tide) Enter(label, _ int, takes bool) int {
	switch {
	case takes:
		return l.sort(label)*l.MinSep + l.MinSep - 1
	case l.Free(label):
		return label
	}
	return label - 1
}

func (l Tide) FreeAt(label, step int) int { return step + label%l.MinSep }

func (l Tide) Pass(label, from, to int) int { return max(label-to+from, l.sort(label)*l.MinSep) }

func (l Tide) Unmet(i int) (from, to int) { return i + l.MinSep, i + l.MinSep + 1 }

// Pattern is the steps of the participations of one example, with their probability.
type Pattern struct {
	Steps []int
	Prob  float64
}

// Patterns lists every pattern of a run by a law's labels, step after step.
func Patterns(l law.Law, steps int) (all []Pattern) {
	var walk func(i, label int, at []int, prob float64)
	walk = func(i, label int, at []int, prob float64) {
		if prob == 0 {
			return
		}
		if i == steps {
			all = append(all, Pattern{append([]int(nil), at...), prob})
			return
		}
		kind, _ := l.Kind(i + 1)
		hazard := 0.0
		if l.Free(label) {
			hazard = l.Hazard(label, i)
		}
		walk(i+1, l.Enter(label, kind, false), at, prob*(1-hazard))
		walk(i+1, l.Enter(label, kind, true), append(at, i), prob*hazard)
	}
	starts, _ := l.Starts()
	for _, s := range starts {
		walk(0, s.Label, nil, s.Prob)
	}
	return all
}
