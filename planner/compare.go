package planner

import (
	"context"

	"minsep/mechanism"
)

// compare fills in the batch sizes at which independent noise has as little noise relative to the
// batch: that of sampled owners, for rows that sample owners.
func (p *planning) compare(ctx context.Context, out *Result) error {
	type units struct {
		number int64 // of examples, or of owners where the row samples them
		most   int   // of an owner
	}
	curves := map[units]*curve{}
	for _, row := range out.Rows {
		if row.Refused != "" {
			continue
		}
		of := units{row.run.Examples, row.run.MaxExamplesPerOwner}
		if curves[of] == nil {
			e := p.make(context.Background(), p.workload(mechanism.KindIdentity))
			if e.err != nil {
				return e.err
			}
			curves[of] = &curve{DPSGD: p.dpsgd(of.number, of.most), unit: p.error(e.error), width: 10 * narrow}
		}
		var err error
		if row.SameAs, err = curves[of].sameAs(ctx, row.BatchSize, row.Relative); err != nil {
			return err
		}
	}
	return nil
}
