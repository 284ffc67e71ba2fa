package noiseshards

import (
	"context"
	"encoding/json"
	"io"
	"slices"

	"minsep/internal/manifest"
	"minsep/internal/noise"
	"minsep/internal/store"
	"minsep/internal/strictjson"
)

// notesName is the file of the notes in a shard's folder. It is the name of a temporary file, which
// package manifest removes when it publishes the index.
const notesName = ".minsep-tmp-notes.json"

// maxNotes bounds the notes of a shard, in bytes.
const maxNotes = 64 << 20

// bufferBytes is the approximate size of each of two buffers, one being filled while one is
// written. Both stay in the processor's cache, if a row does.
const bufferBytes = 1 << 20

// notes is the message of a task to the next task of the same shard.
type notes struct {
	Config Config          `json:"config"` // without its folder and its key
	Files  []manifest.File `json:"files"`  // that are finished
}

// shardWriter writes the files of one shard.
type shardWriter struct {
	config    Config
	shard     int
	steps     int
	generator *noise.Generator
	done      func() // called after each file

	dir     string
	chunk   int // rows of a buffer
	buffers [2]*noise.Buffer
}

// run writes the missing files and returns all files of the shard, in the order of their steps.
func (w *shardWriter) run(ctx context.Context) ([]manifest.File, error) {
	w.dir = store.Join(w.config.Dir, manifest.NoiseShard(w.shard, w.config.Shards))
	if err := store.MkdirAll(ctx, w.dir, manifest.SecretDir); err != nil {
		return nil, err
	}
	of := w.config
	of.Dir, of.KeyURI = "", ""
	left := w.finished(ctx, of)
	w.chunk = max(1, min(w.config.stepsPerFile(), w.steps, bufferBytes/w.config.DType.Size()/w.generator.Width()))
	for i := range w.buffers {
		w.buffers[i] = noise.NewBuffer(w.generator, w.chunk, w.config.DType == manifest.DFloat64)
	}
	var files []manifest.File
	for first := 0; first < w.steps; first += w.config.stepsPerFile() {
		rows := min(w.config.stepsPerFile(), w.steps-first)
		name := manifest.NoiseFile(w.shard, w.config.Shards, first, rows)
		if i := slices.IndexFunc(left, func(f manifest.File) bool { return f.Name == name }); i >= 0 {
			files = append(files, left[i])
			left = slices.Delete(left, i, i+1)
			continue
		}
		if err := w.generator.Seek(ctx, first, nil); err != nil {
			return nil, err
		}
		file, err := w.file(ctx, name, rows)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
		if err := w.note(notes{of, slices.Concat(files, left)}); err != nil {
			return nil, err
		}
		w.done()
	}
	return files, nil
}

// finished returns the files that earlier tasks of this shard finished: those that match their notes.
// A file whose check is cancelled counts as missing, and no other one is made, since ctx has ended.
func (w *shardWriter) finished(ctx context.Context, of Config) []manifest.File {
	b, err := store.ReadFile(ctx, store.Join(w.dir, notesName), maxNotes)
	var noted notes
	if err != nil || strictjson.Unmarshal(b, &noted) != nil || noted.Config != of {
		return nil
	}
	return slices.DeleteFunc(noted.Files, func(f manifest.File) bool { return f.Check(ctx, w.config.Dir) != nil })
}

func (w *shardWriter) note(n notes) error {
	_, err := manifest.WriteFile(w.dir, notesName, manifest.SecretFile, func(out io.Writer) error {
		return json.NewEncoder(out).Encode(n)
	})
	return err
}

// part is the result of making some rows.
type part struct {
	bytes []byte
	err   error
}

// file writes the next rows under name. It makes some rows while others are written.
func (w *shardWriter) file(ctx context.Context, name string, rows int) (manifest.File, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	width := w.generator.Width()
	size := int64(rows) * int64(width) * int64(w.config.DType.Size())
	return manifest.WriteFileOf(w.config.Dir, name, manifest.SecretFile, size, func(out io.Writer) error {
		if err := (manifest.NPYHeader{DType: w.config.DType, Shape: []int{rows, width}}).Write(out); err != nil {
			return err
		}
		parts := make(chan part)
		go func() {
			defer close(parts)
			for turn, left := 0, rows; left > 0 && ctx.Err() == nil; turn, left = 1-turn, left-w.chunk {
				bytes, err := w.buffers[turn].Next(min(w.chunk, left))
				parts <- part{bytes, err}
			}
		}()
		var failed error
		for p := range parts { // to the end, so that no goroutine makes noise afterwards
			if failed == nil {
				failed = p.err
			}
			if failed == nil {
				_, failed = out.Write(p.bytes)
			}
			if failed != nil {
				stop()
			}
		}
		if failed == nil {
			failed = ctx.Err()
		}
		return failed
	})
}
