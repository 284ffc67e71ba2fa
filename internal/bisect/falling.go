package bisect

import "math"

// Point is a value of a function.
type Point struct{ X, Y float64 }

// Falling narrows the ends of a falling function's zero, low with a value above 0 that may be +Inf
// and high with one of at most 0, to at most width, and returns the upper end. It is the false position,
// with the value of an end that stays for two rounds halved (Illinois). Each point is kept a third of
// width away from both ends, so that each round shortens the interval. An error of f ends it.
func Falling(f func(x float64) (float64, error), low, high Point, width float64) (Point, error) {
	const least = -1e-12 // of high, so that the next point is not the same
	high.Y = min(high.Y, least)
	for last := 0; high.X-low.X > width; {
		x := (low.X*high.Y - high.X*low.Y) / (high.Y - low.Y)
		if math.IsNaN(x) { // of an infinite value
			x = (low.X + high.X) / 2
		}
		x = min(max(x, low.X+width/3), high.X-width/3)
		y, err := f(x)
		switch {
		case err != nil:
			return high, err
		case y > 0:
			low = Point{x, y}
			if last == 1 {
				high.Y /= 2
			}
			last = 1
		default:
			high = Point{x, min(y, least)}
			if last == -1 {
				low.Y /= 2
			}
			last = -1
		}
	}
	return high, nil
}
