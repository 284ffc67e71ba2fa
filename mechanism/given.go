package mechanism

import (
	"context"
	"fmt"
	"math"

	"minsep/internal/param"
)

// KindToeplitz is a Toeplitz C that the user gives by its first column.
const KindToeplitz = "toeplitz"

func init() {
	register(Family{
		Kind: KindToeplitz, Rank: 160,
		Help:        "any Toeplitz strategy, with the first column --column",
		TakesColumn: true,
		check:       checkGiven,
		make: func(_ context.Context, _ Problem, p Params) (*Strategy, error) {
			return Toeplitz(p.Steps, p.Column)
		},
	})
}

// checkGiven adds the faults of the first column of a stamp, as far as they show without its
// inverse.
func checkGiven(p Params, c *param.Checker) {
	most := max(1, p.Steps/max(1, p.Stamps))
	switch {
	case len(p.Column) == 0:
		c.Require(false, "column", "[]", "must be given for toeplitz")
	case len(p.Column) > most && p.Steps >= 1:
		c.Require(
			false,
			"column",
			fmt.Sprintf("of %d entries", len(p.Column)),
			fmt.Sprintf("must have 1 to %d, the steps of a stamp", most),
		)
	default:
		c.Require(
			p.Column[0] > 0 && !math.IsInf(p.Column[0], 1),
			"column",
			p.Column[0],
			"must begin with a finite number above 0",
		)
		for _, v := range p.Column[1:] {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				c.Require(false, "column", v, "must be of finite numbers")
				return
			}
		}
	}
}

// Toeplitz returns the strategy with the given first column of C: 1 to steps entries, the first
// positive.
func Toeplitz(steps int, column []float64) (*Strategy, error) {
	return valid(&Strategy{Kind: KindToeplitz, Steps: steps, Toeplitz: column})
}
