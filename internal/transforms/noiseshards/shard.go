package noiseshards

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"time"
	"unsafe"

	"minsep/internal/manifest"
	"minsep/internal/noise"
	"minsep/internal/store"
)

// Names of the notes and the checkpoint in a shard's folder. They are names of temporary files,
// which package manifest removes when it publishes the index.
const (
	notesName      = ".minsep-tmp-notes.json"
	checkpointName = ".minsep-tmp-checkpoint"
)

// checkpointInterval is the time between checkpoints. A checkpoint may be as large as a file of
// noise.
var checkpointInterval = 30 * time.Second

// bufferBytes is the approximate size of each of two buffers, one being filled while one is
// written. Both stay in the processor's cache, if a row does.
const bufferBytes = 1 << 20

// shardWriter writes the files of one shard.
type shardWriter struct {
	config    Config
	shard     int
	steps     int
	generator *noise.Generator
	done      func() // called after each file

	dir     string
	step    int // the files before it are written
	notes   notes
	buffers [2]buffer
}

// run writes the missing files and returns all files of the shard.
func (w *shardWriter) run(ctx context.Context) ([]manifest.File, error) {
	w.dir = store.Join(w.config.Dir, manifest.NoiseShard(w.shard, w.config.Shards))
	if err := store.MkdirAll(ctx, w.dir, manifest.SecretDir); err != nil {
		return nil, err
	}
	if err := w.resume(ctx); err != nil {
		return nil, err
	}
	saved := time.Now()
	for w.step < w.steps {
		rows := min(w.config.stepsPerFile(), w.steps-w.step)
		file, err := w.file(ctx, manifest.NoiseFile(w.shard, w.config.Shards, w.step, rows), rows)
		if err != nil {
			return nil, err
		}
		w.step += rows
		w.notes.Files = append(w.notes.Files, file)
		if time.Since(saved) >= checkpointInterval && w.step < w.steps && !w.generator.Restartable() {
			if err := w.checkpoint(); err != nil {
				return nil, err
			}
			saved = time.Now()
		}
		if err := w.note(); err != nil {
			return nil, err
		}
		w.done()
	}
	if err := store.Remove(ctx, store.Join(w.dir, checkpointName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return w.notes.Files, nil
}

// resume moves to the step at which an earlier task of this shard stopped. It keeps the earlier
// files that match their notes; missing or damaged ones are made again.
func (w *shardWriter) resume(ctx context.Context) error {
	empty := notes{
		RecipeSHA256: w.config.RecipeSHA256,
		DType:        w.config.DType,
		StepsPerFile: w.config.stepsPerFile(),
	}
	w.notes = readNotes(ctx, store.Join(w.dir, notesName), empty)
	good := 0 // files
	for good < len(w.notes.Files) {
		first := good * w.config.stepsPerFile()
		rows := min(w.config.stepsPerFile(), w.steps-first)
		f := w.notes.Files[good]
		if rows <= 0 || f.Name != manifest.NoiseFile(w.shard, w.config.Shards, first, rows) ||
			f.Check(ctx, w.config.Dir) != nil {
			break
		}
		good++
	}
	if err := ctx.Err(); err != nil { // a cancelled check does not mean a bad file
		return err
	}
	w.step = min(good*w.config.stepsPerFile(), w.steps)
	switch {
	case w.step == w.steps: // all done
		w.notes.Files = w.notes.Files[:good]
		return nil
	case w.generator.Restartable():
		err := w.generator.Seek(ctx, w.step, nil)
		w.notes.Files = w.notes.Files[:good]
		return err
	case w.readCheckpoint(ctx, w.step):
		w.step = w.notes.Step
		w.notes.Files = w.notes.Files[:w.step/w.config.stepsPerFile()]
		return nil
	}
	w.step, w.notes = 0, empty
	return nil
}

// readCheckpoint restores the generator from the checkpoint. It returns false if the checkpoint is
// missing, damaged or beyond the step reached.
func (w *shardWriter) readCheckpoint(ctx context.Context, reached int) bool {
	c := w.notes.Checkpoint
	if c == nil || c.Name != checkpointName || w.notes.Step > reached ||
		w.notes.Step%w.config.stepsPerFile() != 0 ||
		c.Check(ctx, w.dir) != nil {
		return false
	}
	f, err := store.Open(ctx, store.Join(w.dir, checkpointName))
	if err != nil {
		return false
	}
	defer f.Close()
	return w.generator.ReadCheckpoint(store.Reader(f)) == nil && w.generator.Step() == w.notes.Step
}

func (w *shardWriter) checkpoint() error {
	file, err := manifest.WriteFile(w.dir, checkpointName, manifest.SecretFile, w.generator.WriteCheckpoint)
	w.notes.Checkpoint, w.notes.Step = &file, w.generator.Step()
	return err
}

func (w *shardWriter) note() error {
	_, err := manifest.WriteFile(w.dir, notesName, manifest.SecretFile, func(out io.Writer) error {
		return json.NewEncoder(out).Encode(w.notes)
	})
	return err
}

// file writes the next rows under name. It makes some rows while others are written.
func (w *shardWriter) file(ctx context.Context, name string, rows int) (manifest.File, error) {
	width := w.generator.Width()
	chunk := max(1, min(rows, bufferBytes/w.config.DType.Size()/width))
	w.generator.Until = w.step + rows // a checkpoint has no rows of later files
	size := int64(rows) * int64(width) * int64(w.config.DType.Size())
	return manifest.WriteFileOf(w.config.Dir, name, manifest.SecretFile, size, func(out io.Writer) error {
		if err := (manifest.NPYHeader{DType: w.config.DType, Shape: []int{rows, width}}).Write(out); err != nil {
			return err
		}
		made := make(chan error, 1)
		turn := 0
		next := func(left int) { // fills the buffer that is next in turn
			b, n := &w.buffers[turn%2], min(chunk, left)
			turn++
			go func() { made <- b.fill(w.generator, w.config.DType, n*width) }()
		}
		next(rows)
		for left := rows; left > 0; left -= chunk {
			full := &w.buffers[(turn-1)%2]
			if err := errors.Join(<-made, ctx.Err()); err != nil {
				return err
			}
			more := left > chunk
			if more {
				next(left - chunk)
			}
			if _, err := out.Write(full.bytes()); err != nil {
				if more {
					<-made
				}
				return err
			}
		}
		return nil
	})
}

// buffer holds rows of noise, in the slice of the files' type; the other one is empty.
type buffer struct {
	float32s []float32
	float64s []float64
}

func (b *buffer) fill(g *noise.Generator, dtype manifest.DType, n int) error {
	if dtype == manifest.DFloat32 {
		b.float32s = grow(b.float32s, n)
		return g.Fill32(b.float32s)
	}
	b.float64s = grow(b.float64s, n)
	return g.Fill64(b.float64s)
}

// bytes returns the values in little endian. On a little-endian processor it returns the buffer's
// own memory.
func (b *buffer) bytes() []byte {
	if len(b.float32s) > 0 {
		raw := unsafe.Slice((*byte)(unsafe.Pointer(&b.float32s[0])), 4*len(b.float32s))
		return littleEndian(raw, 4)
	}
	raw := unsafe.Slice((*byte)(unsafe.Pointer(&b.float64s[0])), 8*len(b.float64s))
	return littleEndian(raw, 8)
}

var bigEndian = binary.NativeEndian.Uint16([]byte{0, 1}) == 1

// littleEndian converts numbers of size bytes from the processor's byte order to little endian.
func littleEndian(raw []byte, size int) []byte {
	if !bigEndian {
		return raw
	}
	out := make([]byte, len(raw))
	for i := range raw {
		out[i] = raw[i-i%size+size-1-i%size]
	}
	return out
}

func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
