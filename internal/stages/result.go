package stages

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"minsep/internal/manifest"
	"minsep/internal/store"
	"minsep/internal/stream"
	"minsep/internal/strictjson"
)

// Result is the result of a stage in a run directory: its place, the files that vouch for it, and
// whether it is the plan's.
type Result struct {
	*Stage
	of *Directory
}

// Directory is a run directory that is compared with a plan.
type Directory struct {
	Out     string                     // the run directory
	Plan    Plan                       // as run.json has it
	Inputs  map[string]manifest.Digest // of the plan, by name: graph, workload
	Run     manifest.Run               // run.json
	KeyFile string                     // "" to look without the key
}

// PlanOf returns the directory of a run with the plan in its run.json, to be compared without the
// key and the inputs.
func PlanOf(dir string, run manifest.Run) (*Directory, error) {
	var was PlanRecord
	if err := strictjson.Loose(run.Plan.Plan, &was); err != nil {
		return nil, fmt.Errorf("%s: plan: %w", store.Join(dir, manifest.RunName), err)
	}
	was.Out = dir
	return &Directory{Out: dir, Plan: was.Plan, Inputs: was.Inputs, Run: run}, nil
}

// Result returns the result of a stage.
func (d *Directory) Result(stage string) Result { return Result{Named(stage), d} }

// Path returns the path of the result that is there, or of the result that the plan will leave.
func (r Result) Path() string {
	if r.Formats == nil {
		return r.of.path(r.vouch(r.of))
	}
	return r.of.path(r.ResultName())
}

// Unfinished reports whether a part of an unfinished result is there. The stage continues from it,
// unless its parameters differ from the plan's: then the stage sets it aside, and begins anew.
func (r Result) Unfinished(ctx context.Context) (there bool, differs []string, err error) {
	if r.unfinished == nil {
		return false, nil, nil
	}
	return r.unfinished(ctx, r.of)
}

// Inputs returns the inputs of the plan from which the result is made.
func (r Result) Inputs() map[string]manifest.Digest {
	if digest, ok := r.of.Inputs[r.Input]; ok {
		return map[string]manifest.Digest{r.Input: digest}
	}
	return nil
}

// Compare reports whether a finished result is there, and which parts of it differ from the result
// that the stage would make. It holds each file of a folder against the index too.
func (r Result) Compare(ctx context.Context) (there bool, differs []string, err error) {
	if r.compare != nil {
		return r.compare(ctx, r.of)
	}
	if finished, err := manifest.Finished(ctx, r.Path()); err != nil || !finished {
		return false, nil, err
	}
	want, err := r.expect(ctx, r.of)
	if err != nil {
		return false, nil, err
	}
	ix, err := manifest.Read(ctx, r.Path())
	if err != nil {
		return false, nil, err
	}
	runs := r.of.Run.Used() // a result that is not of one run may be taken over
	if r.OneRun {
		runs = runs[len(runs)-1:]
	}
	if differs, err = want.differs(ix, runs); err == nil {
		var more []string
		more, err = fileFaults(ctx, ix, r.Path())
		differs = append(differs, more...)
	}
	if differs == nil && err == nil && want.facts != nil {
		differs, err = want.facts(ix)
	}
	return err == nil, differs, err
}

// Compare reports whether a finished result of a stage is there, and how it differs from the result
// that run.json names or that the stage would make: see [Result.Compare].
func (d *Directory) Compare(ctx context.Context, r Result) (there bool, differs []string, err error) {
	watched, failures := store.WatchFailures(ctx)
	if differs = d.notNamed(watched, r); differs != nil {
		there = true
	} else {
		there, differs, err = r.Compare(watched)
	}
	if stopped := errors.Join(ctx.Err(), failures.Err()); stopped != nil { // a file that was not read to its end is not broken
		return false, nil, stopped
	}
	if err != nil {
		err = Unusable(r.Path(), err)
	}
	return there, differs, err
}

// Vouching returns the entry of run.json for a finished result: the files that vouch for it, by
// their names, with their SHA-256. An entry never changes, so that the results from which this one
// was made are told by theirs.
func (d *Directory) Vouching(ctx context.Context, r Result) (files map[string]manifest.Digest, err error) {
	ctx, failures := store.WatchFailures(ctx)
	names := []string{r.vouch(d)}
	if r.files != nil {
		names = append(names, r.files(ctx, d)...)
	}
	files = map[string]manifest.Digest{}
	for _, name := range names {
		if files[name], err = TextDigest(ctx, d.path(name)); err != nil {
			break
		}
	}
	if failed := failures.Err(); failed != nil { // which files vouch for the result is not known then
		return nil, failed
	}
	return files, err
}

// notNamed returns the files vouching for a stage's result that differ from those in run.json. It
// says nothing about a result that is missing or is being made again.
func (d *Directory) notNamed(ctx context.Context, r Result) (differs []string) {
	if _, err := store.Stat(ctx, r.Path()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if interrupted, err := manifest.Interrupted(ctx, r.Path()); err == nil && interrupted {
		return nil
	}
	was := d.Run.Stages[r.Name]
	for _, file := range slices.Sorted(maps.Keys(was)) {
		switch got, err := TextDigest(ctx, d.path(file)); {
		case errors.Is(err, fs.ErrNotExist):
			differs = append(differs, file+" is missing")
		case err != nil:
			differs = append(differs, file+" cannot be read")
		case got != was[file]:
			differs = append(differs, file+" is not the one that run.json names")
		}
	}
	return differs
}

// path returns the path of a name in the run directory.
func (d *Directory) path(name string) string { return store.Join(d.Out, name) }

// expected is the index of a folder that a stage would write.
type expected struct {
	format string
	params any
	inputs map[string]manifest.Digest
	facts  func(ix *manifest.Index) (differs []string, err error) // compares the facts of an index that is expected otherwise; nil: they follow from the rest
}

// differs compares a folder's index with the plan. The result must belong to one of the runs.
func (f expected) differs(ix *manifest.Index, runs []stream.RunID) (differs []string, err error) {
	params, digest, err := manifest.Params(f.params)
	if err != nil {
		return nil, err
	}
	if ix.Format != f.format {
		differs = append(differs, fmt.Sprintf("its format is %s, this version writes %s", ix.Format, f.format))
	}
	if !slices.Contains(runs, ix.RunID) {
		differs = append(differs, "it belongs to another run")
	}
	if ix.ParamsSHA256 != digest {
		differs = append(differs, JSONDifferences(ix.Params, params, "in the plan")...)
	}
	for name, want := range f.inputs {
		if ix.Inputs[name] != want {
			differs = append(differs, "it was made from another "+name)
		}
	}
	if len(ix.Inputs) != len(f.inputs) {
		differs = append(differs, "it was made from other inputs")
	}
	return differs, nil
}

// fileFaults compares every file of a folder with its index. It does not say how large files are: the
// sizes of batch files tell how large the batches are.
func fileFaults(ctx context.Context, ix *manifest.Index, dir string) (differs []string, err error) {
	others, err := Unlisted(ctx, ix, dir)
	if others != nil {
		differs = append(differs, Listed(others)+" not in its index"+MoveAway)
	}
	if broken := BrokenFiles(ctx, ix, dir); broken != nil {
		differs = append(differs, Listed(broken)+" not what its index says")
	}
	return differs, err
}

// interrupted returns a function that reports whether a part of a folder is there, for a stage that
// goes on from it.
func interrupted(folder string) func(ctx context.Context, d *Directory) (there bool, differs []string, err error) {
	return func(ctx context.Context, d *Directory) (there bool, differs []string, err error) {
		there, err = manifest.Interrupted(ctx, d.path(folder))
		return there, nil, err
	}
}
