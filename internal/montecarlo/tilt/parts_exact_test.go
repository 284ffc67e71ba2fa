package tilt

import (
	"math"
	"math/rand/v2"
	"testing"

	"minsep/internal/bisect"
	"minsep/internal/must"
)

// lognormal is E(X-x)_+ of X = exp(m z - m²/2), z normal.
func lognormal(m, x float64) float64 {
	if x <= 0 {
		return 1 - x
	}
	tail := func(z float64) float64 { return math.Erfc(z/math.Sqrt2) / 2 }
	d := (math.Log(x) + m*m/2) / m
	return tail(d-m) - x*tail(d)
}

// overNormal integrates a function of a normal variable from a point on, by Simpson's rule.
func overNormal(from float64, value func(z float64) float64) (sum float64) {
	const points, far = 2000, 12.
	from = max(from, -far)
	h := (far + 2 - from) / points
	for i := range points + 1 {
		weight := []float64{2, 4}[i%2]
		if i == 0 || i == points {
			weight = 1
		}
		z := from + h*float64(i)
		sum += weight * value(z) * math.Exp(-z*z/2)
	}
	return sum * h / 3 / math.Sqrt(2*math.Pi)
}

func isNear(got, want, below, above float64) bool {
	return got >= want*(1-below) && got <= want*(1+above)
}

// TestPartsAreTheFormula: scale, threshold, the run of one part and its classes are those of F5.14
// and F5.15, to the slack of rounding, on its safe side.
func TestPartsAreTheFormula(t *testing.T) {
	rng := rand.New(rand.NewPCG(2026, 16))
	seen := 0
	for range 300 {
		bands := 1 + rng.IntN(5)
		column := []float64{1 + rng.Float64()}
		for range bands - 1 {
			column = append(column, 0.1+rng.Float64())
		}
		c := partsCase{steps: 2 + rng.IntN(300), count: 2 + rng.IntN(12), column: column, sigma: 0.5 + rng.Float64(), epsilon: 3 * rng.Float64()}
		c.epoch = c.steps + rng.IntN(2)*rng.IntN(500)
		n, m, w := float64(c.steps), float64(c.count), float64(bands)
		kappa := n - m*(w-1)
		p, err := newParts(c.config(), c.count)
		if err != nil {
			if bands <= c.steps && kappa >= m*w {
				t.Errorf("%v: %v", c, err)
			}
			continue
		}
		if kappa < m*w {
			t.Errorf("%v: parts that have no steps", c)
			continue
		}
		seen++
		each := math.Ceil(n / m)
		q, rho := n/float64(c.epoch), m*each/kappa
		threshold := ((math.Exp(c.epsilon)-1)/q + 1) / rho
		if !isNear(p.scale, q*rho, -1e-10, 2e-9) || !isNear(p.threshold, threshold, 2e-9, -1e-10) {
			t.Errorf("%v: scale %v and threshold %v, want %v and %v", c, p.scale, p.threshold, q*rho, threshold)
		}
		if s := p.spec; s.Steps() != int(each) || s.NoiseMultiplier != c.sigma || s.Strategy.Bands() != bands {
			t.Errorf("%v: a part is %+v", c, s)
		}
		square := 0.0
		for _, x := range column {
			square += x * x
		}
		class := p.class()
		if places := int(each) / bands; class.Places != places || class.Steps != float64(places) || class.NoiseMultiplier != c.sigma || !isNear(class.Sensitivity, math.Sqrt(square), -1e-10, 2e-9) {
			t.Errorf("%v: the class is %+v, want %d places and a sensitivity of %v", c, class, places, math.Sqrt(square))
		}
	}
	if seen < 100 {
		t.Errorf("only %d runs have parts", seen)
	}
}

// TestExcess: the bound of E(B-x)_+ by a moment is the largest part of it that u-x is, and the
// bound by the variance is the worst variable of two values.
func TestExcess(t *testing.T) {
	for _, logX := range []float64{1, 800} { // a variance beyond the numbers bounds nothing, and leaves the moments' bounds
		if got := excess([]Moment{{Order: 2, LogN: 1e3}}, logX); !(got <= 1) {
			t.Errorf("a variance of e^1000 at ln x = %g: %g", logX, got)
		}
	}
	rng := rand.New(rand.NewPCG(2026, 17))
	for range 200 {
		m := math.Exp(-2 + 2.5*rng.Float64())
		logN := func(order int) float64 { return float64(order*(order-1)) / 2 * m * m }
		x := math.Exp(2*rng.NormFloat64()*m + 0.3)
		moments := []Moment{{Order: 2, LogN: logN(2)}}
		variance := math.Expm1(m * m)
		// Of a variable of mean 1 with the value u at probability v/(v+(u-1)²), and one more below.
		want := max(0, 1-x)
		for u := -8.; u < 12; u += 1e-3 {
			off := math.Exp(u)
			if prob := variance / (variance + off*off); 1+off > x {
				want = max(want, prob*(1+off-x)+(1-prob)*max(0, 1-variance/off-x))
			}
		}
		if got := excess(moments, math.Log(x)); !isNear(got, min(1, want), 1e-9, 1e-5) && got > 1e-12 {
			t.Errorf("σ = %g at %g: %g, by two values %g", m, x, got, want)
		}
		for order := 3; order <= 8; order++ {
			moments = append(moments, Moment{Order: order, LogN: logN(order)})
			want = min(want, math.Exp(logN(order)+logMost(x, order)))
		}
		got := excess(moments, math.Log(x))
		if !isNear(got, min(1, want), 1e-9, 1e-5) && got > 1e-12 || got < lognormal(m, x)*(1-1e-9) {
			t.Errorf("σ = %g at %g: %g, by moments %g, the truth is %g", m, x, got, want, lognormal(m, x))
		}
	}
}

// TestPartsOfOneStep: with independent noise and parts of one step all is known by integrals: B is
// lognormal. The proof is the divergence, gains are those of the other part, and the values have
// the mean that the gains say, none of them above M: no less, and no more than by the grid.
func TestPartsOfOneStep(t *testing.T) {
	for _, c := range []partsCase{
		{steps: 2, epoch: 2, count: 2, column: []float64{1}, sigma: 1.2, epsilon: 0.8},
		{steps: 2, epoch: 3, count: 2, column: []float64{0.7}, sigma: 1.5, epsilon: 0.4},
		{steps: 2, epoch: 20, count: 2, column: []float64{1}, sigma: 0.9, epsilon: 1.5},
	} {
		p := must.Get(newParts(c.config(), c.count))(t)
		m := c.column[0] / c.sigma
		b := func(z float64) float64 { return math.Exp(m*z - m*m/2) }
		q := 2 / float64(c.epoch)
		total := 2 * (math.Expm1(c.epsilon)/q + 1)
		gain := func(x float64) float64 { return lognormal(m, total-x) / 2 }
		var moments []Moment
		for order := 2; order <= 8; order++ {
			moments = append(moments, Moment{Order: order, LogN: float64(order*(order-1))/2*m*m + inflation})
		}
		for _, cut := range []int{20, 60, 150} {
			must.Do(t, p.prepare(moments, cut))
			if want := q * overNormal(-12, func(z float64) float64 { return gain(b(z)) }); !isNear(p.proof, want, 1e-7, 3e-3) {
				t.Errorf("%v: the proof is %g, the divergence %g", c, p.proof, want)
			}
			for j, got := range p.gain {
				if want := gain(math.Exp(partGrid * float64(cut+j))); want > 1e-9 && !isNear(got, want, 1e-7, 5e-3) {
					t.Errorf("%v, cut %d: the gain at %d is %g, by the other part %g", c, cut, j, got, want)
				}
			}
			// Both parts are at most the cut, or count as 0.
			at := math.Exp(partGrid * float64(cut))
			short := func(z float64) float64 {
				if x := b(z); x <= at {
					return x
				}
				return 0
			}
			kink := (math.Log(at)+m*m/2)/m + 1e-9
			floor := q * overNormal(-12, func(z float64) float64 {
				rest := total - short(z) // E(B 1[B ≤ T] - rest)_+
				if rest >= at {
					return 0
				}
				return overNormal(-12, func(z float64) float64 { return max(0, short(z)-rest) }) / 2
			})
			if p.floor < floor*(1-2e-3)-1e-12 {
				t.Errorf("%v, cut %d: the floor is %g, by two integrals %g", c, cut, p.floor, floor)
			}
			of := moments[2]
			most := 0.0
			mean := overNormal(kink, func(z float64) float64 {
				v := p.value(of, math.Log(b(z)), 1)
				most = max(most, v)
				return (v - p.floor) * math.Exp(of.logDensity(math.Log(b(z))))
			})
			want := q * 2 * overNormal(kink, func(z float64) float64 { return gain(b(z)) })
			if !isNear(mean, want, 1e-6, 5e-3) {
				t.Errorf("%v, cut %d: the mean of the values above the floor is %g, by the integral %g", c, cut, mean, want)
			}
			if v := p.value(of, math.Log(at)-1e-3, 1); v != p.floor {
				t.Errorf("%v, cut %d: below the cut the value is %g, not the floor %g", c, cut, v, p.floor)
			}
			if half := p.value(of, math.Log(3*at), 0.5); math.Abs(2*(half-p.floor)/(p.value(of, math.Log(3*at), 1)-p.floor)-1) > 1e-9 {
				t.Errorf("%v, cut %d: half of the weight has %g", c, cut, half)
			}
			beyond := partGrid*float64(cut+len(p.gain)-1) + 0.7
			if got, want := p.value(of, beyond, 1)-p.floor, q*2*gain(math.Exp(beyond))*math.Exp(-of.logDensity(beyond)); !isNear(got, want, 1e-6, 5e-3) {
				t.Errorf("%v, cut %d: beyond the grid the value is %g above the floor, by the integral %g", c, cut, got, want)
			}
			if bound := p.bound(of); most > bound || bound > 1.03*most {
				t.Errorf("%v, cut %d: M is %g, the largest value %g", c, cut, bound, most)
			}
		}
	}
}

// logMost is ln of the least number that u-t is at most, as a part of u^order, for every u: it is
// reached where the slope of its logarithm is 0.
func logMost(t float64, order int) float64 {
	u, _ := bisect.Between(t, 1e6*t, 0, func(u float64) bool { return 1/(u-t) > float64(order)/u })
	return math.Log(u-t) - float64(order)*math.Log(u)
}
