package montecarlo

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"minsep/internal/must"
	"minsep/internal/stattest"
	"minsep/internal/stream"
	"minsep/mechanism"
	"minsep/sampling"
)

func testKey(t *testing.T) stream.Key { return testKeyOf(t.Name()) }

func testKeyOf(name string) stream.Key { return stream.PublicKey("test", []byte(name)) }

func mustSampler(t testing.TB, s Spec, d Direction, key stream.Key) *Sampler {
	t.Helper()
	sampler := must.Get(NewSampler(s, d, key))(t)
	return sampler
}

// sqrtColumn is the first column of the banded square root, of norm 1.
func sqrtColumn(bands int) []float64 {
	c := []float64{1}
	sum := 1.0
	for j := 1; j < bands; j++ {
		c = append(c, c[j-1]*(1-0.5/float64(j)))
		sum += c[j] * c[j]
	}
	for j := range c {
		c[j] /= math.Sqrt(sum)
	}
	return c
}

// specOf is the spec of one example of a scheme that has a law.
func specOf(s sampling.Scheme, c *mechanism.Strategy, sigma float64) Spec {
	table, err := sampling.TableOf(s)
	if err != nil {
		panic(err)
	}
	return Spec{Law: table, NoiseMultiplier: sigma, Strategy: c}
}

// kinds is one spec of every distribution.
func kinds() map[string]Spec {
	four := toeplitz(40, sqrtColumn(4)...)
	coins := Spec{MultiOwner: &sampling.MultiOwner{Prob: 0.1, Steps: 40, MinSep: 4}, NoiseMultiplier: 1.5, Strategy: four, MaxExamplesPerOwner: 3}
	all := map[string]Spec{
		"warm":             specOf(sampling.BMinSep{Prob: 0.1, Steps: 40, MinSep: 4, WarmStart: true}, four, 1.5),
		"cold":             specOf(sampling.BMinSep{Prob: 0.1, Steps: 40, MinSep: 4}, four, 1.5),
		"poisson":          specOf(sampling.Poisson{Prob: 0.1, Steps: 40}, toeplitz(40, 1), 1.5),
		"more bands":       specOf(sampling.Poisson{Prob: 0.1, Steps: 40}, four, 1.5),
		"balls":            specOf(sampling.BallsInBins{Steps: 40, Period: 10}, toeplitz(40, sqrtColumn(20)...), 1.5),
		"epoch":            specOf(sampling.EpochMinSep{Steps: 40, MinSep: 4, EpochSteps: 9}, four, 1.5),
		"epoch of min-sep": specOf(sampling.EpochMinSep{Steps: 40, MinSep: 4, EpochSteps: 4}, four, 1.5),
		"long epoch":       specOf(sampling.EpochMinSep{Steps: 40, MinSep: 4, EpochSteps: 55}, four, 1.5),
		"rotation":         specOf(sampling.Rotation{Steps: 40, EpochSteps: 9}, four, 1.5),
		"cyclic":           specOf(sampling.CyclicPoisson{Prob: 0.1, Steps: 40, MinSep: 4}, four, 1.5),
		"phase":            specOf(sampling.CyclicPoisson{Prob: 0.1, Steps: 40, MinSep: 4, SecretPartition: true}, four, 1.5),
		"published":        coins,
	}
	for _, name := range []string{"warm", "cold"} {
		two := all[name]
		two.MaxExamplesPerOwner = 2
		all["two, "+name] = two
	}
	return all
}

// TestReciprocalMean: E_P[Q/P] = E_Q[P/Q] = 1 for every distribution, that is, the mean of e^-loss
// in both directions. It fails when participations do not follow the distribution that their loss
// is computed with. See reciprocalFault for what is compared.
func TestReciprocalMean(t *testing.T) {
	samples := 80000
	if testing.Short() {
		samples = 16000
	}
	for name, s := range kinds() {
		if fault := reciprocalFault(t, s, s, samples); fault != nil {
			t.Errorf("%s: %v", name, fault)
		}
	}
	// Wrong twins: participations of one spec, losses of another.
	four := toeplitz(40, sqrtColumn(4)...)
	right := specOf(sampling.BMinSep{Prob: 0.1, Steps: 40, MinSep: 4, WarmStart: true}, four, 1.5)
	owner := right
	owner.MaxExamplesPerOwner = 2
	for name, wrong := range map[string]Spec{
		"smaller min-sep": specOf(sampling.BMinSep{Prob: 0.1, Steps: 40, MinSep: 3, WarmStart: true}, four, 1.5),
		"rarer":           specOf(sampling.BMinSep{Prob: 0.08, Steps: 40, MinSep: 4, WarmStart: true}, four, 1.5),
		"owner of two":    owner,
	} {
		if fault := reciprocalFault(t, right, wrong, 150000); fault == nil {
			t.Errorf("participations of %s were not told from those of the loss", name)
		}
	}
}

// reciprocalFault judges the identity Pr_P[loss ≤ ln cut] = E_Q[f; f ≤ cut], f = P/Q, and the same
// with P and Q exchanged: two means of values in [0, cut] that must agree.
func reciprocalFault(t *testing.T, s, played Spec, samples int) error {
	const cut = 4.0
	var losses [2][]float64
	for i, d := range Directions {
		sampler := mustSampler(t, s, d, testKey(t))
		sampler.draw = mustSampler(t, played, d, testKey(t)).draw
		losses[i] = make([]float64, samples)
		sampler.Losses(losses[i], 0)
	}
	for i := range Directions {
		within, weighted, square := 0.0, 0.0, 0.0
		for j := range samples {
			if losses[i][j] >= -math.Log(cut) { // e^-loss ≤ cut
				v := math.Exp(-losses[i][j])
				weighted += v
				square += v * v
			}
			if -losses[1-i][j] >= -math.Log(cut) { // the same event in the other direction
				within++
			}
		}
		n := float64(samples)
		p := within / n
		variance := square - weighted*weighted/n + n*p*(1-p)
		if err := stattest.Sum(weighted-within, 0, variance, 2*cut); err != nil {
			return fmt.Errorf("direction %s: %w", Directions[i], err)
		}
	}
	return nil
}

// TestAddresses: any range computed anywhere gives the same losses.
func TestAddresses(t *testing.T) {
	for name, s := range kinds() {
		for _, d := range Directions {
			sampler := mustSampler(t, s, d, testKey(t))
			all := make([]float64, 100)
			sampler.Losses(all, 0)
			for _, r := range [][2]int{{0, 1}, {7, 9}, {8, 16}, {13, 77}, {99, 100}} {
				part := make([]float64, r[1]-r[0])
				sampler.Fork().Losses(part, uint64(r[0]))
				if !slices.Equal(part, all[r[0]:r[1]]) {
					t.Errorf("%s %s: samples %d to %d differ", name, d, r[0], r[1])
				}
			}
			other := make([]float64, 8)
			mustSampler(t, s, d, stream.PublicKey("other", nil)).Losses(other, 0)
			if slices.Equal(other, all[:8]) {
				t.Errorf("%s %s: another key, the same losses", name, d)
			}
			s := s
			s.NoiseMultiplier *= 1 + 1e-15
			mustSampler(t, s, d, testKey(t)).Losses(other, 0)
			if math.Abs(other[0]-all[0]) < 1e-9 && math.Abs(other[1]-all[1]) < 1e-9 {
				t.Errorf("%s %s: another spec, the same randomness", name, d)
			}
		}
	}
}

// TestLossesAgainstLogRatio holds sampled losses to the log-domain distribution at the same
// outputs.
func TestLossesAgainstLogRatio(t *testing.T) {
	for name, s := range kinds() {
		for _, d := range Directions {
			sampler := mustSampler(t, s, d, testKey(t))
			logRatio := must.Get(s.LogRatio())(t)
			losses := slices.Clone(sampler.batch(5)[:])
			in := sampler.input(5)
			for lane, loss := range losses {
				y := sampler.kernel.Outputs(&in, lane)
				want := logRatio(y)
				if d == Q {
					want = -want
				}
				if !(math.Abs(loss-want) < 1e-11) {
					t.Errorf("%s %s: %.15g, want %.15g", name, d, loss, want)
				}
			}
		}
	}
}

// TestFrozenLosses holds the addresses: do not change these figures. A verification is repeated by
// anybody from its key.
func TestFrozenLosses(t *testing.T) {
	for name, want := range map[string][2]float64{
		"warm":      {0.556051876210, 0.458175215930},
		"balls":     {-0.866198419570, 2.275056426613},
		"cyclic":    {-0.129235581522, 0.032969818876},
		"two, warm": {0.063027838430, 1.759484824083},
		"published": {0.684410433524, -0.830086731365},
	} {
		var got [2]float64
		for i, d := range Directions {
			losses := make([]float64, 1)
			mustSampler(t, kinds()[name], d, stream.PublicKey("frozen", []byte("losses"))).Losses(losses, 1<<33+5)
			got[i] = losses[0]
		}
		if !(math.Abs(got[0]-want[0])+math.Abs(got[1]-want[1]) < 1e-10) {
			t.Errorf("%q: {%.12f, %.12f},", name, got[0], got[1])
		}
	}
}
