package attack

import (
	"math"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"time"

	"minsep/internal/accounting"
	"minsep/internal/must"
	"minsep/internal/stream"
	"minsep/mechanism"
	"minsep/sampling"
)

func toeplitz(steps int, c ...float64) *mechanism.Strategy {
	return &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: steps, Toeplitz: c}
}

func bMinSep(p float64, n, b int, warm bool) sampling.Spec {
	return sampling.Spec{BMinSep: &sampling.BMinSep{Prob: p, Steps: n, MinSep: b, WarmStart: warm}}
}

func rotationSpec(steps, period int) sampling.Spec {
	return sampling.Spec{Rotation: &sampling.Rotation{Steps: steps, EpochSteps: period}}
}

// long says that the attack is to take minutes: make attack.
func long() bool { return os.Getenv("MINSEP_ATTACK") != "" }

// auditedCase is a chain with a claim, (1, 1e-2), that minsep account certified: the test with
// MINSEP_ATTACK=1 certifies it again.
type auditedCase struct {
	name string
	chain
}

func cases(t testing.TB) []auditedCase {
	epochs := sampling.Spec{EpochMinSep: &sampling.EpochMinSep{Steps: 48, MinSep: 4, EpochSteps: 16}}
	owners := bMinSep(0.1, 64, 4, true)
	owners.Owners = &sampling.OwnerSampling{ExamplesPerOwner: 2}
	truncated := bMinSep(0.1, 32, 4, true)
	truncated.Truncation = &sampling.Truncation{MaxBatchSize: 12}
	return []auditedCase{
		{"b-min-sep", chain{spec: bMinSep(0.1, 64, 4, true), strategy: toeplitz(64, 0.8, 0.5, 0.3), sigma: 1.9703}},
		{"b-min-sep, cold", chain{spec: bMinSep(0.1, 64, 4, false), strategy: toeplitz(64, 0.8, 0.5, 0.3), sigma: 1.9882}},
		{"wide min-sep", chain{spec: bMinSep(0.2, 16, 16, true), strategy: toeplitz(16, 0.7, 0.5, 0.4, 0.3), sigma: 0.8860}},
		{"epoch-min-sep", chain{spec: epochs, strategy: toeplitz(48, 0.8, 0.5, 0.3), sigma: 1.3917}},
		{"rotation", chain{spec: rotationSpec(32, 8), strategy: toeplitz(32, 0.8, 0.5, 0.3), sigma: 2.2457}},
		{"owner of two", chain{spec: bMinSep(0.1, 10, 3, true), strategy: toeplitz(10, 0.8, 0.6), examples: 2, sigma: 1.6268}},
		{"owner of three", chain{spec: bMinSep(0.1, 8, 3, true), strategy: toeplitz(8, 0.8, 0.6), examples: 3, sigma: 2.0868}},
		{"owner of five", chain{spec: bMinSep(0.04, 8, 3, true), strategy: toeplitz(8, 0.8, 0.6), examples: 5, sigma: 2}},
		{"sampled owners", chain{spec: owners, strategy: toeplitz(64, 0.8, 0.5, 0.3), sigma: 1.9703}},
		{"truncation", chain{spec: truncated, strategy: toeplitz(32, 0.8, 0.5, 0.3), sigma: 1.5709}},
	}
}

// TestWithin: the product's chain stays within its certificate, and follows its distribution.
func TestWithin(t *testing.T) {
	for _, c := range cases(t) {
		t.Run(c.name, func(t *testing.T) {
			c.canaries = 64
			if c.examples == 5 && !long() {
				t.Skip("25,774 patterns for each observation: make attack")
			}
			runs, start := 200, processorTime()
			if long() {
				c.sigma, runs = c.certified(t, 200_000), 16_000
				if c.examples == 5 {
					runs = 24_000 // the bound of the same attack by 921,600 observations is .799
				}
			}
			attack, with, without := c.mechanism().observe(t, runs, func() rowsOf { return c.rows(t, seeded(c.name)) })
			j := attack.Judge(with, without, rand.New(rand.NewPCG(1, 2)))
			if long() {
				c.report(t, j.Bound, j.Adapted, len(with.LogRatios)+len(without.LogRatios), processorTime()-start)
			}
			if verdict := j.Verdict(epsilon); verdict != Within || j.Compared == (c.spec.Truncation != nil) {
				t.Errorf("%s: epsilon at least %.3f, %v", verdict, j.Epsilon, j.Differences)
			}
			// The estimates must not be far above the certified δ: that is a sharper test.
			for _, d := range []Direction{j.With, j.Without} {
				if d.Estimate-6*d.StandardError > delta {
					t.Errorf("δ is about %.5f ± %.5f, and 0.01 is certified", d.Estimate, d.StandardError)
				}
			}
			if long() && j.Epsilon < 0.8*epsilon && c.spec.Truncation == nil {
				t.Errorf("epsilon at least %.3f: the attack is weak", j.Epsilon)
			}
		})
	}
}

// processorTime is how long the processors have worked for this process.
func processorTime() time.Duration {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// report logs a row of the table of docs/background/attacks.md.
func (c chain) report(t *testing.T, b Bound, adapted float64, observations int, took time.Duration) {
	t.Helper()
	t.Logf("σ %.4f, %d observations: ε at least %.3f and %.3f by likelihood ratios, %.3f adapted; δ about %.5f ± %.5f and %.5f ± %.5f; %.0f CPU-s",
		c.sigma, observations, b.With.Epsilon, b.Without.Epsilon, adapted,
		b.With.Estimate, b.With.StandardError, b.Without.Estimate, b.Without.StandardError, took.Seconds())
}

// surely is the logarithm of a probability so far below FalseAlarm that the fault shows in more
// than .999 of all audits: a statistic that is normal and on average √(2·60) deviations off is
// more than √(2·22) off but for one in a million.
const surely = -60.0

// caught fails the test unless a fault was found with power to spare.
func (j Judgement) caught(t *testing.T) {
	t.Helper()
	worst := 0.0
	for _, d := range j.Differences {
		worst = min(worst, d.LogP)
	}
	t.Logf("%s: ε at least %.3f by likelihood ratios, %.3f adapted; largest difference %.0f", j.Verdict(epsilon), max(j.With.Epsilon, j.Without.Epsilon), j.Adapted, worst)
	if worst > surely {
		t.Errorf("not caught: %v", j.Differences)
	}
}

// faultyChain is a chain with a fault.
type faultyChain struct {
	name      string
	mechanism Mechanism
	rows      func(t testing.TB, root stream.Root) rowsOf
	canaries  int // of a run, each independent of the others
	runs      int // of an audit whose power TestPower shows
	short     int // of an everyday audit
}

func faultyChains() (all []faultyChain) {
	base := chain{spec: bMinSep(0.1, 32, 4, true), strategy: toeplitz(32, 0.8, 0.5, 0.3), sigma: 1.4707, canaries: 64}
	other := bMinSep(0.15, 32, 4, true)
	rare := chain{spec: bMinSep(0.01, 16, 4, true), strategy: toeplitz(16, 0.8, 0.6), sigma: 0.4673, canaries: 1, others: 63}
	once, cold := chain{spec: bMinSep(0.3, 8, 8, true), strategy: toeplitz(8, 0.8, 0.6), sigma: 0.9245, canaries: 64}, bMinSep(0.3, 8, 8, false)
	pair := chain{spec: bMinSep(0.1, 8, 3, true), strategy: toeplitz(8, 0.8, 0.6), examples: 2, sigma: 1.5065, canaries: 64}
	crowd := unaccounted()
	for _, c := range []struct {
		name        string
		chain       chain
		fault       faults
		runs, short int
	}{
		{"noise a step off", base, faults{shifted: true}, 400, 200},
		{"bands of another strategy", base, faults{noiseOf: toeplitz(32, 0.85, 0.5)}, 400, 200},
		{"batches of another probability", base, faults{batchesOf: &other}, 2400, 1000},
		{"noise a fifth too small", base, faults{scale: 0.8}, 200, 100},
		{"warm start left out", once, faults{batchesOf: &cold}, 5600, 3000},
		{"one coin for two examples of an owner", pair, faults{sameCoins: true}, 5600, 2000},
		{"truncation that is not accounted for", crowd, crowd.faults, 16_000, 8000},
		{"sums divided by the realised batch size", rare, faults{realised: true}, 36_000, 18_000},
	} {
		c.chain.faults = c.fault
		canaries := c.chain.canaries
		if c.chain.others > 0 {
			canaries = 2
		}
		all = append(all, faultyChain{c.name, c.chain.mechanism(), c.chain.rows, canaries, c.runs, c.short})
	}
	m := base.mechanism()
	m.NoiseMultiplier *= math.Sqrt2
	return append(all, faultyChain{"a key that serves two trainings", m, func(t testing.TB, root stream.Root) rowsOf { return base.twice(t, root, true) }, base.canaries, 200, 100})
}

// twice makes the differences of the sums of two trainings, the second without the canary: of one
// run id, or of two.
func (c chain) twice(t testing.TB, root stream.Root, again bool) rowsOf {
	first, second := c.trainer(t, root), c.trainer(t, root)
	return func(run int) [][]float64 {
		id := uint64(run)
		rows := first.train(id, includedIn(run))
		if !again {
			id += 1 << 32
		}
		for i, row := range second.train(id, func(int) bool { return false }) {
			for step, v := range row {
				rows[i][step] -= v
			}
		}
		return rows
	}
}

// TestFaults: faults of a chain are found; outside of the long form by smaller audits than those of
// which TestPower shows it.
func TestFaults(t *testing.T) {
	for _, c := range faultyChains() {
		t.Run(c.name, func(t *testing.T) {
			if !long() {
				c.runs = c.short
			}
			c.mechanism.audit(t, c.runs, func() rowsOf { return c.rows(t, seeded(c.name)) }).caught(t)
		})
	}
}

// TestKeyUsedTwice: where a second training, without the canary, has the run id of the first, the
// difference of their sums has no noise, and exceeds. With a run id of its own it is the mechanism
// at √2 σ.
func TestKeyUsedTwice(t *testing.T) {
	c := chain{spec: bMinSep(0.1, 32, 4, true), strategy: toeplitz(32, 0.8, 0.5, 0.3), sigma: 1.4707, canaries: 64}
	m := c.mechanism()
	m.NoiseMultiplier *= math.Sqrt2
	for again, want := range map[bool]string{false: Within, true: Exceeds} {
		j := m.audit(t, 100, func() rowsOf { return c.twice(t, seeded("twice"), again) })
		if got := j.Verdict(epsilon); got != want {
			t.Errorf("one run id %v: %s, %v", again, got, j.Differences)
		}
	}
}

// TestRatiosAgree: the recursion is the sum over all patterns.
func TestRatiosAgree(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, c := range []struct {
		spec     sampling.Spec
		strategy *mechanism.Strategy
	}{
		{bMinSep(0.3, 9, 3, true), toeplitz(9, 0.8, 0.5, 0.3)},
		{bMinSep(0.3, 9, 3, false), toeplitz(9, 0.8, 0.5, 0.3)},
		{bMinSep(0.3, 5, 9, true), toeplitz(5, 0.8, 0.5, 0.3)},
		{sampling.Spec{Poisson: &sampling.Poisson{Prob: 0.2, Steps: 6}}, toeplitz(6, 1)},
		{sampling.Spec{BallsInBins: &sampling.BallsInBins{Steps: 7, Period: 3}}, toeplitz(7, 1, 0.5)},
		{sampling.Spec{CyclicPoisson: &sampling.CyclicPoisson{Prob: 0.4, Steps: 7, MinSep: 3, SecretPartition: true}}, toeplitz(7, 1, 0.5)},
		{sampling.Spec{EpochMinSep: &sampling.EpochMinSep{Steps: 11, MinSep: 2, EpochSteps: 4}}, toeplitz(11, 1, 0.5)},
		{rotationSpec(11, 4), toeplitz(11, 1)},
	} {
		proc := must.Get(newProcess(c.spec))(t)
		patterns, total := proc.patterns(1, 1e5), 0.0
		rates := make([]float64, proc.steps)
		for _, p := range patterns {
			total += p.prob
			for i, x := range p.times {
				rates[i] += p.prob * float64(x)
			}
		}
		if math.Abs(total-1) > 1e-12 {
			t.Errorf("%v: probabilities add up to %v", c.spec, total)
		}
		if independent, is := c.spec.Scheme().(sampling.Independent); is && (c.spec.BMinSep == nil || c.spec.BMinSep.WarmStart) {
			for i, rate := range rates { // every step alike, as the scheme promises
				if want := independent.ExpectedBatchSize(1); math.Abs(rate-want) > 1e-10 {
					t.Errorf("%s: rate of step %d is %v, want %v", c.spec.Scheme().Name(), i, rate, want)
				}
			}
		}
		columns := matrix(c.strategy)
		sum, chain := newSumRatio(patterns, columns, 0.9), newChainRatio(proc, columns, 0.9)
		y := make([]float64, proc.steps)
		for k := range 60 {
			size := 2.0 // of observations; the last ones leave the range of products
			if k >= 50 {
				size = 1000
			}
			for i := range y {
				y[i] = size * rng.NormFloat64()
			}
			if a, b := sum.log(y), chain.log(y); math.Abs(a-b) > 1e-11*max(1, math.Abs(a)) {
				t.Errorf("%s: %v by all patterns, %v by the recursion", c.spec.Scheme().Name(), a, b)
			}
		}
	}
}

// TestRatioOfManyParticipations holds the recursion against Poisson sampling's closed form, where
// products of more factors than a float64 holds stand for participations at nearly all steps.
func TestRatioOfManyParticipations(t *testing.T) {
	const steps, sigma = 60, 0.5
	rng := rand.New(rand.NewPCG(1, 60))
	for _, prob := range []float64{0.3, 1} {
		chain := newChainRatio(separated(prob, steps, 1, false), matrix(mechanism.Identity(steps)), sigma)
		if chain.most != steps {
			t.Fatalf("at most %d participations, want %d", chain.most, steps)
		}
		for _, mean := range []float64{-20, 0, 1, 20} {
			y, want := make([]float64, steps), 0.0
			for i := range y {
				y[i] = mean + sigma*rng.NormFloat64()
				factor := (y[i] - 0.5) / (sigma * sigma)
				want += max(0, factor) + math.Log((1-prob)*math.Exp(-max(0, factor))+prob*math.Exp(min(0, factor)))
			}
			if got := chain.log(y); !(math.Abs(got-want) <= 1e-11*max(1, math.Abs(want))) {
				t.Errorf("p = %v, observations around %v: ln f is %v, want %v", prob, mean, got, want)
			}
		}
	}
}

// TestRatioOfRotation holds the sum over all patterns against the likelihood ratio of the
// accounting: two programs for one formula, with columns that overlap across periods.
func TestRatioOfRotation(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const sigma = 0.9
	for _, c := range []struct {
		spec     sampling.Spec
		strategy *mechanism.Strategy
	}{
		{rotationSpec(11, 4), toeplitz(11, 1, 0.5, 0.4, 0.3)},
		{rotationSpec(9, 3), toeplitz(9, 1, 0.5, 0.4)},
		{rotationSpec(5, 8), toeplitz(5, 1, 0.5)},
		{rotationSpec(5, 2), toeplitz(5, 1)},
		{rotationSpec(7, 6), toeplitz(7, 1, 0.5, 0.4, 0.3)},
	} {
		proc := must.Get(newProcess(c.spec))(t)
		run := accounting.Run{Sampler: c.spec, Strategy: c.strategy, MaxExamplesPerOwner: 1}
		accounted := must.Get(run.Loss(sigma).LogRatio())(t)
		sum, y := newSumRatio(proc.patterns(1, 1e5), matrix(c.strategy), sigma), make([]float64, proc.steps)
		for range 30 {
			for i := range y {
				y[i] = 2 * rng.NormFloat64()
			}
			want := accounted(y)
			if got := sum.log(y); !(math.Abs(got-want) <= 1e-10) {
				t.Errorf("%+v: %v by all patterns, %v by the accounting", c.spec.Rotation, got, want)
			}
		}
	}
}

// TestProducts: products of powers are the sum of exponentials, and what would leave the range of a
// float64 is summed by its exponents.
func TestProducts(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	proc := must.Get(newProcess(bMinSep(0.2, 7, 3, true)))(t)
	for examples := 1; examples <= 4; examples++ {
		for _, sigma := range []float64{.05, .4, 2} {
			r := newSumRatio(proc.patterns(examples, 1e5), matrix(toeplitz(7, 0.8, 0.5, 0.3)), sigma)
			for _, scale := range []float64{.1, 1, 10} {
				y := make([]float64, proc.steps)
				for i := range y {
					y[i] = scale * sigma * rng.NormFloat64()
				}
				got := r.log(y) // sets the dots
				if want := r.logOfExponents(); !(math.Abs(got-want) <= 1e-11*max(1, math.Abs(want))) {
					t.Errorf("%d examples, σ = %v: %v, %v by exponents", examples, sigma, got, want)
				}
			}
		}
	}
}

// TestMatrix: the columns are those of the product.
func TestMatrix(t *testing.T) {
	for _, s := range []*mechanism.Strategy{
		toeplitz(6, 1, 0.5, 0.25),
		{Kind: mechanism.KindToeplitz, Steps: 6, Toeplitz: []float64{1, 0.5, 0.25}, Normalized: true},
		{Steps: 6, InverseToeplitz: []float64{1, -0.4}},
		{Steps: 6, BLT: &mechanism.BLT{Scales: []float64{0.3, 0.2}, Decays: []float64{0.9, 0.5}}},
		{Steps: 3, Columns: [][]float64{{1, 0.5}, {2}, {3}}},
	} {
		for i, c := range matrix(s) {
			want := s.Column(nil, i)
			for t0 := range want {
				got := 0.0
				if t0 < len(c) {
					got = c[t0]
				}
				if math.Abs(got-want[t0]) > 1e-14 {
					t.Errorf("%+v: C[%d][%d] is %v, want %v", s, i+t0, i, got, want[t0])
				}
			}
		}
	}
}
