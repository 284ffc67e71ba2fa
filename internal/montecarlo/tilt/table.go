package tilt

import (
	"context"
	"math"

	"minsep/internal/montecarlo/internal/kernel"
	"minsep/internal/montecarlo/internal/likelihood"
	"minsep/internal/montecarlo/internal/tuples"
	"minsep/sampling"
)

// ErrTable is wrapped by errors that say why a table of some order cannot be had: it takes too much
// memory, or its numbers leave the range of float64. A lower order may do.
var ErrTable = tuples.ErrTable

// ErrStates is an [ErrTable] of every noise multiplier: the table has too many states for the work that
// it may take.
var ErrStates = tuples.ErrStates

// newTableSource makes the table of an order, exact or in blocks. It takes 1/σ².
func newTableSource(
	ctx context.Context,
	l *sampling.Table,
	columns *likelihood.Columns,
	factor float64,
	order int,
	o tuples.Options,
) (*source, error) {
	t, err := tuples.New(ctx, l, likelihood.NewGram(columns, factor), order, o)
	if err != nil {
		return nil, err
	}
	s := &source{
		work:      t.Work,
		walkError: float64(columns.Steps) * (t.StepError + float64(order+4)*4e-15 + math.Abs(t.LnN)*0x1p-52),
	}
	if order > 1 {
		s.version, s.lnN, s.raised = tupleTables, t.LnN, max(inflation, 2*t.Rounding)
	}
	if t.Bytes <= o.MaxBytes {
		s.walker = func() walk {
			w := tuples.NewWalker(t)
			return func(hits []kernel.Hit, u *kernel.Uniforms) ([]kernel.Hit, float64) { return w.Draw(hits, u) }
		}
	}
	return s, nil
}
