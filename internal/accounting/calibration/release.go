package calibration

import (
	"context"
	"fmt"

	"minsep/internal/accounting"
	"minsep/internal/ledger"
)

// Draw computes units of one candidate and adds their results to the ledger, on this machine or
// elsewhere. Units that it leaves out are no error of its own.
type Draw func(ctx context.Context, l *ledger.Ledger, candidate int, units []ledger.Unit) error

// Release is the verification of a ledger's protocol, wherever its samples are drawn: the
// missing units are drawn candidate by candidate, from the most noise down to the first that is
// not accepted, since smaller ones cannot be released then. It returns nil when the ledger
// gives a certificate, an error that wraps accounting.ErrNotVerified when no candidate was
// accepted, and Draw's error. Drawn units stay in the ledger: after a stop, Release goes on
// from there.
func Release(ctx context.Context, l *ledger.Ledger, unitSize uint64, draw Draw) error {
	p := l.Protocol()
	for c := len(p.Candidates) - 1; c >= 0; c-- {
		if units := l.Missing(c, unitSize); len(units) > 0 {
			if err := draw(ctx, l, c, units); err != nil {
				return err
			}
			if left := l.Missing(c, unitSize); len(left) > 0 {
				return fmt.Errorf("%d units of candidate %d were not drawn", len(left), c)
			}
		}
		released, err := p.Release(l.Tallies())
		if err != nil {
			return err
		}
		if released.Candidate > c {
			return nil
		}
	}
	return nil
}

// UnitSize returns the number of samples that take about a second, for a training of the given
// steps, but at most 2^22, so that the line of a unit is short.
func UnitSize(steps int) uint64 {
	const work, piece, most = 4e7, 1024, 1 << 22 // samples times steps; whole pieces keep every processor busy
	return uint64(max(1, min(most, int(work/float64(steps)))/piece)) * piece
}

// Advised is a budget in samples for a rejected noise multiplier that is given again. It is enough
// to accept means this number of standard errors above the means that were seen; see
// [accounting.NotVerifiedError.Need] for ok.
func Advised(rejected *accounting.NotVerifiedError, errors float64) (samples float64, ok bool) {
	samples, ok = rejected.Need(errors)
	return samples / (1 - estimateShare), ok
}
