package verification

import (
	"math"
	"testing"
	"time"

	"minsep/accounting"
	"minsep/sampling"
)

// TestForecast: what is proven has fixed times; else time is that of tables and samples, a budget
// in time is used up, and further ε come on top.
func TestForecast(t *testing.T) {
	cyclic := smallRun()
	cyclic.Sampler = sampling.Spec{CyclicPoisson: &sampling.CyclicPoisson{Prob: 0.25, Steps: 64, MinSep: 4}}
	if f, err := (Problem{Run: cyclic, Epsilon: 2, Delta: 1e-3}).Forecast(t.Context(), 1); err != nil || f.Seconds != cyclicSeconds || f.Tables != 0 {
		t.Errorf("cyclic Poisson sampling: %+v, %v", f, err)
	}
	p := Problem{Run: smallRun(), Epsilon: 2, Delta: 1e-3}
	f, err := p.Forecast(t.Context(), 1.6)
	if err != nil || !(f.Tables > 0 && f.Sample > 0 && f.Effort > 0) || f.Further != 0 || !(f.Seconds > 10*f.Tables) {
		t.Errorf("%+v, %v", f, err)
	}
	p.AlsoEpsilon = []float64{0.5, 1}
	if also, err := p.Forecast(t.Context(), 1.6); err != nil || !(also.Further > 0) || !(also.Seconds > also.Further) {
		t.Errorf("with further ε: %+v, %v", also, err)
	}
	known := Forecast{Tables: 1, Sample: 1e-5, Effort: 22.5e5 / VerifySamples}
	for _, c := range []struct {
		name            string
		p               Problem
		points          float64
		seconds, beside float64
	}{
		{"the default budget", Problem{}, 0, 8 + 11 + 22.5, 0},
		{"a budget in time", Problem{CPUTime: 10 * time.Minute}, 0, 600, 0},
		{"a budget in samples", Problem{Samples: 1e6}, 0, 8 + 11 + 10, 0},
		{"further ε", Problem{AlsoEpsilon: []float64{1}}, 0.5, 8 + 11 + 22.5 + 22.5/2 + 4, 22.5/2 + 4},
		{"one noise multiplier", Problem{NoiseMultiplier: 2}, 0, 2 + 22.5, 0},
	} {
		if seconds, beside := c.p.seconds(known, c.points); math.Abs(seconds-c.seconds) > 1 || math.Abs(beside-c.beside) > 1e-9 {
			t.Errorf("%s: %g s, %g of them for further ε, want %g and %g", c.name, seconds, beside, c.seconds, c.beside)
		}
	}
	if long := (Problem{}).Within(known, 10*time.Minute); math.Abs(long.Seconds-600) > 1e-9 || math.Abs(long.Enough-(19+22.5*enoughSamples/VerifySamples)) > 1e-9 {
		t.Errorf("in ten minutes: %+v", long)
	}
	dear := Forecast{Tables: 10, Sample: 1e-3, Effort: 1e3} // tables leave too little of a minute
	if seconds, _ := (Problem{}).seconds(dear, 0); seconds != longCPUTime.Seconds() {
		t.Errorf("dear tables: %g s, want %v", seconds, longCPUTime)
	}
}

// TestMostAlso: the trials of all further ε have about as many samples as the claim's own, or,
// where these are few, some that take next to no time.
func TestMostAlso(t *testing.T) {
	p := Problem{Run: smallRun(), AlsoEpsilon: []float64{1, 2}}
	protocol := func(samples uint64) *accounting.Protocol {
		c := accounting.Candidate{Trials: []accounting.Trial{{Samples: samples}, {Samples: samples / 3}}}
		return &accounting.Protocol{Candidates: []accounting.Candidate{c, c}}
	}
	if got := p.mostAlso(protocol(300_000)); got != 200_000 {
		t.Errorf("%g samples", got)
	}
	if got, want := p.mostAlso(protocol(30)), math.Floor(float64(leastSamples)); got != want {
		t.Errorf("%g samples where the claim has few, want %g", got, want)
	}
	if got, want := p.mostAlso(protocol(1e15)), estimateSamples(64); got != want {
		t.Errorf("%g samples where the claim has many, want %g", got, want)
	}
}
