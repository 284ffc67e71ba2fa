package inspect

import (
	"context"

	"minsep/internal/store"
	"minsep/manifest"
	"minsep/mechanism/noise"
	"minsep/stages"
)

// CopyOf names the run directory of which this one is a copy, with the same batches and the same
// noise; "" for none that is known. It asks the user's records of run ids, and so sees no directory
// of another user or machine, and none whose noise was never made. That breaks no check: what is
// certified holds of one training, and two that share their noise reveal their difference.
func CopyOf(ctx context.Context, dir string) string {
	run, err := manifest.ReadRun(ctx, dir)
	if err != nil { // not a run directory, or its inspection says what is wrong with it
		return ""
	}
	ix, err := manifest.Read(ctx, store.Join(dir, manifest.NoiseFolder))
	if err != nil {
		ix = nil
	}
	copied := ""
	for _, r := range noise.OfThisUser(run.RunID) {
		if ix != nil && ix.ParamsSHA256 != r.ParamsSHA256 { // of another key, with a run id that was asked for
			continue
		}
		switch place, err := stages.PlaceOf(ctx, r.Directory, dir, run.RunID); {
		case err == nil && place == stages.PlaceSame:
			return ""
		case err == nil && place == stages.PlaceCopy:
			copied = r.Directory
		}
	}
	return copied
}
