package verification

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"minsep/accounting"
	"minsep/accounting/ledger"
	"minsep/accounting/montecarlo"
	"minsep/accounting/montecarlo/tilt"
	"minsep/internal/stattest"
	"minsep/sampling/stream"
)

// knownCurve is a divergence of which all is known: both it and M fall by powers of the noise
// multiplier, near 1.
type knownCurve struct {
	delta, slope  float64 // at noise multiplier 1, and d ln δ/d ln σ there, which falls on as σ² does
	effort, steep float64 // M at 1 over the claim's δ, and d ln M/d ln σ
	each          float64 // seconds of a sample
	tables        float64 // seconds of the tables of a noise multiplier
	value         float64 // of the values that are not 0, over M
}

func (c knownCurve) at(sigma float64) float64 {
	x := math.Log(sigma)
	return c.delta * math.Exp(c.slope*(x+x*x))
}

// simulated draws from known curves, with time that goes by as they say.
type simulated struct {
	claim  float64 // δ
	curves [2]knownCurve
	rng    *rand.Rand
	clock  time.Duration
	noisy  float64 // how many times as long things may take as they should
	proofs float64 // seconds until a noise multiplier is found that needs no samples
	none   bool    // after these it is known that there is none
}

func (s *simulated) spend(seconds float64) {
	s.clock += time.Duration(seconds * (1 + (s.noisy-1)*s.rng.Float64()) * float64(time.Second))
}

func (s *simulated) now() time.Duration { return s.clock + 1 }

func (s *simulated) index(d montecarlo.Direction) int {
	if d == montecarlo.P {
		return 0
	}
	return 1
}

func (s *simulated) stick(sigma float64, d montecarlo.Direction) hockeyStick {
	c := s.curves[s.index(d)]
	bound := min(1, max(c.effort*s.claim*math.Pow(sigma, c.steep), c.at(sigma)*1.2))
	h := hockeyStick{direction: d, proposal: &tilt.Proposal{Bound: bound, Divergence: bound}}
	h.spec = smallRun().Loss(sigma)
	s.spend(c.tables)
	h.drawn = func(stream.Key) sampler { return &simulatedDraw{s, c, h} }
	return h
}

func (s *simulated) provable(delta float64, more func(proven, ratio float64) bool) (p tilt.Provable, err error) {
	low, high := 0.5, 4.0
	for range 50 {
		mid := math.Sqrt(low * high)
		if max(s.stick(mid, montecarlo.P).bound(), s.stick(mid, montecarlo.Q).bound()) > delta {
			low = mid
		} else {
			high = mid
		}
	}
	s.clock = 0
	s.spend(s.proofs)
	excess := 1.2
	for n := 0; n < 8 && more(max(0, float64(n-2)), excess); n++ {
		s.spend(s.curves[0].tables)
		if n >= 2 {
			excess = 1 + (excess-1)/2
		}
	}
	if s.none || excess == 1.2 {
		return p, tilt.ErrNotProvable
	}
	p.NoiseMultiplier = roundUp(high * excess)
	for i, d := range montecarlo.Directions {
		p.Proposals[i] = *s.stick(p.NoiseMultiplier, d).proposal
	}
	return p, nil
}

// simulatedDraw are samples of one noise multiplier and direction.
type simulatedDraw struct {
	s *simulated
	knownCurve
	stick hockeyStick
}

func (d *simulatedDraw) Run(_ context.Context, _, count uint64, _ int) (r ledger.Result, err error) {
	mean := d.at(d.stick.spec.NoiseMultiplier)
	hits := stattest.Poisson(d.s.rng, float64(count)*mean/(d.value*d.stick.bound()))
	for range int(min(hits, float64(count))) {
		r.Sum.Add(d.value)
	}
	d.s.spend(d.each * float64(count))
	return r, nil
}

// released verifies a protocol and returns the noise multiplier, 0 for none.
func (s *simulated) released(plan *Plan) (sigma float64) {
	p := plan.Protocol
	for c := len(p.Candidates) - 1; c >= 0; c-- {
		candidate := p.Candidates[c]
		for _, t := range candidate.Trials {
			if t.Samples == 0 {
				continue
			}
			accept := t.Accept
			if accept == 0 {
				accept = p.Points[0].Accept
			}
			r, _ := s.stick(candidate.NoiseMultiplier, t.Direction).drawn(stream.Key{}).Run(context.Background(), 0, t.Samples, 1)
			if r.Sum.Mean(t.Samples)*t.Bound > accept {
				return sigma
			}
		}
		sigma = candidate.NoiseMultiplier
	}
	return sigma
}

// truth is where the worse direction has δ.
func (s *simulated) truth() float64 {
	low, high := 0.5, 3.0
	for range 60 {
		mid := math.Sqrt(low * high)
		if max(s.curves[0].at(mid), s.curves[1].at(mid)) > s.claim {
			low = mid
		} else {
			high = mid
		}
	}
	return high
}

// simulatedCase is a claim of known curves and a budget.
type simulatedCase struct {
	name   string
	delta  float64
	curves [2]knownCurve
	cpu    time.Duration // or samples
	count  uint64
	noisy  float64
	far    float64 // more noise than this above the truth is counted
}

func simulatedCases() []simulatedCase {
	both := [2]knownCurve{{1e-5, -24, 60, -60, 60e-6, 1, .6}, {6e-6, -24, 600, -45, 60e-6, 1, .6}}
	dear := [2]knownCurve{{1e-5, -30, 130, -60, 60e-6, 1.5, .6}, {1e-7, -30, 9000, -34, 60e-6, .5, .6}}
	one := [2]knownCurve{{1.3e-8, -38, 45, -90, 100e-6, 2.5, .6}, {1e-30, -38, 1e-9, -34, 60e-6, 0, .6}}
	alike := [2]knownCurve{{1e-5, -24, 60, -60, 60e-6, 1, .6}, {1e-5, -20, 60, -60, 60e-6, 1, .6}}
	steep := [2]knownCurve{{1.3e-8, -36, 100, -50, 200e-6, 5, .6}, {1.3e-12, -36, 5000, -60, 150e-6, 3, .6}}
	return []simulatedCase{
		{"two directions, one minute", 1e-5, both, time.Minute, 0, 1, .03},
		{"two directions, one minute, busy", 1e-5, both, time.Minute, 0, 4, .08},
		{"two directions, samples", 1e-5, both, 0, 500_000, 1, .03},
		{"large M of H(Q,P), one minute", 1e-5, dear, time.Minute, 0, 1, .045},
		{"large M of H(Q,P), samples", 1e-5, dear, 0, 500_000, 1, .045},
		{"one direction, 40 s", 1.3e-8, one, 40 * time.Second, 0, 1, .03},
		{"one direction, one minute", 1.3e-8, one, time.Minute, 0, 1, .03},
		{"M of H(Q,P) that rises fast, 4 minutes", 1.3e-8, steep, 4 * time.Minute, 0, 1, .03},
		{"M of H(Q,P) that rises fast, samples", 1.3e-8, steep, 0, 600_000, 1, .04},
		{"both alike, one minute", 1e-5, alike, time.Minute, 0, 1, .03},
		{"both alike, one minute, busy", 1e-5, alike, time.Minute, 0, 4, .04},
	}
}

// simulations is how many tries a case has.
func simulations(t *testing.T, few int) int {
	t.Helper()
	if many, err := strconv.Atoi(os.Getenv("SIMULATE")); err == nil {
		return many
	}
	return few
}

// TestCandidatesAreRobust draws estimates and trials of known divergences, through whole plans: a
// protocol has few chances to end far above the truth, with the noise multiplier that needs no
// samples or with none, even where time goes by several times as fast as it should. SIMULATE=60 has
// so many tries of each case, and prints what came of them.
func TestCandidatesAreRobust(t *testing.T) {
	tries := simulations(t, 4)
	all := 0
	for _, c := range simulatedCases() {
		mean, worst, far, proven := 0.0, 0.0, 0, 0
		for i := range tries {
			s := &simulated{claim: c.delta, curves: c.curves, rng: rand.New(rand.NewPCG(uint64(i), 7)), noisy: c.noisy}
			p := Problem{Run: smallRun(), Epsilon: 2, Delta: c.delta, CodeVersion: "test", Samples: c.count, CPUTime: c.cpu, Workers: 1, simulated: s}
			plan, err := p.Plan(t.Context())
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			sigma, candidates := s.released(plan), plan.Protocol.Candidates
			excess := sigma/s.truth() - 1
			if sigma == 0 {
				excess = 1
			}
			mean, worst = mean+excess/float64(tries), max(worst, excess)
			if excess > c.far {
				far++
			}
			if sigma == 0 || sigma == candidates[len(candidates)-1].NoiseMultiplier && candidates[len(candidates)-1].Trials[0].Samples == 0 {
				proven++
			}
		}
		t.Logf("%-34s %5.2f %% above the truth on average, %5.2f %% at most; %d of %d above %.2g %%; %d without a sampled candidate", c.name, 100*mean, 100*worst, far, tries, 100*c.far, proven)
		all += far + proven
		if 4*(far+proven) > 2*tries {
			t.Errorf("%s: too much noise", c.name)
		}
	}
	if 12*all > tries*len(simulatedCases()) {
		t.Errorf("too much noise in %d of %d tries", all, tries*len(simulatedCases()))
	}
}

// TestEstimatesStayWhereAVerificationCanBe: with an M of H(Q,P) so large at the true noise
// multiplier that the budget could not verify even a mean of 0 there, estimates are made where it
// could, the first two aside, which know too little. Where H(P,Q) alone is above δ, the other
// direction draws little.
func TestEstimatesStayWhereAVerificationCanBe(t *testing.T) {
	const delta, budget = 1.3e-8, 4 * time.Minute
	for seed := range uint64(12) {
		for _, effort := range []float64{5e3, 1e6} {
			curves := [2]knownCurve{{delta, -80, 100, -50, 200e-6, 2, .6}, {1e-12, -36, effort, -60, 150e-6, 1, .6}}
			s := &simulated{claim: delta, curves: curves, rng: rand.New(rand.NewPCG(seed, 9)), noisy: 1}
			p := Problem{Run: smallRun(), Epsilon: 2, Delta: delta, CodeVersion: "test", CPUTime: budget, Workers: 1, simulated: s}
			var order []float64 // of what was tried
			p.simulated = watched{s, func(sigma float64) {
				if len(order) == 0 || order[len(order)-1] != sigma {
					order = append(order, sigma)
				}
			}}
			plan, err := p.Plan(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range plan.Estimates {
				q := l.Estimates[1]
				if l.Estimates[0].Mean > 4*delta && q.Samples > leastSamples {
					t.Errorf("seed %d: at %v H(P,Q) is %.3g δ, and H(Q,P) takes %d samples", seed, l.NoiseMultiplier, l.Estimates[0].Mean/delta, q.Samples)
				}
				seconds := -math.Log(delta/30) * q.Effort * curves[1].each
				if early := slices.Index(order, l.NoiseMultiplier) < 2; !early && seconds > budget.Seconds() {
					t.Errorf("seed %d: an estimate at %v, where a verification takes %.3g s", seed, l.NoiseMultiplier, seconds)
				}
			}
			if sigma := s.released(plan); sigma == 0 || effort < 1e4 && sigma > 1.03*s.truth() {
				t.Errorf("seed %d, M/δ = %g: noise multiplier %v, the true one is %v", seed, effort, sigma, s.truth())
			}
		}
	}
}

// watched tells at which noise multipliers divergences are asked for.
type watched struct {
	simulation
	at func(noiseMultiplier float64)
}

func (w watched) stick(noiseMultiplier float64, d montecarlo.Direction) hockeyStick {
	w.at(noiseMultiplier)
	return w.simulation.stick(noiseMultiplier, d)
}

// TestTablesThatLeaveNoTime: without a budget, tables that take most of a minute leave more time
// for samples, also where one estimate, or a plan of few samples, could be made in that minute. A
// budget that is given is kept.
func TestTablesThatLeaveNoTime(t *testing.T) {
	for _, c := range []struct{ tables, proofs float64 }{{6, 0}, {3, 20}, {8, 35}} {
		slow := knownCurve{1e-5, -24, 60, -60, 60e-6, c.tables, .6}
		for i := range 4 {
			made := func(cpu time.Duration) (*simulated, float64) {
				s := &simulated{claim: 1e-5, curves: [2]knownCurve{slow, slow}, rng: rand.New(rand.NewPCG(uint64(i), 17)), noisy: 1, proofs: c.proofs}
				p := Problem{Run: smallRun(), Epsilon: 2, Delta: s.claim, CodeVersion: "test", CPUTime: cpu, Workers: 1, simulated: s}
				plan, err := p.Plan(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				return s, s.released(plan)
			}
			s, given := made(time.Minute)
			if given < 1.07*s.truth() {
				t.Errorf("%v: a minute is enough: %.4g", c, given)
			}
			s, sigma := made(0)
			if limit := longCPUTime + time.Minute; s.clock > limit {
				t.Errorf("%v: took %v, at most %v is wanted", c, s.clock, limit)
			}
			if sigma > 1.03*s.truth() || sigma < s.truth() {
				t.Errorf("%v: released %.4g, and %.4g in a minute; the truth is %.4g", c, sigma, given, s.truth())
			}
		}
	}
}

// TestBoundWithoutSamples: of a direction that needs no samples the divergence counts, and not M,
// which may be far above it.
func TestBoundWithoutSamples(t *testing.T) {
	p := Problem{Epsilon: 2, Delta: 1e-8}
	at := func(sigma float64, mean, bound float64) (l NoiseEstimate) {
		l.NoiseMultiplier = sigma
		for i, d := range montecarlo.Directions {
			l.Estimates[i] = Estimate{Direction: d, Mean: mean, Bound: bound}
		}
		return l
	}
	m := newModel(scaleOf(t, p.Epsilon, p.Delta), []NoiseEstimate{at(3.5, 1e-50, 1e-50)}, at(3.7, 0, .9997))
	for _, sigma := range []float64{3.5, 3.6, 3.7, 4} {
		goals := m.goals(sigma, 0)
		if _, tests, err := p.claim().Allocate(goals); err != nil || (weights{}).total(tests) != 0 {
			t.Errorf("σ %g: %+v: %v", sigma, goals, err)
		}
	}
}

// TestAdvisedTime: a budget in time that was not enough is never advised again, whatever the
// samples that are missing cost.
func TestAdvisedTime(t *testing.T) {
	for _, given := range []time.Duration{40 * time.Second, 2 * time.Minute} {
		e := &estimator{workers: 1}
		e.share = Problem{CPUTime: given}.newShare()
		e.cost.add(1000, 100*time.Millisecond, 100*time.Millisecond)
		var few *TooFewError
		err := e.priced(&TooFewError{Cause: accounting.ErrTooFewSamples, Need: 850}, true, nil)
		if !errors.As(err, &few) || few.AdvisedCPU <= given.Seconds() {
			t.Errorf("%v is not enough, and %v s are advised", given, few.AdvisedCPU)
		}
	}
}
