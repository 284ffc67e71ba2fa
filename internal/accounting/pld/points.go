package pld

import (
	"cmp"
	"math"
	"slices"

	"minsep/internal/param"
)

// Point is a guarantee of (Epsilon, Delta)-differential privacy in both directions.
type Point struct {
	Epsilon float64 `json:"epsilon"` // at least 0
	Delta   float64 `json:"delta"`   // at least 0, at most 1
}

// Points is a mechanism that is known by guarantees, all of which hold; at least one.
type Points []Point

// LargestPoint is the largest ε of a point that is used: e^ε of a larger one is beyond any δ of
// interest. A training with larger points only counts as a total loss of privacy.
const LargestPoint = 500

// Validate reports every fault.
func (ps Points) Validate() error {
	c := param.Checker{}
	c.Require(len(ps) > 0, "points", len(ps), "must not be empty")
	for _, p := range ps {
		c.Require(
			p.Epsilon >= 0 && p.Delta >= 0 && p.Delta <= 1,
			"point",
			p,
			"must have an epsilon of at least 0, and a delta of at least 0 and at most 1",
		)
	}
	return c.Err()
}

func (ps Points) resolution(float64) resolution {
	out := resolution{fine: math.Inf(1), adds: true}
	for _, p := range ps {
		if p.Epsilon <= LargestPoint {
			out.least = max(out.least, p.Epsilon/(maxCells/4))
		}
		if p.Epsilon > 0 {
			out.fine = min(out.fine, p.Epsilon/50)
		}
	}
	return out
}

// rounding bounds the error of a side's mass: a width is a difference of numbers up to 1/slope.
const rounding = 1e-15

// line bounds a true positive rate by at + slope·FPR, with ln(slope) = loss.
type line struct{ at, loss float64 }

// losses returns the privacy loss distribution of the points' trade-off curve (F6.1, F6.2), a concave
// polygon, which is the same in both directions. A side of slope e^ℓ over a width w of false positive rates is an outcome of loss
// ℓ, with probability w·e^ℓ under P and w under Q. The height of the curve at 0 is a loss of all
// privacy. Losses are put on the grid so that P and Q keep their masses.
func (ps Points) losses(grid, _ float64) (pq, qp atoms) {
	lines := []line{{1, math.Inf(-1)}}
	for _, p := range ps {
		if p.Epsilon <= LargestPoint {
			lines = append(lines, line{p.Delta, p.Epsilon}, line{p.Delta - math.Expm1(-p.Epsilon)*(1-p.Delta), -p.Epsilon})
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
		inf:  min(1, sides[0].at*(1+1e-12)),
	}
	for i, s := range sides {
		if math.IsInf(s.loss, -1) || widths[i] <= 0 {
			continue
		}
		out.put(s.loss/grid, grid, widths[i]*math.Exp(s.loss))
	}
	// Mass that may be lost to rounding goes to the highest loss: there it is worth most.
	out.mass[len(out.mass)-1] += rounding*float64(len(sides)) + max(0, 1-out.inf-total(out.mass))
	return out, out
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
