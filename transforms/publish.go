package transforms

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"

	"minsep/internal/manifest"
	"minsep/internal/stages"
	"minsep/internal/store"
	"minsep/internal/stream"
	"minsep/internal/transforms/formation"
)

// publishTableFn writes the index of a table.
type publishTableFn struct {
	Run, Folder string
	Index       manifest.Index // without facts and files
}

func (f *publishTableFn) ProcessElement(
	ctx context.Context,
	_ int,
	files func(*string) bool,
	summary func(*[]byte) bool,
	emit func(string),
) error {
	ix := f.Index
	if !summary((*[]byte)(&ix.Facts)) {
		return errors.New("no summary of the table came")
	}
	if err := publish(ctx, &manifest.Stage{Dir: f.Folder}, ix, files); err != nil {
		return err
	}
	table, err := manifest.OpenBounded(ctx, f.Folder)
	if err != nil {
		return err
	}
	if err := manifest.SetExamples(f.Run, manifest.BoundedExamples(table.Digest)); err != nil {
		return err
	}
	emit(table.Digest.String())
	return nil
}

// publishBatchesFn writes the index of batches, once their rows are known to be complete.
type publishBatchesFn struct{ Folder, KeyFile string }

func (f *publishBatchesFn) ProcessElement(
	ctx context.Context,
	_ int,
	files func(*string) bool,
	resolved func(*[]byte) bool,
	table func(*string) bool,
	emit func(string),
) error {
	r, err := formation.ReadResolved(resolved)
	if err != nil {
		return err
	}
	ix := manifest.Index{Format: manifest.BatchesFormatOf(r.Config.Spec), RunID: r.Config.Key.RunID}
	ix.Params, ix.ParamsSHA256, err = manifest.Params(manifest.BatchesParams{Scheme: r.Config.Spec})
	if err != nil {
		return err
	}
	if ix.Facts, err = json.Marshal(r.Facts); err != nil {
		return err
	}
	root, err := stream.ReadKeyFile(f.KeyFile)
	if err != nil {
		return err
	}
	ix.Secret = stages.IndexSecret(root, ix.RunID, manifest.BatchesFolder)
	examples := manifest.NumberedExamples(r.Config.Examples)
	var name string
	if table(&name) && name != "" {
		var digest manifest.Digest
		if err := digest.UnmarshalText([]byte(name)); err != nil {
			return err
		}
		ix.Inputs = map[string]manifest.Digest{manifest.BoundedFolder: digest}
		examples = manifest.BoundedExamples(digest)
	}
	if err := publish(ctx, &manifest.Stage{Dir: f.Folder, Secret: true}, ix, files); err != nil {
		return err
	}
	if r.Config.IDs.AreRow || name != "" {
		if err := manifest.SetExamples(store.Dir(f.Folder), examples); err != nil {
			return err
		}
	}
	emit(ix.ParamsSHA256.String())
	return nil
}

// publishNoiseFn writes the index of noise.
type publishNoiseFn struct {
	Folder, KeyFile string
	Index           manifest.Index // without its secret, and of files only the recipe
}

func (f *publishNoiseFn) ProcessElement(
	ctx context.Context,
	_ int,
	files func(*string) bool,
	emit func(string),
) error {
	root, err := stream.ReadKeyFile(f.KeyFile)
	if err != nil {
		return err
	}
	ix := f.Index
	ix.Files = slices.Clone(ix.Files)
	ix.Secret = stages.IndexSecret(root, ix.RunID, manifest.NoiseFolder)
	if err := publish(ctx, &manifest.Stage{Dir: f.Folder, Secret: true}, ix, files); err != nil {
		return err
	}
	emit(ix.ParamsSHA256.String())
	return nil
}

// publish writes an index of files, JSON [manifest.File] each, unless the folder has the same one
// already: a task may run twice.
func publish(ctx context.Context, stage *manifest.Stage, ix manifest.Index, files func(*string) bool) error {
	for line := ""; files(&line); {
		var file manifest.File
		if err := json.Unmarshal([]byte(line), &file); err != nil {
			return err
		}
		ix.Files = append(ix.Files, file)
	}
	err := stage.Publish(ix)
	if err == nil {
		return nil
	}
	old, unread := manifest.Read(ctx, stage.Dir)
	if unread != nil {
		return err
	}
	there, unread := old.Encode()
	if text, _ := ix.Encode(); unread != nil || !bytes.Equal(text, there) {
		return err
	}
	return nil
}
