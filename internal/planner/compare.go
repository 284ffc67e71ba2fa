package planner

import (
	"context"

	"minsep/internal/accounting/calibration"
	"minsep/mechanism"
)

// compare fills in each row's error beside independent noise with Poisson sampling of the same
// units: sampled owners, for rows that sample owners.
func (p *planning) compare(ctx context.Context, out *Result) error {
	// Without ctx: p keeps the result, and would keep the error of a context that has ended.
	independent := p.make(context.Background(), p.workload(mechanism.KindIdentity))
	if independent.err != nil {
		return independent.err
	}
	type units struct {
		number int64 // of examples, or of owners where the row samples them
		most   int   // of an owner
	}
	type size struct {
		units
		batch float64
	}
	// DP-SGD knows no strategy: rows of one batch size and of the same units share its curve.
	curves, sigmas := map[units]*curve{}, map[size]float64{}
	for _, row := range out.Rows {
		if row.Refused != "" {
			continue
		}
		of := units{row.run.Examples, row.run.MaxExamplesPerOwner}
		if curves[of] == nil {
			curves[of] = &curve{
				DPSGD: p.dpsgd(of.number, of.most),
				unit:  p.error(independent.error),
				width: 10 * calibration.Narrow,
			}
		}
		var err error
		if row.SameAs, err = curves[of].sameAs(ctx, row.BatchSize, row.Relative); err != nil {
			return err
		}
		at := size{of, row.BatchSize}
		if sigmas[at] == 0 {
			sigmas[at], err = curves[of].noiseMultiplier(
				row.BatchSize,
				row.Noise.Multiplier/row.norm,
				0,
				calibration.Narrow,
			)
			if err != nil {
				return err
			}
		}
		p.besideDPSGD(row, p.make(ctx, row.Strategy), independent, sigmas[at])
	}
	return nil
}
