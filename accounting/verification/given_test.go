package verification

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat/distuv"

	"minsep/accounting"
	"minsep/accounting/montecarlo"
	"minsep/accounting/montecarlo/tilt"
)

// givenCase is a given noise multiplier, 1, of known divergences and a budget.
type givenCase struct {
	name   string
	curves [2]knownCurve
	cpu    time.Duration // or samples
	count  uint64
	less   float64 // samples, as a part of those with one threshold for both directions, at most
	often  float64 // the part of tries that is accepted, at least
}

func givenCases() []givenCase {
	const delta = 1.3e-8
	curves := func(p, effortP, q, effortQ float64) [2]knownCurve {
		return [2]knownCurve{{p * delta, -36, effortP, -60, 250e-6, 4, .6}, {q * delta, -36, effortQ, -60, 150e-6, 2, .6}}
	}
	return []givenCase{
		{"H(Q,P) with a large M, far below δ", curves(.34, 64, 1e-4, 1217), time.Minute, 0, .55, .9},
		{"the same, samples", curves(.34, 64, 1e-4, 1217), 0, 300_000, .45, .9},
		{"H(P,Q) near δ", curves(.85, 64, 1e-4, 1217), time.Minute, 0, 1, .6},
		{"both of one size", curves(.4, 64, .3, 64), 0, 100_000, .6, .9},
		{"both near δ", curves(.8, 30, .75, 30), 0, 100_000, 1, .55},
		{"few samples", curves(.2, 64, 1e-4, 500), 0, 20_000, 1, .7},
	}
}

// alike is the plan of a given noise multiplier without estimates.
func (s *simulated) alike(t *testing.T, p Problem) *Plan {
	t.Helper()
	e := p.newEstimator()
	divergences, err := p.divergences(t.Context(), e, []float64{p.NoiseMultiplier})
	if err != nil {
		t.Fatal(err)
	}
	for _, stick := range divergences[0] {
		if _, err := e.time(t.Context(), stick); err != nil {
			t.Fatal(err)
		}
	}
	protocol, err := p.priced(e).fixAlike(divergences, accounting.MonteCarlo)
	if err != nil {
		t.Fatal(err)
	}
	return &Plan{Protocol: protocol}
}

// TestGivenNoiseMultiplier: estimates let a given noise multiplier be accepted, with a threshold
// for each direction, of fewer samples, or where one threshold for both and the whole budget do
// not; of those that were accepted before, nearly all are. The budget is kept. SIMULATE=100 has
// so many tries of each case.
func TestGivenNoiseMultiplier(t *testing.T) {
	tries := simulations(t, 6)
	for _, c := range givenCases() {
		accepted, before, parts := 0, 0, 0.0
		for i := range tries {
			made := func() (*simulated, Problem) {
				s := &simulated{claim: 1.3e-8, curves: c.curves, rng: rand.New(rand.NewPCG(uint64(i), 11)), noisy: 1}
				return s, Problem{Run: smallRun(), Epsilon: 2, Delta: s.claim, NoiseMultiplier: 1, CodeVersion: "test", Samples: c.count, CPUTime: c.cpu, Workers: 1, simulated: s}
			}
			s, p := made()
			plan, err := p.Plan(t.Context())
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			estimates, trials := drawn(plan)
			if estimates == 0 || c.count > 0 && estimates+trials > c.count || c.cpu > 0 && s.clock > c.cpu {
				t.Errorf("%s: %d samples of estimates, %d of trials, %v", c.name, estimates, trials, s.clock)
			}
			if s.released(plan) == 1 {
				accepted++
			}
			s, p = made()
			alike := s.alike(t, p)
			if s.released(alike) == 1 {
				before++
			}
			_, whole := drawn(alike)
			parts += float64(estimates+trials) / float64(whole) / float64(tries)
		}
		t.Logf("%-36s %d of %d accepted, %d with one threshold; %.2f of its samples", c.name, accepted, tries, before, parts)
		if float64(accepted) < c.often*float64(tries) || parts > c.less*1.01 {
			t.Errorf("%s: %d of %d accepted, %d with one threshold; %.2f of its samples", c.name, accepted, tries, before, parts)
		}
	}
}

// TestGivenSmallBudgets: where M is near δ few samples are enough, and no estimate takes more than
// the budget has.
func TestGivenSmallBudgets(t *testing.T) {
	const delta = 1e-6
	for _, count := range []uint64{60, 100, 250, 700, 2000} {
		for seed := range uint64(4) {
			near := knownCurve{.1 * delta, -36, 1.5, -60, 1e-4, .1, .6}
			s := &simulated{claim: delta, curves: [2]knownCurve{near, near}, rng: rand.New(rand.NewPCG(seed, 13)), noisy: 1}
			p := Problem{Run: smallRun(), Epsilon: 2, Delta: delta, NoiseMultiplier: 1, CodeVersion: "test", Samples: count, Workers: 1, simulated: s}
			plan, err := p.Plan(t.Context())
			if err != nil {
				t.Fatalf("%d samples: %v", count, err)
			}
			if estimates, trials := drawn(plan); estimates+trials > count || estimates > count/6+1 {
				t.Errorf("%d samples: %d for estimates, %d for trials", count, estimates, trials)
			}
			if count >= 250 && s.released(plan) != 1 {
				t.Errorf("%d samples: not accepted", count)
			}
		}
	}
}

// TestGivenReckonsWithItsEstimates: the accepted means are three standard errors, of the estimates
// and of the trials, above the estimates. In a smaller budget they are fewer, in both directions.
func TestGivenReckonsWithItsEstimates(t *testing.T) {
	const delta, bound = 1e-6, 4e-5
	p := Problem{Run: smallRun(), Delta: delta, Samples: 1e9, bought: 1e9}
	var pair [2]hockeyStick
	for i, d := range montecarlo.Directions {
		pair[i] = hockeyStick{direction: d, proposal: &tilt.Proposal{Bound: bound, Divergence: bound}}
	}
	var needed []float64
	for _, count := range []float64{4e3, 1.6e4, 6.4e4} {
		l := [2]Estimate{{Samples: uint64(count), Mean: 0.3 * delta}, {Samples: uint64(4 * count)}}
		_, tests, ok := p.likeliest(pair, l)
		if !ok {
			t.Fatalf("%g samples of estimates: no trial", count)
		}
		needed = append(needed, weights{}.total(tests))
		for i, test := range tests {
			each := 1/float64(test.Samples) + 1/float64(l[i].Samples)
			least := l[i].Mean + 3*math.Sqrt(bound*l[i].Mean*each) + 3*bound*each
			if test.Accept < least*(1-1e-6) || test.Accept > 1.01*least {
				t.Errorf("%g samples of estimates: %+v, three standard errors are at %g", count, test, least)
			}
		}
		small := p
		small.bought = uint64(weights{}.total(tests) / 2)
		if _, half, ok := small.likeliest(pair, l); !ok || (weights{}).total(half) > float64(small.bought) || (weights{}).total(half) < 0.8*float64(small.bought) || half[0].Accept >= tests[0].Accept || half[1].Accept >= tests[1].Accept {
			t.Errorf("of %g samples half is %+v, the whole %+v", weights{}.total(tests), half, tests)
		}
	}
	if !(needed[0] > 1.2*needed[1] && needed[1] > 1.03*needed[2]) {
		t.Errorf("more and more samples of estimates need %v samples of trials", needed)
	}
}

// TestGivenSharesFailure: whatever was estimated, each direction of a given noise multiplier
// accepts a divergence of δ_v with probability q at most, and δ_v + q(1-δ_v) is at most δ. Of
// all values in [0, M] with that mean, 0 and M are accepted most often: their sum is binomial.
func TestGivenSharesFailure(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 12))
	own, one := 0, 0
	for range 60 {
		delta := math.Exp(-2 - 16*rng.Float64())
		curve := func() knownCurve {
			return knownCurve{1.2 * delta * math.Pow(rng.Float64(), 3), -36, math.Exp(8 * rng.Float64()), -60, 1e-4, .1, .6}
		}
		s := &simulated{claim: delta, curves: [2]knownCurve{curve(), curve()}, rng: rng, noisy: 1}
		for i := range s.curves { // M is at most 1
			s.curves[i].effort = min(s.curves[i].effort, .9/delta)
		}
		p := Problem{Run: smallRun(), Epsilon: 2, Delta: delta, NoiseMultiplier: 1, CodeVersion: "test", Samples: uint64(1e5 * math.Exp(2*rng.Float64())), Workers: 1, simulated: s}
		plan, err := p.Plan(t.Context())
		if err != nil {
			continue // the budget is too small
		}
		point := plan.Protocol.Points[0]
		if point.Thresholds.Total() > delta {
			t.Errorf("δ_v + q(1-δ_v) is %g of δ = %g", point.Thresholds.Total(), delta)
		}
		trials, alike := plan.Protocol.Candidates[0].Trials, true
		for _, trial := range trials {
			if trial.Samples == 0 || point.Verify >= trial.Bound {
				continue
			}
			accept := point.Accept
			if trial.Accept > 0 {
				accept, alike = trial.Accept, false
			}
			b := distuv.Binomial{N: float64(trial.Samples), P: point.Verify / trial.Bound}
			if wrong := b.CDF(math.Floor(b.N * accept / trial.Bound)); wrong > point.FailureProbability*(1+1e-6) {
				t.Errorf("δ = %g, M = %g, %d samples, accepted up to %g: a divergence of δ_v is accepted with probability %g, q = %g", delta, trial.Bound, trial.Samples, accept, wrong, point.FailureProbability)
			}
		}
		if alike {
			one++
		} else {
			own++
		}
	}
	t.Logf("%d with thresholds of their own, %d with one", own, one)
	if own < 20 {
		t.Errorf("only %d of the protocols have thresholds of their own", own)
	}
}

// TestGivenNoiseMultiplierIsNoLottery: where the estimate is more than three standard errors above
// δ there is no protocol, whatever the direction; else there is, and a δ that is false by a tenth
// is refused nearly always where the budget shows it.
func TestGivenNoiseMultiplierIsNoLottery(t *testing.T) {
	const delta, tries = 1e-6, 20
	for _, c := range []struct {
		parts   [2]float64 // of δ
		refused int        // of the tries, at least
		most    int
	}{{[2]float64{.8, .1}, 0, 0}, {[2]float64{1.1, .1}, tries * 3 / 4, tries}, {[2]float64{.1, 1.5}, tries, tries}, {[2]float64{3, 2}, tries, tries}} {
		refused := 0
		for seed := range uint64(tries) {
			s := &simulated{claim: delta, rng: rand.New(rand.NewPCG(seed, 19)), noisy: 1}
			for i, part := range c.parts {
				s.curves[i] = knownCurve{part * delta, -36, 4, -60, 1e-4, .1, .6}
			}
			p := Problem{Run: smallRun(), Epsilon: 2, Delta: delta, NoiseMultiplier: 1, CodeVersion: "test", Samples: 1_000_000, Workers: 1, simulated: s}
			plan, err := p.Plan(t.Context())
			switch {
			case errors.Is(err, ErrEstimatedAbove):
				refused++
				if plan.Protocol != nil || len(plan.Estimates) != 1 || !errors.Is(err, accounting.ErrNotVerified) {
					t.Errorf("%v: protocol %v, estimates %v, error %v", c.parts, plan.Protocol, plan.Estimates, err)
				}
			case err != nil:
				t.Fatal(err)
			}
		}
		if refused < c.refused || refused > c.most {
			t.Errorf("%v of δ: %d of %d refused", c.parts, refused, tries)
		}
	}
}

// TestGivenFarAboveWithoutATrial: where the budget has no samples for a trial, and δ is far too
// large at the noise multiplier, the error says so, in place of a budget that would be spent in
// vain. Where it is not, more budget helps.
func TestGivenFarAboveWithoutATrial(t *testing.T) {
	p := Problem{Run: smallRun(), Epsilon: 0.3, Delta: 1e-7, NoiseMultiplier: 1.5, Samples: 10_000, CodeVersion: "test", Workers: 1}
	if plan, err := p.Plan(t.Context()); !errors.Is(err, ErrEstimatedAbove) || plan.Protocol != nil {
		t.Errorf("δ far above %g: %v", p.Delta, err)
	}
	const delta = 1e-6
	less := knownCurve{.5 * delta, -36, 1e3, -60, 1e-4, .1, .6}
	s := &simulated{claim: delta, curves: [2]knownCurve{less, less}, rng: rand.New(rand.NewPCG(1, 3)), noisy: 1}
	p = Problem{Run: smallRun(), Epsilon: 2, Delta: delta, NoiseMultiplier: 1, CodeVersion: "test", Samples: 10_000, Workers: 1, simulated: s}
	if _, err := p.Plan(t.Context()); !errors.Is(err, accounting.ErrTooFewSamples) {
		t.Errorf("half of δ, and M = 1000 δ: %v", err)
	}
}

// TestGivenEstimatesAreNotVerified: no sample of the estimates of a given noise multiplier is
// one of its verification, and the protocol depends on them and the budget alone.
func TestGivenEstimatesAreNotVerified(t *testing.T) {
	p := Problem{Run: smallRun(), Epsilon: 0.3, Delta: 0.05, NoiseMultiplier: 2.6, Samples: 20_000, CodeVersion: "test", Workers: 1}
	var first []byte
	for range 2 {
		plan, err := p.Plan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		protocol, err := plan.Protocol.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if first != nil && !bytes.Equal(protocol, first) {
			t.Error("the same problem gives two protocols")
		}
		first = protocol
		e := p.newEstimator()
		for i, d := range montecarlo.Directions {
			s, err := p.stick(t.Context(), p.NoiseMultiplier, d)
			if err != nil {
				t.Fatal(err)
			}
			if estimated := plan.Estimates[0].Estimates[i].Samples; estimated == 0 || plan.Protocol.Candidates[0].Trials[i].Samples == 0 {
				t.Fatalf("direction %s: %d samples of estimates, trial %+v", d, estimated, plan.Protocol.Candidates[0].Trials[i])
			}
			estimates, err := e.worker(s)
			if err != nil {
				t.Fatal(err)
			}
			trial, err := NewWorker(plan.Protocol, 0, i)
			if err != nil {
				t.Fatal(err)
			}
			same, seen := 0, 0
			for at := range uint64(400) {
				a, err := estimates.Run(t.Context(), at, 1, 1)
				if err != nil {
					t.Fatal(err)
				}
				b, err := trial.Run(t.Context(), at, 1, 1)
				if err != nil {
					t.Fatal(err)
				}
				if x, y := a.Sum.Mean(1), b.Sum.Mean(1); x > 1e-3 && x < 1 || y > 1e-3 && y < 1 {
					seen++
					if x == y {
						same++
					}
				}
			}
			if seen < 10 || same > 0 {
				t.Errorf("direction %s: of %d values %d are the same", d, seen, same)
			}
		}
	}
}
