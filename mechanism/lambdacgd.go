package mechanism

// KindLambdaCGD is C[i][j] = λ^{i-j} (arXiv 2601.22334, equation 7).
const KindLambdaCGD = "lambda-cgd"

var lambdaParameter = &Parameter{Name: "lambda", Symbol: "λ", Low: 0, High: 1}

func init() {
	register(Family{
		Kind: KindLambdaCGD, Rank: 100,
		Help:      "the noise of a step cancels --lambda times that of the previous step",
		Parameter: lambdaParameter, Normalized: true,
		bands: func(p Params) int { return unlessZero(p.Lambda, p.Steps) },
		make: func(problem Problem, p Params, normalized bool) (*Strategy, error) {
			return problem.givenOrBest(
				p.Lambda,
				lambdaParameter,
				normalized,
				func(x float64) (*Strategy, error) { return LambdaCGD(p.Steps, x, normalized) },
			)
		},
		parameterOf: func(s *Strategy) (float64, bool) { return second(s.InverseToeplitz, -1) },
	})
}

// LambdaCGD returns C[i][j] = λ^{i-j}, λ in [0, 1]. Its inverse has the bands (1, -λ) (arXiv
// 2601.22334, equation 7). With normalized its columns are divided by their norms (Proposition 7).
func LambdaCGD(steps int, lambda float64, normalized bool) (*Strategy, error) {
	if err := checkFamily(steps, min(2, steps), "lambda", lambda); err != nil {
		return nil, err
	}
	return valid(
		&Strategy{
			Kind:            KindLambdaCGD,
			Steps:           steps,
			InverseToeplitz: []float64{1, -lambda}[:min(2, steps)],
			Normalized:      normalized,
		},
	)
}
