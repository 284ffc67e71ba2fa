package pipelines

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"minsep/internal/manifest"
	"minsep/internal/param"
	"minsep/internal/stages"
	"minsep/internal/store"
	"minsep/internal/stream"
	"minsep/internal/words"
)

// take makes the directory the plan's, by a new run.json, or finds that it is; made says that the run is
// new. Another plan is refused. If the plan is run again, a new run takes over what still holds of the
// run in from.
func take(
	ctx context.Context,
	p stages.Plan,
	o Options,
	record *manifest.RunPlan,
	again bool,
	from string,
) (run manifest.Run, made bool, err error) {
	root, err := stream.ReadKeyFile(o.KeyFile)
	if err != nil {
		return run, false, err
	}
	var earlier manifest.Run
	if again {
		if earlier, err = openEarlier(ctx, from, o.Out, root); err != nil {
			return run, false, err
		}
	}
	path := store.Join(o.Out, manifest.RunName)
	switch run, err = manifest.ReadRun(ctx, o.Out); {
	case err == nil:
		differs := differences(run, committed(root, run.RunID, record))
		if differs != nil {
			return run, false, &param.Error{Param: "out", Value: path, Rule: "belongs to another plan: " + some(differs) +
				"; give another --out, or --again NEW for a new directory NEW that takes over what still holds"}
		}
		if again && !slices.Contains(run.Earlier, earlier.RunID) {
			return run, false, param.Fault("again", o.Out, "holds a run that takes nothing over from %s: give the name of a new directory", from)
		}
		run, err = goesOn(p, o, run)
		return run, false, err
	case !errors.Is(err, fs.ErrNotExist):
		return run, false, stages.Unusable(path, err)
	}
	run = manifest.NewRun()
	run.Name, run.Nouns, run.Plan = p.Name, p.Nouns, committed(root, run.RunID, record)
	if again {
		err = takeOver(ctx, from, earlier, o, &run)
	} else {
		err = refuseResults(ctx, o.Out)
	}
	if err == nil && !o.DryRun {
		err = manifest.WriteRun(o.Out, run, nil)
	}
	return run, true, err
}

// refuseResults refuses results without a run.json: they could be of any plan and any key.
func refuseResults(ctx context.Context, out string) error {
	there, err := stages.Holds(ctx, out)
	if err == nil && there != "" {
		return refuse(store.Join(out, manifest.RunName), "is missing", []string{there + " is there"})
	}
	return err
}

// committed returns the plan's record with a commitment to the root key. The commitment is for one
// run id: run.json is public, and does not tell which directories have the same key.
func committed(root stream.Root, id stream.RunID, record *manifest.RunPlan) *manifest.RunPlan {
	r := *record
	r.KeyCommitment = manifest.Digest(root.Key(id, [32]byte{}, planPurpose).Commitment())
	return &r
}

// goesOn takes the directory of the same plan, which may have another name and other nouns now.
func goesOn(p stages.Plan, o Options, before manifest.Run) (manifest.Run, error) {
	run := before
	run.Name, run.Nouns = cmp.Or(p.Name, run.Name), p.NounsOr(run.Nouns)
	if o.DryRun || run.Name == before.Name && run.Nouns == before.Nouns {
		return before, nil
	}
	return run, manifest.WriteRun(o.Out, run, &before)
}

// differences returns the parts of a run directory that are not this plan's, nil if there are none.
func differences(run manifest.Run, want *manifest.RunPlan) (list []string) {
	if run.Plan == nil {
		return append(list, "its stages were run one by one")
	}
	if run.Plan.KeyCommitment != want.KeyCommitment {
		list = append(list, "its root key differs")
	}
	if run.Plan.SHA256 != want.SHA256 {
		for _, text := range stages.JSONDifferences(run.Plan.Plan, want.Plan, "in the plan") {
			if strings.HasPrefix(text, inputsGraph) {
				text = "the data in the graph's files have changed (" + text + ")"
			}
			list = append(list, text)
		}
	}
	return list
}

// some joins the first differences, and says how many more there are.
func some(differs []string) string {
	const most = 4
	text := strings.Join(differs[:min(most, len(differs))], "; ")
	if more := len(differs) - most; more > 0 {
		text += "; and " + words.Count(more, "other difference")
	}
	return text
}

// inputsGraph begins a difference in the contents of the graph's files.
const inputsGraph = "inputs.graph is "
