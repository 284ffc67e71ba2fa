package montecarlo

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"minsep/internal/must"
	"minsep/mechanism"
	"minsep/sampling"
)

// TestByPatterns holds the spec with a step for each pattern against the patterns themselves, listed by
// hand: the inner products of its columns are theirs, with at most a rounding more in the squares, and
// its loss at the image of an output is ln Σ_k p_k exp((⟨C x_k, y⟩ - ‖C x_k‖²/2)/σ²).
func TestByPatterns(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 11))
	overlapping, negative, never := 0, 0, 0
	for range 400 {
		n := 4 + r.IntN(20)
		scheme, patterns, probs := certainScheme(t, r, n)
		s := specOf(scheme, nonNegativeStrategy(t, r, n), 0.5+2*r.Float64())
		reduced := s.ByPatterns()
		if reduced.Steps() != len(patterns) || reduced.Law.Steps != len(patterns) || reduced.NoiseMultiplier != s.NoiseMultiplier {
			t.Fatalf("%d steps for %d patterns", reduced.Steps(), len(patterns))
		}
		must.Do(t, reduced.Validate())
		moved, trace := make([][]float64, len(patterns)), 0.0
		for k, x := range patterns {
			moved[k] = s.Strategy.Multiply(x)
			trace += inner(moved[k], moved[k])
		}
		unit := func(k int) []float64 {
			x := make([]float64, len(patterns))
			x[k] = 1
			return reduced.Strategy.Multiply(x)
		}
		y, image := make([]float64, n), make([]float64, len(patterns))
		for i := range y {
			y[i] = s.NoiseMultiplier * r.NormFloat64()
		}
		well := true
		for k := len(patterns) - 1; k >= 0; k-- {
			column := unit(k)
			for l := range k + 1 {
				want, got := inner(moved[k], moved[l]), inner(column, unit(l))
				if gap := got - want; math.Abs(gap) > 1e-11*trace || k == l && gap < 0 {
					t.Fatalf("inner product of patterns %d and %d: %g, want %g", k, l, got, want)
				}
				if l < k && want > 0 {
					overlapping++
				}
			}
			if prob := reduced.Law.Starts[k].Prob(); math.Abs(prob-probs[k]) > 1e-15 || reduced.Law.Starts[k].Weight != s.Law.Starts[k].Weight {
				t.Fatalf("probability of pattern %d: %g, want %g", k, prob, probs[k])
			}
			image[k] = inner(moved[k], y)
			for i := k + 1; i < len(patterns); i++ {
				image[k] -= column[i] * image[i]
				if column[i] < 0 {
					negative++
				}
			}
			image[k] /= column[k]
			well = well && column[k] > 1e-3 // else its digits are lost
			if inner(moved[k], moved[k]) == 0 {
				never++
			}
		}
		if !well {
			continue
		}
		want := 0.0
		for k, v := range moved {
			want += s.Law.Starts[k].Prob() * math.Exp((inner(v, y)-inner(v, v)/2)*s.Factor())
		}
		logRatio := must.Get(reduced.LogRatio())(t)
		if got := logRatio(image); !(math.Abs(got-math.Log(want)) <= 1e-6) {
			t.Fatalf("loss %g, want %g", got, math.Log(want))
		}
	}
	if overlapping < 1000 || negative < 50 || never < 10 {
		t.Errorf("%d pairs of patterns overlap, %d entries are negative, %d patterns are empty: the cases are too easy", overlapping, negative, never)
	}
}

// certainScheme draws balls in bins, or a law with unequal starts whose patterns may meet, and lists
// its patterns by hand.
func certainScheme(t *testing.T, r *rand.Rand, n int) (s sampling.Scheme, patterns [][]float64, probs []float64) {
	if r.IntN(2) == 0 {
		period := 1 + r.IntN(n/2)
		for first := range period {
			x := make([]float64, n)
			for i := first; i < n; i += period {
				x[i] = 1
			}
			patterns, probs = append(patterns, x), append(probs, 1/float64(period))
		}
		return sampling.BallsInBins{Steps: n, Period: period}, patterns, probs
	}
	gap, start := 1+r.IntN(3), []sampling.Start(nil)
	first := r.IntN(n)
	for range 1 + r.IntN(3) {
		weight := 1 + r.IntN(8)
		start = append(start, sampling.Start{Point: sampling.Point{Step: min(first, n)}, Prob: float64(weight)})
		if first >= n {
			break
		}
		first += 1 + r.IntN(n)
	}
	if rare := len(start) - 1; rare > 0 && r.IntN(2) == 0 {
		start[rare].Prob = 1e-17
	}
	total := 0.0
	for _, one := range start {
		total += one.Prob
	}
	for k := range start {
		start[k].Prob /= total
		x := make([]float64, n)
		for i := start[k].Step; i < n; i += gap {
			x[i] = 1
		}
		patterns, probs = append(patterns, x), append(probs, start[k].Prob)
	}
	slices.Reverse(start) // the rare one is the first, else it would be lost already
	table := must.Get(sampling.Law{Start: start, Next: func(at sampling.Point) (p float64, in, out sampling.Point) {
		return 1, sampling.Point{Step: at.Step + gap}, out
	}}.Tabulate(n))(t)
	return table, patterns, probs
}

// nonNegativeStrategy draws one of the ways in which a strategy is held.
func nonNegativeStrategy(t *testing.T, r *rand.Rand, n int) *mechanism.Strategy {
	column := []float64{1 + r.Float64()}
	for range r.IntN(n) {
		column = append(column, r.Float64()*float64(r.IntN(2)))
	}
	s := toeplitz(n, column...)
	switch r.IntN(4) {
	case 0:
		s.Normalized = true
	case 1:
		s = &mechanism.Strategy{Kind: mechanism.KindLambdaCGD, Steps: n, InverseToeplitz: []float64{1, -r.Float64()}}
	case 2:
		rows := func(i int) []float64 {
			row := make([]float64, 1+r.IntN(i+1))
			for j := range row {
				row[j] = r.Float64()
			}
			row[len(row)-1]++
			return row
		}
		var err error
		if s, err = mechanism.FromRows(n, rows); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func inner(a, b []float64) (sum float64) {
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}

// TestByPatternsLeaves: a spec without few patterns, or for which they save nothing, stays as it is.
func TestByPatternsLeaves(t *testing.T) {
	for name, s := range map[string]Spec{
		"chance at each step": specOf(sampling.BMinSep{Prob: 0.1, Steps: 40, MinSep: 20}, toeplitz(40, 1, 0.5), 1),
		"one pass":            specOf(sampling.BallsInBins{Steps: 300, Period: 300}, toeplitz(300, 1, 0.5), 1),
		"many patterns":       specOf(sampling.BallsInBins{Steps: 4000, Period: 600}, toeplitz(4000, 1, 0.5), 1),
	} {
		if got := s.ByPatterns(); got.Law != s.Law || got.Strategy != s.Strategy {
			t.Errorf("%s: %d steps", name, got.Steps())
		}
	}
	two := specOf(sampling.BallsInBins{Steps: 40, Period: 4}, toeplitz(40, 1, 0.5), 1)
	if got := two.ByPatterns(); got.Steps() != 4 {
		t.Errorf("ten epochs of four bins: %d steps", got.Steps())
	}
	two.MaxExamplesPerOwner = 2
	if got := two.ByPatterns(); got.Steps() != 40 {
		t.Errorf("two examples: %d steps", got.Steps())
	}
}
