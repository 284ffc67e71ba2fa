package calibration

import (
	"context"

	"minsep/internal/accounting"
	"minsep/internal/drawhere"
	"minsep/internal/ledger"
)

// Finish draws what a ledger lacks in this process, and returns its certificate.
func Finish(ctx context.Context, l *ledger.Ledger, unitSize uint64, workers int) (*accounting.Certificate, error) {
	if err := Release(ctx, l, unitSize, drawhere.By(NewWorker, workers)); err != nil {
		return nil, err
	}
	return l.Certificate()
}
