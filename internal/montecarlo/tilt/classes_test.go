package tilt

import (
	"math"
	"math/rand/v2"
	"testing"

	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/internal/likelihood"
	"minsep/mechanism"
)

// TestClassesAreAPartOfTheLaw: every pattern of epochs has at least the probability that the
// classes give it, over all places that are followed by a free start.
func TestClassesAreAPartOfTheLaw(t *testing.T) {
	near := 0
	for epoch := 2; epoch <= 6; epoch++ {
		for sep := 1; sep < epoch; sep++ {
			for steps := epoch + 1; steps <= 3*epoch; steps++ {
				s := montecarlo.Spec{Scheme: montecarlo.EpochMinSep, Steps: steps, MinSep: sep, EpochSteps: epoch, NoiseMultiplier: 1, Strategy: mechanism.Identity(steps)}
				periods, loss, ok := classes(s, likelihood.NewColumns(s.Strategy))
				if !ok {
					continue
				}
				free, last := periods[0].Places, periods[1].Places
				total := 0.0
				for _, p := range epochPatterns(steps, sep, epoch) {
					early, end := len(p.hits) >= periods[0].Count, 1-float64(last)/float64(epoch)
					for e, i := range p.hits {
						if e < periods[0].Count {
							early = early && i/epoch == e && i%epoch < free
						} else {
							end = 1 / float64(epoch)
						}
					}
					if !early {
						continue
					}
					least := math.Exp(loss) * math.Pow(float64(free), -float64(periods[0].Count)) * end
					if total += least; !(p.prob >= least) {
						t.Errorf("T=%d b=%d n=%d: %v has probability %v, the classes say %v", epoch, sep, steps, p.hits, p.prob, least)
					}
				}
				if total > 0.999 && total <= 1 {
					near++
				}
				if math.Abs(total-math.Exp(loss)) > 1e-9 {
					t.Errorf("T=%d b=%d n=%d: the classes have %v in all, not e^%v", epoch, sep, steps, total, loss)
				}
			}
		}
	}
	if near < 10 {
		t.Errorf("%d laws are those of classes, want some", near)
	}
}

// plainReverse is the mean and the standard error of (1 - γf)_+ under Q, from all patterns.
func plainReverse(c *mechanism.Strategy, list []pattern, sigma, epsilon float64, samples int, rng *rand.Rand) (mean, stderr float64) {
	images := make([][]float64, len(list))
	for i, p := range list {
		images[i] = image(c, p.hits)
	}
	y := make([]float64, c.Steps)
	sum, squares := 0.0, 0.0
	for range samples {
		for i := range y {
			y[i] = sigma * rng.NormFloat64()
		}
		f := 0.0
		for i, p := range list {
			f += p.prob * math.Exp((dot(images[i], y)-dot(images[i], images[i])/2)/(sigma*sigma))
		}
		v := max(0, 1-math.Exp(epsilon)*f)
		sum += v
		squares += v * v
	}
	mean = sum / float64(samples)
	return mean, math.Sqrt((squares/float64(samples) - mean*mean) / float64(samples))
}

// TestClassBound is above the divergence by plain samples of all patterns, near it with one band.
func TestClassBound(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 3))
	for _, c := range []struct {
		steps, sep, epoch int
		column            []float64
		sigma, epsilon    float64
		near              bool
	}{
		{12, 1, 4, []float64{1}, 1.2, .3, true},
		{14, 1, 5, []float64{1}, 1, .5, true},
		{8, 8, 8, []float64{1}, .6, .4, true},
		{6, 6, 9, []float64{1}, .6, .2, true},
		{8, 3, 8, []float64{1, .5}, .8, .3, false},
		{16, 2, 8, []float64{1, .6}, 1, .5, false},
		{15, 2, 8, []float64{1, .6}, .8, .7, false},
		{18, 3, 10, []float64{1, .3, .5}, .9, .6, false},
	} {
		strategy := toeplitz(c.steps, c.column...)
		s := montecarlo.Spec{Scheme: montecarlo.EpochMinSep, Steps: c.steps, MinSep: c.sep, EpochSteps: c.epoch, NoiseMultiplier: c.sigma, Strategy: strategy}
		if err := s.Validate(); err != nil {
			t.Fatal(err)
		}
		bound := classBound(Config{Spec: s, Epsilon: c.epsilon, Direction: montecarlo.Q}, likelihood.NewColumns(strategy))
		want, stderr := plainReverse(strategy, epochPatterns(c.steps, c.sep, c.epoch), c.sigma, c.epsilon, 60000, rng)
		if bound < want-4*stderr || bound >= 1 {
			t.Errorf("%+v: bound %v, true %v ± %v", c, bound, want, stderr)
		}
		if c.near && bound > want*1.02+4*stderr {
			t.Errorf("%+v: bound %v, true %v ± %v: too far above", c, bound, want, stderr)
		}
		if want < 10*stderr {
			t.Errorf("%+v: %v ± %v tests nothing", c, want, stderr)
		}
	}
}
