package pipelines

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strings"

	"minsep/accounting/ledger"
	"minsep/internal/store"
	"minsep/manifest"
)

// planPurpose is the purpose of the key whose commitment run.json holds. Nothing is drawn with it.
const planPurpose = "run: plan"

// planRecord is a plan as run.json has it: with the hashes of its inputs, and without the places of key, directories and inputs.
type planRecord struct {
	Plan
	Inputs map[string]manifest.Digest `json:"inputs,omitempty"`
}

// record is the plan for run.json.
func (p Plan) record(inputs map[string]manifest.Digest) (*manifest.RunPlan, error) {
	p.Key, p.Out, p.Privacy.From = "", "", ""
	if p.Graph != nil {
		g := *p.Graph
		g.Paths = nil
		p.Graph = &g
	}
	var r manifest.RunPlan
	var err error
	r.Plan, r.SHA256, err = manifest.Params(planRecord{p, inputs})
	return &r, err
}

func fileDigest(ctx context.Context, path string) (d manifest.Digest, err error) {
	f, err := store.Open(ctx, path)
	if err != nil {
		return d, err
	}
	defer f.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, store.Reader(f))
	return manifest.Digest(sum.Sum(nil)), err
}

// textDigest hashes a file of text, as those are that vouch for results.
func textDigest(ctx context.Context, path string) (d manifest.Digest, err error) {
	f, err := store.Open(ctx, path)
	if err != nil {
		return d, err
	}
	defer f.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, store.Text(f))
	return manifest.Digest(sum.Sum(nil)), err
}

// refuse is the error for a result that is not the plan's.
func refuse(path, what string, differs []string) error {
	return &ParamError{Package: "pipelines", Param: "out", Value: path, Rule: what + ": " + strings.Join(differs, "; ") + "; give another --out, or --overwrite"}
}

// unusable is the error for a result that cannot be read, or not be held against anything.
func unusable(path string, err error) error {
	return fmt.Errorf("%w: %w", &ParamError{Package: "pipelines", Param: "out", Value: path, Rule: "cannot be used"}, err)
}

// removeEmptyRun removes a run directory in which nothing is but run.json and the lock.
func removeEmptyRun(dir string) error {
	entries, err := store.List(context.Background(), dir)
	entries = slices.DeleteFunc(entries, func(e store.Entry) bool { return e.Name == LockName })
	if err != nil || len(entries) > 1 {
		return err
	}
	return manifest.RemoveRun(dir)
}

// planOf is the run of the plan that run.json names, to be looked at without the key and the inputs.
func planOf(dir string, run manifest.Run) (*planRun, error) {
	var was planRecord
	if err := json.Unmarshal(run.Plan.Plan, &was); err != nil {
		return nil, fmt.Errorf("pipelines: %s: plan: %w", store.Join(dir, manifest.RunName), err)
	}
	was.Out = dir
	return &planRun{plan: was.Plan, options: Options{Out: dir}, run: run, inputs: was.Inputs}, nil
}

// keep writes to run.json what a finished stage came to.
func (r *planRun) keep(ctx context.Context, s planStage) error {
	now, err := r.finished(ctx, s)
	if err != nil {
		return err
	}
	was, there := r.run.Stages[s.name]
	if there && reflect.DeepEqual(was, now) {
		return nil
	}
	again := was.ParamsSHA256 == now.ParamsSHA256 && maps.Equal(was.Inputs, now.Inputs) // and not by a corrected plan
	if there && again && !r.options.Overwrite {
		return refuse(s.path, "is another result than the one that run.json names", nil)
	}
	stages := maps.Clone(r.run.Stages)
	if stages == nil {
		stages = map[string]manifest.RunStage{}
	}
	stages[s.name] = now
	r.run.Stages = stages
	if err := ctx.Err(); err != nil {
		return err
	}
	onDisk, err := manifest.ReadRun(ctx, r.options.Out)
	if err != nil {
		return err
	}
	r.run.Examples = onDisk.Examples // which the stage has written
	return manifest.WriteRun(r.options.Out, r.run, &manifest.Run{RunID: r.run.RunID})
}

// finished is what run.json says of a finished stage.
func (r *planRun) finished(ctx context.Context, s planStage) (done manifest.RunStage, err error) {
	if done.ParamsSHA256, err = s.params(ctx); err != nil {
		return done, err
	}
	done.Inputs = maps.Clone(s.inputs)
	if done.Inputs == nil {
		done.Inputs = map[string]manifest.Digest{}
	}
	for name, file := range s.from {
		if done.Inputs[name], err = textDigest(ctx, r.path(file)); err != nil {
			return done, err
		}
	}
	if len(done.Inputs) == 0 {
		done.Inputs = nil // as it is read
	}
	done.Files = map[string]manifest.Digest{}
	for _, file := range s.files(ctx) {
		if done.Files[file], err = textDigest(ctx, r.path(file)); err != nil {
			return done, err
		}
	}
	return done, nil
}

// unlike says which of the files that vouch for a stage's result are not those that run.json names. A result of which nothing is
// there, or which is being made again, is like it.
func (r *planRun) unlike(ctx context.Context, s planStage) (differs []string) {
	was, there := r.run.Stages[s.name]
	if _, err := store.Stat(ctx, s.path); !there || errors.Is(err, fs.ErrNotExist) || manifest.Interrupted(s.path) {
		return nil
	}
	for _, file := range slices.Sorted(maps.Keys(was.Files)) {
		switch got, err := textDigest(ctx, r.path(file)); {
		case errors.Is(err, fs.ErrNotExist):
			differs = append(differs, file+" is missing")
		case err != nil:
			differs = append(differs, file+" cannot be read")
		case got != was.Files[file]:
			differs = append(differs, file+" is not the one that run.json names")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.from)) {
		if got, err := textDigest(ctx, r.path(s.from[name])); err != nil || got != was.Inputs[name] {
			differs = append(differs, "it was made from another "+s.from[name])
		}
	}
	return differs
}

// compactDigest is the SHA-256 of a file of JSON, compact.
func compactDigest(ctx context.Context, path string) (manifest.Digest, error) {
	b, err := ReadFile(ctx, path)
	if err != nil {
		return manifest.Digest{}, err
	}
	var compact bytes.Buffer
	err = json.Compact(&compact, b)
	return sha256.Sum256(compact.Bytes()), err
}

// ledgerFiles are the files of a run directory's ledger.
func ledgerFiles(ctx context.Context, out string) []string {
	files := []string{requestName, ledger.ProtocolFile}
	// An empty log is as good as none, which is what an object store has before the first unit.
	if info, err := store.Stat(ctx, store.Join(out, LedgerFolder, ledger.UnitsFile)); err == nil && info.Size > 0 {
		files = append(files, ledger.UnitsFile)
	}
	for _, replaced := range names(ctx, out, LedgerFolder, earlierFolder) {
		for _, file := range names(ctx, out, LedgerFolder, earlierFolder, replaced) {
			files = append(files, earlierFolder+"/"+replaced+"/"+file)
		}
	}
	for i := range files {
		files[i] = LedgerFolder + "/" + files[i]
	}
	return files
}

// names are those in a folder of a run directory; none if it cannot be read, for then neither can what depends on it.
func names(ctx context.Context, out string, folders ...string) (list []string) {
	entries, err := store.List(ctx, store.Join(out, folders...))
	if err != nil {
		return nil
	}
	for _, e := range entries {
		list = append(list, e.Name)
	}
	return list
}
