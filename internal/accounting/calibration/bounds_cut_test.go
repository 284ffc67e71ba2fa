package calibration_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"minsep/internal/accounting"
	"minsep/mechanism"
	"minsep/sampling"
)

// This file holds proofs of mechanisms whose pair is not (Cx+z, z) against the truth: batches that
// are cut, and batches without amplification.

// sums is a distribution of the sum at one step, before noise: probabilities of whole numbers -1,
// 0, 1, 2 at index 0 to 3.
type sums [4]float64

// cutBatch returns the sum with and without the example's gradient of 1, relative to a batch of the
// others, when so many others are sampled whose gradients are all `other`: a batch of more than
// most entries loses one at random, and the example whose gradient is zero keeps its place.
func cutBatch(others, most int, p float64, other int) (with, without sums) {
	with[1], without[1] = 1-p, 1-p
	if others < most {
		with[2], without[1] = p, 1
		return with, without
	}
	survives := p * float64(most) / float64(others+1)
	with[1+1-other] += survives // an other one leaves
	without[1-other] += survives
	with[1] += p - survives
	without[1] += p - survives
	return with, without
}

// hockeyStick integrates max(P - e^ε Q, 0) over the outputs of independent steps.
func hockeyStick(p, q []sums, norms []float64, sigma, epsilon float64) float64 {
	const spacing = 0.002
	var walk func(step int, a, b float64) float64
	walk = func(step int, a, b float64) float64 {
		if step == len(p) {
			return max(0, a-math.Exp(epsilon)*b)
		}
		total, unit := 0.0, norms[step]/sigma
		for y := -unit - 8; y < 2*unit+8; y += spacing {
			u, v := 0.0, 0.0
			for i := range p[step] {
				d := y - float64(i-1)*unit
				density := math.Exp(-d*d/2) / math.Sqrt(2*math.Pi) * spacing
				u, v = u+p[step][i]*density, v+q[step][i]*density
			}
			if u > 1e-12 || v > 1e-12 {
				total += walk(step+1, a*u, b*v)
			}
		}
		return total
	}
	return walk(0, 1, 1)
}

// cutTruth is δ in both directions of an example whose turns are given, with so many others in its
// part, for the worst gradients of the others among -1, 0 and 1. The adversary knows how many
// others are sampled.
func cutTruth(others, most int, p float64, norms []float64, sigma, epsilon float64) (worst [2]float64) {
	counts := []float64{1} // Pr[r others]
	for range others {
		next := make([]float64, len(counts)+1)
		for r, v := range counts {
			next[r] += v * (1 - p)
			next[r+1] += v * p
		}
		counts = next
	}
	for _, other := range []int{-1, 0, 1} {
		var total [2]float64
		var walk func(with, without []sums, weight float64)
		walk = func(with, without []sums, weight float64) {
			if len(with) == len(norms) {
				total[0] += weight * hockeyStick(with, without, norms, sigma, epsilon)
				total[1] += weight * hockeyStick(without, with, norms, sigma, epsilon)
				return
			}
			for r, prob := range counts {
				a, b := cutBatch(r, most, p, other)
				walk(append(with[:len(with):len(with)], a), append(without[:len(without):len(without)], b), weight*prob)
			}
		}
		walk(nil, nil, 1)
		worst = [2]float64{max(worst[0], total[0]), max(worst[1], total[1])}
	}
	return worst
}

// TestCutBatchesHold: Poisson and cyclic Poisson sampling with batches that are cut, with parts of
// unequal size among them.
func TestCutBatchesHold(t *testing.T) {
	rng := rand.New(rand.NewPCG(2026, 9))
	for i := range 24 {
		p, sigma, epsilon := 0.1+0.9*rng.Float64(), pick(rng, 0.3, 0.6, 1, 2), pick(rng, 0, 0.2, 1, 2)
		examples, most := 2+rng.IntN(4), 1+rng.IntN(2)
		s := mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: 1, Toeplitz: []float64{0.5 + rng.Float64()}}
		c := boundCase{sigma: sigma, epsilon: epsilon}
		c.run = accounting.Run{Strategy: &s, MaxExamplesPerOwner: 1, Examples: int64(examples)}
		c.run.Sampler.Truncation = &sampling.Truncation{MaxBatchSize: most}
		norm := s.Toeplitz[0]
		var truth [2]float64
		if i%2 == 0 {
			c.run.Sampler.Poisson = &sampling.Poisson{Prob: p, Steps: 1}
			truth = cutTruth(examples-1, most, p, []float64{norm}, sigma, epsilon)
		} else {
			s.Steps = 2
			c.run.Sampler.CyclicPoisson = &sampling.CyclicPoisson{Prob: p, Steps: 2, MinSep: 2}
			for part := range 2 { // rows part, part+2, …
				size := (examples - part + 1) / 2
				d := cutTruth(size-1, most, p, []float64{norm}, sigma, epsilon)
				truth = [2]float64{max(truth[0], d[0]), max(truth[1], d[1])}
			}
		}
		upper := c.bounds(t)
		if err := c.hold(upper, truth, 1e-5*max(truth[0], truth[1])+1e-9); err != nil {
			t.Errorf("%v of %d examples, batches of %d", err, examples, most)
		}
		// A quarter of the probability is rejected.
		if i == 0 {
			d := cutTruth(3, 1, 0.8, []float64{1}, 0.6, 1)
			wrong := boundCase{sigma: 0.6, epsilon: 1, run: accounting.Run{Sampler: sampling.Spec{Poisson: &sampling.Poisson{Prob: 0.8 / 4, Steps: 1}},
				Strategy: mechanism.Identity(1), MaxExamplesPerOwner: 1}}
			upper := wrong.bounds(t)
			if wrong.hold(upper, d, 1e-9) == nil {
				t.Errorf("the bounds %v are accepted, the truth is %v", upper, d)
			}
		}
	}
}

// TestFixedBatchesHold: the closed form is that of the worst participations and gradients that the
// schema allows, which are gone through here with gradients of ±1; strategies with negative entries
// and owners among them.
func TestFixedBatchesHold(t *testing.T) {
	rng := rand.New(rand.NewPCG(2026, 10))
	exact := 0
	for range 300 {
		steps := 1 + rng.IntN(5)
		b, most := 1+rng.IntN(steps+1), rng.IntN(4)
		s := randomStrategy(rng, steps, steps)
		if rng.IntN(2) == 0 && s.Columns == nil {
			for k := range s.Toeplitz[1:] {
				s.Toeplitz[k+1] *= pick(rng, -1, 1.)
			}
		}
		c := boundCase{sigma: pick(rng, 0.3, 1, 3.), epsilon: pick(rng, 0, 0.5, 2)}
		c.run = accounting.Run{Strategy: s, MaxExamplesPerOwner: 1 + rng.IntN(3)}
		c.run.Sampler.Fixed = &sampling.Fixed{BatchSize: 1, Steps: steps, MinSep: b, MaxParticipations: most}
		matrix, largest := rows(s), 0.0
		x := make([]float64, steps)
		var walk func(i, next, left int)
		walk = func(i, next, left int) {
			if i == steps {
				square := 0.0
				for _, row := range matrix {
					sum := 0.0
					for j, v := range row {
						sum += v * x[j]
					}
					square += sum * sum
				}
				largest = max(largest, math.Sqrt(square))
				return
			}
			walk(i+1, next, left)
			if i >= next && left > 0 {
				for _, sign := range []float64{-1, 1} {
					x[i] = sign
					walk(i+1, i+b, left-1)
				}
				x[i] = 0
			}
		}
		limit := most
		if most == 0 {
			limit = steps
		}
		walk(0, 0, limit)
		d, e := largest/c.sigma, c.epsilon
		delta := phi(d/2-e/d) - math.Exp(e)*phi(-d/2-e/d)
		upper := c.bounds(t)
		if upper[0] <= delta*(1+1e-6) {
			exact++
		}
		if err := c.hold(upper, [2]float64{delta, delta}, 1e-12+1e-7*delta); err != nil {
			t.Error(err)
		}
	}
	if exact < 50 {
		t.Errorf("only %d sensitivities are known to be exact", exact)
	}
}
