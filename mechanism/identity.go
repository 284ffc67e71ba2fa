package mechanism

import "context"

// KindIdentity is independent noise: C = I, DP-SGD.
const KindIdentity = "identity"

func init() {
	register(Family{
		Kind: KindIdentity, Rank: 10,
		Help:  "independent noise, DP-SGD",
		bands: func(Params) int { return 1 },
		make: func(_ context.Context, _ Problem, p Params) (*Strategy, error) {
			return Identity(p.Steps), nil
		},
	})
}

// Identity returns the strategy of independent noise.
func Identity(steps int) *Strategy {
	return &Strategy{Kind: KindIdentity, Steps: steps, Toeplitz: []float64{1}}
}
