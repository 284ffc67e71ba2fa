package calibration_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"minsep/internal/accounting"
	"minsep/internal/accounting/calibration"
	"minsep/internal/ledger"
	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/tilt"
	"minsep/internal/must"
	"minsep/internal/stattest"
	"minsep/internal/stream"
	"minsep/mechanism"
	"minsep/sampling"
)

// boundCase is a random small problem: a run, its distribution as it is enumerated, and where it is
// looked at.
type boundCase struct {
	run           accounting.Run
	distributions []distribution // δ is that of the worst
	sigma         float64
	epsilon       float64
	skip          bool // the privacy loss distribution
}

func (c boundCase) String() string {
	return fmt.Sprintf("%s %+v, C %v %v normalized=%v, k_u = %d, σ = %g, ε = %g", c.run.Sampler.Scheme().Name(), c.run.Sampler.Scheme(),
		c.run.Strategy.Toeplitz, c.run.Strategy.Columns, c.run.Strategy.Normalized, c.run.MaxExamplesPerOwner, c.sigma, c.epsilon)
}

// none is the probability of no participation.
func (l distribution) none() (prob float64) {
	for _, c := range l {
		sum := 0
		for _, v := range c.x {
			sum += v
		}
		if sum == 0 {
			prob += c.prob
		}
	}
	return prob
}

func pick[T any](rng *rand.Rand, values ...T) T { return values[rng.IntN(len(values))] }

// randomStrategy has entries of 0 and more, in at most so many bands.
func randomStrategy(rng *rand.Rand, steps, bands int) *mechanism.Strategy {
	bands = 1 + rng.IntN(min(bands, steps))
	if rng.IntN(4) == 0 {
		columns := make([][]float64, steps)
		for j := range columns {
			columns[j] = []float64{0.2 + 1.5*rng.Float64()}
			for range min(bands, steps-j) - 1 {
				columns[j] = append(columns[j], rng.Float64())
			}
		}
		return &mechanism.Strategy{Kind: mechanism.KindBanded, Steps: steps, Columns: columns}
	}
	c := []float64{pick(rng, 1, 1, 0.2+1.5*rng.Float64())}
	for range bands - 1 {
		c = append(c, pick(rng, rng.Float64(), 1)*c[0])
	}
	return &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: steps, Toeplitz: c, Normalized: rng.IntN(3) == 0}
}

func randomProb(rng *rand.Rand) float64 {
	return pick(rng, rng.Float64(), rng.Float64(), 0.05, 1e-9, 1e-4, 0.01, 1-1e-4, 1-1e-12, 1)
}

// randomCase draws the corners often: little noise, probabilities near 0 and 1, ε where a
// divergence begins to be 0, bands as many as min-sep, min-sep beyond the last step.
func randomCase(rng *rand.Rand, steps, maxExamples int) (c boundCase) {
	b, p := 1+rng.IntN(steps+2), randomProb(rng)
	c.run.MaxExamplesPerOwner = 1
	bands := b
	var s sampling.Spec
	switch rng.IntN(16) {
	default:
		warm := rng.IntN(2) == 0
		s.BMinSep = &sampling.BMinSep{Prob: p, Steps: steps, MinSep: b, WarmStart: warm}
		c.run.MaxExamplesPerOwner = 1 + rng.IntN(maxExamples)
		c.distributions = []distribution{minSepDistribution(steps, b, p, warm).times(c.run.MaxExamplesPerOwner)}
	case 8:
		s.Poisson = &sampling.Poisson{Prob: p, Steps: steps}
		bands = 1
		c.run.MaxExamplesPerOwner = 1 + rng.IntN(maxExamples)
		c.distributions = []distribution{minSepDistribution(steps, 1, p, false).times(c.run.MaxExamplesPerOwner)}
	case 9, 10:
		s.BallsInBins = &sampling.BallsInBins{Steps: steps, Period: b}
		bands = steps
		c.distributions = []distribution{binsDistribution(steps, b)}
	case 12, 13:
		epoch := b + pick(rng, 0, 1, rng.IntN(4), max(0, steps-b), steps)
		s.EpochMinSep = &sampling.EpochMinSep{Steps: steps, MinSep: b, EpochSteps: epoch}
		c.run.MaxExamplesPerOwner = pick(rng, 1, 1+rng.IntN(maxExamples))
		c.distributions = []distribution{epochDistribution(steps, b, epoch).times(c.run.MaxExamplesPerOwner)}
	case 11:
		secret := rng.IntN(2) == 0
		s.CyclicPoisson = &sampling.CyclicPoisson{Prob: p, Steps: steps, MinSep: b, SecretPartition: secret}
		uniform := distribution{}
		for part := range b {
			own := distribution{}
			partDistribution(own, steps, b, part, p, 1)
			partDistribution(uniform, steps, b, part, p, 1/float64(b))
			c.distributions = append(c.distributions, own)
		}
		if secret {
			c.distributions = []distribution{uniform}
		}
	}
	c.run.Sampler = s
	c.run.Strategy = randomStrategy(rng, steps, bands)
	c.sigma = pick(rng, 0.05, 0.1, 0.25, math.Exp(-3+4*rng.Float64()), math.Exp(-3+4*rng.Float64()))
	c.epsilon = randomEpsilon(rng, -math.Log(c.distributions[0].none()), c.run.MaxExamplesPerOwner)
	return c
}

// randomEpsilon prefers ε between -ln Pr[none] of one example and of all, and just beside the
// latter, below which H(Q,P) is above 0.
func randomEpsilon(rng *rand.Rand, all float64, examples int) float64 {
	if epsilon := all * pick(rng, 1/float64(examples)+(1-1/float64(examples))*rng.Float64(), 0.5+0.5*rng.Float64(), 1-1e-6, 1+1e-6, 1); epsilon < 30 && rng.IntN(2) == 0 {
		return epsilon
	}
	return pick(rng, 0, 1e-3, rng.Float64(), 4*rng.Float64(), 4*rng.Float64(), 20)
}

// bounds returns what the code would release for the case without a sample, in both directions:
// +Inf where it has nothing.
func (c boundCase) bounds(t *testing.T) (upper [2]float64) {
	t.Helper()
	upper = [2]float64{math.Inf(1), math.Inf(1)}
	method, err := c.run.Method()
	if err != nil {
		t.Fatalf("%v: %v", c, err)
	}
	if !c.skip {
		pq, qp, err := c.run.Prove(c.sigma, c.epsilon)
		if err != nil {
			t.Fatalf("%v: %v", c, err)
		}
		upper = [2]float64{pq, qp}
	}
	// The losses of a run leave out a maximum batch size, whose cost is added to them (F3.11).
	if c.run.Sampler.Fixed != nil || c.run.Sampler.Truncation != nil ||
		method == accounting.PLD && c.run.Loss(c.sigma).Validate() != nil {
		return upper
	}
	for i, d := range montecarlo.Directions {
		plan, err := tilt.NewProposal(t.Context(), tilt.Config{Spec: c.run.Loss(c.sigma), Epsilon: c.epsilon, Direction: d}, math.Inf(1))
		if errors.Is(err, tilt.ErrNotTilted) {
			continue
		}
		if err != nil || math.IsNaN(plan.Divergence) || math.IsNaN(plan.Bound) || plan.Divergence > plan.Bound {
			t.Fatalf("%v, direction %s: %v, bounds %g and %g", c, d, err, plan.Divergence, plan.Bound)
		}
		upper[i] = min(upper[i], plan.Divergence)
		if _, err := tilt.NewVerifier(plan, stream.PublicKey("bounds", nil)); err != nil && plan.Bound < 1 { // others are not drawn from
			t.Fatalf("%v, direction %s: %v", c, d, err)
		}
	}
	return upper
}

// hold compares bounds with the truth, which is known up to an error.
func (c boundCase) hold(upper, truth [2]float64, fault float64) error {
	for i, d := range montecarlo.Directions {
		if truth[i]-fault > upper[i]*(1+1e-9) {
			return fmt.Errorf("%v, direction %s: %g is claimed, the truth is %g ± %.1g", c, d, upper[i], truth[i], fault)
		}
	}
	return nil
}

// truth is the worst distribution's.
func (c boundCase) truth(divergences func(mixture) (pq, qp, fault float64)) (truth [2]float64, fault float64) {
	for _, l := range c.distributions {
		pq, qp, e := divergences(l.image(rows(c.run.Strategy), c.sigma))
		truth[0], truth[1], fault = max(truth[0], pq), max(truth[1], qp), max(fault, e)
	}
	return truth, fault
}

// TestBoundsHold: no bound that is released without a sample is below the truth.
func TestBoundsHold(t *testing.T) {
	rng := rand.New(rand.NewPCG(2026, 7))
	seen, corners, failed, part := map[string]int{}, 0, 0, 4
	if stattest.Long() {
		part = 1
	}
	for i := range 740 {
		steps := 1 + i%2
		if i%50 == 0 {
			steps = 3
		}
		c := randomCase(rng, steps, 5)
		if i/2%part != 0 || steps == 3 && len(c.distributions[0]) > 12 {
			continue
		}
		if c.run.Sampler.Poisson != nil && c.run.MaxExamplesPerOwner%2 == 0 {
			c.skip = true // a distribution takes half a second
		}
		upper := c.bounds(t)
		if math.IsInf(upper[0], 1) && math.IsInf(upper[1], 1) {
			continue
		}
		truth, fault := c.truth(func(m mixture) (float64, float64, float64) { return m.quadrature(c.epsilon) })
		if err := c.hold(upper, truth, fault); err != nil {
			t.Error(err)
			if failed++; failed > 20 {
				t.Fatal("and more")
			}
		}
		seen[fmt.Sprintf("%s %v", c.run.Sampler.Scheme().Name(), c.run.MaxExamplesPerOwner > 1)]++
		if none := -math.Log(c.distributions[0].none()); c.run.MaxExamplesPerOwner > 1 && c.sigma <= 0.25 && none > c.epsilon && none < c.epsilon*float64(c.run.MaxExamplesPerOwner) {
			corners++
		}
	}
	for name, least := range map[string]int{"b-min-sep false": 45, "b-min-sep true": 180, "poisson true": 15, "balls-in-bins false": 50,
		"cyclic-poisson false": 20, "epoch-min-sep false": 20, "epoch-min-sep true": 20} {
		if seen[name] < least/part {
			t.Errorf("only %d cases of %s", seen[name], name)
		}
	}
	if corners < 40/part {
		t.Errorf("only %d cases have ε between -ln Pr[none] of one example and of all, with little noise", corners)
	}
}

// TestBoundsHoldByDraws is TestBoundsHold at more steps, where the truth is known by a million
// draws at 6 standard errors.
func TestBoundsHoldByDraws(t *testing.T) {
	rng := rand.New(rand.NewPCG(2026, 8))
	cases := 1
	if stattest.Long() {
		cases = 5
	}
	for held := 0; held < cases; {
		c := randomCase(rng, 4+rng.IntN(3), 3)
		upper := c.bounds(t)
		if math.IsInf(upper[0], 1) && math.IsInf(upper[1], 1) || len(c.distributions) > 1 || len(c.distributions[0]) > 30 {
			continue
		}
		held++
		mean, stdErr := c.distributions[0].image(rows(c.run.Strategy), c.sigma).draws(rng, c.epsilon, 1e6)
		if err := c.hold(upper, mean, 6*max(stdErr[0], stdErr[1])); err != nil {
			t.Error(err)
		}
	}
}

// TestSecretPartitionPlan: what samples certify is below the noise of the worst part's
// distribution, which remains where samples are too few; both are checked again from their
// protocols.
func TestSecretPartitionPlan(t *testing.T) {
	run := accounting.Run{Sampler: sampling.Spec{CyclicPoisson: &sampling.CyclicPoisson{Prob: 0.25, Steps: 16, MinSep: 4, SecretPartition: true}},
		Strategy: &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: 16, Toeplitz: []float64{1, 0.5}}, MaxExamplesPerOwner: 1}
	for _, delta := range []float64{1e-2, 1e-9} {
		problem := calibration.Problem{Run: run, Epsilon: 1, Delta: delta, Samples: 40000, Workers: 1}
		plan := must.Get(problem.Plan(t.Context()))(t)
		least := plan.Protocol.Candidates[0]
		last := plan.Protocol.Candidates[len(plan.Protocol.Candidates)-1]
		worst := must.Get(run.Calibrate(t.Context(), problem.Epsilon, problem.Delta))(t)
		if last.NoiseMultiplier > 1.01*worst || least.NoiseMultiplier > 0.97*worst {
			t.Fatalf("δ = %g: noise multipliers %g to %g, that of the worst part is %g",
				delta, least.NoiseMultiplier, last.NoiseMultiplier, worst)
		}
		if err := calibration.CheckProofs(t.Context(), plan.Protocol); err != nil {
			t.Error(err)
		}
		proven := slices.IndexFunc(last.Trials, func(trial accounting.Trial) bool { return trial.Samples == 0 })
		if proven < 0 {
			t.Fatalf("δ = %g: no direction of the last candidate is proven: %+v", delta, last)
		}
		last.Trials[proven].Bound /= 2
		if calibration.CheckProofs(t.Context(), plan.Protocol) == nil {
			t.Errorf("δ = %g: half the bound is accepted", delta)
		}
		last.Trials[proven].Bound *= 2
		l := must.Get(ledger.Create(t.TempDir(), plan.Protocol))(t)
		certificate, err := calibration.Finish(t.Context(), l, 1<<14, 1)
		if err != nil || certificate.Method != accounting.MonteCarlo {
			t.Errorf("δ = %g: %+v, %v", delta, certificate, err)
		}
	}
}
