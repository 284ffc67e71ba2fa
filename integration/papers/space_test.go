package main

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"minsep/internal/accounting"
	"minsep/internal/must"
	"minsep/mechanism"
)

// TestLowest looks for the least of functions whose least is known: a parabola, one that is none,
// at both ends of the range, and none at all.
func TestLowest(t *testing.T) {
	for _, c := range []struct {
		name   string
		f      func(x float64) float64
		want   float64
		within float64
	}{
		{"parabola", func(x float64) float64 { return 2 + (x-3.3)*(x-3.3) }, 3.3, 1e-9},
		{"skew", func(x float64) float64 { return math.Exp(x) + 9*math.Exp(-x) }, math.Log(3), .05},
		{"low end", func(x float64) float64 { return x }, 0, 0},
		{"high end", func(x float64) float64 { return -x }, 4, 0},
	} {
		for _, from := range []float64{0, 1.2, 4} {
			s := space{name: "x", from: from, step: .5, low: 0, high: 4}
			var tried []float64
			got, err := s.lowest(s.from, func(x float64) (found, error) {
				if slices.Contains(tried, x) || x < s.low || x > s.high {
					t.Errorf("%s: %v is tried again or out of the range", c.name, x)
				}
				tried = append(tried, x)
				return found{x: x, rmse: c.f(x)}, nil
			})
			if errors.Is(err, errNoLeast) && math.Abs(from-c.want) > 3 {
				continue // too far for the steps that a search may take
			}
			if err != nil || math.Abs(got.x-c.want) > c.within {
				t.Errorf("%s from %v: %v, %v; least at %v", c.name, from, got.x, err, c.want)
			}
		}
	}
	s := space{name: "x", step: .01, low: 0, high: 4}
	if _, err := s.lowest(2, func(x float64) (found, error) { return found{x: x, rmse: x}, nil }); !errors.Is(err, errNoLeast) {
		t.Errorf("a least of steps that do not reach it: %v", err)
	}
}

// TestClimb requires the least of a list, from either side.
func TestClimb(t *testing.T) {
	values := []float64{5, 3, 2, 4, 1}
	for start, want := range []float64{2, 2, 2, 1, 1} {
		f, err := climb(start, len(values), func(i int) (found, error) { return found{rmse: values[i]}, nil })
		if err != nil || f.rmse != want {
			t.Errorf("from %d: %v, %v; the least on the way is %v", start, f.rmse, err, want)
		}
	}
}

// TestTapered compares the bands with arXiv 2405.15913, Appendix H, as it is written.
func TestTapered(t *testing.T) {
	const b, b0 = 8, 4
	p := mechanism.Problem{Workload: mechanism.Prefix(32), Participation: mechanism.Participation{MinSep: b}}
	plain := must.Get(made(p, mechanism.KindBandedToeplitz, b))(t)
	got := must.Get(tapered(p, b, float64(b0)/b))(t)
	for i := 1; i <= b; i++ {
		want := plain.Toeplitz[i-1]
		if i >= b0 {
			want *= float64(b-i) / float64(b-b0)
		}
		at := 0.
		if i <= len(got.Toeplitz) {
			at = got.Toeplitz[i-1]
		}
		if math.Abs(at-want) > 1e-12 {
			t.Errorf("band %d: %v, want %v", i, at, want)
		}
	}
}

// TestAmplifiedCells compares published figures by tilted sampling, which those without
// amplification are far from: one with a parameter that is searched, and one of a strategy that is
// not Toeplitz.
func TestAmplifiedCells(t *testing.T) {
	t.Parallel()
	rows := amplifiedRows()
	for _, c := range []struct {
		name        string
		unamplified float64
	}{{"BLT", 6.65}, {"DP-λCGD", 9.68}, {"k-ary tree, k = 3", 12.53}} {
		i := slices.IndexFunc(rows, func(r amplifiedRow) bool { return r.name == c.name })
		got := must.Get(rows[i].find(t.Context(), cell{Table: rows[i].table, Row: c.name, Epsilon: 8}))(t)
		list := rowsOf(rows, []cell{got}, tableBalls, 8)
		if len(list) != 1 || list[0].stdErr <= 0 || list[0].stdErr > .015*list[0].computed {
			t.Fatalf("%+v", list)
		}
		if r := list[0]; math.Abs(r.computed-r.value()) > 6.11*r.stdErr || math.Abs(r.computed-c.unamplified) < 6.11*r.stdErr {
			t.Errorf("%s: %v ± %v, published %s, %v without amplification", c.name, r.computed, r.stdErr, r.published, c.unamplified)
		}
	}
}

// TestFigureEpochs requires what arXiv 2405.15913, Figure 2(a), is said to show: with eight epochs,
// less than 18 % worse than DP-SGD with the full batch.
func TestFigureEpochs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		bands int
		holds bool
	}{{32, true}, {4, false}} {
		ratio := must.Get(bandMF{16384, 8, 1}.inBatches(c.bands))(t)
		if (ratio < 1.18) != c.holds || ratio < 1.17 {
			t.Errorf("%d bands: %v", c.bands, ratio)
		}
	}
}

// TestPlainError compares the standard error with what scatters: noise multipliers of a Gaussian
// mechanism, each from as many samples of its privacy loss.
func TestPlainError(t *testing.T) {
	const epsilon, delta, samples, repeats = 1, .01, 4000, 400
	sigma := must.Get(accounting.GaussianNoiseMultiplier(epsilon, delta, 1))(t)
	rng := rand.New(rand.NewPCG(1, 2))
	square := 0.
	for range repeats {
		var z [samples]float64
		for i := range z {
			z[i] = rng.NormFloat64()
		}
		low, high := sigma/2, 2*sigma
		for range 20 {
			mu := 2 / (low + high)
			mean := 0.
			for _, z := range z {
				mean += max(0, -math.Expm1(epsilon-mu*mu/2-mu*z)) / samples
			}
			if mean > delta {
				low = (low + high) / 2
			} else {
				high = (low + high) / 2
			}
		}
		off := (low+high)/2/sigma - 1
		square += off * off / repeats
	}
	// a standard deviation of 400 draws is within a fifth of it, but for a probability of 1e-7
	if got := plainError(epsilon, delta, samples); math.Abs(got/math.Sqrt(square)-1) > .2 {
		t.Errorf("%v, of %d repeats %v", got, repeats, math.Sqrt(square))
	}
}

// TestLeastEndsBeforeRefused requires the least of the sizes before one that no analysis is known
// for, which is named; where the first size is one, nothing is found.
func TestLeastEndsBeforeRefused(t *testing.T) {
	s := space{sizeName: "bands", sizes: []int{1, 2, 3}, make: func(size int, _ float64) (*mechanism.Strategy, error) {
		return mechanism.Toeplitz(16, []float64{1, .4, -.1}[:size])
	}}
	c := claim{4, 1e-2, ballsInBins(4)}
	f := must.Get(s.least(t.Context(), c))(t)
	if text := s.parameters(f); f.size != 2 || f.rmse <= 0 || !strings.HasPrefix(text, "bands = 2; bands = 3 is refused, the strategy has a negative entry") {
		t.Errorf("%+v, %s", f, text)
	}
	s.start = 2
	var refused *accounting.RefusedError
	if f, err := s.least(t.Context(), c); !errors.As(err, &refused) {
		t.Errorf("%+v, %v", f, err)
	}
}

// TestLeastIsNotTooSmall compares the figure of a search among strategies that are all the same
// with that of one of them: the least of the search's own estimates is lower by most of a standard
// error.
func TestLeastIsNotTooSmall(t *testing.T) {
	t.Parallel()
	strategy := func(int, float64) (*mechanism.Strategy, error) { return mechanism.Toeplitz(4, []float64{1, .4}) }
	many := space{sizeName: "size", sizes: []int{1, 2, 3, 4, 5, 6, 7}, start: 3, make: strategy}
	one := space{sizes: []int{1}, make: strategy}
	const repeats = 80
	sum, stdErr := 0., 0.
	for i := range repeats {
		c := claim{2 + 1e-5*float64(i), .02, ballsInBins(2)}
		for sign, s := range map[float64]space{1: many, -1: one} {
			f := must.Get(s.least(t.Context(), c))(t)
			sum += sign * f.rmse / repeats
			stdErr += f.stdErr / (2 * repeats)
		}
	}
	// a mean is known to a ninth of a standard error
	if math.Abs(sum) > .5*stdErr {
		t.Errorf("a search ends at %.3g standard errors from one estimate", sum/stdErr)
	}
}
