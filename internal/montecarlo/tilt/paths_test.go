package tilt

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/internal/kernel"
	"minsep/internal/montecarlo/internal/likelihood"
	"minsep/internal/must"
	"minsep/internal/stattest"
	"minsep/internal/stream"
	"minsep/sampling"
)

// givenOutput prepares paths and returns ln f of one example, in log domain, and the exact ln f_k.
func givenOutput(t *testing.T, s montecarlo.Spec, y []float64, draws int) (p *paths, logF, logFk float64) {
	t.Helper()
	columns := likelihood.NewColumns(s.Strategy)
	p = must.Get(newPaths(s, columns, draws))(t)
	p.one.Given(func(i int) float64 { return columns.Dot(i, y) / (s.NoiseMultiplier * s.NoiseMultiplier) })
	ratio := func(k int) float64 {
		of := must.Get(likelihood.NewExamples(s.Law, columns, s.Factor(), k))(t)
		return likelihood.LogRatio(of, columns, s.NoiseMultiplier, y)
	}
	return p, ratio(1), ratio(s.MaxExamplesPerOwner)
}

// whole is ratio with all of its draws.
func (p *paths) whole(logF float64, u *kernel.Uniforms) randomised {
	return p.ratio(logF, u, math.Inf(-1), math.Inf(1))
}

// unbiased tests the mean of exp(-overlaps) of single draws against f_k/f^k.
func unbiased(p *paths, want float64, key string, trials int) error {
	u := &kernel.Uniforms{Bulk: stream.NewBulk(stream.PublicKey("test", []byte(key)))}
	sum, squares := 0.0, 0.0
	for i := range trials {
		u.Reset(uint64(i), 0)
		x := math.Exp(p.whole(0, u).logRatio)
		sum += x
		squares += (x - want) * (x - want)
	}
	return stattest.Sum(sum, want*float64(trials), squares, 1)
}

// TestRandomisedRatioIsUnbiased holds f̂ against the exact recursion F4.2, and against a value of
// an enumeration.
func TestRandomisedRatioIsUnbiased(t *testing.T) {
	rng := rand.New(rand.NewPCG(48, 1))
	told := 0
	for range 60 {
		b, k := 1+rng.IntN(4), 2+rng.IntN(3)
		n := []int{1, b, b + 1, 2 * b, 9}[rng.IntN(5)]
		c := varying(n, 1+rng.IntN(min(b, n)))
		scheme := sampling.BMinSep{Prob: []float64{.02, .2, .5, .95}[rng.IntN(4)], Steps: n, MinSep: b, WarmStart: rng.IntN(2) == 0}
		s := ownersOf(specOf(scheme, c, .6+rng.Float64()), k)
		y := make([]float64, n)
		for i := range y {
			y[i] = 1.5*rng.NormFloat64() + .7
		}
		p, logF, logFk := givenOutput(t, s, y, 1)
		want := math.Exp(logFk - float64(k)*logF)
		name := fmt.Sprintf("n=%d b=%d k=%d p=%v warm=%v", n, b, k, scheme.Prob, scheme.WarmStart)
		if err := unbiased(p, want, name, 20000); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		// Wrong twins: one more example, which overlaps the others; two of the examples always
		// together.
		wrong := p.fork()
		wrong.one = p.one
		wrong.examples++
		if unbiased(wrong, want, name, 20000) != nil {
			told++
		}
	}
	if told < 30 {
		t.Errorf("only %d of 60 cases tell the number of examples", told)
	}
}

// TestRandomisedRatioNeverExceedsThePower: the bound M rests on it.
func TestRandomisedRatioNeverExceedsThePower(t *testing.T) {
	spec, _, _ := ownerOfTwoSteps(3, .3, .9, true, .4)
	p, logF, _ := givenOutput(t, spec, []float64{3, -1}, 5)
	u := &kernel.Uniforms{Bulk: stream.NewBulk(stream.PublicKey("test", nil))}
	for i := range 1000 {
		u.Reset(uint64(i), 0)
		if r := p.whole(logF, u); r.logRatio > 3*logF+1e-12 {
			t.Fatalf("ln f̂ = %v above %v", r.logRatio, 3*logF)
		}
	}
}

// TestRandomisedRatiosOfPlainValues: proposals that would take 1 - γ/f̂ of y ~ P, whose mean is below
// the divergence, are refused.
func TestRandomisedRatiosOfPlainValues(t *testing.T) {
	s := ownersOf(specOf(sampling.BMinSep{Prob: .5, Steps: 1, MinSep: 1}, toeplitz(1, 1), .8), 5)
	good := blockProposal(t, Config{s, 1.5, montecarlo.P}, 10, 1, 20)
	must.Get(NewVerifier(good, stream.PublicKey("test", nil)))(t)
	good.Method = Plain
	for _, bound := range []float64{good.Bound, 1} {
		good.Bound = bound
		if _, err := NewVerifier(good, stream.PublicKey("test", nil)); err == nil {
			t.Errorf("a plain proposal with randomised ratios and the bound %g was accepted", bound)
		}
	}
	good.Bound, good.Config.Direction = .5, montecarlo.Q
	if _, err := NewVerifier(good, stream.PublicKey("test", nil)); err == nil {
		t.Error("a plain proposal of direction Q with randomised ratios and a bound below 1 was accepted")
	}
}

// TestTangentWithRandomisedRatios: H(Q,P) of three examples, from the recursion of one.
func TestTangentWithRandomisedRatios(t *testing.T) {
	for _, warm := range []bool{false, true} {
		const epsilon = 1.5
		spec, _, want := ownerOfTwoSteps(3, .9, 2, warm, epsilon)
		columns, sigma := likelihood.NewColumns(spec.Strategy), spec.NoiseMultiplier
		post := mustPosterior(t, spec, columns)
		kappa, divergence := bestTangent(t.Context(), epsilon, 3, true, columns, sigma, post)
		if kappa == 0 || divergence < want*(1-1e-4) {
			t.Fatalf("warm=%v: κ = %v, bound %v, H(Q,P) = %v", warm, kappa, divergence, want)
		}
		tangent := shiftTangent(kappa, 3, columns, sigma, post)
		tail := tangent.tail(true, epsilon, sigma)
		proposal := Proposal{Config: Config{spec, epsilon, montecarlo.Q}, Method: Tangent, Kappa: kappa, Draws: 20, Slack: tail.slack(epsilon)}
		proposal.Bound = tail.bound() * (1 + 2*proposal.Slack)
		proposal.Divergence = min(proposal.Bound, divergence)
		v := must.Get(NewVerifier(proposal, stream.PublicKey("test", nil)))(t)
		if err := meanError(v, 12000, want); err != nil && !above(v, 12000, want) {
			t.Errorf("warm=%v: %v", warm, err)
		}
		short := proposal // the M of exact ratios, which randomised ones exceed
		short.Bound = tangent.tail(false, epsilon, sigma).bound() * (1 + 2*proposal.Slack)
		if _, err := NewVerifier(short, stream.PublicKey("test", nil)); err == nil {
			t.Errorf("warm=%v: a bound of %v for values up to %v was accepted", warm, short.Bound, proposal.Bound)
		}
	}
}

// TestTangentOfManyExamples holds bounds of H(Q,P) for k examples against an independent
// computation, at its own tangents (F5.10).
func TestTangentOfManyExamples(t *testing.T) {
	for _, c := range []struct {
		k                           int
		sigma, epsilon, kappa, want float64
	}{
		{3, .766, 8, 4.596, 2.665424330253926e-44},
		{5, 1.05, 8, 5.755909090909091, 4.432047808865852e-08},
		{8, 1.49, 8, 6.6237272727272725, 4.7378535917807384e-05},
		{3, 1.21, 4, 6.006, 4.092897558868967e-07},
	} {
		spec := benchCase(t, 1000, 16, .00256, c.sigma, c.epsilon).Spec
		first := spec.Strategy.Toeplitz
		norm := math.Sqrt(dot(first, first))
		for i := range first {
			first[i] /= norm
		}
		spec.Strategy = toeplitz(1000, first...)
		columns := likelihood.NewColumns(spec.Strategy)
		post := mustPosterior(t, spec, columns)
		got := shiftTangent(c.kappa, c.k, columns, c.sigma, post).divergence(c.epsilon, c.sigma)
		_, best := bestTangent(t.Context(), c.epsilon, c.k, true, columns, c.sigma, post)
		if math.Abs(math.Log(got/c.want)) > 2e-2 || best > got*1.2 {
			t.Errorf("k=%d σ=%v ε=%v: bound %v at κ = %v, the best %v; expected %v", c.k, c.sigma, c.epsilon, got, c.kappa, best, c.want)
		}
	}
}

// TestCoinsOfPathsAreTheirOwn: the numbers that participations given y are drawn with are not those
// of the tuple that y came from.
func TestCoinsOfPathsAreTheirOwn(t *testing.T) {
	spec, _, _ := ownerOfTwoSteps(3, .3, .9, true, .4)
	v := must.Get(NewVerifier(blockProposal(t, Config{spec, .4, montecarlo.P}, 6, 1, 20), stream.PublicKey("test", nil)))(t)
	z := kernel.Uniforms{Bulk: v.bulk}
	for sample := range uint64(50) {
		v.uniforms.Reset(sample, 0)
		v.coins.Reset(sample, 0)
		z.Reset(sample, 0)
		tuple, path, output := v.uniforms.Float64(), v.coins.Float64(), z.Float64()
		if tuple == path || path == output || tuple == output {
			t.Fatalf("sample %d: tuple, paths and output are drawn with %v, %v and %v", sample, tuple, path, output)
		}
	}
}

// TestRatioEndsWhereNothingChanges: draws that are left out change no value of either direction,
// and some are.
func TestRatioEndsWhereNothingChanges(t *testing.T) {
	rng := rand.New(rand.NewPCG(74, 1))
	spec, _, _ := ownerOfTwoSteps(3, .3, .9, true, .4)
	u := &kernel.Uniforms{Bulk: stream.NewBulk(stream.PublicKey("test", []byte("ends")))}
	early := [2]int{}
	for i := range 4000 {
		y := []float64{3 * rng.NormFloat64(), 3 * rng.NormFloat64()}
		p, logF, _ := givenOutput(t, spec, y, 1+rng.IntN(12))
		u.Reset(uint64(i), 0)
		all := p.whole(logF, u)
		epsilon := all.logRatio // the edge, or near it
		switch rng.IntN(3) {
		case 0:
			epsilon += .3 * rng.NormFloat64()
		case 1:
			epsilon += 1e-7 * rng.NormFloat64()
		}
		u.Reset(uint64(i), 0)
		above := p.ratio(logF, u, epsilon, math.Inf(1))
		if got, want := above.logExcess(epsilon), all.logExcess(epsilon); got != want {
			t.Fatalf("case %d: ln (f̂ - γ)_+ is %v, of all draws %v", i, got, want)
		}
		u.Reset(uint64(i), 0)
		below := p.ratio(logF, u, math.Inf(-1), epsilon)
		if got, want := below.shortfall(-epsilon), all.shortfall(-epsilon); got != want {
			t.Fatalf("case %d: (1 - γf̂)_+ is %v, of all draws %v", i, got, want)
		}
		for j, r := range []randomised{above, below} {
			if math.IsInf(r.logRatio, 0) {
				early[j]++
			}
		}
	}
	if early[0] < 200 || early[1] < 200 {
		t.Errorf("of 4000 cases each, draws end early in %v", early)
	}
}

func mustPosterior(t *testing.T, s montecarlo.Spec, c *likelihood.Columns) *likelihood.Posterior {
	t.Helper()
	post := must.Get(posteriorOf(s, c))(t)
	return post
}
