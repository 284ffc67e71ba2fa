// Package digits rounds numbers to a few decimal digits, in a chosen direction. A rounded number is
// exact as it is printed, so people and files copy it without loss.
package digits

import (
	"math"
	"strconv"
)

// Up returns the least number with the given significant digits that is at least x. x must be above
// 0. At the end of the range of float64 it returns x itself.
func Up(x float64, digits int) float64 {
	up := Nearest(x, digits)
	if up >= x {
		return up
	}
	return max(x, Nearest(up+unit(x, digits), digits))
}

// Down returns the largest number with the given significant digits that is at most x. x must be
// above 0. At the end of the range of float64 it returns x itself.
func Down(x float64, digits int) float64 {
	down := Nearest(x, digits)
	if down <= x {
		return down
	}
	return min(x, Nearest(down-unit(x, digits), digits))
}

// unit returns the value of a one in the last significant digit of x.
func unit(x float64, digits int) float64 {
	return math.Pow(10, math.Floor(math.Log10(x))-float64(digits-1))
}

// Nearest returns the number with the given significant digits that is nearest to x. x must be
// above 0.
func Nearest(x float64, digits int) float64 {
	y, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', digits, 64), 64)
	if err != nil { // the rounded number is out of range
		return x
	}
	return y
}
