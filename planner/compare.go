package planner

import (
	"context"
	"math"

	"minsep/mechanism"
)

// curve is the noise relative to the batch of Poisson sampling with independent noise, by batch
// size.
type curve struct {
	batches, relative []float64 // by rising batch size
}

// sigma is about the noise multiplier at a batch size beyond the first or the last, and how far off
// that may be, as a part of it. unit is the error at noise multiplier 1.
func (c *curve) sigma(batch float64, first bool, unit float64) (sigma, off float64) {
	if len(c.batches) == 0 {
		return 1, wide
	}
	end, before := len(c.batches)-1, len(c.batches)-2
	if first {
		end, before = 0, 1
	}
	at := func(i int) float64 { return c.relative[i] * c.batches[i] / unit }
	switch {
	case at(end) == 0: // none is needed
		return 1, wide
	case len(c.batches) == 1 || at(before) == 0:
		return at(end), wide
	}
	slope := math.Log(at(end)/at(before)) / math.Log(c.batches[end]/c.batches[before])
	return at(end) * math.Pow(batch/c.batches[end], slope), wide / 6
}

// compare fills in the batch sizes at which independent noise has as little noise relative to the
// batch.
func (p *planning) compare(ctx context.Context, out *Result) error {
	curves := map[Population]*curve{}
	for _, row := range out.Rows {
		if row.Refused != "" {
			continue
		}
		of := Population{MaxPerOwner: row.MaxPerOwner, Examples: row.Examples}
		c := curves[of]
		if c == nil {
			c = &curve{}
			curves[of] = c
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		var err error
		if row.SameAs, err = p.sameAs(c, of, row); err != nil {
			return err
		}
	}
	return nil
}

// sameAs is the batch size at which independent noise has the relative noise of a row; 0 beyond
// half of the examples.
func (p *planning) sameAs(c *curve, of Population, row *Row) (float64, error) {
	e := p.make(context.Background(), p.workload(mechanism.KindIdentity))
	if e.err != nil {
		return 0, e.err
	}
	unit := p.error(e.error)
	add := func(batch float64, first bool) error {
		start, step := c.sigma(batch, first, unit)
		sigma, err := p.independent(of.Examples, p.perOwner(of), batch, start, step, 10*narrow)
		if err != nil {
			return err
		}
		if first {
			c.batches, c.relative = append([]float64{batch}, c.batches...), append([]float64{sigma * unit / batch}, c.relative...)
		} else {
			c.batches, c.relative = append(c.batches, batch), append(c.relative, sigma*unit/batch)
		}
		return nil
	}
	if len(c.batches) == 0 {
		if err := add(row.BatchSize, false); err != nil {
			return 0, err
		}
	}
	for row.Relative > c.relative[0] && c.batches[0] > 1 {
		if err := add(max(1, c.batches[0]/math.Sqrt2), true); err != nil {
			return 0, err
		}
	}
	most := float64(of.Examples) / 2
	for last := len(c.batches) - 1; row.Relative < c.relative[last] && c.batches[last] < most; last++ {
		if err := add(min(most, math.Sqrt2*c.batches[last]), false); err != nil {
			return 0, err
		}
	}
	for i := 1; i < len(c.batches); i++ {
		if a, b := c.relative[i-1], c.relative[i]; row.Relative <= a && row.Relative >= b && b < a {
			t := math.Log(row.Relative/a) / math.Log(b/a)
			return c.batches[i-1] * math.Pow(c.batches[i]/c.batches[i-1], t), nil
		}
	}
	for i, relative := range c.relative { // at an end
		if math.Abs(row.Relative/relative-1) < 0.01 {
			return c.batches[i], nil
		}
	}
	return 0, nil
}
