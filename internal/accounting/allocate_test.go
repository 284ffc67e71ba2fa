package accounting

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"minsep/internal/montecarlo"
	"minsep/internal/must"
)

// TestAllocate: every test has the failure probability that is in δ, accepts what is expected, and
// all of them take no more samples than tests that accept alike.
func TestAllocate(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		claim := Claim{Delta: math.Exp(-1 - 14*rng.Float64())}
		if rng.IntN(3) == 0 {
			claim.Earlier = claim.Delta * rng.Float64() / 2
		}
		room := claim.Delta - claim.Earlier
		var goals []Goal
		var bounds []float64
		worst := 0.0
		for range 1 + rng.IntN(4) {
			g := Goal{Bound: room * math.Exp(6*rng.Float64()-0.5), Mean: room * 0.97 * math.Pow(rng.Float64(), 3), Errors: 2 * rng.Float64()}
			g.Mean = min(g.Mean, g.Bound)
			if rng.IntN(4) == 0 {
				g = Goal{Bound: room * 0.9 * rng.Float64(), Proven: true}
			} else {
				worst = max(worst, g.Mean)
			}
			goals, bounds = append(goals, g), append(bounds, g.Bound)
		}
		th, tests, err := claim.Allocate(goals)
		if err != nil {
			t.Fatalf("%+v, %+v: %v", claim, goals, err)
		}
		if total := (Thresholds{th.Accept, th.Verify, th.FailureProbability + claim.Earlier}).Total(); total > claim.Delta*(1+1e-12) && th.FailureProbability > 0 { // proofs alone fail with nobody
			t.Errorf("%+v, %+v: δ_v + q(1-δ_v) = %g", claim, goals, total)
		}
		total, exact := 0.0, make([]Goal, len(goals))
		for i, g := range goals {
			test := tests[i]
			total += float64(test.Samples)
			switch {
			case test.Samples == 0 && g.Bound > th.Verify*(1+1e-9):
				t.Errorf("goal %+v of %+v has no samples", g, th)
			case test.Samples == 0:
			case FailureProbability(test.Samples, g.Bound, test.Accept, th.Verify) > th.FailureProbability:
				t.Errorf("%+v of goal %+v: above the failure probability of %+v", test, g, th)
			case test.Accept < g.Mean+g.Errors*math.Sqrt(g.Bound*g.Mean/float64(test.Samples))*(1-1e-6) || test.Accept > th.Accept:
				t.Errorf("%+v does not reach goal %+v, or is above %+v", test, g, th)
			}
			exact[i] = g
			exact[i].Errors = 0
		}
		_, fewer, err := claim.Allocate(exact)
		if err != nil {
			t.Fatal(err)
		}
		least := 0.0
		for _, test := range fewer {
			least += float64(test.Samples)
		}
		same := math.Inf(1) // the least over a grid of δ_v
		for i := range 1000 {
			verify, sum := worst+(claim.most()-worst)*(float64(i)+.5)/1000, 0.0
			for _, bound := range bounds {
				sum += samplesFor(bound, worst, verify, claim.allowed(verify))
			}
			same = min(same, sum)
		}
		if least > same*1.001+10 {
			t.Errorf("%+v, %+v: %g samples, %g where all accept alike", claim, goals, least, same)
		}
	}
}

func TestAllocateRefuses(t *testing.T) {
	for _, goals := range [][]Goal{
		{},
		{{Bound: -1}},
		{{Bound: math.NaN()}},
		{{Bound: 1, Mean: -1}},
		{{Bound: 1, Mean: math.NaN()}},
		{{Bound: 0.2, Proven: true}},
	} {
		var bad *ParamError
		if _, _, err := (Claim{Delta: 0.1}).Allocate(goals); !errors.As(err, &bad) {
			t.Errorf("%+v: got %v", goals, err)
		}
	}
	if _, _, err := (Claim{Delta: 0.1}).Allocate([]Goal{{Bound: 1, Mean: 0.1}}); !errors.Is(err, ErrTooFewSamples) {
		t.Errorf("a mean of δ: got %v", err)
	}
	th, tests, err := (Claim{Delta: 0.1}).Allocate([]Goal{{Bound: 0.1, Proven: true}, {Bound: 0.05, Proven: true}})
	if err != nil || tests[0].Samples+tests[1].Samples > 0 || th.FailureProbability > 0 || th.Verify != 0.1 {
		t.Errorf("proofs alone: %+v, %+v, %v", th, tests, err)
	}
}

// TestAcceptOfATrial: a trial's own accepted mean decides, and is held against q like the point's.
func TestAcceptOfATrial(t *testing.T) {
	p := sampled(t)
	own := &p.Candidates[0].Trials[0]
	own.Accept = p.Points[0].Accept / 2
	must.Do(t, p.Validate())
	mean := func(trial int, mean float64) Tally {
		tally := Tally{Candidate: 0, Trial: trial, Count: p.Candidates[0].Trials[trial].Samples}
		bound := p.Candidates[0].Trials[trial].Bound
		for range tally.Count {
			tally.Sum.Add(mean / bound)
		}
		return tally
	}
	between := 0.75 * p.Points[0].Accept
	if _, err := p.Release([]Tally{mean(0, between), mean(1, between)}); !errors.Is(err, ErrNotVerified) {
		t.Errorf("a mean above the trial's own accepted one: got %v", err)
	}
	if r, err := p.Release([]Tally{mean(0, own.Accept*0.99), mean(1, between)}); err != nil || r.Verdicts[0][0].Accept != own.Accept {
		t.Errorf("a mean below it: %+v, %v", r, err)
	}
	for _, accept := range []float64{p.Points[0].Accept * 1.05, p.Points[0].Verify * 1.01, -1, math.NaN()} {
		own.Accept = accept
		if err := p.Validate(); err == nil {
			t.Errorf("accepted mean %g: no fault", accept)
		}
	}
	own.Accept, own.Samples, own.Method, own.Bound = 1e-9, 0, RenyiBound, 0
	if err := p.Validate(); err == nil {
		t.Error("a trial without samples that accepts a mean: no fault")
	}
}

// sampled is a protocol of one candidate and two trials of few samples.
func sampled(t *testing.T) *Protocol {
	t.Helper()
	th, samples, err := samplesAt(Claim{Delta: 0.1}, 0.05, 0.3, 0.3)
	if err != nil {
		t.Fatal(err)
	}
	p := &Protocol{Format: protocolFormat, Run: toyRun(), CodeVersion: "test", KernelID: "test",
		Points: []Point{{Epsilon: 1, Delta: 0.1, Thresholds: th}}, Candidates: []Candidate{{NoiseMultiplier: 1}}}
	for i, d := range montecarlo.Directions {
		p.Candidates[0].Trials = append(p.Candidates[0].Trials, Trial{Direction: d, Method: MonteCarlo, Bound: 0.3, Samples: samples[i]})
	}
	return p
}

// TestNeed: with as many samples as are advised a mean like the one that was seen is accepted
// with the distance that was asked for, with a twentieth less it is not, however they are
// shared; and nothing is advised where nothing helps.
func TestNeed(t *testing.T) {
	const delta, errors = 1e-3, 2.5
	for _, c := range []struct {
		bounds, means [2]float64
		q             float64 // of the protocol that was rejected
		helps         bool
	}{
		{[2]float64{1, 1}, [2]float64{8e-4, 8e-4}, 1e-5, true},
		{[2]float64{.03, 1e-4}, [2]float64{9e-4, 0}, 1e-5, true}, // one direction is proven
		{[2]float64{.03, .01}, [2]float64{9.8e-4, 2e-4}, 1e-6, true},
		{[2]float64{.03, .01}, [2]float64{2e-4, 9.8e-4}, 5e-5, false}, // below delta, above what is left of it
		{[2]float64{1, 1}, [2]float64{1.1e-3, 1e-4}, 1e-6, false},
		{[2]float64{1, 1}, [2]float64{1e-3 * (1 - 1e-8), 1e-4}, 0, false}, // more than any may have
	} {
		e := &NotVerifiedError{Epsilon: 1, Delta: delta, NoiseMultiplier: 1, Next: Claim{Delta: delta, Earlier: c.q}}
		for i, mean := range c.means {
			v := Verdict{Direction: montecarlo.Directions[i], Bound: c.bounds[i], Mean: mean, Samples: 1000, Accept: 1e-4}
			if mean == 0 {
				v.Samples, v.Accept = 0, 0
			}
			e.Verdicts = append(e.Verdicts, v)
		}
		need, ok := e.Need(errors)
		if ok != c.helps {
			t.Errorf("%+v: got %g, %t", c, need, ok)
		}
		if !ok {
			continue
		}
		// reaches says how many standard errors lie between the means and what a budget accepts at
		// best, over δ_v and how the budget is shared.
		reaches := func(budget float64) float64 {
			best := math.Inf(-1)
			worst := max(c.means[0], c.means[1])
			for step := range 80 {
				verify := worst + (e.Next.most()-worst)*(1-math.Exp(-float64(step)/6))
				q := e.Next.allowed(verify)
				if q <= 0 {
					continue
				}
				for part := 0.01; part <= 1; part += 0.01 {
					least := math.Inf(1)
					for i, n := range []float64{part * budget, (1 - part) * budget} {
						if mean := c.means[i]; mean > 0 {
							accept := LargestAccept(uint64(n), c.bounds[i], verify, q)
							spread := math.Sqrt(c.bounds[i]*mean/n) + errors*c.bounds[i]/(3*n)
							least = min(least, (accept-mean)/spread)
						}
					}
					best = max(best, least)
				}
			}
			return best
		}
		if got := reaches(1.05 * need); got < errors {
			t.Errorf("%+v: %.3g samples leave %.3g standard errors", c, need, got)
		}
		if got := reaches(.95 * need); got > errors {
			t.Errorf("%+v: .95 of %.3g samples leave %.3g standard errors", c, need, got)
		}
	}
	notRun := &NotVerifiedError{Next: Claim{Delta: delta}, Verdicts: []Verdict{{Bound: 1, Samples: 10}}}
	if _, ok := notRun.Need(errors); ok {
		t.Error("advice from a trial that was not run")
	}
}
