package inspect

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"minsep/internal/manifest"
	"minsep/internal/param"
	"minsep/internal/stages"
	"minsep/internal/store"
	"minsep/internal/stream"
	"minsep/internal/words"
)

// Apart refuses run directories whose trainings share participations, because such trainings do not
// compose: two directories with one run id, in run.json, batches or noise. A run id is a part of
// every key, so that runs with other ids draw other batches. The notes name directories without
// run.json, and, where the directories have had more runs than the trainings that are counted, the
// number of these runs.
func Apart(ctx context.Context, dirs []string, trainings int) (notes []string, err error) {
	seen := map[stream.RunID]string{} // by run id, the directory that has it
	had := map[stream.RunID]bool{}    // run ids that the directories have or had
	for _, dir := range dirs {
		ids, run, err := runIDs(ctx, dir)
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			if other, twice := seen[id]; twice {
				return nil, notApart(dir, other, fmt.Sprintf("both have run id %v", id))
			}
		}
		for _, id := range ids {
			seen[id] = dir
		}
		if run == nil {
			notes = append(
				notes,
				fmt.Sprintf(
					"%s has no %s, so that compose cannot tell whether another directory is of the same run",
					dir,
					manifest.RunName,
				),
			)
			continue
		}
		for _, id := range run.Used() {
			had[id] = true
		}
	}
	if len(had) > trainings {
		notes = append(
			notes,
			fmt.Sprintf(
				"these directories have had %s, and %d %s counted: count the others too, by --times, if anything of them was released or looked at",
				words.Count(
					len(had),
					"run",
				),
				trainings,
				map[bool]string{true: "is", false: "are"}[trainings == 1],
			),
		)
	}
	return notes, nil
}

// notApart is the error for two directories with trainings that share participations.
func notApart(dir, other, why string) error {
	return param.Fault(
		"run directory",
		dir,
		"shares the participations of %s: %s. Such trainings do not add up, and their joint guarantee is not known; "+
			"name each run once: for several runs of one plan, which minsep run --again makes, give --times", other, why,
	)
}

// runIDs returns the run ids that a directory names in run.json and in finished batches and noise.
// run is nil where there is no run.json.
func runIDs(ctx context.Context, dir string) (ids []stream.RunID, run *manifest.Run, err error) {
	r, err := manifest.ReadRun(ctx, dir)
	switch {
	case err == nil:
		ids, run = append(ids, r.RunID), &r
	case !errors.Is(err, fs.ErrNotExist):
		return nil, nil, err
	}
	for _, s := range stages.All {
		if !s.Secret {
			continue
		}
		ix, err := manifest.ReadFinished(ctx, store.Join(dir, s.Folder()))
		if err != nil {
			return nil, nil, err
		}
		if ix == nil {
			continue
		}
		if !slices.Contains(ids, ix.RunID) {
			ids = append(ids, ix.RunID)
		}
	}
	return ids, run, nil
}
