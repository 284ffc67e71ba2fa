package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"minsep/internal/accounting"
	"minsep/internal/accounting/calibration"
	"minsep/mechanism"
	"minsep/sampling"
)

// space is the set of strategies among which a published row takes the best. They differ in a size
// from a list, in a number x, in both, or in neither: then there is one strategy.
type space struct {
	make func(size int, x float64) (*mechanism.Strategy, error)

	sizeName string
	sizes    []int // in order; one at least
	start    int   // where the search begins, as an index of sizes

	// The number x, searched in [low, high] beginning at from with steps of step; no number if
	// step is 0. shown maps it to the printed value, x itself if it is nil.
	name                  string
	from, step, low, high float64
	shown                 func(size int, x float64) float64
}

// found is the RMSE of a strategy of a space.
type found struct {
	size   int
	x      float64
	rmse   float64
	stdErr float64 // of rmse
	noise  calibration.Noise
	ends   []string // sizes that were refused, and why
}

// parameters says which strategy of s was found.
func (s space) parameters(f found) string {
	var text string
	if len(s.sizes) > 1 {
		text = fmt.Sprintf("%s = %d", s.sizeName, f.size)
	}
	if s.step > 0 {
		if text != "" {
			text += ", "
		}
		x := f.x
		if s.shown != nil {
			x = s.shown(f.size, x)
		}
		text += fmt.Sprintf("%s = %.3g", s.name, x)
	}
	return strings.Join(append([]string{text}, f.ends...), "; ")
}

// claim holds everything besides the strategy that the noise multiplier of a published figure
// depends on.
type claim struct {
	epsilon, delta float64
	sampler        func(s *mechanism.Strategy) sampling.Spec
}

// least looks for the strategy of the least RMSE for prefix sums: at each size by the number,
// over sizes as long as it falls. The search goes by H(P,Q); its result holds for both
// directions. The least of several estimates is too small on average, so the result is
// estimated afresh.
func (s space) least(ctx context.Context, c claim) (found, error) {
	near := 0.0                       // noise multiplier of the last one, over its largest column norm
	best, estimates := math.Inf(1), 0 // the least of all that were estimated, and how many they are
	estimate := func(size int, x float64) (found, error) {
		estimates++
		f := found{size: size, x: x}
		strategy, err := s.make(size, x)
		if err != nil {
			return f, err
		}
		e, err := strategy.Error(mechanism.Prefix(strategy.Steps))
		if err != nil {
			return f, err
		}
		run := accounting.Run{Sampler: c.sampler(strategy), Strategy: strategy, MaxExamplesPerOwner: 1}
		norm := slices.Max(run.ColumnNorms())
		f.noise, err = calibration.Claim{Run: run, Epsilon: c.epsilon, Delta: c.delta}.Noise(ctx, near*norm, best/e.RMSE)
		if err != nil {
			if named := s.parameters(f); named != "" {
				err = fmt.Errorf("%s: %w", named, err)
			}
			return f, err
		}
		near = f.noise.Multiplier / norm
		f.rmse, f.stdErr = f.noise.Multiplier*e.RMSE, f.noise.StdErr*e.RMSE
		best = min(best, f.rmse)
		return f, nil
	}
	x := s.from
	var refused *accounting.RefusedError
	var ends []string
	f, err := climb(s.start, len(s.sizes), func(i int) (found, error) {
		f, err := s.lowest(x, func(x float64) (found, error) { return estimate(s.sizes[i], x) })
		if i != s.start && errors.As(err, &refused) { // no candidate: the sizes end before it
			ends = append(ends, fmt.Sprintf("%s = %d is refused, %s", s.sizeName, s.sizes[i], refused.Reason))
			return found{rmse: math.Inf(1)}, nil
		}
		if err == nil && s.step > 0 {
			x = f.x
		}
		return f, err
	})
	if err != nil {
		return f, err
	}
	if estimates > 1 {
		c.epsilon *= 1 + 1e-9 // has samples of its own
		best = math.Inf(1)
		if f, err = estimate(f.size, f.x); err != nil {
			return f, err
		}
	}
	f.ends = ends
	rms := f.rmse / f.noise.Multiplier
	if f.noise, err = f.noise.Refine(ctx, 10); err != nil { // the search ended with its work
		return f, err
	}
	f.noise, err = f.noise.Both(ctx)
	f.rmse, f.stdErr = f.noise.Multiplier*rms, f.noise.StdErr*rms
	return f, err
}

// lowest is the least of f over the number, from x: three points with the least in their
// middle, then the lowest point of the parabola through them. Errors of a few parts of a
// hundred of f are smaller than the change of a step.
func (s space) lowest(x float64, f func(x float64) (found, error)) (found, error) {
	if s.step == 0 {
		return f(0)
	}
	const most = 8
	var points []found
	add := func(x float64) error {
		p, err := f(x)
		points = append(points, p)
		slices.SortFunc(points, func(a, b found) int { return cmp.Compare(a.x, b.x) })
		return err
	}
	within := func(x float64) float64 { return min(s.high, max(s.low, x)) }
	x = within(x)
	for _, at := range []float64{x, within(x + s.step), within(x - s.step)} {
		if !slices.ContainsFunc(points, func(p found) bool { return p.x == at }) {
			if err := add(at); err != nil {
				return found{}, err
			}
		}
	}
	for {
		i := lowestIndex(points)
		low, high := i == 0 && points[0].x > s.low, i == len(points)-1 && points[i].x < s.high
		if !low && !high {
			break
		}
		if len(points) >= most {
			return found{}, fmt.Errorf("%s: no least RMSE near %.3g: %w", s.name, points[i].x, errNoLeast)
		}
		at := within(points[i].x - s.step)
		if high {
			at = within(points[i].x + s.step)
		}
		if err := add(at); err != nil {
			return found{}, err
		}
	}
	i := lowestIndex(points)
	if i == 0 || i == len(points)-1 { // at an end of the range
		return points[i], nil
	}
	at := vertex(points[i-1], points[i], points[i+1])
	if math.Abs(at-points[i].x) < 0.1*s.step {
		return points[i], nil
	}
	err := add(at)
	return points[lowestIndex(points)], err
}

var errNoLeast = errors.New("papers: the search ends")

func lowestIndex(points []found) int {
	best := 0
	for i, p := range points {
		if p.rmse < points[best].rmse {
			best = i
		}
	}
	return best
}

// vertex is where the parabola through three points, the middle one the lowest, is lowest.
func vertex(a, b, c found) float64 {
	left, right := b.x-a.x, c.x-b.x
	p, q := right*(a.rmse-b.rmse), left*(c.rmse-b.rmse)
	if p+q <= 0 {
		return b.x
	}
	return b.x + (p*right-q*left)/(2*(p+q))
}

// climb returns the least over the indices 0 … count-1, from start and as long as it falls.
func climb(start, count int, at func(i int) (found, error)) (found, error) {
	least, err := at(start)
	if err != nil {
		return least, err
	}
	for _, step := range []int{1, -1} {
		best := start
		for best+step >= 0 && best+step < count {
			f, err := at(best + step)
			if err != nil {
				return least, err
			}
			if f.rmse >= least.rmse {
				break
			}
			best, least = best+step, f
		}
		if best != start {
			break
		}
	}
	return least, nil
}
