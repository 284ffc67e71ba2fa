package accounting

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"minsep/internal/montecarlo"
	"minsep/internal/must"
	"minsep/internal/stattest"
	"minsep/mechanism"
	"minsep/sampling"
)

// gridError is the relative error allowed to divergences over cells.
const gridError, gridRest = 0.02, 1e-6

// costsOf are the costs of both directions.
func costsOf(t *testing.T, r Run, epsilon float64) (costs [2]Truncated) {
	t.Helper()
	for i, d := range montecarlo.Directions {
		var err error
		if costs[i], err = r.TruncationCost(d, epsilon); err != nil {
			t.Fatal(err)
		}
	}
	return costs
}

// TestTruncatedMechanisms holds δ of whole truncated mechanisms, with zeroed and with removed
// gradients, against δ without truncation and its cost, and against the proof of the run if that has
// a pair of its own. The proof without a maximum is δ by enumeration, and hardly more. That the cases
// are sharp enough is seen from bounds that are wrong: costs with the batch full when it is of our own
// example, at half the rate, or none, and the proof of batches that are not cut.
func TestTruncatedMechanisms(t *testing.T) {
	rng := rand.New(rand.NewPCG(2026, 11))
	rules := map[TruncationRule]int{}
	wrong, proven := map[string]int{}, map[string]int{}
	number := []int{300, 60, 6, 0}
	if stattest.Long() {
		number = []int{2500, 700, 60, 4}
	}
	for steps, cases := range number {
		for at := range cases {
			c := randomMechanism(rng, steps+1)
			pair := c.pair()
			truth := c.truth(pair)
			holds := func(cost [2]Truncated) bool {
				for i := range cost {
					if bound := pair[i] + cost[i].Cost; truth[i] > bound*(1+gridError)+gridRest {
						return false
					}
				}
				return true
			}
			method, err := c.run.Method()
			if err != nil {
				t.Fatalf("%v: %v", c, err)
			}
			cost := costsOf(t, c.run, c.epsilon)
			rules[cost[0].Rule]++
			rules[cost[1].Rule]++
			if !holds(cost) {
				t.Errorf("%v: H(P,Q), H(Q,P) = %.5g, without truncation %.5g, costs %v", c, truth, pair, cost)
			}
			c.removed = true
			removed := c.truth(pair)
			for i := range removed {
				if bound := pair[i] + cost[i].Cost; removed[i] > bound*(1+gridError)+gridRest {
					t.Errorf("%v, removed: direction %d has %.5g, without truncation %.5g, cost %v", c, i, removed[i], pair[i], cost[i])
				}
			}
			if method == PLD && at < 60 && steps < 3 { // proofs take long, and cells of four steps are coarse
				whole := provenBy(t, c.run.Untruncated(), c)
				for i := range whole {
					if whole[i] < pair[i]*(1-1e-6) || whole[i] > pair[i]*1.03+2e-4 {
						t.Errorf("%v: direction %d without truncation has %.5g, and %.5g is proven", c, i, pair[i], whole[i])
					}
				}
				proven[c.run.Sampler.Scheme().Name()]++
				if c.run.TruncatedPair() {
					own := provenBy(t, c.run, c)
					for i := range own {
						if most := max(truth[i], removed[i]); most > own[i]*(1+1e-6) {
							t.Errorf("%v: direction %d has %.5g, and %.5g is proven of the truncated pair", c, i, most, own[i])
						}
						if truth[i] > whole[i]*(1+gridError) {
							wrong["the proof of whole batches"]++
						}
					}
				}
			}
			count := func(name string, cost [2]Truncated) {
				if !holds(cost) {
					wrong[name]++
				}
			}
			count("no cost", [2]Truncated{})
			full := c.run
			full.Sampler.Truncation = &sampling.Truncation{MaxBatchSize: full.Sampler.Truncation.MaxBatchSize + c.own}
			count("own examples in the count", costsOf(t, full, c.epsilon))
			if s := c.run.Sampler.BMinSep; s != nil {
				half := *s
				half.Prob /= 2
				seldom := c.run
				seldom.Sampler.BMinSep = &half
				count("half the rate", costsOf(t, seldom, c.epsilon))
			}
		}
	}
	t.Logf("rules %v, violations of wrong bounds %v, proofs %v", rules, wrong, proven)
	for _, rule := range truncationRules {
		if rules[rule] == 0 {
			t.Errorf("no case of %q", rule)
		}
	}
	for _, name := range []string{"no cost", "own examples in the count", "half the rate", "the proof of whole batches"} {
		if wrong[name] == 0 {
			t.Errorf("%s: no violation is seen", name)
		}
	}
	for _, name := range []string{"b-min-sep", "poisson", "balls-in-bins", "epoch-min-sep", "rotation", "cyclic-poisson"} {
		if proven[name] == 0 {
			t.Errorf("%s: no proof", name)
		}
	}
}

// provenBy are the bounds of a run's proof at the noise of a case.
func provenBy(t *testing.T, r Run, c mechanismCase) [2]float64 {
	t.Helper()
	pq, qp, err := r.Prove(c.sigma, c.epsilon)
	if err != nil {
		t.Fatalf("%v: %v", c, err)
	}
	return [2]float64{pq, qp}
}

// enumerated are, by enumeration, τ₁ as the sum over steps, the probability that the owner is
// sampled at a full step, that of a full step, and that of no participation.
func (c mechanismCase) enumerated() (sum, once, any, never float64) {
	entries := distributions(c.run.Sampler, int(c.run.Examples))
	full := c.run.Sampler.Truncation.MaxBatchSize - c.own + 1
	own := countsOf(entries[:c.own])
	never = own[counts{}]
	for r, weight := range countsOf(entries[c.own:]) {
		reached, hit := false, 0.0
		for x, p := range own {
			met := false
			for i := range c.run.steps() {
				if int(r[i]) >= full {
					reached = true
					met = met || x[i] > 0
					sum += weight * p * float64(x[i])
				}
			}
			if met {
				hit += p
			}
		}
		once += weight * hit
		if reached {
			any += weight
		}
	}
	return sum, once, any, never
}

// TestTruncationCost holds the costs against their formulas, from τ₁ by
// enumeration and τ by the marginals.
func TestTruncationCost(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 2026))
	for range 600 {
		c := randomMechanism(rng, 1+rng.IntN(4))
		sum, once, _, never := c.enumerated()
		any := 0.0 // over the steps at which the owner may take part
		full := c.run.Sampler.Truncation.MaxBatchSize - c.own + 1
		entries := distributions(c.run.Sampler, int(c.run.Examples))
		for i := range c.run.steps() {
			possible := false
			for pattern, p := range entries[0] {
				possible = possible || p > 0 && pattern>>i&1 == 1
			}
			for r, weight := range countsOf(entries[c.own:]) {
				if possible && int(r[i]) >= full {
					any += weight
				}
			}
		}
		any = min(1, any)
		gamma := math.Exp(c.epsilon)
		want := [2]float64{min(2*sum, any), min((1+gamma)*sum, any)}
		if never >= (1+1e-6)/gamma {
			want[1] = min(sum, any)
		}
		if s := c.run.Sampler; s.Poisson != nil || s.BMinSep != nil && s.BMinSep.MinSep == 1 || s.CyclicPoisson != nil && (s.CyclicPoisson.MinSep == 1 || !s.CyclicPoisson.SecretPartition) {
			want = [2]float64{min(sum, any), min(sum, any)}
		}
		mean := 0.0 // tails of at most the mean are 1
		for i := range c.run.steps() {
			at := 0.0
			for r, weight := range countsOf(entries[c.own:]) {
				at += weight * float64(r[i])
			}
			mean = max(mean, at)
		}
		for i, cost := range costsOf(t, c.run, c.epsilon) {
			tight := float64(full) > mean*(1+1e-9) && math.Abs(never*gamma-1) > 1e-6
			if cost.Cost < want[i]*(1-1e-12) || tight && cost.Cost > want[i]*(1+1e-6)+1e-300 {
				t.Fatalf("%v: direction %d costs %v, by enumeration %.9g (τ₁ %.9g, τ %.9g)", c, i, cost, want[i], sum, any)
			}
			if cost.Cost < min(once, 1-never) && cost.Rule != AnyFull {
				t.Fatalf("%v: direction %d costs %v, below the probability %g of an own full step", c, i, cost, once)
			}
		}
	}
}

// TestSuggestMaxBatchSize: the suggestion is the smallest that is affordable, and an order of
// examples more moves it as tails go.
func TestSuggestMaxBatchSize(t *testing.T) {
	scheme := must.Get(sampling.BMinSep{Steps: 7200, MinSep: 256, WarmStart: true}.WithBatchSize(1793, 14_745_600))(t)
	run := Run{Sampler: sampling.Spec{BMinSep: &scheme}, Strategy: mechanism.Identity(7200), MaxExamplesPerOwner: 1, Examples: 14_745_600}
	const epsilon, delta = 10, 1.301e-8
	size := must.Get(run.SuggestMaxBatchSize(epsilon, delta))(t)
	cost := func(size int) float64 {
		cut := run
		cut.Sampler.Truncation = &sampling.Truncation{MaxBatchSize: size}
		return costsOf(t, cut, epsilon)[0].Cost
	}
	if cost(size) > SuggestedShare*delta || cost(size-1) <= SuggestedShare*delta {
		t.Errorf("suggested %d costs %g, one less %g, of %g", size, cost(size), cost(size-1), delta)
	}
	if size < 2048 || size > 2100 {
		t.Errorf("suggested %d", size)
	}
	if got := cost(2048); math.Abs(got/3.6e-9-1) > 0.02 {
		t.Errorf("2048 costs %g, want about 3.6e-9", got)
	}
	all := run
	all.Examples = 0
	if size, err := all.SuggestMaxBatchSize(epsilon, delta); size != 0 || err != nil {
		t.Errorf("without a number of examples: %d, %v", size, err)
	}
	text := (&TruncationError{MaxBatchSize: 1800, Cost: 0.1, Delta: delta, Suggested: size}).Error()
	if !strings.Contains(text, "1800") || !errors.Is(&TruncationError{}, ErrNotVerified) {
		t.Errorf("error %q", text)
	}
}

// TestProtocolTakesTruncationOff: a trial has the threshold that its cost of truncation leaves, and
// a run without a pair of its own needs one.
func TestProtocolTakesTruncationOff(t *testing.T) {
	const delta = 0.01
	cut := func(change func(*Protocol)) error {
		p := toyProtocol(t, 1, delta, delta/2, 4, 5)
		p.Run.Examples, p.Run.Sampler.Truncation = 10, &sampling.Truncation{MaxBatchSize: 5}
		change(p)
		return p.Validate()
	}
	costs := func(cost float64, examples int) func(*Protocol) {
		return func(p *Protocol) {
			p.Run.MaxExamplesPerOwner = examples
			for i := range p.Candidates {
				for j := range p.Candidates[i].Trials {
					p.Candidates[i].Trials[j].Truncation = &Truncated{Rule: Once, Cost: cost}
				}
			}
		}
	}
	for name, c := range map[string]struct {
		change func(*Protocol)
		want   string
	}{
		"no cost":                {costs(0, 2), ""},
		"no trial has a cost":    {func(*Protocol) {}, "must be given"},
		"a cost that is not off": {costs(delta/4, 1), "more samples are needed"},
		"all of delta":           {costs(delta, 1), "must be at most δ_v"},
		"a negative cost":        {costs(-delta, 1), "must be at least 0"},
		"no truncation":          {func(p *Protocol) { costs(0, 1)(p); p.Run.Sampler.Truncation = nil }, "must be left out"},
		"another rule":           {func(p *Protocol) { costs(0, 1)(p); p.Candidates[0].Trials[0].Truncation.Rule = "none" }, "must be one of"},
	} {
		if err := cut(c.change); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

// TestOwnPairIsComposed: a run with a pair of its own is proven without a cost by the composition of
// its events only. A bound or samples of the run without its maximum say nothing of it: in one step
// of 1 % of 1,001 examples cut to 8, at σ = .5, they stay below a fourth of δ(4).
func TestOwnPairIsComposed(t *testing.T) {
	const epsilon, sigma, delta = 4, 0.5, 1e-4
	p := toyProtocol(t, epsilon, delta, delta/2, sigma, 6)
	p.Run = Run{Strategy: mechanism.Identity(1), MaxExamplesPerOwner: 1, Examples: 1001,
		Sampler: sampling.Spec{Poisson: &sampling.Poisson{Prob: 0.01, Steps: 1}, Truncation: &sampling.Truncation{MaxBatchSize: 8}}}
	truth, _, err := p.Run.Prove(sigma, epsilon)
	if err != nil {
		t.Fatal(err)
	}
	whole, _, err := p.Run.Untruncated().Prove(sigma, epsilon)
	if err != nil || whole > delta || truth < 4*delta {
		t.Fatalf("%v: δ is %v, and without a maximum %v: the case shows nothing", err, truth, whole)
	}
	sampled := p.Candidates[0].Trials[0]
	for name, trial := range map[string]Trial{
		"samples":            sampled,
		"a Rényi bound":      {Method: RenyiBound, Bound: whole},
		"a closed form":      {Method: ClosedForm, Bound: whole},
		"the published form": {Method: Unproven, Bound: whole},
	} {
		for i, d := range montecarlo.Directions {
			trial.Direction = d
			p.Candidates[0].Trials[i] = trial
		}
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), "truncation of a trial") {
			t.Errorf("%s of the run without its maximum: %v", name, err)
		}
	}
	for i, d := range montecarlo.Directions {
		p.Candidates[0].Trials[i] = Trial{Direction: d, Method: PLD, Bound: delta / 2}
	}
	if err := p.Validate(); err != nil {
		t.Errorf("a composition: %v", err)
	}
}
