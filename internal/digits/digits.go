// Package digits rounds numbers to some decimal digits, so that files and people copy them without
// loss.
//
// Stability: may change with every release.
package digits

import (
	"math"
	"strconv"
)

// Up is the least number of so many digits that is at least x, which must be above 0; x itself at
// the end of the range of numbers.
func Up(x float64, digits int) float64 {
	up := Nearest(x, digits)
	if up >= x {
		return up
	}
	return max(x, Nearest(up+unit(x, digits), digits))
}

// Down is the largest number of so many digits that is at most x, which must be above 0; x itself
// at the end of the range of numbers.
func Down(x float64, digits int) float64 {
	down := Nearest(x, digits)
	if down <= x {
		return down
	}
	return min(x, Nearest(down-unit(x, digits), digits))
}

// unit is a one in the last of so many digits of x.
func unit(x float64, digits int) float64 {
	return math.Pow(10, math.Floor(math.Log10(x))-float64(digits-1))
}

// Nearest is the number of so many digits that is nearest to x, which must be above 0.
func Nearest(x float64, digits int) float64 {
	y, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', digits, 64), 64)
	if err != nil { // a number is none
		return x
	}
	return y
}
