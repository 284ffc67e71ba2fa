package pld

import (
	"errors"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/dsp/fourier"

	"minsep/internal/binomial"
	"minsep/internal/normal"
)

// oracle1 is the divergence of one event at any real ε, by the closed form: the loss rises with x,
// so the set where num > e^ε den is a half line.
func oracle1(parts []part, view func(pair) pair, epsilon float64) (delta float64) {
	for _, part := range parts {
		p := view(part.upper)
		low, high := -60.0, 60.0
		for range 80 {
			mid := (low + high) / 2
			if p.at(mid).loss < epsilon {
				low = mid
			} else {
				high = mid
			}
		}
		delta += part.probability * (tailAbove(p.num, high) - math.Exp(epsilon)*tailAbove(p.den, high))
	}
	return delta
}

// oracle2 is the divergence of two events: the first one's outcome integrated numerically, the
// second in closed form.
func oracle2(a, b []part, view func(pair) pair, epsilon float64) (delta float64) {
	const panels, low, high = 4000, -14.0, 20.0
	const d = (high - low) / panels
	for _, part := range a {
		p := view(part.upper)
		for i := range panels {
			pt := p.at(low + (float64(i)+0.5)*d)
			delta += part.probability * d * pt.density * oracle1(b, view, epsilon-pt.loss)
		}
	}
	return delta
}

func same(p pair) pair { return p }

var oracleEvents = map[string]Event{
	"gaussian":      {Prob: 1, NoiseMultiplier: 1.3, Sensitivity: 1, Examples: 1},
	"poisson":       {Prob: 0.1, NoiseMultiplier: 0.8, Sensitivity: 1.5, Examples: 1},
	"rare":          {Prob: 0.01, NoiseMultiplier: 0.5, Sensitivity: 1, Examples: 1},
	"four examples": {Prob: 0.2, NoiseMultiplier: 1.1, Sensitivity: 0.7, Examples: 4},
	"truncated":     {Prob: 0.3, NoiseMultiplier: 2, Sensitivity: 1, Examples: 1, Truncation: &Truncation{MaxBatchSize: 3, Others: 8}},
	"all truncated": {Prob: 1, NoiseMultiplier: 2, Sensitivity: 1, Examples: 1, Truncation: &Truncation{MaxBatchSize: 3, Others: 3}},
}

// TestBracketsHoldOracles: one and two events, both directions, δ over ten decades; and the bracket
// is narrow enough that noise larger by a thousandth falls out of it.
func TestBracketsHoldOracles(t *testing.T) {
	epsilons := []float64{0, 0.1, 0.5, 1, 2, 4}
	if testing.Short() {
		epsilons = []float64{0, 0.5, 2}
	}
	for name, e := range oracleEvents {
		parts, _ := e.parts()
		poisson := oracleEvents["poisson"]
		second, _ := poisson.parts()
		one, err := Compose([]Step{{e, 1}}, Options{Grid: 1e-3})
		if err != nil {
			t.Fatal(err)
		}
		two, err := Compose([]Step{{e, 1}, {poisson, 1}}, Options{Grid: 1e-3})
		if err != nil {
			t.Fatal(err)
		}
		less := e
		less.NoiseMultiplier *= 1.01
		twin, err := Compose([]Step{{less, 1}}, Options{Grid: 1e-3})
		if err != nil {
			t.Fatal(err)
		}
		for _, epsilon := range epsilons {
			for _, dir := range []struct {
				name           string
				view           func(pair) pair
				one, two, twin Loss
			}{{"P,Q", same, one.PQ, two.PQ, twin.PQ}, {"Q,P", pair.mirrored, one.QP, two.QP, twin.QP}} {
				within(t, name+" H("+dir.name+")", dir.one, epsilon, oracle1(parts, dir.view, epsilon), 1e-9)
				within(t, name+" and poisson H("+dir.name+")", dir.two, epsilon, oracle2(parts, second, dir.view, epsilon), 2e-6)
				if want := oracle1(parts, dir.view, epsilon); want > 1e-10 {
					if b, _ := dir.twin.Delta(epsilon); b.Upper >= want {
						t.Errorf("%s H(%s) ε = %g: with 1 %% more noise the bracket [%g, %g] still reaches %g", name, dir.name, epsilon, b.Lower, b.Upper, want)
					}
				}
			}
		}
	}
}

func within(t *testing.T, what string, l Loss, epsilon, want, slop float64) { // slop: relative error of the oracle itself
	t.Helper()
	b, err := l.Delta(epsilon)
	if err != nil || b.Lower > want*(1+slop)+1e-15 || b.Upper < want*(1-slop)-1e-15 {
		t.Errorf("%s, ε = %g: [%.12g, %.12g] does not hold %.12g, %v", what, epsilon, b.Lower, b.Upper, want, err)
	}
	if want > 1e-12 && b.Upper-b.Lower > 5e-2*want {
		t.Errorf("%s, ε = %g: [%.12g, %.12g] is wide", what, epsilon, b.Lower, b.Upper)
	}
}

// TestGaussianComposition: T Gaussian events are one of sensitivity √T, down to δ = 1e-200.
func TestGaussianComposition(t *testing.T) {
	const steps, sigma = 100, 20.0
	e := Event{Prob: 1, NoiseMultiplier: sigma, Sensitivity: 1, Examples: 1}
	c, err := Compose([]Step{{e, steps}}, Options{Grid: 1e-4, Tail: 1e-230})
	if err != nil {
		t.Fatal(err)
	}
	mu := math.Sqrt(steps) / sigma
	for _, epsilon := range []float64{0, 0.1, 0.5, 2, 5, 10, 15} {
		x := epsilon/mu - mu/2
		want := normal.Density(x) * (normal.Mills(x) - normal.Mills(x+mu))
		if epsilon < 1 {
			want = normal.Tail(x) - math.Exp(epsilon)*normal.Tail(x+mu)
		}
		b, err := c.Delta(epsilon)
		if err != nil || b.Lower > want || b.Upper < want || b.Upper/b.Lower > 1+1e-3 {
			t.Errorf("δ(%g) in [%g, %g], want %g, %v", epsilon, b.Lower, b.Upper, want, err)
		}
		if upper, err := c.UpperDelta(epsilon); err != nil || upper != b.Upper {
			t.Errorf("δ(%g) at most %g, in the bracket %g: %v", epsilon, upper, b.Upper, err)
		}
		if want < 0.2 {
			back, err := c.Epsilon(want)
			if err != nil || back.Lower > epsilon || back.Upper < epsilon-1e-9 || back.Upper-back.Lower > 1e-4 {
				t.Errorf("ε(%g) in [%g, %g], want %g, %v", want, back.Lower, back.Upper, epsilon, err)
			}
		}
	}
}

// TestMoreIsWorse: probability, examples, sensitivity, and truncation raise ε; a maximum that is
// never reached does not.
func TestMoreIsWorse(t *testing.T) {
	base := Event{Prob: 0.05, NoiseMultiplier: 1, Sensitivity: 1, Examples: 1}
	epsilon := func(change func(*Event)) float64 {
		e := base
		change(&e)
		c, err := Compose([]Step{{e, 50}}, Options{Grid: 1e-3})
		if err != nil {
			t.Fatal(err)
		}
		b, err := c.Epsilon(1e-6)
		if err != nil {
			t.Fatal(err)
		}
		return b.Upper
	}
	plain := epsilon(func(*Event) {})
	for name, change := range map[string]func(*Event){
		"probability": func(e *Event) { e.Prob = 0.06 },
		"examples":    func(e *Event) { e.Examples = 2 },
		"sensitivity": func(e *Event) { e.Sensitivity = 1.1 },
		"truncation":  func(e *Event) { e.Truncation = &Truncation{MaxBatchSize: 60, Others: 999} },
	} {
		if got := epsilon(change); got <= plain+1e-3 {
			t.Errorf("more %s: ε = %g, plain %g", name, got, plain)
		}
	}
	if got := epsilon(func(e *Event) { e.Truncation = &Truncation{MaxBatchSize: 1000, Others: 999} }); math.Abs(got-plain) > 1e-9 {
		t.Errorf("a maximum never reached: ε = %g, plain %g", got, plain)
	}
	rare := epsilon(func(e *Event) { e.Truncation = &Truncation{MaxBatchSize: 200, Others: 999} })
	if rare < plain-1e-9 || rare > plain+1e-6 {
		t.Errorf("a maximum 22 deviations away: ε = %g, plain %g", rare, plain)
	}
}

// TestBinomialMass against sums and ratios of neighbours.
func TestBinomialMass(t *testing.T) {
	for _, n := range []int{1, 7, 40, 1000, 57600, 14_745_599} {
		for _, p := range []float64{1e-4, 0.031, 0.5, 0.97} {
			mean, sd := float64(n)*p, math.Sqrt(float64(n)*p*(1-p))
			sum := 0.0
			for j := max(0, int(mean-12*sd-30)); j <= min(n, int(mean+12*sd+30)); j++ {
				m := binomial.Mass(n, p, j)
				sum += m
				if j > 0 && m > 1e-200 {
					ratio := binomial.Mass(n, p, j-1) * float64(n-j+1) / float64(j) * p / (1 - p)
					if math.Abs(m/ratio-1) > 1e-11 {
						t.Fatalf("Binom(%d,%g) at %d: %g, by its neighbour %g", n, p, j, m, ratio)
					}
				}
			}
			if math.Abs(sum-1) > 1e-11 {
				t.Errorf("Binom(%d,%g) sums to 1%+.2g", n, p, sum-1)
			}
		}
	}
}

// TestTransformError measures what fftError bounds, against a direct sum at chosen frequencies.
func TestTransformError(t *testing.T) {
	const n = 1 << 16
	rng := rand.New(rand.NewPCG(1, 2))
	x := make([]float64, n)
	for i := range x {
		x[i] = math.Exp(-float64(i)/1000) * rng.Float64()
	}
	scale := 1 / total(x)
	for i := range x {
		x[i] *= scale
	}
	got := fourier.NewFFT(n).Coefficients(nil, x)
	for _, k := range []int{0, 1, 3, 777, 12345, n/2 - 1, n / 2} {
		want := complex(0, 0)
		for from := 0; from < n; from += 256 { // in blocks, for the sum's own rounding
			block := complex(0, 0)
			for i, v := range x[from : from+256] {
				block += complex(v, 0) * cmplx.Rect(1, -2*math.Pi*float64((from+i)*k%n)/n)
			}
			want += block
		}
		if d := cmplx.Abs(got[k] - want); d > fftError*16 {
			t.Errorf("frequency %d: error %g, bound %g", k, d, fftError*16)
		}
	}
}

func TestComposeRefusesBadInput(t *testing.T) {
	var pe *ParamError
	for name, steps := range map[string][]Step{
		"no steps":   nil,
		"prob":       {{Event{Prob: 1.5, NoiseMultiplier: 1, Sensitivity: 1, Examples: 1}, 1}},
		"nan":        {{Event{Prob: 0.5, NoiseMultiplier: math.NaN(), Sensitivity: 1, Examples: 1}, 1}},
		"count":      {{Event{Prob: 0.5, NoiseMultiplier: 1, Sensitivity: 1, Examples: 1}, 0}},
		"no privacy": {{Event{Prob: 0.5, NoiseMultiplier: 1e-4, Sensitivity: 1, Examples: 1}, 1}},
		"k and cut":  {{Event{Prob: 0.5, NoiseMultiplier: 1, Sensitivity: 1, Examples: 2, Truncation: &Truncation{5, 9}}, 1}},
	} {
		if _, err := Compose(steps, Options{}); !errors.As(err, &pe) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	c, err := Compose([]Step{{oracleEvents["poisson"], 1}}, Options{Grid: 1e-2})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Epsilon(0); !errors.As(err, &pe) {
		t.Errorf("δ = 0: got %v", err)
	}
	if _, err := c.UpperDelta(math.Inf(1)); !errors.As(err, &pe) {
		t.Errorf("UpperDelta(Inf): %v", err)
	}
	if _, err := c.Delta(math.NaN()); !errors.As(err, &pe) {
		t.Errorf("ε NaN: got %v", err)
	}
	if b, err := c.Epsilon(1e-30); err != nil || !math.IsInf(b.Upper, 1) {
		t.Errorf("δ below the tail: got %v, %v", b, err)
	}
}

// unlikeEvents are a rare and large loss, a mixture of two examples, and a Gaussian mechanism.
var unlikeEvents = []Event{
	{Prob: 0.01, NoiseMultiplier: 0.5, Sensitivity: 1, Examples: 1},
	{Prob: 0.2, NoiseMultiplier: 1, Sensitivity: 1, Examples: 2},
	{Prob: 1, NoiseMultiplier: 20, Sensitivity: 1, Examples: 1},
}

// TestNarrowed: rare and large losses in many steps would need a window beyond memory; and a window
// that was narrowed gives a bracket of the same number.
func TestNarrowed(t *testing.T) {
	if testing.Short() {
		t.Skip("a million steps")
	}
	c, err := Compose([]Step{{Event{Prob: 1e-6, NoiseMultiplier: 0.5, Sensitivity: 1, Examples: 1}, 1_000_000}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := c.PQ.upper
	k, _, k2 := p.cumulants(p.tiltForEpsilon(1))
	if low, high, _ := p.window(p.tiltForEpsilon(1), k, k2); high-low <= maxWindow {
		t.Fatalf("a window of %d cells: another case must be found", high-low)
	}
	if _, _, low, high, _ := p.narrowed(p.tiltForEpsilon(1)); high-low > maxWindow {
		t.Errorf("a window of %d cells", high-low)
	}

	for _, e := range unlikeEvents {
		c, err := Compose([]Step{{e, 100}}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, epsilon := range []float64{0.3, 3} {
			want, err := c.Delta(epsilon)
			if err != nil {
				t.Fatal(err)
			}
			before := maxWindow
			maxWindow = 1 << 14
			got, err := c.Delta(epsilon)
			maxWindow = before
			if err != nil || got.Lower > want.Upper || got.Upper < want.Lower {
				t.Errorf("%+v, ε = %g: [%g, %g] narrowed, [%g, %g] else, %v", e, epsilon, got.Lower, got.Upper, want.Lower, want.Upper, err)
			}
		}
	}
}
