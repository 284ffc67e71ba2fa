package inspect

import (
	"context"

	"minsep/internal/statistics"
	"minsep/internal/store"
)

// inspectStatistics reads the releases of private statistics. Their results cannot be computed again.
func inspectStatistics(ctx context.Context, dir string, found *Inspection) error {
	all, err := statistics.All(ctx, store.Dir(dir))
	if err != nil {
		return err
	}
	found.all.Statistics = all
	found.check("releases", "each is as it was written, of the bounded table", true)
	for _, r := range all {
		found.Notes = append(found.Notes, r.Name+": "+r.Claim()+"; this adds to the guarantee of the training: minsep compose says to what")
	}
	return nil
}
