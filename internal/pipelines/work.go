package pipelines

import (
	"context"
	"encoding/json"
	"errors"

	"minsep/internal/manifest"
	"minsep/internal/noise"
	"minsep/internal/param"
	"minsep/internal/planner"
	"minsep/internal/stages"
	"minsep/internal/store"
	"minsep/internal/stream"
	"minsep/internal/transforms/noiseshards"
)

// work is a stage at work. Every stage begins with [Options.begin], which validates, takes the run
// directory and reads its contents. It leaves its result by write, or by inRun if the result is not
// a folder with an index. It ends with end.
type work struct {
	set  Options // by the user
	jobs engine  // runs the stage's jobs
	path string  // of the run directory that the stage writes in
	end  func()  // gives the directory back

	root stream.Root    // of a stage with a key
	here stages.Present // of a stage that looks
}

// beginning has the needs of a stage at its begin.
type beginning struct {
	stage interface{ Validate() error }
	// inputs records the faults of the stage's inputs; nil for none. All faults of parameters,
	// options and inputs are told at once.
	inputs  func(c *param.Checker)
	key     bool   // the stage has the root key
	looks   bool   // the results in the run directory must be of one training run, and the stage's of the same
	besides bool   // the result is of no plan, and may be made beside those of one
	remade  string // that result is not looked at, since the stage makes it anew
}

// begin begins a stage. A dry run takes no lock, since it writes nothing.
func (o Options) begin(ctx context.Context, b beginning) (*work, error) {
	c := param.Checker{}
	c.Add(b.stage.Validate())
	if b.key {
		o.Validate(&c)
	} else {
		o.validateJob(&c)
	}
	if b.inputs != nil {
		b.inputs(&c)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	w := &work{set: o, jobs: o.engine(), path: o.Out, end: func() {}}
	if !o.DryRun {
		// After the faults, so that a command with a fault leaves no directory behind, and before the
		// look, so that nothing changes under it.
		if err := w.lock(); err != nil {
			return nil, err
		}
		// Under the lock, which a command that writes the plan may have held until now.
		if run, err := manifest.ReadRun(ctx, o.Out); err == nil && run.Plan != nil && !o.Held && !b.besides {
			w.end()
			return nil, param.Fault("out", o.Out, "has a plan, whose stages are made by minsep run only: give another --out")
		}
	}
	if err := w.look(ctx, b); err != nil {
		w.end()
		return nil, err
	}
	return w, nil
}

// look reads the root key, and the results in the run directory, except the one that the stage makes
// anew. It refuses batches and noise of another run id than the directory's and, of a stage with a
// key, batches and noise made with another root key. A job that is only translated looks at nothing.
func (w *work) look(ctx context.Context, b beginning) (err error) {
	var root *stream.Root
	if b.key {
		if w.root, err = stream.ReadKeyFile(w.set.KeyFile); err != nil {
			return err
		}
		root = &w.root
	}
	if !b.looks || w.jobs.translates {
		return nil
	}
	if w.here, err = stages.ReadPresent(ctx, w.path, b.remade); err != nil {
		return err
	}
	return w.here.OneTraining(root)
}

// inRun runs write, which writes in the run directory, with the run id of the directory or a fresh
// one. A fresh run id does not outlive an error, unless something is kept after it.
func (w *work) inRun(kept func(err error) bool, write func(run manifest.Run) error) error {
	// The first stage in a directory draws its run id; the others find it.
	run, made, err := manifest.OpenRun(w.path)
	if err != nil {
		return err
	}
	if err := write(run); err != nil {
		if made && !kept(err) {
			err = errors.Join(err, manifest.RemoveRun(w.path))
		}
		return err
	}
	return nil
}

// output describes the folder that a stage leaves.
type output struct {
	folder string
	secret bool
	params any // as the index of the folder has them
	// resume is of a stage that can go on where it was stopped: it returns the digest that
	// decides the files, before anything is removed. nil: a stage that was stopped begins anew.
	resume func(run manifest.Run) (same manifest.Digest, err error)
	kept   func(err error) bool // after which errors the folder stays as it is, marked as unfinished; after others it is as empty as before
	full   string               // the way out when the disk is full
}

// anew returns the output of a stage that begins anew after it was stopped.
func anew(folder string, secret bool, params any) output {
	return output{folder, secret, params, nil, func(err error) bool { return errors.Is(err, ErrLeft) },
		"nothing is left of the result; make room, or give another --out, and repeat the command"}
}

// begin begins or resumes the folder.
func (o output) begin(dir string, run manifest.Run) (*manifest.Stage, error) {
	if o.resume == nil {
		return manifest.Begin(dir, o.secret)
	}
	same, err := o.resume(run)
	if err != nil {
		return nil, err
	}
	return manifest.Resume(dir, o.secret, same)
}

// write makes a stage's folder, and publishes it under the index that make returns.
func (w *work) write(o output, make func(run manifest.Run, stage *manifest.Stage) (manifest.Index, error)) error {
	return w.inRun(o.kept, func(run manifest.Run) error {
		dir := store.Join(w.path, o.folder)
		stage, err := o.begin(dir, run)
		if errors.Is(err, manifest.ErrExists) {
			return exists(dir, o.params)
		}
		if err != nil {
			return err
		}
		index, err := make(run, stage)
		if err == nil {
			index.RunID = run.RunID
			if o.secret {
				index.Secret = stages.IndexSecret(w.root, run.RunID, o.folder)
			}
			err = stage.Publish(index)
		}
		if err == nil || errors.Is(err, ErrLeft) {
			return err
		}
		if err = withoutRoom(err, dir, o.full); !o.kept(err) {
			err = errors.Join(err, stage.Abort())
		}
		return err
	})
}

// writeNoise writes the recipe and the noise, and returns the index.
func (w *work) writeNoise(
	ctx context.Context,
	r *noise.Recipe,
	facts manifest.NoiseFacts,
	stage *manifest.Stage,
	key string,
) (index manifest.Index, err error) {
	index = manifest.Index{Format: manifest.NoiseFormat}
	if index.Params, index.ParamsSHA256, err = manifest.Params(r.Params); err != nil {
		return index, err
	}
	described := manifest.DescribedNoise{NoiseFacts: facts}
	if s := planner.StepNoiseOf(w.here.Certificate(), float64(r.Params.NoiseMultiplier)); s != nil {
		described.StepNoise = s.Ratio
	}
	if index.Facts, err = json.Marshal(described); err != nil {
		return index, err
	}
	dir, err := store.Abs(stage.Dir)
	if err != nil {
		return index, err
	}
	if facts.Shards > 0 {
		// Files that an interrupted command has left have the bytes of steps of its recipe.
		if left, err := stages.ReadRecipe(ctx, store.Join(dir, manifest.RecipeFile)); err == nil {
			r.StepBytes = left.StepBytes
		}
		if len(r.StepBytes) == 0 {
			r.Draw()
		}
	}
	recipe, err := noiseshards.WriteRecipe(dir, r)
	if err != nil {
		return index, err
	}
	if facts.Shards > 0 {
		c := noiseshards.Config{
			Dir:          dir,
			Shards:       facts.Shards,
			DType:        facts.DType,
			StepsPerFile: facts.StepsPerFile,
			KeyURI:       key,
			RecipeSHA256: recipe.SHA256,
		}
		if index.Files, err = w.jobs.runNoise(ctx, c, facts); err != nil {
			return index, err
		}
	}
	index.Files = append(index.Files, recipe)
	if w.jobs.translates { // the recipe alone is written without a job
		return index, ErrTranslated
	}
	return index, nil
}
