package mechanism

import (
	"context"
	"fmt"

	"minsep/internal/param"
)

// KindToeplitz is a Toeplitz C that the user gives by its first column.
const KindToeplitz = "toeplitz"

func init() {
	register(Family{
		Kind: KindToeplitz, Rank: 160,
		Help:        "any Toeplitz strategy, with the first column --column",
		TakesColumn: true, options: []string{"column"},
		check: func(p Params, c *param.Checker) {
			most := p.Steps / max(1, p.Stamps)
			if p.Stamps <= 1 || len(p.Column) <= most {
				checkColumn(c, "column", p.Column, max(1, most))
				return
			}
			given := fmt.Sprintf("of %d entries", len(p.Column))
			c.Requiref(false, "column", given, "must have 1 to %d, the steps of a stamp", most)
		},
		make: func(_ context.Context, _ Problem, p Params) (*Strategy, error) {
			return Toeplitz(p.Steps, p.Column)
		},
	})
}

// Toeplitz returns the strategy with the given first column of C: 1 to steps entries, the first
// positive.
func Toeplitz(steps int, column []float64) (*Strategy, error) {
	return valid(&Strategy{Kind: KindToeplitz, Steps: steps, Toeplitz: column})
}
