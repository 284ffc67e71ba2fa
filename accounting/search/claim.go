package search

import (
	"context"
	"slices"

	"minsep/accounting"
	"minsep/accounting/montecarlo"
)

// Claim is the claim that noise is looked for: (Epsilon, Delta)-differential privacy of a run
// without a maximum batch size.
type Claim struct {
	Run     accounting.Run
	Epsilon float64 // at least 0
	Delta   float64 // above 0 and below 1
	Seed    uint64  // of the samples
	Share   float64 // of the samples that an estimate may take, at most 1; 0 for all
}

// Guess is the beginning of a search, by a similar claim.
type Guess struct {
	Multiplier float64 // σ, above 0
	Pace       Pace
	Behind     float64 // σ above which it is enough to know it roughly; infinite if there is none
}

// Noise is the noise multiplier of the claim: proven where that takes no samples, and else
// estimated by H(P,Q), to a standard error of ln σ of Tolerance. The search begins at a guess. The
// error is an accounting.RefusedError where no analysis is known.
func (c Claim) Noise(ctx context.Context, from Guess) (Noise, error) {
	_, proven, err := Provable(c.Run)
	switch {
	case err != nil:
		return Noise{}, err
	case proven:
		return c.Proven(from.Multiplier, 0, Narrow)
	}
	return c.estimate(ctx, from, Tolerance)
}

// estimate is the noise multiplier by H(P,Q), to a standard error of tolerance as a part of it.
func (c Claim) estimate(ctx context.Context, from Guess, tolerance float64) (Noise, error) {
	s, err := c.searcher(montecarlo.P, from.Pace)
	if err != nil {
		return Noise{}, err
	}
	return s.sigma(ctx, from.Multiplier, tolerance, from.Behind)
}

// Find is the noise multiplier at which a run without a maximum batch size is (epsilon,
// delta)-differentially private: proven where that takes no samples, else estimated by H(P,Q),
// to a standard error of 0.9 %, or of 3 % where it is clearly above behind (10 % with several
// examples per owner). The search begins near the noise multiplier of a similar run, if near is
// not nil. The error is an accounting.RefusedError where no analysis is known.
func Find(ctx context.Context, run accounting.Run, epsilon, delta float64, near *Noise, behind float64) (n Noise, err error) {
	norm := slices.Max(run.ColumnNorms())
	c := Claim{Run: run, Epsilon: epsilon, Delta: delta}
	from := Guess{norm, UnknownPace, behind}
	if near != nil {
		from.Multiplier *= near.Multiplier / near.norm
		if !near.Proven {
			from.Pace = near.pace.Similar()
		}
	}
	n, err = c.Noise(ctx, from)
	n.norm = norm
	return n, err
}
