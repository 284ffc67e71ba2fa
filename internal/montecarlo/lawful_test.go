package montecarlo_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/internal/law"
	"minsep/internal/montecarlo/internal/law/lawtest"
	"minsep/internal/montecarlo/tilt"
	"minsep/internal/stream"
	"minsep/mechanism"
)

// images are C times every pattern, with its probability.
type images struct {
	x     [][]float64
	prob  []float64
	sigma float64
}

func imagesOf(s montecarlo.Spec) (im images) {
	im.sigma = s.NoiseMultiplier
	for _, p := range lawtest.Patterns(lawtest.Tide{MinSep: s.MinSep, Prob: s.Prob}, s.Steps) {
		x := make([]float64, s.Steps)
		for _, i := range p.Steps {
			for k, v := range s.Strategy.Toeplitz {
				if i+k < s.Steps {
					x[i+k] += v
				}
			}
		}
		im.x, im.prob = append(im.x, x), append(im.prob, p.Prob)
	}
	return im
}

func (im images) dot(x, y []float64) (sum float64) {
	for i, v := range x {
		sum += v * y[i]
	}
	return sum / (im.sigma * im.sigma)
}

// owner is the sums of the images of so many examples.
func (im images) owner(examples int) images {
	if examples == 1 {
		return im
	}
	fewer, all := im.owner(examples-1), images{sigma: im.sigma}
	for a, x := range im.x {
		for b, y := range fewer.x {
			sum := make([]float64, len(x))
			for i := range sum {
				sum[i] = x[i] + y[i]
			}
			all.x, all.prob = append(all.x, sum), append(all.prob, im.prob[a]*fewer.prob[b])
		}
	}
	return all
}

// ratio is P/Q at y.
func (im images) ratio(y []float64) (f float64) {
	for a, x := range im.x {
		f += im.prob[a] * math.Exp(im.dot(x, y)-im.dot(x, x)/2)
	}
	return f
}

// divergence is a mean over outputs, with its standard error.
func (im images) divergence(d montecarlo.Direction, epsilon float64, count int) (mean, deviation float64) {
	rng := rand.New(rand.NewPCG(8, 1))
	squares := 0.0
	for range count {
		a := 0
		for left := rng.Float64() - im.prob[0]; left >= 0 && a < len(im.prob)-1; left -= im.prob[a] {
			a++
		}
		y := make([]float64, len(im.x[a]))
		for i := range y {
			y[i] = im.sigma * rng.NormFloat64()
			if d == montecarlo.P {
				y[i] += im.x[a][i]
			}
		}
		f := im.ratio(y)
		if d == montecarlo.P {
			f = 1 / f
		}
		v := max(0, 1-math.Exp(epsilon)*f)
		mean, squares = mean+v/float64(count), squares+v*v/float64(count)
	}
	return mean, math.Sqrt((squares - mean*mean) / float64(count))
}

// moment is E_Q f².
func (im images) moment() (sum float64) {
	for a, x := range im.x {
		for b, y := range im.x {
			sum += im.prob[a] * im.prob[b] * math.Exp(im.dot(x, y))
		}
	}
	return sum
}

func toySpec(examples int) montecarlo.Spec {
	return montecarlo.Spec{Scheme: montecarlo.Toy, Steps: 7, MinSep: 3, Prob: .5, NoiseMultiplier: .9, MaxExamplesPerOwner: examples,
		Strategy: &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: 7, Toeplitz: []float64{1, .5, .25}}}
}

// TestSchemeOfItsOwnLaw: a scheme that is a law and a check has exact losses, draws from them, and
// proposals with means that are the divergences, for one example and bounds for several.
func TestSchemeOfItsOwnLaw(t *testing.T) {
	montecarlo.RegisterToy(func(s montecarlo.Spec) law.Law { return lawtest.Tide{MinSep: s.MinSep, Prob: s.Prob} })
	defer montecarlo.UnregisterToy()
	s := toySpec(1)
	im := imagesOf(s)
	e, err := montecarlo.NewEvaluator(s, montecarlo.P)
	if err != nil {
		t.Fatal(err)
	}
	y := make([]float64, s.Steps)
	for k := range 20 {
		for i := range y {
			y[i] = 2 * math.Sin(float64(5*i+k*k))
		}
		if got, err := e.LogRatio(y); err != nil || math.Abs(got-math.Log(im.ratio(y))) > 1e-12 {
			t.Errorf("ln P/Q = %v, by enumeration %v: %v", got, math.Log(im.ratio(y)), err)
		}
	}
	list, err := tilt.Moments(s)
	if err != nil || len(list) == 0 || list[0].Order != 2 {
		t.Fatalf("moments %+v: %v", list, err)
	}
	if want := math.Log(im.moment()); list[0].LogN < want || list[0].LogN > want+1e-8 {
		t.Errorf("ln N_2 = %v, by enumeration %v", list[0].LogN, want)
	}
	for k := 1; k <= 3; k++ {
		testLosses(t, toySpec(k))
	}
}

// testLosses holds the losses of samples against each other: 1/f has the mean 1 under P, f under Q,
// and both give the divergences, in which proposals agree. Bounds of several examples are larger.
func testLosses(t *testing.T, s montecarlo.Spec) {
	t.Helper()
	const epsilon = .25
	count := 1 << 15
	if s.MaxExamplesPerOwner > 1 {
		count = 1 << 12
	}
	key := stream.PublicKey("toy", nil)
	of := func(d montecarlo.Direction, value func(loss float64) float64) (mean, deviation float64) {
		sampler, err := montecarlo.NewSampler(s, d, key)
		if err != nil {
			t.Fatal(err)
		}
		losses := make([]float64, count)
		sampler.Losses(losses, 0)
		squares := 0.0
		for _, l := range losses {
			v := value(l)
			mean, squares = mean+v/float64(count), squares+v*v/float64(count)
		}
		return mean, math.Sqrt((squares - mean*mean) / float64(count))
	}
	inverse := func(l float64) float64 { return math.Exp(-l) }
	hockey := func(l float64) float64 { return max(0, -math.Expm1(epsilon-l)) }
	if k := s.MaxExamplesPerOwner; k == 1 {
		for _, d := range montecarlo.Directions {
			if mean, deviation := of(d, inverse); math.Abs(mean-1) > 5*deviation {
				t.Errorf("direction %s: the inverse ratio has the mean %v ± %v", d, mean, deviation)
			}
		}
	} else if s.Exactness() != montecarlo.Bound {
		t.Errorf("losses of %d examples are %s", k, s.Exactness())
	}
	for _, d := range montecarlo.Directions {
		want, deviation := of(d, hockey)
		p, err := tilt.NewProposal(t.Context(), tilt.Config{Spec: s, Epsilon: epsilon, Direction: d})
		if err != nil {
			t.Fatal(err)
		}
		v, err := tilt.NewVerifier(p, key)
		if err != nil {
			t.Fatal(err)
		}
		got, err := v.Estimate(uint64(count), max(want, 10*p.Bound/float64(count)))
		if err != nil {
			t.Fatal(err)
		}
		k := s.MaxExamplesPerOwner
		name := fmt.Sprintf("%d examples, direction %s, %s: mean %v ± %v, plain samples %v ± %v", k, d, p.Method, got.Mean, got.StdErr, want, deviation)
		five := 5 * math.Hypot(got.StdErr, deviation)
		if got.Mean > want+five || k == 1 && got.Mean < want-five {
			t.Error(name)
		}
		if p.Divergence < got.Mean-5*got.StdErr {
			t.Errorf("%s: proven to be at most %v", name, p.Divergence)
		}
		if k > 2 {
			continue
		}
		exact, deviation := imagesOf(s).owner(k).divergence(d, epsilon, 3000)
		if five := 5 * math.Hypot(got.StdErr, deviation); got.Mean < exact-five || got.Mean > 1.05*exact+five { // drawn ratios add a little
			t.Errorf("%s: by enumeration %v ± %v", name, exact, deviation)
		}
	}
}
