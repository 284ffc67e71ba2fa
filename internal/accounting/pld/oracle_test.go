package pld

import (
	"errors"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/dsp/fourier"

	"minsep/internal/must"
	"minsep/internal/normal"
	"minsep/internal/param"
	"minsep/internal/stattest"
)

// exactParts are the alternatives of a release by their definition (F3.0a, F3.6), one for each number of
// other examples in the batch.
func exactParts(e Release) (list []part) {
	mu, p := e.Sensitivity/e.NoiseMultiplier, e.Prob
	mass := func(n, j int) float64 {
		m := math.Pow(1-p, float64(n-j))
		for i := range j {
			m *= p * float64(n-i) / float64(i+1)
		}
		return m
	}
	whole := pair{den: []component{{1, 0}}}
	for j := range e.Examples + 1 {
		whole.num = append(whole.num, component{mass(e.Examples, j), float64(j) * mu})
	}
	if e.Truncation == nil {
		return []part{{1, whole}}
	}
	for others := range e.Truncation.Others + 1 {
		of := whole
		if most := e.Truncation.MaxBatchSize; others >= most {
			a := p * float64(most) / float64(others+1)
			of = pair{num: []component{{1 - a, 0}, {a, 2 * mu}}, den: []component{{1 - a, 0}, {a, -mu}}}
		}
		list = append(list, part{mass(e.Truncation.Others, others), of})
	}
	return list
}

// oracle1 is the divergence of one event at any real ε, by the closed form: the loss rises with x,
// so the set where num > e^ε den is a half line.
func oracle1(parts []part, view func(pair) pair, epsilon float64) (delta float64) {
	for _, part := range parts {
		p := view(part.pair)
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
		p := view(part.pair)
		for i := range panels {
			pt := p.at(low + (float64(i)+0.5)*d)
			delta += part.probability * d * pt.density * oracle1(b, view, epsilon-pt.loss)
		}
	}
	return delta
}

func same(p pair) pair { return p }

var oracleEvents = map[string]Release{
	"gaussian":      {Prob: 1, NoiseMultiplier: 1.3, Sensitivity: 1, Examples: 1},
	"poisson":       {Prob: 0.1, NoiseMultiplier: 0.8, Sensitivity: 1.5, Examples: 1},
	"rare":          {Prob: 0.01, NoiseMultiplier: 0.5, Sensitivity: 1, Examples: 1},
	"four examples": {Prob: 0.2, NoiseMultiplier: 1.1, Sensitivity: 0.7, Examples: 4},
	"truncated":     {Prob: 0.3, NoiseMultiplier: 2, Sensitivity: 1, Examples: 1, Truncation: &Truncation{MaxBatchSize: 3, Others: 8}},
	"all truncated": {Prob: 1, NoiseMultiplier: 2, Sensitivity: 1, Examples: 1, Truncation: &Truncation{MaxBatchSize: 3, Others: 3}},
}

// TestBoundsHoldOracles: one and two events, both directions, δ over ten decades. A bound is not below
// the truth, and not above it with a hundredth more noise.
func TestBoundsHoldOracles(t *testing.T) {
	compose := func(steps ...Step) *Composition {
		c := must.Get(Compose(steps, Options{Grid: 1e-3}))(t)
		return c
	}
	poisson := oracleEvents["poisson"]
	second := exactParts(poisson)
	for name, e := range oracleEvents {
		parts := exactParts(e)
		less := e
		less.NoiseMultiplier *= 1.01
		one, two, twin := compose(Step{e, 1}), compose(Step{e, 1}, Step{poisson, 1}), compose(Step{less, 1})
		for _, epsilon := range []float64{0, 0.5, 1, 4} {
			for _, dir := range []struct {
				name           string
				view           func(pair) pair
				one, two, twin Loss
			}{{"P,Q", same, one.PQ, two.PQ, twin.PQ}, {"Q,P", pair.mirrored, one.QP, two.QP, twin.QP}} {
				want := oracle1(parts, dir.view, epsilon)
				above(t, name+" H("+dir.name+")", dir.one, epsilon, want, 1e-9)
				if epsilon == 0.5 || epsilon == 4 || stattest.Long() {
					above(t, name+" and poisson H("+dir.name+")", dir.two, epsilon, oracle2(parts, second, dir.view, epsilon), 2e-6)
				}
				if got, _ := dir.twin.Delta(epsilon); want > 1e-10 && got >= want {
					t.Errorf("%s H(%s) ε = %g: with 1 %% more noise the bound %g is not below %g", name, dir.name, epsilon, got, want)
				}
			}
		}
	}
}

func above(t *testing.T, what string, l Loss, epsilon, want, slop float64) { // slop: relative error of the oracle itself
	t.Helper()
	got, err := l.Delta(epsilon)
	if err != nil || got < want*(1-slop)-1e-15 || want > 1e-12 && got > 1.03*want {
		t.Errorf("%s, ε = %g: %.12g, want %.12g or a little more, %v", what, epsilon, got, want, err)
	}
}

// TestGaussianComposition: T Gaussian events are one of sensitivity √T, down to δ = 1e-200.
func TestGaussianComposition(t *testing.T) {
	const steps, sigma = 100, 20.0
	e := Release{Prob: 1, NoiseMultiplier: sigma, Sensitivity: 1, Examples: 1}
	c := must.Get(Compose([]Step{{e, steps}}, Options{Grid: 1e-4, Tail: 1e-230}))(t)
	mu := math.Sqrt(steps) / sigma
	for _, epsilon := range []float64{0, 0.1, 0.5, 2, 5, 10, 15} {
		x := epsilon/mu - mu/2
		want := normal.Density(x) * (normal.Mills(x) - normal.Mills(x+mu))
		if epsilon < 1 {
			want = normal.Tail(x) - math.Exp(epsilon)*normal.Tail(x+mu)
		}
		got, err := c.Delta(epsilon)
		if err != nil || got < want || got > want*(1+1e-3) {
			t.Errorf("δ(%g) = %g, want %g, %v", epsilon, got, want, err)
		}
		if want < 0.2 {
			back, err := c.Epsilon(want)
			if err != nil || back < epsilon-1e-9 || back > epsilon+1e-4 {
				t.Errorf("ε(%g) = %g, want %g, %v", want, back, epsilon, err)
			}
		}
	}
}

// TestMoreIsWorse: probability, examples, sensitivity, and truncation raise ε; a maximum that is
// never reached does not.
func TestMoreIsWorse(t *testing.T) {
	base := Release{Prob: 0.05, NoiseMultiplier: 1, Sensitivity: 1, Examples: 1}
	epsilon := func(change func(*Release)) float64 {
		e := base
		change(&e)
		c := must.Get(Compose([]Step{{e, 50}}, Options{Grid: 1e-3}))(t)
		b := must.Get(c.Epsilon(1e-6))(t)
		return b
	}
	plain := epsilon(func(*Release) {})
	for name, change := range map[string]func(*Release){
		"probability": func(e *Release) { e.Prob = 0.06 },
		"examples":    func(e *Release) { e.Examples = 2 },
		"sensitivity": func(e *Release) { e.Sensitivity = 1.1 },
		"truncation":  func(e *Release) { e.Truncation = &Truncation{MaxBatchSize: 60, Others: 999} },
	} {
		if got := epsilon(change); got <= plain+1e-3 {
			t.Errorf("more %s: ε = %g, plain %g", name, got, plain)
		}
	}
	if got := epsilon(func(e *Release) { e.Truncation = &Truncation{MaxBatchSize: 1000, Others: 999} }); math.Abs(got-plain) > 1e-9 {
		t.Errorf("a maximum never reached: ε = %g, plain %g", got, plain)
	}
	rare := epsilon(func(e *Release) { e.Truncation = &Truncation{MaxBatchSize: 200, Others: 999} })
	if rare < plain-1e-9 || rare > plain+1e-6 {
		t.Errorf("a maximum 22 deviations away: ε = %g, plain %g", rare, plain)
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
	var pe *param.Error
	for name, steps := range map[string][]Step{
		"no steps":   nil,
		"prob":       {{Release{Prob: 1.5, NoiseMultiplier: 1, Sensitivity: 1, Examples: 1}, 1}},
		"nan":        {{Release{Prob: 0.5, NoiseMultiplier: math.NaN(), Sensitivity: 1, Examples: 1}, 1}},
		"count":      {{Release{Prob: 0.5, NoiseMultiplier: 1, Sensitivity: 1, Examples: 1}, 0}},
		"no privacy": {{Release{Prob: 0.5, NoiseMultiplier: 1e-4, Sensitivity: 1, Examples: 1}, 1}},
		"k and cut":  {{Release{Prob: 0.5, NoiseMultiplier: 1, Sensitivity: 1, Examples: 2, Truncation: &Truncation{5, 9}}, 1}},
	} {
		if _, err := Compose(steps, Options{}); !errors.As(err, &pe) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	c := must.Get(Compose([]Step{{oracleEvents["poisson"], 1}}, Options{Grid: 1e-2}))(t)
	if _, err := c.Epsilon(0); !errors.As(err, &pe) {
		t.Errorf("δ = 0: got %v", err)
	}
	if _, err := c.Delta(math.Inf(1)); !errors.As(err, &pe) {
		t.Errorf("ε = Inf: got %v", err)
	}
	if _, err := c.Delta(math.NaN()); !errors.As(err, &pe) {
		t.Errorf("ε NaN: got %v", err)
	}
	if b, err := c.Epsilon(1e-30); err != nil || !math.IsInf(b, 1) {
		t.Errorf("δ below the tail: got %v, %v", b, err)
	}
}

// unlikeEvents are a rare and large loss, a mixture of two examples, and a Gaussian mechanism.
var unlikeEvents = []Release{
	{Prob: 0.01, NoiseMultiplier: 0.5, Sensitivity: 1, Examples: 1},
	{Prob: 0.2, NoiseMultiplier: 1, Sensitivity: 1, Examples: 2},
	{Prob: 1, NoiseMultiplier: 20, Sensitivity: 1, Examples: 1},
}

// TestNarrowed: rare and large losses in many steps would need a window beyond memory; and a window
// that was narrowed gives next to the same number.
func TestNarrowed(t *testing.T) {
	if testing.Short() {
		t.Skip("a million steps")
	}
	c := must.Get(Compose([]Step{{Release{Prob: 1e-6, NoiseMultiplier: 0.5, Sensitivity: 1, Examples: 1}, 1_000_000}}, Options{}))(t)
	p := c.PQ
	k, _, k2 := p.cumulants(p.tiltForEpsilon(1))
	if low, high, _ := p.window(p.tiltForEpsilon(1), k, k2); high-low <= maxWindow {
		t.Fatalf("a window of %d cells: another case must be found", high-low)
	}
	if _, _, low, high, _ := p.narrowed(p.tiltForEpsilon(1)); high-low > maxWindow {
		t.Errorf("a window of %d cells", high-low)
	}

	for _, e := range unlikeEvents {
		steps := []Step{{e, 100}}
		for _, epsilon := range []float64{0.3, 3} {
			want := deltaOf(t, steps, Options{}, epsilon)
			before := maxWindow
			maxWindow = 1 << 14
			got := deltaOf(t, steps, Options{}, epsilon)
			maxWindow = before
			if got < want*(1-1e-3) || got > want*(1+1e-2)+1e-15 {
				t.Errorf("%+v, ε = %g: %g narrowed, %g else", e, epsilon, got, want)
			}
		}
	}
}
