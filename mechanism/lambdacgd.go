package mechanism

// KindLambdaCGD is C[i][j] = λ^{i-j} (arXiv 2601.22334, equation 7).
const KindLambdaCGD = "lambda-cgd"

func init() {
	register(Family{
		Kind: KindLambdaCGD, Rank: 100,
		Help:       "the noise of a step cancels --lambda times that of the previous step",
		Parameter:  &Parameter{Name: "lambda", Low: 0, High: 1},
		Normalized: true, // Proposition 7
		bands:      func(p Params) int { return unlessZero(p.Lambda, p.Steps) },
		member: func(p Params, x float64) (*Strategy, error) {
			inverse := []float64{1, -x}[:min(2, p.Steps)]
			return valid(&Strategy{Kind: KindLambdaCGD, Steps: p.Steps, InverseToeplitz: inverse})
		},
		parameterOf: func(s *Strategy) (float64, bool) { return second(s.InverseToeplitz, -1) },
	})
}
