package tilt

import (
	"math"
	"testing"

	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/internal/kernel"
	"minsep/internal/stream"
	"minsep/sampling"
)

// TestInverseOfSampledRatios: over y ~ P the mean of 1/f̂ is that of Q/P, 1, whatever the number of
// draws. Without the participations that y was drawn with it is above 1, and that of f^-k below.
func TestInverseOfSampledRatios(t *testing.T) {
	const batches = 40000
	minSep := specOf(sampling.BMinSep{Prob: .4, Steps: 4, MinSep: 2, WarmStart: true}, toeplitz(4, 1, .5), 1.5)
	epochs := specOf(sampling.EpochMinSep{Steps: 3, MinSep: 1, EpochSteps: 3}, toeplitz(3, 1), 1.3)
	for i, spec := range []montecarlo.Spec{minSep, epochs} {
		spec.MaxExamplesPerOwner = 2 + i
		p := Proposal{Config: Config{spec, 1, montecarlo.P}, Method: Sampled, Draws: 1 + i, Bound: 1, Slack: lossError(1), Divergence: 1}
		v, err := NewVerifier(p, stream.PublicKey("test", []byte("inverse")))
		if err != nil {
			t.Fatal(err)
		}
		v = v.Fork()
		var sums, squares [3]float64
		for batch := range uint64(batches) {
			v.compute(batch)
			for lane := range kernel.Lanes {
				logF := v.out.LogRatio[0][lane]
				v.paths.one.Given(func(i int) float64 { return v.kernel.Record[i][lane] * math.Ln2 })
				power := float64(spec.MaxExamplesPerOwner) * logF
				v.coins.reset(batch*kernel.Lanes + uint64(lane))
				with := v.paths.harmonic(logF, v.weights[lane], &v.coins)
				without := v.paths.ratio(logF, &v.coins, math.Inf(-1), math.Inf(1)).logRatio
				for k, log := range []float64{with, without, power} {
					x := math.Exp(-log)
					sums[k], squares[k] = sums[k]+x, squares[k]+x*x
				}
			}
		}
		n := float64(batches * kernel.Lanes)
		var off [3]float64 // of 1, in standard errors
		for k := range sums {
			mean := sums[k] / n
			off[k] = (mean - 1) / math.Sqrt((squares[k]/n-mean*mean)/n)
		}
		t.Logf("%d: %.4f, %.4f without, %.4f of one example's", i, sums[0]/n, sums[1]/n, sums[2]/n)
		if math.Abs(off[0]) > 5 || off[1] < 8 || off[2] > -8 {
			t.Errorf("%d: means %v of 1/f̂, standard errors from 1: %v", i, [3]float64{sums[0] / n, sums[1] / n, sums[2] / n}, off)
		}
	}
}

// TestSampledIsRefused where the ratio is exact, and in proposals of others without draws.
func TestSampledIsRefused(t *testing.T) {
	spec := ownersOf(specOf(sampling.BMinSep{Prob: .4, Steps: 4, MinSep: 2}, toeplitz(4, 1, .5), 1.5), 2)
	if _, err := NewSampled(Config{spec, 1, montecarlo.P}); err == nil {
		t.Error("an exact ratio is drawn")
	}
	p := Proposal{Config: Config{spec, 1, montecarlo.P}, Method: Sampled, Bound: 1, Slack: lossError(1), Divergence: 1}
	for _, broken := range []Proposal{p, {Config: p.Config, Method: Sampled, Draws: 8, Bound: .5, Slack: p.Slack, Divergence: .5}} {
		if broken.Validate() == nil {
			t.Errorf("%+v is valid", broken)
		}
	}
}

// TestPowers: sums of terms that leave the range of float64.
func TestPowers(t *testing.T) {
	for _, c := range []struct {
		of   []float64
		want float64
	}{{[]float64{0, 1}, math.Log(1 + math.Exp(-1))}, {[]float64{800, 5000}, -800}, {[]float64{900, 900}, math.Log(2) - 900}, {[]float64{3, 2000}, -3}} {
		sum := newPowers()
		for _, x := range c.of {
			sum.add(x)
		}
		if got := sum.log(2); math.Abs(got-c.want+math.Log(2)) > 1e-12*(1+math.Abs(c.want)) {
			t.Errorf("%v: %v, want %v", c.of, got, c.want-math.Log(2))
		}
	}
}
