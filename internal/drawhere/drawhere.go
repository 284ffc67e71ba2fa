// Package drawhere draws the samples of a verification in this process, without Beam.
package drawhere

import (
	"context"

	"minsep/internal/accounting"
	"minsep/internal/ledger"
)

// worker is a calibration.Worker. It is an interface because tests inside package calibration use
// this package, which therefore cannot import it.
type worker interface {
	Run(ctx context.Context, first, count uint64, workers int) (ledger.Result, error)
}

// By returns a draw function for calibration.Release. It draws each unit with a worker by
// newWorker (calibration.NewWorker) and the given number of goroutines; 0 means one for each
// processor.
func By[W worker](
	newWorker func(p *accounting.Protocol, candidate, trial int) (W, error),
	goroutines int,
) func(context.Context, *ledger.Ledger, int, []ledger.Unit) error {
	return func(ctx context.Context, l *ledger.Ledger, candidate int, units []ledger.Unit) error {
		var w W
		for i, u := range units {
			if i == 0 || u.Trial != units[i-1].Trial {
				var err error
				if w, err = newWorker(l.Protocol(), candidate, u.Trial); err != nil {
					return err
				}
			}
			result, err := w.Run(ctx, u.First, u.Count, goroutines)
			if err != nil {
				return err
			}
			if err := l.AddAll([]ledger.Entry{{Unit: u, Result: result}}); err != nil {
				return err
			}
		}
		return nil
	}
}
