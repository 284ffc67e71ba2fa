package likelihood

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"minsep/accounting/montecarlo/internal/law"
	"minsep/sampling/balanced"
)

// classPatterns enumerates F3.9 by the hazards: the steps of the participations one after another.
func classPatterns(l *balanced.Distribution) []pattern {
	var out []pattern
	var walk func(step, left int, x []float64, prob float64)
	walk = func(step, left int, x []float64, prob float64) {
		if left == 0 {
			out = append(out, pattern{append([]float64(nil), x...), prob})
			return
		}
		stay := 1.0
		for i := step; i < l.Steps && stay > 0; i++ {
			h := l.Hazard(left, i)
			if h > 0 {
				x[i] = 1
				walk(i+l.MinSep, left-1, x, prob*stay*h)
				x[i] = 0
			}
			stay *= 1 - h
		}
	}
	most, less := l.Starts()
	walk(0, l.Most, make([]float64, l.Steps), most)
	if less > 0 {
		walk(0, l.Most-1, make([]float64, l.Steps), less)
	}
	return out
}

// eachClasses runs over sizes, among them one step, min-sep 1 and beyond the run, and
// participations between whole numbers.
func eachClasses(t *testing.T, f func(name string, l *balanced.Distribution, c *Columns, sigma float64, rng *rand.Rand)) {
	rng := rand.New(rand.NewPCG(43, 1))
	for _, n := range []int{1, 2, 5, 9} {
		for _, b := range []int{1, 2, 3, 12} {
			for _, k := range []float64{0.3, 1, 1.5, 2, 2.75, 4} {
				l, err := balanced.New(n, b, k)
				if err != nil {
					continue
				}
				c := randomColumns(rng, n, min(b, n), rng.IntN(3))
				sigma := []float64{0.1, 0.7, 3}[rng.IntN(3)]
				f(fmt.Sprintf("n=%d b=%d k=%v w=%d σ=%g", n, b, k, c.Bands, sigma), l, c, sigma, rng)
			}
		}
	}
}

func TestClassesByEnumeration(t *testing.T) {
	seen := 0
	eachClasses(t, func(name string, l *balanced.Distribution, c *Columns, sigma float64, rng *rand.Rand) {
		seen++
		patterns := classPatterns(l)
		ratio := NewChain(law.Balanced{Distribution: l}, c.SquaredNorms(1/(sigma*sigma)))
		for range 3 {
			y := randomOutput(rng, c, sigma, patterns)
			equal(t, name, LogRatio(ratio, c, sigma, y), enumerated(c, sigma, patterns, y))
		}
	})
	if seen < 40 {
		t.Errorf("only %d cases", seen)
	}
}

// TestClassFaultsShow plants faults in the recursion and sees the enumeration reject each.
func TestClassFaultsShow(t *testing.T) {
	const sigma = 0.7
	l, err := balanced.New(9, 3, 2)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(44, 1))
	c := randomColumns(rng, 9, 3, 0)
	norms := c.SquaredNorms(1 / (sigma * sigma))
	patterns := classPatterns(l)
	y := randomOutput(rng, c, sigma, patterns)
	want := enumerated(c, sigma, patterns, y)
	for name, fault := range map[string]struct{ gap, shift, fewer int }{
		"none":                    {3, 0, 1},
		"hazards off by one step": {3, 1, 1},
		"a class not decremented": {3, 0, 0},
		"a gap one step shorter":  {2, 0, 1},
	} {
		f := make([][]float64, 9+3)
		for i := 11; i >= 0; i-- {
			f[i] = []float64{1, 1, 1}
			if i > 8 {
				continue
			}
			for j := 1; j <= 2; j++ {
				h := l.Hazard(j, min(8, i+fault.shift))
				f[i][j] = (1-h)*f[i+1][j] + h*math.Exp(c.Dot(i, y)/(sigma*sigma)-norms[i]/2)*f[i+fault.gap][j-fault.fewer]
			}
		}
		got := math.Log(f[0][2])
		if same := math.Abs(got-want) < 1e-9; same != (name == "none") {
			t.Errorf("%s: %g for %g", name, got, want)
		}
	}
}
