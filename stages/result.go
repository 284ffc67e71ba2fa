package stages

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"minsep/accounting"
	"minsep/internal/store"
	"minsep/internal/strictjson"
	"minsep/manifest"
	"minsep/sampling/stream"
	"slices"
)

// Result is the result of a stage of a plan in a run directory: its place, the file that vouches
// for it, and whether it is the plan's.
type Result interface {
	Name() string // of the stage, one of [Stages]
	Path() string

	// Resumable says of an unfinished result whether the stage can continue from a part of it.
	Resumable(ctx context.Context) (bool, error)

	// The entry of run.json for a finished result.

	Files(ctx context.Context) []string                  // that vouch for it, in the run directory
	Params(ctx context.Context) (manifest.Digest, error) // SHA-256 of its parameters
	Inputs() map[string]manifest.Digest                  // of the plan that it is made from
	From() map[string]string                             // other sources, by name: files of the stages before it

	// Compare says whether a finished result is there, and which parts of it differ from those the
	// stage would make.
	Compare(ctx context.Context) (there bool, differs []string, err error)
}

// Directory is a run directory that is held against a plan.
type Directory struct {
	Out     string                     // the run directory
	Plan    Plan                       // as run.json has it
	Inputs  map[string]manifest.Digest // of the plan, by name: graph, workload
	Run     manifest.Run               // run.json
	KeyFile string                     // "" to look without the key
}

// PlanOf is the directory of a run with the plan that its run.json names, to be looked at without
// the key and the inputs.
func PlanOf(dir string, run manifest.Run) (*Directory, error) {
	var was PlanRecord
	if err := strictjson.Loose(run.Plan.Plan, &was); err != nil {
		return nil, fmt.Errorf("stages: %s: plan: %w", store.Join(dir, manifest.RunName), err)
	}
	was.Out = dir
	return &Directory{Out: dir, Plan: was.Plan, Inputs: was.Inputs, Run: run}, nil
}

// Result is the result of a stage.
func (d *Directory) Result(stage string) Result {
	switch stage {
	case "bound":
		return boundResult{d.folder(stage, manifest.BoundedFolder)}
	case "strategy":
		return strategyResult{d.folder(stage, manifest.StrategyFolder)}
	case "account":
		return accountResult{d.folder(stage, manifest.CertificateFile)}
	case "form":
		return formResult{d.folder(stage, manifest.BatchesFolder)}
	case "noise":
		return noiseResult{d.folder(stage, manifest.NoiseFolder)}
	case "materialize":
		return materializeResult{d.folder(stage, manifest.MaterializedFolder)}
	}
	panic("stages: no stage " + stage)
}

// Compare says whether a finished result of a stage is there, and how it differs from the
// result that run.json names or the stage would make.
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

// Finished is the entry of run.json for a finished result.
func (d *Directory) Finished(ctx context.Context, r Result) (done manifest.RunStage, err error) {
	ctx, failures := store.WatchFailures(ctx)
	defer func() {
		if failed := failures.Err(); failed != nil { // which files vouch for the result is not known then
			err = failed
		}
	}()
	if done.ParamsSHA256, err = r.Params(ctx); err != nil {
		return done, err
	}
	done.Inputs = maps.Clone(r.Inputs())
	if done.Inputs == nil {
		done.Inputs = map[string]manifest.Digest{}
	}
	for name, file := range r.From() {
		if done.Inputs[name], err = TextDigest(ctx, d.path(file)); err != nil {
			return done, err
		}
	}
	if len(done.Inputs) == 0 {
		done.Inputs = nil // as it is read
	}
	done.Files = map[string]manifest.Digest{}
	for _, file := range r.Files(ctx) {
		if done.Files[file], err = TextDigest(ctx, d.path(file)); err != nil {
			return done, err
		}
	}
	return done, nil
}

// notNamed says which of the files that vouch for a stage's result are not those that run.json
// names, and which inputs it was made from are not the plan's. Nothing is said of a result that is
// not there, or that is being made again.
func (d *Directory) notNamed(ctx context.Context, r Result) (differs []string) {
	was, there := d.Run.Stages[r.Name()]
	if _, err := store.Stat(ctx, r.Path()); !there || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if interrupted, err := manifest.Interrupted(ctx, r.Path()); err == nil && interrupted {
		return nil
	}
	for _, file := range slices.Sorted(maps.Keys(was.Files)) {
		switch got, err := TextDigest(ctx, d.path(file)); {
		case errors.Is(err, fs.ErrNotExist):
			differs = append(differs, file+" is missing")
		case err != nil:
			differs = append(differs, file+" cannot be read")
		case got != was.Files[file]:
			differs = append(differs, file+" is not the one that run.json names")
		}
	}
	for name, want := range r.Inputs() { // the index of a bounded table does not name its graph
		if was.Inputs[name] != want {
			differs = append(differs, "it was made from another "+name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.From())) {
		if got, err := TextDigest(ctx, d.path(r.From()[name])); err != nil || got != was.Inputs[name] {
			differs = append(differs, "it was made from another "+r.From()[name])
		}
	}
	return differs
}

// claimFile is the name of the file that the account leaves, or has left.
func (d *Directory) claimFile() string {
	if name, err := FindClaim(context.Background(), d.Out); err == nil && name != "" { // Compare returns the error
		return name
	}
	if d.Plan.accountMethod() == accounting.Unproven {
		return manifest.AccountingFile
	}
	return manifest.CertificateFile
}

// ids are the run ids of the directory: results that hold no secret serve all of its runs.
func (d *Directory) ids() []stream.RunID { return append(slices.Clone(d.Run.Earlier), d.Run.RunID) }

func (d *Directory) path(name string) string { return store.Join(d.Out, name) }

// input is the plan's input of a name, if it has one.
func (d *Directory) input(name string) map[string]manifest.Digest {
	if digest, ok := d.Inputs[name]; ok {
		return map[string]manifest.Digest{name: digest}
	}
	return nil
}

// withTable adds the bounded table to the sources of a result, if the plan has one.
func (d *Directory) withTable(from map[string]string) map[string]string {
	if d.Plan.Graph != nil {
		from[manifest.BoundedFolder] = boundedIndex
	}
	return from
}

// Names of the files by which a result names its sources.
const (
	boundedIndex  = manifest.BoundedFolder + "/" + manifest.IndexName
	strategyIndex = manifest.StrategyFolder + "/" + manifest.IndexName
	batchesIndex  = manifest.BatchesFolder + "/" + manifest.IndexName
)

// folder is the part of a [Result] that results with an index have in common.
type folder struct {
	*Directory
	stage, name string
}

func (d *Directory) folder(stage, name string) folder { return folder{d, stage, name} }

func (f folder) Name() string { return f.stage }
func (f folder) Path() string { return f.path(f.name) }
func (f folder) Resumable(context.Context) (bool, error) {
	return false, nil
}
func (f folder) Files(context.Context) []string     { return []string{f.name + "/" + manifest.IndexName} }
func (f folder) Inputs() map[string]manifest.Digest { return nil }
func (f folder) From() map[string]string            { return nil }

func (f folder) Params(ctx context.Context) (manifest.Digest, error) {
	ix, err := manifest.Read(ctx, f.Path())
	if err != nil {
		return manifest.Digest{}, err
	}
	return ix.ParamsSHA256, nil
}

type boundResult struct{ folder }

func (r boundResult) Inputs() map[string]manifest.Digest { return r.input("graph") }

func (r boundResult) Compare(ctx context.Context) (bool, []string, error) {
	bound := r.Plan.BoundParams().Bound
	ix, differs, err := expected{r.Path(), manifest.BoundedFormatOf(bound), bound, nil}.look(ctx, r.ids()...)
	return ix != nil, differs, err
}

type strategyResult struct{ folder }

func (r strategyResult) Inputs() map[string]manifest.Digest { return r.input("workload") }

func (r strategyResult) Compare(ctx context.Context) (bool, []string, error) {
	ix, differs, err := expected{r.Path(), manifest.StrategyFormat, r.Plan.Strategy, r.Inputs()}.look(ctx, r.ids()...)
	return ix != nil, differs, err
}

// expected is the expected index of a folder.
type expected struct {
	dir, format string
	params      any
	inputs      map[string]manifest.Digest
}

// look compares the folder's index with the plan and every file with the index. The result must be
// of one of the runs. It does not say how large files are: files of batches tell how large the
// batches are.
func (f expected) look(ctx context.Context, runs ...stream.RunID) (ix *manifest.Index, differs []string, err error) {
	if finished, err := manifest.Finished(ctx, f.dir); err != nil || !finished {
		return nil, nil, err
	}
	if ix, err = manifest.Read(ctx, f.dir); err != nil {
		return nil, nil, err
	}
	params, digest, err := manifest.Params(f.params)
	if err != nil {
		return nil, nil, err
	}
	if ix.Format != f.format {
		differs = append(differs, fmt.Sprintf("its format is %s, this version writes %s", ix.Format, f.format))
	}
	if !slices.Contains(runs, ix.RunID) {
		differs = append(differs, "it is of another run")
	}
	if ix.ParamsSHA256 != digest {
		differs = append(differs, JSONDifferences(ix.Params, params)...)
	}
	for name, want := range f.inputs {
		if ix.Inputs[name] != want {
			differs = append(differs, "it was made from another "+name)
		}
	}
	if len(ix.Inputs) != len(f.inputs) {
		differs = append(differs, "it was made from other inputs")
	}
	others, err := Unlisted(ctx, ix, f.dir)
	if err != nil {
		return nil, nil, err
	}
	if others != nil {
		differs = append(differs, Listed(others)+" not in its index"+MoveAway)
	}
	if broken := BrokenFiles(ctx, ix, f.dir); broken != nil {
		differs = append(differs, Listed(broken)+" not what its index says")
	}
	return ix, differs, nil
}
