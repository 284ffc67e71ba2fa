package planner

import (
	"context"
	"math"
	"slices"
	"time"

	"minsep/internal/accounting/calibration"
)

// budgetFor is the budget that a plan has for a certificate that takes so many seconds of
// processors, in whole minutes; 0 for the default one.
func budgetFor(seconds float64) time.Duration {
	if seconds <= calibration.DefaultCPUTime.Seconds() {
		return 0
	}
	return time.Duration(math.Ceil(seconds/60)) * time.Minute
}

// Time fills in the time that the certificate of the row with a rank takes on this machine, by tables
// and samples that it times, unless its tables take longer than the plan. Nothing else in a plan
// depends on the machine.
func (out *Result) Time(ctx context.Context, rank int) error {
	i := slices.IndexFunc(out.Rows, func(row *Row) bool { return row.Rank == rank })
	if i < 0 || out.Rows[i].Noise.Proven {
		return nil
	}
	row, p := out.Rows[i], out.planning
	if float64(p.Steps)*float64(row.Scheme.MinSep) > mostTables {
		return nil
	}
	p.say(row.Name() + ", the time of its certificate")
	c := p.claim(row)
	o, err := calibration.Problem{
		Run:         c.Run,
		Epsilon:     c.Epsilon,
		Delta:       c.Delta,
		AlsoEpsilon: further(p.Epsilon),
	}.Outlook(ctx, row.Noise.Multiplier)
	if err != nil {
		return err
	}
	row.CPU, row.needs = max(o.Expected, o.Ample), o.Ample
	return nil
}
