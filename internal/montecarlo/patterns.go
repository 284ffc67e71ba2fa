package montecarlo

import (
	"gonum.org/v1/gonum/mat"

	"minsep/internal/montecarlo/internal/likelihood"
	"minsep/mechanism"
	"minsep/sampling"
)

const (
	// mostPatterns bounds the size of a matrix of inner products that is decomposed for each noise
	// multiplier.
	mostPatterns = 512
	// mostPatternWork is the largest number of multiplications for the inner products, which are made
	// for each noise multiplier: about a tenth of a second.
	mostPatternWork = 1 << 24
	// stepWork is about how many multiplications take as long as the normal, the exponential and the
	// memory of one step of a sample.
	stepWork = 64
)

// ByPatterns returns a spec with the same divergences as the valid s, or with ones that are larger by
// rounding, and with fewer steps, if an example has few patterns of participation (F3.4): if its start
// decides at which steps it takes part, as in balls-in-bins. Otherwise, and where that saves no time,
// it returns s.
//
// The pattern x_k of a start k moves outputs by C x_k, and divergences depend on the inner products
// of these vectors alone. So one step for each pattern does, at which an example takes part with the
// probability of the start, with a strategy whose columns have these inner products.
func (s Spec) ByPatterns() Spec {
	if s.Law == nil || s.ExamplesPerOwner() > 1 {
		return s
	}
	n, bands, patterns := s.Steps(), s.Strategy.Bands(), len(s.Law.Starts)
	work := float64(n) * float64(bands)
	if s.Strategy.Columns != nil {
		work *= float64(bands)
	}
	if patterns > mostPatterns || patterns*patterns > n*min(n, bands+stepWork) || work > mostPatternWork || !certain(s.Law) {
		return s
	}
	start, at := make([]sampling.Start, patterns), make([][]int, n)
	for k, first := range s.Law.Starts {
		start[k] = sampling.Start{Point: sampling.Point{Step: k}, Prob: 1 / float64(patterns)}
		for p := (sampling.Point{Step: first.Step, State: first.State}); p.Step < n; {
			at[p.Step] = append(at[p.Step], k)
			_, p, _ = s.Law.Next(p)
		}
	}
	law, err := sampling.Law{Start: start, Next: func(sampling.Point) (p float64, in, out sampling.Point) {
		return 1, sampling.Point{Step: sampling.Never}, out
	}}.Tabulate(patterns)
	if err != nil {
		return s
	}
	for k := range law.Starts { // the integers themselves: a sum of probabilities would lose the smallest
		law.Starts[k].Weight = s.Law.Starts[k].Weight
	}
	if err := law.Validate(); err != nil {
		return s
	}
	gram := s.patternInner(at, patterns)
	most, slack := s.Law.MaxParticipations(), mat.Trace(gram)*0x1p-50 // eight roundings
	for k := range patterns {
		gram.SetSym(k, k, gram.At(k, k)+slack*float64(n+patterns+most*most))
	}
	strategy, err := mechanism.FromGram(gram)
	if err != nil { // nobody takes part
		return s
	}
	of := s
	of.Law, of.Strategy = law, strategy
	if of.largestNorm(likelihood.NewColumns(of.Strategy)) > maxSquaredNorm {
		return s
	}
	return of
}

// certain reports whether an example takes part at each point that it comes to.
func certain(t *sampling.Table) bool {
	for _, row := range t.Rows {
		for _, x := range row {
			if x.Complement() > 0 {
				return false
			}
		}
	}
	return true
}

// patternInner returns the inner products of C x_k. at has, by step, the patterns that take part.
func (s Spec) patternInner(at [][]int, patterns int) *mat.SymDense {
	gram := make([]float64, patterns*patterns)
	likelihood.NewColumns(s.Strategy).Backward(func(i int, inner []float64) {
		for t, v := range inner {
			for _, k := range at[i] {
				for _, l := range at[i+t] {
					gram[k*patterns+l] += v
					if t > 0 {
						gram[l*patterns+k] += v
					}
				}
			}
		}
	})
	return mat.NewSymDense(patterns, gram)
}
