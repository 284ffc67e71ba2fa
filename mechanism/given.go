package mechanism

import "minsep/internal/param"

// KindToeplitz is any Toeplitz C that is given by its first column.
const KindToeplitz = "toeplitz"

func init() {
	register(Family{
		Kind: KindToeplitz, Rank: 160,
		Help:        "any Toeplitz strategy, with the first column --column",
		TakesColumn: true,
		check: func(p Params, c *param.Checker) {
			c.Require(len(p.Column) > 0, "column", "[]", "must be given for toeplitz")
		},
		make: func(_ Problem, p Params, _ bool) (*Strategy, error) { return Toeplitz(p.Steps, p.Column) },
	})
}

// Toeplitz returns the strategy with the given first column of C: 1 to steps entries, the first positive.
func Toeplitz(steps int, column []float64) (*Strategy, error) {
	return valid(&Strategy{Kind: KindToeplitz, Steps: steps, Toeplitz: column})
}
