package planner

import (
	"context"
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
	return d.noiseMultiplier(batch, 1, 0, calibration.Narrow)
}

// noiseMultiplier returns σ to the relative precision width. The search begins at start, and its
// first step is the part step of it.
func (d DPSGD) noiseMultiplier(batch, start, step, width float64) (float64, error) {
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
	n, err := d.claim(batch).Proven(start, step, width)
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

// SameAs returns the batch size at which DP-SGD has the noise relative, measured relative to the
// batch. The search begins at an expected batch size; the result is 0 if it is beyond half of the
// units. unit is the error of independent noise at noise multiplier 1.
func (d DPSGD) SameAs(ctx context.Context, unit, batch, relative float64) (float64, error) {
	return (&curve{DPSGD: d, unit: unit, width: calibration.Narrow}).sameAs(ctx, batch, relative)
}

// curve has the noise of DP-SGD relative to the batch, at the batch sizes for which it was asked.
// Between two of them it is taken for a power of the batch size.
type curve struct {
	DPSGD
	unit  float64 // error of independent noise at noise multiplier 1
	width float64 // to which the noise multipliers are found

	batches, relative []float64 // by rising batch size
}

// sigma returns an approximate noise multiplier at a batch size beyond the first or the last, and
// its relative error; 0 if it is not known.
func (c *curve) sigma(batch float64, first bool) (sigma, off float64) {
	if len(c.batches) == 0 {
		return 1, 0
	}
	end, before := len(c.batches)-1, len(c.batches)-2
	if first {
		end, before = 0, 1
	}
	at := func(i int) float64 { return c.relative[i] * c.batches[i] / c.unit }
	switch {
	case at(end) == 0: // none is needed
		return 1, 0
	case len(c.batches) == 1 || at(before) == 0:
		return at(end), 0
	}
	slope := math.Log(at(end)/at(before)) / math.Log(c.batches[end]/c.batches[before])
	return at(end) * math.Pow(batch/c.batches[end], slope), calibration.Little - 1
}

// add adds a batch size below the first or above the last.
func (c *curve) add(ctx context.Context, batch float64, first bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	start, step := c.sigma(batch, first)
	sigma, err := c.noiseMultiplier(batch, start, step, c.width)
	if err != nil {
		return err
	}
	if first {
		c.batches, c.relative = append(
			[]float64{batch},
			c.batches...), append(
			[]float64{sigma * c.unit / batch},
			c.relative...)
	} else {
		c.batches, c.relative = append(c.batches, batch), append(c.relative, sigma*c.unit/batch)
	}
	return nil
}

// sameAs returns the batch size at which the noise, relative to the batch, is relative; 0 if it is
// beyond half of the units. The first search begins at batch.
func (c *curve) sameAs(ctx context.Context, batch, relative float64) (float64, error) {
	if len(c.batches) == 0 {
		if err := c.add(ctx, batch, false); err != nil {
			return 0, err
		}
	}
	for relative > c.relative[0] && c.batches[0] > 1 {
		if err := c.add(ctx, max(1, c.batches[0]/math.Sqrt2), true); err != nil {
			return 0, err
		}
	}
	most := float64(c.Units) / 2
	for last := len(c.batches) - 1; relative < c.relative[last] && c.batches[last] < most; last++ {
		if err := c.add(ctx, min(most, math.Sqrt2*c.batches[last]), false); err != nil {
			return 0, err
		}
	}
	for i := 1; i < len(c.batches); i++ {
		if a, b := c.relative[i-1], c.relative[i]; relative <= a && relative >= b && b < a {
			t := math.Log(relative/a) / math.Log(b/a)
			return c.batches[i-1] * math.Pow(c.batches[i]/c.batches[i-1], t), nil
		}
	}
	for i, r := range c.relative { // at an end
		if math.Abs(relative/r-1) < 0.01 {
			return c.batches[i], nil
		}
	}
	return 0, nil
}
