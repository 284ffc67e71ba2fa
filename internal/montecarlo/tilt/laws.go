package tilt

import (
	"minsep/internal/montecarlo/internal/law"
	"minsep/internal/montecarlo/internal/tuples"
)

// pointsOf is a law as a chain from point to point. Its states are the free labels.
func pointsOf(l law.Law, steps int) tuples.Law {
	at := func(label, step int) tuples.Point {
		free := l.FreeAt(label, step)
		if free >= steps && l.AllFreeAt(step) >= steps {
			return tuples.Point{Step: tuples.Never}
		}
		return tuples.Point{Step: free, State: l.Pass(label, step, free)}
	}
	points := tuples.Law{Next: func(p tuples.Point) (float64, tuples.Point, tuples.Point) {
		kind, _ := l.Kind(p.Step + 1)
		in, out := l.Enter(p.State, kind, true), l.Enter(p.State, kind, false)
		return l.Hazard(p.State, p.Step), at(in, p.Step+1), at(out, p.Step+1)
	}}
	starts, _ := l.Starts()
	for _, s := range starts {
		points.Start = append(points.Start, tuples.Start{Point: at(s.Label, 0), Prob: s.Prob})
	}
	switch every := l.FreeUntil(0); {
	case law.Alike(l, steps):
		points.Period = 1
	case every < steps:
		points.Period = every
	}
	return points
}
