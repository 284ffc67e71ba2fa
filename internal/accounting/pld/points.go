package pld

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"minsep/internal/param"
)

// Point is a guarantee of (Epsilon, Delta)-differential privacy in both directions.
type Point struct {
	Epsilon float64 `json:"epsilon"` // at least 0
	Delta   float64 `json:"delta"`   // at least 0, at most 1
}

// Training describes a training that is run Count times. If it has Events, they are its steps;
// otherwise all its Points hold.
type Training struct {
	Events []Step  `json:"events,omitempty"`
	Points []Point `json:"points,omitempty"` // at least one where there are no events
	Count  int     `json:"count"`            // at least 1
}

// LargestPoint is the largest ε of a point that is used: e^ε of a larger one is beyond any δ of
// interest. A training with larger points only counts as a total loss of privacy.
const LargestPoint = 500

// togetherTail is the probability that may be cut off the events of all trainings.
const togetherTail = 1e-20

// Together composes trainings; each may be chosen after a look at the earlier ones (F6.2).
// Its lower bounds are 0: trainings may be more private than their known events or points say.
func Together(trainings []Training) (*Composition, error) {
	c := param.Checker{}
	c.Require(len(trainings) > 0, "trainings", len(trainings), "must not be empty")
	count := 0
	for i, t := range trainings {
		c.Require(
			len(t.Points)+len(t.Events) > 0,
			fmt.Sprintf("points of training %d", i),
			len(t.Points),
			"must not be empty",
		)
		c.Require(
			t.Count >= 1 && t.Count <= MostTrainings,
			"count",
			t.Count,
			fmt.Sprintf("must be at least 1 and at most %d", MostTrainings),
		)
		for _, p := range t.Points {
			c.Require(
				p.Epsilon >= 0 && p.Delta >= 0 && p.Delta <= 1,
				"point",
				p,
				"must have an epsilon of at least 0, and a delta of at least 0 and at most 1",
			)
		}
		checkSteps(&c, t.Events)
		count += t.Count
	}
	c.Require(count <= MostTrainings, "count", count, fmt.Sprintf("must be at most %d", MostTrainings))
	if err := c.Err(); err != nil {
		return nil, err
	}
	grid, tail := togetherGrid(trainings)
	nothing := product{grid: grid, terms: []term{{atoms{mass: []float64{1}}, 1}}, below: true}
	out := &Composition{Loss{nothing, product{grid: grid}}, Loss{nothing, product{grid: grid}}}
	add := func(l *Loss, a atoms, count int) { l.upper.terms = append(l.upper.terms, term{a, float64(count)}) }
	for _, t := range trainings {
		if len(t.Events) == 0 {
			of := discrete(t.Points, grid) // the same in both directions
			add(&out.PQ, of, t.Count)
			add(&out.QP, of, t.Count)
		}
		for _, s := range t.Events {
			for _, d := range out.directions() {
				_, upper, err := s.discretize(d.view, grid, tail)
				if err != nil {
					return nil, err
				}
				add(d.loss, upper, s.Count*t.Count)
			}
		}
	}
	return out, nil
}

// togetherGrid returns the spacing of the losses of all trainings, and the mass that may be cut off
// one event at either end. If no training has events, the spacing divides the first ε, so that the
// usual case, one point a training, is not rounded at all.
func togetherGrid(trainings []Training) (grid, tail float64) {
	count, widest, spread := 0, 0.0, math.Inf(1)
	var events []Step
	for _, t := range trainings {
		if len(t.Events) == 0 {
			count += t.Count
			for _, p := range t.Points {
				if p.Epsilon <= LargestPoint {
					widest = max(widest, p.Epsilon)
				}
				if p.Epsilon > 0 {
					spread = min(spread, p.Epsilon)
				}
			}
		}
		for _, s := range t.Events {
			s.Count *= t.Count
			events, count = append(events, s), count+s.Count
		}
	}
	tail = togetherTail / (2 * float64(count))
	// The rounding of losses adds at most about count·grid² / 8 to ε (F6.2).
	fine, floor := gridOf(events, tail)
	grid = max(min(math.Sqrt(1e-5/float64(count)), spread/50, fine), floor, widest/(maxCells/4), 1e-7)
	if events == nil {
		if first := trainings[0].Points[0].Epsilon; first > grid && first <= LargestPoint { // then its losses need no rounding
			grid = first / math.Floor(first/grid)
		}
	}
	return grid, tail
}

// MostTrainings bounds the number of trainings that are composed: the error of an atom, times their
// number, stays small.
const MostTrainings = 1_000_000

// rounding bounds the error of a side's mass: a width is a difference of numbers up to 1/slope.
const rounding = 1e-15

// line bounds a true positive rate by at + slope·FPR, with ln(slope) = loss.
type line struct{ at, loss float64 }

// discrete returns the privacy loss distribution of the points' trade-off curve (F6.1, F6.2), a
// concave polygon. A side of slope e^ℓ over a width w of false positive rates is an outcome of loss
// ℓ, with probability w·e^ℓ under P and w under Q. The height of the curve at 0 is a loss of all
// privacy. Losses are put on the grid so that P and Q keep their masses.
func discrete(points []Point, grid float64) atoms {
	lines := []line{{1, math.Inf(-1)}}
	for _, p := range points {
		if p.Epsilon <= LargestPoint {
			lines = append(lines, line{p.Delta, p.Epsilon}, line{1 - math.Exp(-p.Epsilon)*(1-p.Delta), -p.Epsilon})
		}
	}
	slices.SortFunc(lines, func(a, b line) int { // from the steepest; of parallel ones the lowest first
		if a.loss != b.loss {
			return cmp.Compare(b.loss, a.loss)
		}
		return cmp.Compare(a.at, b.at)
	})
	sides, widths := envelope(lines)
	edge := 0.0
	for _, s := range sides {
		if !math.IsInf(s.loss, -1) {
			edge = max(edge, math.Abs(s.loss))
		}
	}
	low := -int(math.Ceil(edge/grid)) - 1
	out := atoms{
		low:  low,
		mass: make([]float64, 2-2*low),
		inf:  min(1, sides[0].at*(1+1e-12)+rounding*float64(len(sides))),
	}
	for i, s := range sides {
		if math.IsInf(s.loss, -1) || widths[i] <= 0 {
			continue
		}
		mass := widths[i] * math.Exp(s.loss)
		index := int(math.Floor(s.loss / grid))
		share := min(1, max(0, math.Expm1(float64(index)*grid-s.loss)/math.Expm1(-grid)))
		out.mass[index-low] += mass * (1 - share)
		out.mass[index+1-low] += mass * share
	}
	// Mass lost to rounding goes to the highest loss.
	out.mass[len(out.mass)-1] += max(0, 1-out.inf-total(out.mass))
	return out
}

// envelope returns the lower envelope of the lines over [0, 1]: its sides from the left, and the
// width of each.
func envelope(lines []line) (sides []line, widths []float64) {
	at := 0.0
	value := func(l line) float64 { return l.at + math.Exp(l.loss)*at }
	now := lines[0]
	for _, l := range lines[1:] {
		if value(l) <= value(now) {
			now = l
		}
	}
	for at < 1 {
		next, to := now, 1.0
		for _, l := range lines {
			if l.loss >= now.loss {
				continue
			}
			// A flatter line is below from here on.
			if x := (l.at - now.at) / (math.Exp(now.loss) - math.Exp(l.loss)); x < to || x == to && next != now && l.loss < next.loss {
				next, to = l, max(x, at)
			}
		}
		sides, widths = append(sides, now), append(widths, to-at)
		if next == now {
			break
		}
		now, at = next, to
	}
	return sides, widths
}
