package planner

import (
	"math"

	"minsep/internal/accounting"
	"minsep/internal/accounting/calibration"
	"minsep/mechanism"
	"minsep/sampling"
)

// DPSGD is the measure of other mechanisms: independent noise with Poisson sampling, for a
// claim. Its noise multipliers are proven, on a coarse grid of losses.
type DPSGD struct {
	Epsilon, Delta float64
	Steps          int   // at least 1
	Units          int64 // examples, or owners where they are sampled: at least 1
	MaxPerOwner    int   // examples of one owner, at least 1; 1 where owners are sampled
}

// NoiseMultiplier returns the σ that DP-SGD needs at an expected batch size above 0. It is at most
// 0.05 % above the least σ that can be proven on its grid, and 0 if an owner takes part with a
// probability of at most Delta.
func (d DPSGD) NoiseMultiplier(batch float64) (float64, error) {
	return d.noiseMultiplier(batch, 1)
}

// noiseMultiplier is NoiseMultiplier with a search that begins at start.
func (d DPSGD) noiseMultiplier(batch, start float64) (float64, error) {
	prob := min(1, batch/float64(d.Units))
	if takesPart(prob, d.MaxPerOwner, d.Steps) <= d.Delta {
		return 0, nil
	}
	if prob == 1 {
		return accounting.GaussianNoiseMultiplier(
			d.Epsilon,
			d.Delta,
			float64(d.MaxPerOwner)*math.Sqrt(float64(d.Steps)),
		)
	}
	n, err := d.claim(batch).Proven(start, calibration.Narrow)
	return n.Multiplier, err
}

// claim returns the claim of DP-SGD at a batch size.
func (d DPSGD) claim(batch float64) calibration.Claim {
	sampler := sampling.Spec{Poisson: &sampling.Poisson{Prob: min(1, batch/float64(d.Units)), Steps: d.Steps}}
	return calibration.Claim{
		Run: accounting.Run{
			Sampler:             sampler,
			Strategy:            mechanism.Identity(d.Steps),
			MaxExamplesPerOwner: d.MaxPerOwner,
		},
		Epsilon: d.Epsilon,
		Delta:   d.Delta,
	}
}
