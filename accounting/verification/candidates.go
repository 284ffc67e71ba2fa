package verification

import (
	"errors"
	"fmt"
	"math"

	"minsep/accounting"
	"minsep/accounting/internal/normal"
	"minsep/accounting/montecarlo"
	"minsep/internal/bisect"
	"minsep/internal/digits"
)

// affords says whether the goals of a noise multiplier are reached with a budget, and with an
// accepted mean of at most most.
func (p Problem) affords(goals []accounting.Goal, budget, most float64) bool {
	t, tests, err := p.claim().Allocate(goals)
	if err != nil {
		return false
	}
	return p.weights.total(tests) <= budget && t.Accept <= most
}

// least is the smallest noise multiplier between two that a budget affords, to four digits; ok says
// that high is one.
func (p Problem) least(m model, low, high, errors, budget, most float64) (noiseMultiplier float64, ok bool) {
	if !p.affords(m.goals(high, errors), budget, most) {
		return 0, false
	}
	_, x := bisect.Between(math.Log(low), math.Log(high), 1e-4, func(x float64) bool { return !p.affords(m.goals(math.Exp(x), errors), budget, most) })
	return math.Exp(x), true
}

// allowance returns the number of samples that may be drawn, and the largest mean that is worth
// accepting.
func (p Problem) allowance() (samples, most float64) {
	room := p.Delta - p.claim().Earlier
	switch {
	case p.Accept > 0:
		return maxBudget, p.Accept * room
	case p.Samples > 0 || p.CPUTime > 0:
		return float64(p.bought), room
	}
	return float64(p.bought), mostAccepted * room
}

const maxBudget = 1e15

// candidates chooses noise multipliers by rising order: the smallest that the budget affords,
// some with more noise in case the estimates were too low, and the one with a bound of δ
// without samples, if there is one.
func (p Problem) candidates(m model, provable float64) ([]float64, error) {
	budget, _ := p.allowance()
	low, high := m.at(0.999*p.Delta), m.at(0.02*p.Delta)
	if provable > 0 {
		high = max(provable, low)
	}
	sigmas := p.sampled(m, low, high, provable)
	if len(sigmas) == 0 {
		return nil, p.tooFew(m.goals(high, mainErrors), budget, high)
	}
	if provable > 0 {
		for len(sigmas) > 0 && sigmas[len(sigmas)-1] >= provable {
			sigmas = sigmas[:len(sigmas)-1]
		}
		sigmas = append(sigmas, provable)
	}
	return sigmas, nil
}

// sampled are the candidates that draw samples, between two noise multipliers. provable, if not 0,
// comes after them.
func (p Problem) sampled(m model, low, high, provable float64) []float64 {
	budget, most := p.allowance()
	best, _ := p.mainAndSpare(m, low, high, provable, planned)
	expected := math.Inf(1)
	if len(best) > 0 {
		expected = p.expectedNoise(best, provable)
	}
	safe, ok := p.least(m, low, high*leastApart*leastApart, safeErrors, shares[0]*planned*budget, most)
	if !ok || provable > 0 && safe*leastApart > provable {
		return best
	}
	sigmas, both := p.mainAndSpare(m, low, safe/leastApart, provable, (1-shares[0])*planned)
	if !both || roundUp(safe) <= sigmas[len(sigmas)-1] { // the latter where no noise multiplier has so large a δ
		return best
	}
	if sigmas = append(sigmas, roundUp(safe)); p.expectedNoise(sigmas, provable) < expected {
		return sigmas
	}
	return best
}

// expectedNoise is about the geometric mean of the noise multiplier that is released. The
// probability that more noise than a candidate's is released depends on its kind: main, spare or
// safe.
func (p Problem) expectedNoise(sigmas []float64, provable float64) float64 {
	last := provable
	if last == 0 {
		last = noneCosts * sigmas[len(sigmas)-1]
	}
	chances := []float64{normal.Tail(math.Sqrt2 * mainErrors), safeChance, 1e-4} // the first where both errors are as large
	mean := math.Log(sigmas[0])
	for i := range sigmas {
		next := last
		if i+1 < len(sigmas) {
			next = sigmas[i+1]
		}
		mean += chances[i] * math.Log(next/sigmas[i])
	}
	return math.Exp(mean)
}

// mainAndSpare returns the main candidate for a part of the budget and, if that has room for it,
// the spare one; both says whether there are two.
func (p Problem) mainAndSpare(m model, low, high, provable, part float64) (sigmas []float64, both bool) {
	budget, most := p.allowance()
	budget *= part
	expected := math.Inf(1)
	for _, share := range shares {
		main, ok := p.least(m, low, high, mainErrors, (1-share)*budget, most)
		if !ok {
			continue
		}
		if spare, ok := p.least(m, main*leastApart, high*leastApart, spareErrors, share*budget, most); ok {
			of := []float64{roundUp(main), roundUp(spare)}
			if mean := p.expectedNoise(of, provable); mean < expected {
				sigmas, expected = of, mean
			}
		}
	}
	if len(sigmas) > 0 {
		return sigmas, true
	}
	tries := []float64{mainErrors}
	if provable == 0 { // nothing is left if it is not accepted
		tries = []float64{spareErrors, (spareErrors + mainErrors) / 2, mainErrors}
	}
	for _, errors := range tries {
		if main, ok := p.least(m, low, high, errors, budget, most); ok {
			return []float64{roundUp(main)}, false
		}
	}
	return nil, false
}

// tooFew is the error of a budget that affords nothing.
func (p Problem) tooFew(goals []accounting.Goal, budget, noiseMultiplier float64) error {
	_, tests, err := p.claim().Allocate(goals)
	if err != nil {
		return err
	}
	return &TooFewError{What: fmt.Sprintf("a verification at noise multiplier %.4g", noiseMultiplier), Need: p.weights.total(tests), Allowed: budget, Budget: p.budget}
}

// fix makes the protocol of candidates by rising noise multiplier, the main one first. Without a
// model nothing is known of them.
func (p Problem) fix(divergences [][2]hockeyStick, method accounting.Method, m *model) (*accounting.Protocol, error) {
	if m == nil {
		return p.fixAlike(divergences, method)
	}
	thresholds, tests, err := p.spend(divergences, *m)
	for errors.Is(err, accounting.ErrTooFewSamples) && len(divergences) > 1 { // the main candidate takes more than was expected
		divergences = divergences[1:]
		thresholds, tests, err = p.spend(divergences, *m)
	}
	if err != nil {
		return nil, err
	}
	return p.assemble(divergences, method, thresholds, tests)
}

// spend chooses the thresholds and the tests of candidates, with their computed bounds: the
// model only interpolates bounds. A budget that was given is used up, and not exceeded.
func (p Problem) spend(divergences [][2]hockeyStick, m model) (accounting.Thresholds, []accounting.Test, error) {
	var goals []accounting.Goal
	for i, pair := range divergences {
		errors := []float64{mainErrors, spareErrors, safeErrors, safeErrors}[min(i, 3)]
		of := m.goals(pair[0].spec.NoiseMultiplier, errors)
		for j, s := range pair {
			goals = append(goals, p.goal(s, accounting.Goal{Mean: of[j].Mean, Errors: errors}))
		}
	}
	t, tests, err := p.claim().Allocate(goals)
	if err != nil {
		return t, nil, err
	}
	drawn := p.weights.total(tests)
	budget, most := p.allowance()
	if drawn == 0 || drawn <= budget && p.Samples == 0 && p.CPUTime == 0 && t.Accept <= most*(1+1e-3) {
		return t, tests, nil
	}
	t.Accept = 0
	for i := range tests {
		if tests[i].Samples == 0 {
			continue
		}
		tests[i].Samples = max(1, uint64(float64(tests[i].Samples)*budget/drawn))
		if tests[i].Accept = accounting.LargestAccept(tests[i].Samples, goals[i].Bound, t.Verify-goals[i].Cost, t.FailureProbability); tests[i].Accept == 0 {
			return t, nil, p.tooFew(goals, budget, divergences[0][0].spec.NoiseMultiplier)
		}
		t.Accept = max(t.Accept, tests[i].Accept)
	}
	return t, tests, nil
}

// goal is the goal of a divergence's trial, with the mean that g expects. The trial is proven
// where the bound is small enough.
func (p Problem) goal(s hockeyStick, g accounting.Goal) accounting.Goal {
	g.Bound, g.Cost, g.Mean = s.bound(), s.cost(), min(g.Mean, s.bound())
	if s.total() <= mostAccepted*(p.Delta-p.claim().Earlier)+min(s.cost(), accounting.SuggestedShare*p.Delta) {
		return accounting.Goal{Bound: s.divergence(), Proven: true, Cost: s.cost()}
	}
	return g
}

// fixAlike makes the protocol of candidates without estimates: all trials accept up to the same
// mean.
func (p Problem) fixAlike(divergences [][2]hockeyStick, method accounting.Method) (*accounting.Protocol, error) {
	var all []hockeyStick
	for _, pair := range divergences {
		all = append(all, pair[0], pair[1])
	}
	// The thresholds of the trials share the δ that remains after the largest cost of
	// truncation.
	cost := 0.0
	for _, s := range all {
		cost = max(cost, s.cost())
	}
	whole := p
	p.Delta -= cost
	// A proven divergence of at most δ_v needs no samples. Where δ_v comes out below it, the trial
	// draws after all.
	bounds := make([]float64, len(all))
	for i, s := range all {
		bounds[i] = s.bound()
		if s.divergence() < p.Delta-p.claim().Earlier {
			bounds[i] = s.divergence()
		}
	}
	var thresholds accounting.Thresholds
	var samples []uint64
	for again := true; again; {
		var err error
		if thresholds, samples, err = p.spendAlike(bounds); err != nil {
			return nil, err
		}
		again = false
		for i, s := range all {
			if samples[i] > 0 && bounds[i] < s.bound() {
				bounds[i], again = s.bound(), true
			}
		}
	}
	tests := make([]accounting.Test, len(all))
	for i := range tests {
		tests[i].Samples = samples[i]
	}
	thresholds.Verify += cost
	return whole.assemble(divergences, method, thresholds, tests)
}

// spendAlike chooses thresholds for trials of the given bounds.
func (p Problem) spendAlike(bounds []float64) (accounting.Thresholds, []uint64, error) {
	claim := p.claim()
	budget, most := p.allowance()
	if p.Accept > 0 {
		return claim.Samples(most, bounds)
	}
	if p.Samples == 0 && p.CPUTime == 0 {
		t, samples, err := claim.Samples(most, bounds)
		if err == nil && sum(samples) <= budget {
			return t, samples, nil
		}
	}
	return claim.Spend(bounds, uint64(budget/p.weights.mean(bounds)))
}

// assemble makes a protocol of candidates and their tests, two each.
func (p Problem) assemble(divergences [][2]hockeyStick, method accounting.Method, t accounting.Thresholds, tests []accounting.Test) (*accounting.Protocol, error) {
	protocol := p.protocol(t)
	drawn := false
	for i, pair := range divergences {
		c := accounting.Candidate{NoiseMultiplier: pair[0].spec.NoiseMultiplier}
		for j, s := range pair {
			trial, err := s.trial(method, tests[2*i+j].Samples)
			if err != nil {
				return nil, err
			}
			if trial.Samples > 0 && tests[2*i+j].Accept != t.Accept {
				trial.Accept = tests[2*i+j].Accept
			}
			drawn = drawn || trial.Samples > 0
			c.Trials = append(c.Trials, trial)
		}
		protocol.Candidates = append(protocol.Candidates, c)
	}
	if drawn {
		protocol.KernelID, protocol.Earlier = montecarlo.KernelID(), p.Earlier
	}
	return protocol, protocol.Validate()
}

// boundAt interpolates M of the looks at a noise multiplier.
func boundAt(estimates []NoiseEstimate, noiseMultiplier float64, bound func(NoiseEstimate) float64) float64 {
	if len(estimates) == 1 {
		return bound(estimates[0])
	}
	i := 1
	for i+1 < len(estimates) && estimates[i].NoiseMultiplier < noiseMultiplier {
		i++
	}
	a, b := estimates[i-1], estimates[i]
	if !(bound(a) > 0 && bound(b) > 0) {
		return bound(b)
	}
	x := math.Log(noiseMultiplier/a.NoiseMultiplier) / math.Log(b.NoiseMultiplier/a.NoiseMultiplier)
	between := bound(a) * math.Pow(bound(b)/bound(a), min(max(x, -2), 3))
	if math.IsNaN(between) || math.IsInf(between, 1) { // far outside, where it leaves the range of numbers
		return 1
	}
	return between
}

// roundUp rounds a noise multiplier to five digits.
func roundUp(noiseMultiplier float64) float64 { return digits.Up(noiseMultiplier, 5) }
