package sampling

import (
	"math"
	"sync"
)

// Never is the step of a [Point] that an example does not reach.
const Never = math.MaxInt

// Point is where an example may take part the next time: at Step, counted from 0, in a State that a
// law numbers as it likes. Points after the run count as [Never].
type Point struct{ Step, State int }

// Start is a first point and its probability.
type Start struct {
	Point
	Prob float64
}

// Law is how one example takes part in a run, as a Markov chain from point to point: waiting takes
// no states. It is the description of a scheme; [Law.Tabulate] makes the [Table] from which
// batches are drawn and privacy is accounted for. At most twice, at least a week apart, and never on
// the first day:
//
//	sampling.Law{
//		Start: []sampling.Start{{Point: sampling.Point{Step: 1}, Prob: 1}},
//		Next: func(at sampling.Point) (p float64, in, out sampling.Point) {
//			in = sampling.Point{Step: at.Step + 7, State: at.State + 1}
//			if at.State == 1 {
//				in.Step = sampling.Never
//			}
//			return 0.02, in, sampling.Point{Step: at.Step + 1, State: at.State}
//		},
//	}
type Law struct {
	Start []Start // probabilities with the sum 1
	// Next gives the probability p, in [0, 1], that an example takes part at a point of the run, and
	// its next point, of a later step, if it does (in) and if it does not (out). If p is 0, in is not
	// used; if p is 1, out is not. It is called once for each point that an example can reach.
	Next func(at Point) (p float64, in, out Point)
}

// tables holds the latest tables of schemes, which take some time to make.
var tables struct {
	sync.Mutex
	of map[Scheme]*Table
}

// mostTables bounds the tables that are held.
const mostTables = 8

// TableOf returns the table of a valid scheme that has a law, which may be shared; nil for the
// others, whose examples do not take part independently of each other.
func TableOf(s Scheme) (*Table, error) {
	if t, ok := s.(*Table); ok {
		return t, nil
	}
	of, ok := s.(interface{ Law() Law })
	if !ok {
		return nil, nil
	}
	tables.Lock()
	defer tables.Unlock()
	if t := tables.of[s]; t != nil {
		return t, nil
	}
	t, err := of.Law().Tabulate(s.NumSteps())
	if err != nil {
		return nil, err
	}
	if len(tables.of) >= mostTables || tables.of == nil {
		tables.of = map[Scheme]*Table{}
	}
	tables.of[s] = t
	return t, nil
}

// Law is b-min-sep (F3.2): an example that is free takes part with probability Prob, and is free
// again MinSep steps later. A warm start is the stationary distribution.
func (s BMinSep) Law() Law {
	start := []Start{{Prob: 1}}
	if s.WarmStart {
		total := 1 + float64(s.MinSep-1)*s.Prob
		start[0].Prob = 1 / total
		for r := 1; r < s.MinSep; r++ {
			start = append(start, Start{Point{Step: r}, s.Prob / total})
		}
	}
	return Law{start, func(at Point) (float64, Point, Point) {
		return s.Prob, Point{Step: at.Step + s.MinSep}, Point{Step: at.Step + 1}
	}}
}

// Law takes every step with probability Prob, independently.
func (s Poisson) Law() Law { return BMinSep{Prob: s.Prob, Steps: s.Steps, MinSep: 1}.Law() }

// Law is epoch min-sep (F3.8): a free example takes one of the places of an epoch that are left.
func (s EpochMinSep) Law() Law {
	b, T := s.MinSep, s.EpochSteps
	start := []Start{{Prob: float64(T-b+1) / float64(T)}}
	for r := 1; r < b; r++ {
		start = append(start, Start{Point{Step: r}, 1 / float64(T)})
	}
	return Law{start, func(at Point) (float64, Point, Point) {
		place, epoch := at.Step%T, at.Step/T
		return 1 / float64(T-max(place, b-1)), Point{Step: max(at.Step+b, (epoch+1)*T)}, Point{Step: at.Step + 1}
	}}
}

// Law is one uniform step in each period (F3.12).
func (s Rotation) Law() Law { return s.asEpochMinSep().Law() }

// Law is every Period-th step from a uniform first one on.
func (s BallsInBins) Law() Law {
	return CyclicPoisson{Prob: 1, Steps: s.Steps, MinSep: s.Period, SecretPartition: true}.Law()
}

// Law is Poisson sampling of every MinSep-th step (F3.5), from a uniform first one on if the
// partition is secret, and else from the first step of the run on, which has the most.
func (s CyclicPoisson) Law() Law {
	start := []Start{{Prob: 1}}
	if s.SecretPartition {
		start = nil
		for r := range s.MinSep {
			start = append(start, Start{Point{Step: r}, 1 / float64(s.MinSep)})
		}
	}
	return Law{start, func(at Point) (float64, Point, Point) {
		next := Point{Step: at.Step + s.MinSep}
		return s.Prob, next, next
	}}
}
