package planner

import (
	"context"

	"minsep/internal/digits"
	"minsep/mechanism"
	"minsep/sampling"
)

// amplify tries the amplified strategy in place of a Toeplitz row's own. The strategy has as many
// bands as the row, and is made for the noise multiplier of independent noise under the row's
// sampling. It is tried if it has less error by the closed form. More bands are tried while the
// error falls, up to high: entries that do not lower it are 0.
func (p *part) amplify(ctx context.Context, best *Row, high int, scheme func(bands int) sampling.Params) error {
	if best == nil || best.Strategy.Bands < 2 || !p.wanted(best.Scheme.Scheme, mechanism.KindAmplified) {
		return nil
	}
	of := p.make(ctx, best.Strategy).strategy
	if of.Toeplitz == nil || of.Normalized || !of.NonNegative() {
		return nil
	}
	independent := digits.Nearest(mechanism.IndependentNoise(of.Toeplitz, best.Noise.Multiplier), 4)
	for bands := best.Strategy.Bands; bands <= high; bands = (3*bands + 1) / 2 {
		params := p.banded(mechanism.KindAmplified, bands, 0)
		params.IndependentNoise = independent
		if params.Validate() != nil || params.Seconds() > dear {
			return nil
		}
		made := p.make(ctx, params)
		if made.err != nil {
			return ctx.Err()
		}
		if mechanism.AmplifiedNoise(made.strategy.Toeplitz, independent)*p.error(made.error)/best.BatchSize >= best.Relative {
			return nil
		}
		row, err := p.evaluate(ctx, scheme(bands), params)
		if err != nil || row == nil || row.Refused != "" || row.Relative >= best.Relative {
			return err
		}
		best = row
	}
	return nil
}
