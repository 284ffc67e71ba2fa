package planner

import (
	"context"

	"minsep/mechanism"
)

// compare fills in the batch sizes at which independent noise has as little noise relative to the
// batch.
func (p *planning) compare(ctx context.Context, out *Result) error {
	curves := map[Population]*curve{}
	for _, row := range out.Rows {
		if row.Refused != "" {
			continue
		}
		of := Population{MaxPerOwner: row.MaxPerOwner, Examples: row.Examples}
		if curves[of] == nil {
			e := p.make(context.Background(), p.workload(mechanism.KindIdentity))
			if e.err != nil {
				return e.err
			}
			curves[of] = &curve{DPSGD: p.dpsgd(of.Examples, p.perOwner(of)), unit: p.error(e.error), width: 10 * narrow}
		}
		var err error
		if row.SameAs, err = curves[of].sameAs(ctx, row.BatchSize, row.Relative); err != nil {
			return err
		}
	}
	return nil
}
