package pipelines

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"strings"

	"minsep/internal/manifest"
	"minsep/internal/param"
	"minsep/internal/stages"
	"minsep/internal/store"
	"minsep/internal/stream"
	"minsep/internal/words"
)

// taken describes a run directory after a plan has taken it.
type taken struct {
	run  manifest.Run
	made bool // with a new run id
}

// take makes the directory the plan's, by a new run.json, or finds that it is. Another plan is
// refused. The results of an earlier run may be taken over: nil stands for none.
func take(
	ctx context.Context,
	p stages.Plan,
	o Options,
	record *manifest.RunPlan,
	before *earlierRun,
) (t taken, err error) {
	root, err := stream.ReadKeyFile(o.KeyFile)
	if err != nil {
		return t, err
	}
	path := store.Join(o.Out, manifest.RunName)
	run, err := manifest.ReadRun(ctx, o.Out)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		// Results without a run.json could be of any plan and any key.
		there, err := stages.Holds(ctx, o.Out)
		if err != nil {
			return t, err
		}
		if there != "" {
			return t, refuse(path, "is missing", []string{there + " is there"})
		}
	case err != nil:
		return t, stages.Unusable(path, err)
	default:
		differs := differences(run, committed(root, run.RunID, record))
		if differs != nil {
			return t, &param.Error{Param: "out", Value: path, Rule: "belongs to another plan: " + some(differs) +
				"; give another --out, or --again NEW for a new directory NEW that takes over what still holds"}
		}
		if err := before.begunFor(o.Out, run); err != nil {
			return t, err
		}
		return goesOn(p, o, run)
	}
	next := manifest.NewRun()
	next.Name, next.Nouns, next.Plan = p.Name, p.Nouns, committed(root, next.RunID, record)
	if before != nil {
		next.Earlier, next.TakingOver = before.of.Run.Used(), true
	}
	t = taken{run: next, made: true}
	if o.DryRun {
		return t, nil
	}
	return t, manifest.WriteRun(o.Out, next, nil)
}

// committed returns the plan's record with a commitment to the root key. The commitment is for one
// run id: run.json is public, and does not tell which directories have the same key.
func committed(root stream.Root, id stream.RunID, record *manifest.RunPlan) *manifest.RunPlan {
	r := *record
	r.KeyCommitment = manifest.Digest(root.Key(id, [32]byte{}, planPurpose).Commitment())
	return &r
}

// goesOn takes the directory of the same plan, which may have another name and other nouns now.
func goesOn(p stages.Plan, o Options, run manifest.Run) (taken, error) {
	before := run
	run.Name, run.Nouns = cmp.Or(p.Name, run.Name), p.NounsOr(run.Nouns)
	if o.DryRun || run.Name == before.Name && run.Nouns == before.Nouns {
		return taken{run: before}, nil
	}
	return taken{run: run}, manifest.WriteRun(o.Out, run, &before)
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
